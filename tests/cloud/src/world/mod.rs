//! The whole: what concerns EC2, GitHub and the machines at once.

mod compute;
mod forge;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Happening, Millis, Timings,
    agenda::{Clockwork, Due},
    calls::CallLog,
    ec2::{Ec2, End, InstanceState},
    faults::Faults,
    github::GitHub,
    machines::Machines,
};

/// A Muster stack that lives in this world.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The value of its instances' `muster:stack` tag.
    pub stack: String,
    /// Where its EC2 events go.
    #[serde(default)]
    pub reap_queue_url: Option<String>,
    /// The role of its machines.
    #[serde(default)]
    pub role_arn: Option<String>,
    /// The states its EventBridge rule lets through.
    #[serde(default = "Stack::default_states")]
    pub event_states: Vec<InstanceState>,
    /// EC2 events are lost.
    #[serde(default)]
    pub loses_events: bool,
}

impl Stack {
    fn default_states() -> Vec<InstanceState> {
        use InstanceState::{ShuttingDown, Stopped, Stopping, Terminated};
        vec![ShuttingDown, Terminated, Stopping, Stopped]
    }
}

/// The simulated cloud.
#[derive(Clone, Debug)]
pub struct World {
    pub ec2: Ec2,
    pub github: GitHub,
    pub machines: Machines,
    pub faults: Faults,
    pub calls: CallLog,
    pub stacks: BTreeMap<String, Stack>,
    clockwork: Clockwork,
}

impl World {
    /// An empty world. Worlds with the same seed that are asked the same things are the same.
    #[must_use]
    pub fn new(seed: u64, timings: Timings) -> Self {
        Self {
            ec2: Ec2::default(),
            github: GitHub::default(),
            machines: Machines::default(),
            faults: Faults::default(),
            calls: CallLog::default(),
            stacks: BTreeMap::new(),
            clockwork: Clockwork::new(seed, timings),
        }
    }

    /// The durations, to read.
    #[must_use]
    pub fn timings(&self) -> &Timings {
        &self.clockwork.timings
    }

    /// The durations, to change. What is on the agenda already stays there.
    pub fn timings_mut(&mut self) -> &mut Timings {
        &mut self.clockwork.timings
    }

    /// When the next thing happens by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.clockwork.next_due()
    }

    /// What happened since this was last asked, in order.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.clockwork.happened)
    }

    /// Lets everything happen that is due by `now`, each thing at the time it was due.
    pub fn advance(&mut self, now: Millis) {
        while let Some((at, due)) = self.clockwork.take_due(now) {
            match due {
                Due::Instance(id, state) => self.arrive_at(&id, state, at),
                Due::Boot(id) => self.power_on(&id, at),
                Due::Death(id) => self.die(&id, at),
                Due::Reclaim(id) => self.end(&id, &End::Reclaimed, at),
                Due::WorkOver(job) => self.github.work_over(job),
                Due::LostCommunication(job) => self.give_up(job, at),
                Due::Deliver(delivery) => self.depart(delivery),
            }
        }
    }
}
