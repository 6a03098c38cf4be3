//! Rolls up days: usage records are kept for 90 days, roll-ups for 13 months.

use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{Date, Day};

use super::days::{Days, DaysError};
use crate::context::{Context, Wired};
use crate::ports::{CommitError, Operations, ReadError, Table, Write};
use crate::writes::PassError;

/// Cursor of the last completed unit of work, see [`Unit`].
const ROLLED_UP: &str = "rolled-up";
/// Cursor of the last unit that was started and has not completed.
const BEGUN: &str = "roll-up-begun";
/// Number of days that each morning rolls up again: a usage record may be late, for example after a
/// stuck delete.
const DAYS_OF_MORNING: u32 = 3;
/// Time after midnight when the previous day is rolled up.
const AFTER_MIDNIGHT: Seconds = Seconds(3_600);
/// Delay before an incomplete roll-up is retried: one that takes too much time or memory ends its
/// sweep, and that must not happen every minute.
const RETRY_AFTER: Seconds = Seconds(3_600);
/// How long after its time an outstanding roll-up needs attention.
const LATE_AFTER: Seconds = Seconds(6 * 3_600);
/// Oldest morning that is caught up: usage records are not kept for longer.
const MOST_MORNINGS: Seconds = Seconds(90 * 86_400);
/// Items per commit: DynamoDB accepts 4 MB.
const PARTS: usize = 10;

/// Rolls up days after a sweep.
pub struct RollUp<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

/// A day that a morning rolls up. Its cursor is the morning's midnight plus one second per
/// completed day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unit {
    morning: Date,
    done: u32,
}

impl Unit {
    /// Returns the unit after the last completed one.
    fn after(last: Option<Time>, today: Date) -> Self {
        let first = Self { morning: today, done: 1 };
        let Some(last) = last.filter(|last| *last >= today.begin() - MOST_MORNINGS) else {
            return first;
        };
        let morning = Date::of(last);
        match last.since(morning.begin()).0 {
            done if done < DAYS_OF_MORNING => Self { morning, done: done + 1 },
            _ => Self { morning: morning.after(), done: 1 },
        }
    }

    fn day(self) -> Date {
        (0..self.done).fold(self.morning, |day, _| day.before())
    }

    fn cursor(self) -> Time {
        self.morning.begin() + Seconds(self.done)
    }

    fn due_at(self) -> Time {
        self.morning.begin() + AFTER_MIDNIGHT
    }
}

/// Returns when the outstanding roll-up was due, if it is late enough to need attention.
///
/// # Errors
/// When the table does not answer.
pub async fn late_since(table: &impl Operations, now: Time) -> Result<Option<Time>, ReadError> {
    // Without a cursor the stack is new.
    let Some(last) = table.cursor(ROLLED_UP).await? else { return Ok(None) };
    let due = Unit::after(Some(last), Date::of(now)).due_at();
    Ok(now.is_past(due, LATE_AFTER).then_some(due))
}

impl<W: Wired<Table: Table>> RollUp<'_, W> {
    /// Rolls up one day if one is due, and returns it. The cursor moves after the work, so a crash
    /// repeats only that day.
    ///
    /// # Errors
    /// When the tables do not answer; it is retried an hour later.
    pub async fn run(&self, now: Time) -> Result<Option<Date>, PassError> {
        let Context { table, settings, .. } = self.context;
        let last = table.cursor(ROLLED_UP).await?;
        let unit = Unit::after(last, Date::of(now - AFTER_MIDNIGHT));
        if now < unit.due_at() {
            return Ok(None);
        }
        let begun = table.cursor(BEGUN).await?;
        if begun.is_some_and(|begun| !now.is_past(begun, RETRY_AFTER)) {
            return Ok(None);
        }
        if !self.moved(BEGUN, begun, now).await? {
            return Ok(None);
        }
        let date = unit.day();
        let day = match (Days { table, settings }).of_lines(date).await {
            Ok(day) => day,
            Err(DaysError::Read(error)) => return Err(error.into()),
            Err(DaysError::TooMany) => return Ok(None),
        };
        self.keep(&day).await?;
        self.moved(ROLLED_UP, last, unit.cursor()).await?;
        self.moved(BEGUN, Some(now), Time::default()).await?;
        tracing::info!(day = %date, groups = day.groups.len(), "rolled up what machines cost");
        Ok(Some(date))
    }

    /// Moves a cursor. Returns false if another sweep was faster.
    async fn moved(&self, name: &str, from: Option<Time>, to: Time) -> Result<bool, PassError> {
        match self.context.table.move_cursor(name, from, to).await {
            Ok(()) => Ok(true),
            Err(CommitError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn keep(&self, day: &Day) -> Result<(), PassError> {
        let parts: Vec<Write> = day.to_parts().into_iter().map(Write::from).collect();
        for some in parts.chunks(PARTS) {
            self.context.table.commit(some).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        text.parse().expect("a time")
    }

    #[test]
    fn each_morning_rolls_up_three_days_and_catches_up_with_mornings_that_were_missed() {
        let today: Date = "2026-11-25".parse().expect("a day");
        let rows = [
            (None, "2026-11-25", "2026-11-24"),
            (Some("2026-11-25T00:00:01Z"), "2026-11-25", "2026-11-23"),
            (Some("2026-11-25T00:00:02Z"), "2026-11-25", "2026-11-22"),
            (Some("2026-11-25T00:00:03Z"), "2026-11-26", "2026-11-25"),
            (Some("2026-11-20T00:00:03Z"), "2026-11-21", "2026-11-20"),
            (Some("2026-11-20T00:00:01Z"), "2026-11-20", "2026-11-18"),
            (Some("2026-08-27T00:00:00Z"), "2026-08-27", "2026-08-26"),
            (Some("2026-08-26T00:00:03Z"), "2026-11-25", "2026-11-24"),
            (Some("2025-11-20T00:00:01Z"), "2026-11-25", "2026-11-24"),
        ];
        for (last, morning, day) in rows {
            let unit = Unit::after(last.map(at), today);
            assert_eq!(unit.morning.to_string(), morning, "{last:?}");
            assert_eq!(unit.day().to_string(), day, "{last:?}");
        }
    }
}
