//! The audit log: every order, kill and refusal. Muster only adds entries and never changes them; a
//! user with write access to the table can.

use serde::{Deserialize, Serialize};

use crate::ids::InstanceName;
use crate::time::Time;

/// The kind of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// An operator's delete order was accepted.
    Ordered,
    /// An operator's delete order was refused.
    Refused,
    /// A forced delete moved a machine to the orphan ledger.
    GivenUp,
    /// A machine was terminated while a job ran on it.
    JobKilled,
    /// GitHub's report of a job's end was accepted because its machine had not reported for long.
    JobWrittenOff,
    /// A machine was given a job that its pool does not serve, and did not run it.
    JobRefused,
    /// A machine without a record was terminated.
    OrphanTerminated,
    /// Muster re-ran interrupted jobs of a workflow run.
    JobsRerun,
    /// Muster did not re-run the interrupted jobs of a workflow run.
    JobsNotRerun,
    /// An operator paused or resumed something.
    Switched,
    /// A pool file was applied.
    Applied,
    /// The GitHub App, its webhook or one of their secrets was changed.
    AppChanged,
    /// An operator launched a machine that no job needs, to test whether one comes up.
    CanaryOrdered,
    /// An operator turned images on or off, or ordered a build, a rollback or a delete; or Muster started or ended a
    /// build, or went back to an earlier image.
    ImagesChanged,
}

/// An audit entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Audit {
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub kind: AuditKind,
    /// The instance, the machine if there is no instance, the workflow run, the switches, the pools, the App, or the images.
    pub subject: String,
    /// The operator, as the caller reported, or `muster` itself.
    pub by: String,
    /// The reason, in a sentence.
    pub why: String,
}

impl Audit {
    /// Creates an entry about an instance.
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
