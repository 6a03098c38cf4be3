//! The usage record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parts::Parts;
use super::price::Price;
use crate::SCHEMA;
use crate::ec2::Make;
use crate::ids::{InstanceName, JobKey, MachineId, PoolName};
use crate::instance::Used;
use crate::job::labels::Labels;
use crate::time::Time;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageKind {
    /// A machine, with or without a job.
    Machine,
    /// A job that ended without running on our machine.
    Job,
    /// The time of a machine that no instance record covers.
    Orphan,
}

/// The source of the end time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// EC2's event or description: the second at which billing stops.
    Event,
    /// The agent's exit, after which its machine powers off.
    Exit,
    /// The time at which the machine was observed to be gone, after its actual end.
    Seen,
    /// GitHub, for a job.
    Github,
}

/// What ended a machine early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyEndCause {
    /// EC2 reclaimed it.
    SpotNotice,
    /// An operator's order killed its job.
    Killed,
    /// It exceeded its pool's maximum lifetime.
    MaxLifetime,
    /// EC2 or an AWS user ended it.
    HostLost,
}

/// The attempt that a re-run repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderedRerun {
    /// The attempt in which EC2 interrupted a job.
    pub of: u32,
}

/// The job of a record, according to GitHub's events only: a job can make its machine report
/// anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfJob {
    /// The job's key.
    pub key: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Whether the repository is private.
    pub private: bool,
    /// The ID of the workflow run.
    pub run: u64,
    /// The attempt of that run.
    pub attempt: u32,
    /// The job's name. Written by the workflow's author: displayed, never interpreted.
    pub name: Arc<str>,
    /// The workflow's name. Also written by the workflow's author.
    pub workflow: Option<Arc<str>>,
    /// The branch of the run. Also written by the workflow's author.
    pub branch: Option<Arc<str>>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The conclusion.
    pub conclusion: Option<String>,
    /// The GitHub user who caused the run, if the stack records actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    /// Set if Muster ordered the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<OrderedRerun>,
}

/// The machine of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfMachine {
    /// EC2's instance ID.
    pub id: MachineId,
    /// The instance record that it was bound to.
    pub instance: Option<InstanceName>,
    /// Instance type, zone and market.
    #[serde(flatten)]
    pub make: Make,
    /// The version of its launch template.
    pub template: Option<Arc<str>>,
    /// The pool's generation at its launch.
    pub generation: u64,
    /// Why it was deleted: the name of the [`crate::instance::DeleteReason`].
    pub reason: Option<String>,
    /// What ended it early, if anything.
    pub cause: Option<EarlyEndCause>,
}

/// When each phase was reached, in milliseconds after [`Line::since`]. Negative for earlier times,
/// for example of a machine that existed before its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moments {
    /// The job's first event arrived.
    pub heard: Option<i64>,
    /// The slot was recorded.
    pub planned: Option<i64>,
    /// EC2's machine was bound to it.
    pub launched: Option<i64>,
    /// The machine had its agent and requested its configuration.
    pub asked: Option<i64>,
    /// The registration was requested from GitHub.
    pub registered: Option<i64>,
    /// The agent listened.
    pub listening: Option<i64>,
    /// The job started, according to GitHub.
    pub started: Option<i64>,
    /// The job ended, according to GitHub.
    pub completed: Option<i64>,
    /// The agent ended.
    pub exited: Option<i64>,
    /// The end of the record's period.
    pub ended: i64,
}

/// A usage record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The record's schema version.
    pub schema: u16,
    /// What the record is about.
    pub kind: UsageKind,
    /// The end. The record is stored under its day.
    pub at: Time,
    /// The source of the end.
    pub at_by: EndedBy,
    /// The pool that was to serve the job, or that owned the machine.
    pub pool: Option<PoolName>,
    /// The job that ran, or that had no machine.
    pub job: Option<OfJob>,
    /// The machine.
    pub machine: Option<OfMachine>,
    /// When the job could first have had a runner ([`crate::job::Job::waits_since`]); without a
    /// job, when the machine was planned.
    pub since: Time,
    /// When each phase was reached.
    pub t: Moments,
    /// The billed time.
    pub parts: Parts,
    /// The number of the job's pull request, according to its machine, which can report anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u32>,
    /// What the job used, if its machine reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// The price per hour, if known. Stored separately from the records: see [`super::Prices`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl Line {
    /// Returns the record's subject. With the end it forms the record's key, so that a repeated
    /// write does not duplicate it.
    #[must_use]
    pub fn subject(&self) -> String {
        match (&self.machine, &self.job) {
            (Some(machine), _) if self.kind == UsageKind::Orphan => {
                format!("{}#orphan", machine.id)
            }
            (Some(machine), _) => machine.id.to_string(),
            (None, Some(job)) => job.key.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Creates an empty record; the caller fills in the rest.
    pub(super) fn new(kind: UsageKind, since: Time, (at, at_by): (Time, EndedBy)) -> Self {
        let mut line = Self {
            schema: SCHEMA,
            kind,
            at,
            at_by,
            pool: None,
            job: None,
            machine: None,
            since,
            t: Moments::default(),
            parts: Parts::default(),
            pull_request: None,
            used: None,
            price: None,
        };
        line.t.ended = line.after(at);
        line
    }

    /// Returns the milliseconds from the record's start to `at`.
    pub(super) const fn after(&self, at: Time) -> i64 {
        at.as_millis() - self.since.as_millis()
    }
}
