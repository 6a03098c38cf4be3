//! A line.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parts::Parts;
use super::prices::Price;
use crate::SCHEMA;
use crate::ec2::Make;
use crate::ids::{InstanceName, JobKey, MachineId, PoolName};
use crate::job::labels::Labels;
use crate::time::Time;

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A machine, with the job that it ran or without one.
    Machine,
    /// A job that ended without a machine of ours.
    Job,
    /// The time of a machine that no record answers for.
    Orphan,
}

/// What tells the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// EC2's own event or description, to the second in which it bills no more.
    Event,
    /// The agent ended, and its machine powers off then.
    Exit,
    /// The machine was seen to be gone: it was earlier.
    Seen,
    /// GitHub, of a job.
    Github,
}

/// What cut a machine's life short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// EC2 took it back.
    SpotNotice,
    /// An operator's order ended its job.
    Killed,
    /// It was older than its pool allows.
    MaxLifetime,
    /// EC2, or somebody through it, ended it.
    HostLost,
}

/// The job of a line, by GitHub's events alone: a job can tell as its machine what it likes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfJob {
    /// Which one.
    pub key: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Whether that is private.
    pub private: bool,
    /// The workflow run and its attempt.
    pub run: u64,
    /// See `run`.
    pub attempt: u32,
    /// Text of the workflow's author: shown, never interpreted.
    pub name: Arc<str>,
    /// See `name`.
    pub workflow: Option<Arc<str>>,
    /// See `name`.
    pub branch: Option<Arc<str>>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// How it ended.
    pub conclusion: Option<String>,
}

/// The machine of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfMachine {
    /// EC2's id.
    pub id: MachineId,
    /// The record that it was bound to.
    pub instance: Option<InstanceName>,
    /// What it is.
    #[serde(flatten)]
    pub make: Make,
    /// The version of its launch template.
    pub template: Option<Arc<str>>,
    /// The pool's generation at its launch.
    pub generation: u64,
    /// Why it ended: the word of the delete mark.
    pub reason: Option<String>,
    /// What cut its life short, if anything did.
    pub cause: Option<Cause>,
}

/// When it came how far, in milliseconds after [`Line::since`]; before that they are negative, as of
/// a machine that was there before its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moments {
    /// The first event of the job reached us.
    pub heard: Option<i64>,
    /// The slot stood on record.
    pub planned: Option<i64>,
    /// EC2's machine was bound to it.
    pub launched: Option<i64>,
    /// The machine had its agent, and asked.
    pub asked: Option<i64>,
    /// GitHub was asked for its registration.
    pub registered: Option<i64>,
    /// Its agent listened.
    pub listening: Option<i64>,
    /// The job's start, by GitHub.
    pub started: Option<i64>,
    /// The job's end, by GitHub.
    pub completed: Option<i64>,
    /// The agent ended.
    pub exited: Option<i64>,
    /// The end of the line.
    pub ended: i64,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Version of the line's form.
    pub schema: u16,
    /// What it is about.
    pub kind: Kind,
    /// The end. A line is kept under its day.
    pub at: Time,
    /// What tells it.
    pub at_by: EndedBy,
    /// The pool that was to serve the job, or that had the machine.
    pub pool: Option<PoolName>,
    /// The job that ran, or that had no machine.
    pub job: Option<OfJob>,
    /// The machine.
    pub machine: Option<OfMachine>,
    /// When the job could first have had a runner ([`crate::job::Job::waits_since`]); without a job,
    /// when the machine was planned.
    pub since: Time,
    /// What came when.
    pub t: Moments,
    /// The time that is paid for.
    pub parts: Parts,
    /// What an hour costs, where that is known. Kept beside the lines and not in them: see
    /// [`super::Prices`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

impl Line {
    /// What it is about, in one word: with the end it is the line's key, and written twice it is one.
    #[must_use]
    pub fn subject(&self) -> String {
        match (&self.machine, &self.job) {
            (Some(machine), _) if self.kind == Kind::Orphan => format!("{}#orphan", machine.id),
            (Some(machine), _) => machine.id.to_string(),
            (None, Some(job)) => job.key.to_string(),
            (None, None) => String::new(),
        }
    }

    /// An empty line. Who makes it fills in the rest.
    pub(super) fn new(kind: Kind, since: Time, (at, at_by): (Time, EndedBy)) -> Self {
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
            price: None,
        };
        line.t.ended = line.after(at);
        line
    }

    /// Milliseconds after the line's beginning.
    pub(super) const fn after(&self, at: Time) -> i64 {
        at.as_millis() - self.since.as_millis()
    }
}
