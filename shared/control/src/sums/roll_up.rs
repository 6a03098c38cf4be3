//! Once a day, the last days are rolled up: lines are kept for a season, days for a year.

use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{Date, Day};

use super::Days;
use crate::context::{Context, Wired};
use crate::ports::{CommitError, Operations as _, Table, Write};
use crate::writes::PassError;

/// Cursor of the last day on which days were rolled up.
const ROLLED_UP: &str = "rolled-up";
/// Days that are rolled up each time. A line may come late: of a delete that was stuck, say. Each
/// day is made anew whole, so that a crash costs nothing.
const EACH_TIME: usize = 3;
/// How long after its beginning a day is not made anew any more.
pub(super) const FOLDED: Seconds = Seconds(86_400 * (EACH_TIME as u32 + 1));
/// How long after midnight the day before is looked at.
const AFTER_MIDNIGHT: Seconds = Seconds(3_600);
/// Items of one commit: DynamoDB takes 4 MB.
const PARTS: usize = 10;

/// Rolls days up, behind a sweep.
pub struct RollUp<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table>> RollUp<'_, W> {
    /// Rolls up the last days, if that was not done today. How many were.
    ///
    /// # Errors
    /// When the tables do not answer: what is left is done tomorrow.
    pub async fn run(&self, now: Time) -> Result<usize, PassError> {
        let Context { table, settings, .. } = self.context;
        let today = Date::of(now - AFTER_MIDNIGHT);
        let last = table.cursor(ROLLED_UP).await?;
        if last.is_some_and(|last| Date::of(last) >= today) {
            return Ok(0);
        }
        match table.move_cursor(ROLLED_UP, last, today.begin()).await {
            Ok(()) => {}
            // Another sweep does it.
            Err(CommitError::Conflict) => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let days = Days { table, settings };
        let mut date = today;
        for _ in 0..EACH_TIME {
            date = date.before();
            self.keep(days.fold(date).await?).await?;
        }
        tracing::info!(last = %today.before(), days = EACH_TIME, "rolled up what machines cost");
        Ok(EACH_TIME)
    }

    async fn keep(&self, day: Day) -> Result<(), PassError> {
        let parts: Vec<Write> =
            day.without_jobs().into_parts().into_iter().map(Write::from).collect();
        for some in parts.chunks(PARTS) {
            self.context.table.commit(some).await?;
        }
        Ok(())
    }
}
