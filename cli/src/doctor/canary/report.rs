//! What is known of a canary, while it is under way and in the end.

use muster_control::admin::answers::{OrderedCanary, ShownInstance};
use muster_domain::time::Time;
use serde::Serialize;

use super::refusal::Decoded;
use super::settled::Row;
use super::{Course, Shown, StepAt, steps};
use crate::doctor::{Fact, Finding, Group, Level, unasked};

/// A canary under way, and what is known of it.
pub struct Watched {
    pub ordered: OrderedCanary,
    pub shown: ShownInstance,
    /// Its machine, once EC2 shows it.
    pub machine: Option<Shown>,
    /// When GitHub first showed its agent connected.
    pub online_at: Option<Time>,
    /// GitHub showed it otherwise.
    pub is_offline: bool,
    /// How many of its steps were told.
    pub told: usize,
}

impl Watched {
    #[must_use]
    pub fn steps(&self) -> Vec<StepAt> {
        steps(&self.shown.instance, self.online_at)
    }
}

/// What came of it.
pub struct Report {
    pub watched: Watched,
    pub course: Course,
    pub checks: Vec<Finding>,
    pub rows: [Row; 4],
    pub evidence: Evidence,
    /// How its end stands.
    pub end: End,
}

/// What became of the order to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It is gone.
    Gone,
    /// No machine is there, and the record goes by itself.
    Nothing,
    /// It was ordered, and takes longer than it is waited for.
    Ordered,
    /// A job runs on it: it is left alone.
    Busy,
    /// Deletes are switched off.
    Held,
}

/// All of it; nothing where it went well.
#[derive(Default)]
pub struct Evidence {
    /// EC2's refusal, where it has a part that is to be decoded.
    pub decoded: Option<Fact<Decoded>>,
    /// The last lines of its console.
    pub console: Option<Fact<Vec<String>>>,
    /// What is wrong with the network.
    pub network: Vec<Finding>,
}

impl Evidence {
    /// As checks.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut all = match &self.decoded {
            Some(Ok(decoded)) => decoded.findings(),
            Some(Err(unknown)) => vec![unasked(Group::Canary, "refusal", unknown)],
            None => Vec::new(),
        };
        if let Some(Err(unknown)) = &self.console {
            all.push(unasked(Group::Canary, "console", unknown));
        }
        all.extend(self.network.iter().filter(|one| one.level != Level::Ok).cloned());
        all
    }
}
