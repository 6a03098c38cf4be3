//! The audit trail.

use muster_domain::audit::Audit;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// Lines of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditList {
    /// Newest first.
    pub lines: Vec<Audit>,
    /// Where more begins: the `until` of the next request. Lines of that moment may come twice.
    pub next: Option<Time>,
}
