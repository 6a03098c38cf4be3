//! Where a live instance stands in the listing of its pool.

use super::{Instance, State};
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
    /// All others.
    Taken,
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
