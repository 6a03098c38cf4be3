//! What a round of a reap pass passes on to the next.

use muster_domain::ids::RunnerId;
use muster_domain::instance::Instance;
use muster_domain::observation::{Deregistration, Look, Observation, Termination};

/// What a pass knows before it looks: what its message has told, and what was answered to its own
/// calls in a round that ended with a conflict. The record of such a call says that an answer is
/// out, and without it the next round would wait for the end of the lease.
pub(super) struct Heard {
    message: Observation,
    deregistration: Option<(RunnerId, Look<Deregistration>)>,
    termination: Option<Termination>,
}

impl Heard {
    pub(super) fn by_message(message: Observation) -> Self {
        Self { message, deregistration: None, termination: None }
    }

    /// All of it that concerns the instance as it stands now: its machine stays the same, its
    /// registration may be another one.
    pub(super) fn about(&self, instance: &Instance) -> Observation {
        let of_registration = self.deregistration.as_ref();
        let deregistration = of_registration.filter(|(id, _)| instance.runner.id == Some(*id));
        Observation {
            deregistration: deregistration.map(|(_, answer)| answer.clone()).unwrap_or_default(),
            termination: self.termination.clone(),
            ..self.message.clone()
        }
    }

    pub(super) fn keep(&mut self, instance: &Instance, seen: &Observation) {
        self.termination.clone_from(&seen.termination);
        self.deregistration = instance.runner.id.map(|id| (id, seen.deregistration.clone()));
    }
}
