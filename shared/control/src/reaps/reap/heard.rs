//! What a round of a reap pass passes on to the next.

use muster_domain::ids::RunnerId;
use muster_domain::instance::Instance;
use muster_domain::observation::Observation;

/// What a pass knows before it looks: what its message has told, and what was answered to its own
/// calls in a round that ended with a conflict.
pub(super) struct Heard {
    seen: Observation,
    registration: Option<RunnerId>,
}

impl Heard {
    pub(super) fn by_message(message: Observation) -> Self {
        Self { seen: message, registration: None }
    }

    /// All of it that concerns the instance as it stands now: its machine stays the same, its
    /// registration may be another one.
    pub(super) fn about(&self, instance: &Instance) -> Observation {
        self.seen.carried_over(instance.runner.id == self.registration)
    }

    pub(super) fn keep(&mut self, instance: &Instance, seen: &Observation) {
        self.seen = seen.clone();
        self.registration = instance.runner.id;
    }
}
