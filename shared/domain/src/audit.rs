//! The audit trail: every order, kill and refusal. A line is added and never changed by us; who may
//! write the table may.

use serde::{Deserialize, Serialize};

use crate::ids::InstanceName;
use crate::time::Time;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// An operator's delete was accepted.
    Ordered,
    /// An operator's delete was refused.
    Refused,
    /// Force gave a machine to the orphan ledger.
    GivenUp,
    /// A machine was terminated with a job on it.
    JobKilled,
    /// GitHub's word for a job's end was taken, since its machine has said nothing for long.
    JobWrittenOff,
    /// A machine was given a job that its pool does not serve, and did not run it.
    JobRefused,
    /// A machine without a record was terminated.
    OrphanTerminated,
    /// Something was switched off or on.
    Switched,
    /// A pool file was applied.
    Applied,
    /// The App at GitHub, its webhook or a secret of theirs is changed.
    AppChanged,
    /// An operator has a machine launched that no job needs, to see whether one comes.
    CanaryOrdered,
}

/// One line of the trail.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Audit {
    /// When.
    pub at: Time,
    /// What.
    pub kind: AuditKind,
    /// The instance, the machine where there is no instance, the switches, the pools, or the App.
    pub subject: String,
    /// Who, as the caller of an order said, or `muster` itself.
    pub by: String,
    /// Why, in a sentence.
    pub why: String,
}

impl Audit {
    /// A line about an instance.
    #[must_use]
    pub fn new(instance: &InstanceName, kind: AuditKind, by: &str, why: &str, at: Time) -> Self {
        Self {
            at,
            kind,
            subject: instance.as_str().to_owned(),
            by: by.to_owned(),
            why: why.to_owned(),
        }
    }
}
