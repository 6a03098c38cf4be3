//! Observations that a round of a reap pass keeps for the next round.

use muster_domain::ids::RunnerId;
use muster_domain::instance::Instance;
use muster_domain::observation::Observation;

/// Observations available before the pass queries anything: those from its message, and answers to
/// its own calls in a round that ended with a conflict.
pub(super) struct PriorObservations {
    seen: Observation,
    registration: Option<RunnerId>,
}

impl PriorObservations {
    pub(super) fn by_message(message: Observation) -> Self {
        Self { seen: message, registration: None }
    }

    /// Returns the observations that still apply to the instance: its machine stays the same, but
    /// its registration may be a new one.
    pub(super) fn about(&self, instance: &Instance) -> Observation {
        self.seen.carried_over(instance.runner.id == self.registration)
    }

    pub(super) fn keep(&mut self, instance: &Instance, seen: &Observation) {
        self.seen = seen.clone();
        self.registration = instance.runner.id;
    }
}
