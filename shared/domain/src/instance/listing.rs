//! Where a live instance stands in the listing of its pool.

use serde::{Deserialize, Serialize};

use super::{Instance, RunnerState, State};
use crate::time::Time;

/// What somebody looks for among the live instances of a pool, in the order of the listing.
///
/// A slot that waits for its next launch attempt may be free supply as well. The groups are sorted
/// so that both of its groups are one range: `Free` and `FreeRetry` are what could take a job,
/// `FreeRetry` and `Retry` what waits for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// On its way out.
    Ending,
    /// Could take a job, has taken one that GitHub has not told yet, or idled for so long that it is
    /// marked: a launch pass is to see all of them.
    Free,
    /// Could take a job, and waits for its next launch attempt.
    FreeRetry,
    /// Waits for its next launch attempt.
    Retry,
    /// Is meant for a job, and on its way to a runner that listens.
    Starting,
    /// All others: runners with a job, and those that a job is meant for.
    Taken,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ending, Self::Free, Self::FreeRetry, Self::Retry, Self::Starting, Self::Taken];
}

/// How many live instances of a pool are in each group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// On their way out.
    pub ending: usize,
    /// Could take a job.
    pub free: usize,
    /// Wait for their next launch attempt.
    pub retrying: usize,
    /// On their way to a runner that listens, for a job.
    pub starting: usize,
    /// With a job, or meant for one.
    pub taken: usize,
}

impl Groups {
    /// Counts instances of a group.
    pub const fn add(&mut self, group: Group, count: usize) {
        let counted = match group {
            Group::Ending => &mut self.ending,
            Group::Free => &mut self.free,
            Group::FreeRetry | Group::Retry => &mut self.retrying,
            Group::Starting => &mut self.starting,
            Group::Taken => &mut self.taken,
        };
        *counted += count;
    }
}

impl Instance {
    /// The group, and what orders it there: among those on their way out who was marked first, else
    /// who is older.
    #[must_use]
    pub fn listed_in(&self) -> (Group, Time) {
        let is_free = self.is_free_supply() || self.has_untold_job() || self.may_be_kept();
        let group = match (self.state, is_free) {
            (State::PendingDelete | State::PendingForceDelete | State::Deleting, _) => {
                Group::Ending
            }
            (State::PendingCreate, true) => Group::FreeRetry,
            (State::PendingCreate, false) => Group::Retry,
            (_, true) => Group::Free,
            (State::Creating, false) => Group::Starting,
            (State::Running, false) if self.runner.state < RunnerState::Idle => Group::Starting,
            (_, false) => Group::Taken,
        };
        let since = match (group, &self.mark) {
            (Group::Ending, Some(mark)) => mark.at,
            (Group::Ending, None) => self.since,
            _ => self.created_at,
        };
        (group, since)
    }
}
