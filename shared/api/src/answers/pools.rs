//! Responses about the set of pools.

use muster_domain::audit::Audit;
use muster_domain::ids::PoolName;
use muster_domain::pool_set::Diff;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A set of pools that can be applied again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPools {
    /// Its version; 0 is the set from the stack's parameters.
    pub pools_version: u64,
    /// When it was applied.
    pub applied_at: Option<Time>,
    /// Who applied it.
    pub by: Option<String>,
    /// The pool file, as JSON.
    pub file: Value,
    /// Removed pools that still have runners.
    pub draining: Vec<PoolName>,
}

/// The stored versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolsHistory {
    /// Newest first.
    pub versions: Vec<ShownPools>,
    /// Audit lines about applies, newest first.
    pub audit: Vec<Audit>,
}

/// The changes that an apply makes or would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedPools {
    /// Whether anything was changed.
    pub applied: bool,
    /// Whether the request was a dry run.
    pub dry_run: bool,
    /// The current version.
    pub pools_version: u64,
    /// What each name in the file resolved to, one per line.
    pub resolved: Vec<String>,
    /// The changes, for programs.
    pub diff: Diff,
    /// The changes as text, one per line.
    pub lines: Vec<String>,
}
