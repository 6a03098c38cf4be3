//! The audit trail.

use muster_domain::audit::Audit;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// Lines of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditList {
    /// Newest first.
    pub lines: Vec<Audit>,
    /// The `until` of the next request, if there are more lines. Lines of that time may be repeated.
    pub next: Option<Time>,
}
