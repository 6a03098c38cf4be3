//! Detection of idle runners that no job can reach.
//!
//! An agent may listen forever without a registration (actions/runner #4617), and a machine may
//! hang: EC2 reports both as healthy. Only GitHub knows, and it can be wrong, or the agent may be
//! briefly disconnected to update itself. So an unreachable runner is only marked: it no longer
//! counts as supply, the kill gate checks it again, and a job that starts on it removes the mark.

use crate::instance::{DeleteReason, Instance};
use crate::observation::{Look, Observation, RunnerSeen};

/// Returns whether GitHub shows a connected agent.
pub(super) fn reach(seen: &Observation) -> Look<bool> {
    match &seen.runner {
        Look::Unknown => Look::Unknown,
        Look::Failed(trouble) => Look::Failed(trouble.clone()),
        Look::Seen(RunnerSeen::Absent | RunnerSeen::Offline(_)) => Look::Seen(false),
        Look::Seen(RunnerSeen::NotBusy(_) | RunnerSeen::Busy(_)) => Look::Seen(true),
    }
}

/// Returns whether a runner that was marked as unreachable is connected again and waits for a job.
pub(super) fn is_back(instance: &Instance, seen: &Observation) -> bool {
    instance.mark().is_some_and(|mark| mark.reason == DeleteReason::Unreachable)
        && matches!(seen.runner, Look::Seen(RunnerSeen::NotBusy(_)))
}
