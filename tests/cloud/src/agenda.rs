//! What is due later, in the order in which it is due.

use std::collections::BTreeMap;

use super::{Happening, Ids, Millis, Timings, ec2::InstanceState};

/// One thing that happens by itself once its time has come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Due {
    /// The instance reaches this state, if it is still on the way there.
    Instance(String, InstanceState),
    /// The machine's boot script starts, if it still has power.
    Boot(String),
    /// The machine dies, as its script says.
    Death(String),
    /// EC2 takes a spot instance back.
    Reclaim(String),
    /// The work of this job is done.
    WorkOver(u64),
    /// GitHub gives up on the runner of this job.
    LostCommunication(u64),
    /// This webhook delivery leaves GitHub.
    Deliver(u64),
}

/// The parts that every region of the model needs: the agenda, the outbox, ids and durations.
#[derive(Clone, Debug)]
pub(crate) struct Clockwork {
    pub(crate) timings: Timings,
    pub(crate) ids: Ids,
    pub(crate) happened: Vec<Happening>,
    due: BTreeMap<(Millis, u64), Due>,
    sequence: u64,
}

impl Clockwork {
    pub(crate) fn new(seed: u64, timings: Timings) -> Self {
        Self { timings, ids: Ids::new(seed), happened: vec![], due: BTreeMap::new(), sequence: 0 }
    }

    /// Puts something on the agenda. Things due at the same time happen in the order of this call.
    pub(crate) fn at(&mut self, when: Millis, what: Due) {
        self.sequence += 1;
        self.due.insert((when, self.sequence), what);
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.due.keys().next().map(|(when, _)| *when)
    }

    /// Takes the first thing that is due at `now`, with the time at which it was due.
    pub(crate) fn take_due(&mut self, now: Millis) -> Option<(Millis, Due)> {
        let key = *self.due.keys().next().filter(|(when, _)| *when <= now)?;
        self.due.remove(&key).map(|what| (key.0, what))
    }
}
