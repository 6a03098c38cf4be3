//! The set of pools.

use muster_domain::audit::Audit;
use muster_domain::ids::PoolName;
use muster_domain::pool_set::Diff;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A set as it could be applied again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPools {
    /// Its version; 0 is the set of the stack's parameters.
    pub pools_version: u64,
    /// When it was applied.
    pub applied_at: Option<Time>,
    /// Who applied it.
    pub by: Option<String>,
    /// The pool file, as JSON.
    pub file: Value,
    /// Pools that were removed and whose runners are not all gone.
    pub draining: Vec<PoolName>,
}

/// The versions that are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolsHistory {
    /// Newest first.
    pub versions: Vec<ShownPools>,
    /// The lines of the audit trail about applies, newest first.
    pub audit: Vec<Audit>,
}

/// What an apply changes or would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedPools {
    /// Whether something was changed.
    pub applied: bool,
    /// Whether the request was a dry run.
    pub dry_run: bool,
    /// The version that holds now.
    pub pools_version: u64,
    /// What the names of the file stand for, one a line.
    pub resolved: Vec<String>,
    /// For programs.
    pub diff: Diff,
    /// The same for people, one a line.
    pub lines: Vec<String>,
}
