//! Whether a job can reach an idle runner.
//!
//! An agent may listen for ever without a registration (actions/runner #4617), and a machine may
//! hang: EC2 calls both healthy. Only GitHub knows, and it may err, or the agent may be away for a
//! moment to update itself. So a runner that is found out of reach is marked like any other: it is
//! supply no more, the kill gate looks again, and a job that starts on it all the same takes the
//! mark back.

use crate::instance::{DeleteReason, Instance};
use crate::observation::{Look, Observation, RunnerSeen};

/// Whether GitHub shows a connected agent.
pub(super) fn reach(seen: &Observation) -> Look<bool> {
    match &seen.runner {
        Look::Unknown => Look::Unknown,
        Look::Failed(trouble) => Look::Failed(trouble.clone()),
        Look::Seen(RunnerSeen::Absent | RunnerSeen::Offline(_)) => Look::Seen(false),
        Look::Seen(RunnerSeen::NotBusy(_) | RunnerSeen::Busy(_)) => Look::Seen(true),
    }
}

/// Whether a runner that was marked as out of reach is there after all, and waits for a job.
pub(super) fn is_back(instance: &Instance, seen: &Observation) -> bool {
    instance.mark().is_some_and(|mark| mark.reason == DeleteReason::Unreachable)
        && matches!(seen.runner, Look::Seen(RunnerSeen::NotBusy(_)))
}
