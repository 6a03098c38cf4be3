//! The facts about a canary, while it runs and at its end.

use muster_api::answers::{OrderedCanary, ShownInstance};
use muster_domain::time::Time;
use serde::Serialize;

use super::refusal::Decoded;
use super::settled::Assumption;
use super::{Course, Shown, StepAt, steps};
use crate::doctor::{Check, CheckGroup, Fact, Level, unasked};

/// A canary that is being followed.
pub struct Watched {
    pub ordered: OrderedCanary,
    pub shown: ShownInstance,
    /// Its machine, once EC2 shows it.
    pub machine: Option<Shown>,
    /// When GitHub first showed its agent connected.
    pub online_at: Option<Time>,
    /// Whether GitHub showed it as not connected.
    pub is_offline: bool,
    /// Number of steps that were printed.
    pub told: usize,
}

impl Watched {
    #[must_use]
    pub fn steps(&self) -> Vec<StepAt> {
        steps(&self.shown.instance, self.online_at)
    }
}

/// The result of a canary.
pub struct CanaryReport {
    pub watched: Watched,
    pub course: Course,
    pub checks: Vec<Check>,
    pub rows: [Assumption; 4],
    pub evidence: Evidence,
    /// The result of its delete.
    pub end: CanaryEnd,
}

/// The result of a canary's delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CanaryEnd {
    /// The instance is deleted.
    Gone,
    /// It has no machine, and the reaper closes its record.
    Nothing,
    /// The delete takes longer than this command waits.
    Ordered,
    /// A job runs on it, so it is not deleted.
    Busy,
    /// Deletes are paused.
    Held,
}

/// Evidence about a failure; empty after a success.
#[derive(Default)]
pub struct Evidence {
    /// EC2's decoded refusal, if it has an encoded part.
    pub decoded: Option<Fact<Decoded>>,
    /// The last lines of its console.
    pub console: Option<Fact<Vec<String>>>,
    /// The problems of the network.
    pub network: Vec<Check>,
}

impl Evidence {
    /// Returns the evidence as checks.
    #[must_use]
    pub fn findings(&self) -> Vec<Check> {
        let mut all = match &self.decoded {
            Some(Ok(decoded)) => decoded.findings(),
            Some(Err(unknown)) => vec![unasked(CheckGroup::Canary, "refusal", unknown)],
            None => Vec::new(),
        };
        if let Some(Err(unknown)) = &self.console {
            all.push(unasked(CheckGroup::Canary, "console", unknown));
        }
        all.extend(self.network.iter().filter(|one| one.level != Level::Ok).cloned());
        all
    }
}
