//! The position of a live instance in its pool's listing.

use serde::{Deserialize, Serialize};

use super::{Instance, RunnerState, State};
use crate::time::Time;

/// The group of a live instance in its pool's listing, in the listing's order.
///
/// A slot that waits for its next launch attempt can also be free supply. The order makes both
/// queries a single range: `Free` and `FreeRetry` can take a job, `FreeRetry` and `Retry` wait for
/// a launch attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Being deleted.
    Ending,
    /// Can take a job, has taken one that GitHub has not reported yet, or is marked for delete
    /// because it idled too long: a launch pass must see all of them.
    Free,
    /// Can take a job and waits for its next launch attempt.
    FreeRetry,
    /// Waits for its next launch attempt.
    Retry,
    /// Meant for a job; its runner does not listen yet.
    Starting,
    /// All others: runners with a job, and those meant for a job.
    Taken,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] =
        [Self::Ending, Self::Free, Self::FreeRetry, Self::Retry, Self::Starting, Self::Taken];
}

/// Number of live instances of a pool in each group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups {
    /// Instances being deleted.
    pub ending: usize,
    /// Instances that can take a job.
    pub free: usize,
    /// Instances that wait for their next launch attempt.
    pub retrying: usize,
    /// Instances meant for a job whose runners do not listen yet.
    pub starting: usize,
    /// Instances with a job, or meant for one.
    pub taken: usize,
}

impl Groups {
    /// Adds a number of instances to a group.
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
    /// Returns the group and the sort key within it: for instances being deleted the time of the
    /// mark, otherwise the creation time.
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
