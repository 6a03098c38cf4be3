//! Days of usage: past days from their roll-up, the current one from its usage records.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join};
use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::{By, Date, Day, Fold, History, Line, Waits};

use crate::Settings;
use crate::ports::{ReadError, Usage};

/// An hour in milliseconds.
const HOUR: i64 = 3_600_000;
/// Number of days read concurrently.
const AT_ONCE: usize = 8;
/// Maximum number of usage records that one response reads: about half a minute of one vCPU.
const MOST_LINES: usize = 500_000;

/// Reads usage by day.
pub struct Days<'a, T> {
    /// The tables.
    pub table: &'a T,
    /// The settings.
    pub settings: &'a Settings,
}

/// Why days could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DaysError {
    /// The table does not answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are too many usage records.
    #[error(
        "these days have more than {MOST_LINES} usage records, too many for one response: request \
         fewer days, or do not group by job, pull request or actor; past days are fast once they are \
         rolled up"
    )]
    TooMany,
}

impl<T: Usage> Days<'_, T> {
    /// Passes the days of an inclusive range to `take`, one by one in order. Roll-ups have no
    /// unbounded keys, so days with one are read from their usage records.
    ///
    /// # Errors
    /// When the table does not answer, or there are too many lines.
    pub async fn each(
        &self,
        from: Date,
        to: Date,
        by: By,
        now: Time,
        mut take: impl FnMut(Day),
    ) -> Result<(), DaysError> {
        let dates: Vec<Date> = Date::days(from, to).collect();
        let mut left = MOST_LINES;
        for some in dates.chunks(AT_ONCE) {
            let rolled_up = some.iter().map(|date| self.rolled_up(*date, by, now));
            for (date, day) in some.iter().zip(join_all(rolled_up).await) {
                match day? {
                    Some(day) => take(day),
                    None => take(self.fold(*date, by, &mut left).await?),
                }
            }
        }
        Ok(())
    }

    /// Returns the roll-up of a day, if it has one.
    async fn rolled_up(&self, date: Date, by: By, now: Time) -> Result<Option<Day>, ReadError> {
        if by.is_unbounded() || date >= Date::of(now) {
            return Ok(None);
        }
        Ok(Day::of_parts(self.table.rolled_up(date).await?))
    }

    /// Returns a day computed from its usage records, at the latest known prices.
    ///
    /// # Errors
    /// When the table does not answer.
    pub(super) async fn of_lines(&self, date: Date) -> Result<Day, DaysError> {
        let mut all = usize::MAX;
        self.fold(date, By::Day, &mut all).await
    }

    async fn fold(&self, date: Date, by: By, left: &mut usize) -> Result<Day, DaysError> {
        let history = self.history(date).await?;
        let mut fold = Fold::new(date, by);
        self.each_line(date, left, |line| fold.add(&self.priced(line, &history))).await?;
        Ok(fold.day())
    }

    /// Returns the waits of a range of days, and of the jobs that started in each hour of them, for
    /// the wanted pools.
    ///
    /// # Errors
    /// When the table does not answer, or there are too many lines.
    pub async fn by_hour(
        &self,
        from: Date,
        to: Date,
        is_wanted: impl Fn(&PoolName) -> bool,
    ) -> Result<(Vec<Day>, BTreeMap<Time, Waits>), DaysError> {
        let (mut days, mut hours) = (Vec::new(), BTreeMap::<Time, Waits>::new());
        let mut left = MOST_LINES;
        for date in Date::days(from, to) {
            let mut fold = Fold::new(date, By::Day);
            let add = |line: Line| {
                if !line.pool.as_ref().is_some_and(&is_wanted) {
                    return;
                }
                if let Some(started) = line.t.started {
                    let started = line.since.as_millis() + started;
                    let hour = Time::from_millis(started - started.rem_euclid(HOUR));
                    hours.entry(hour).or_default().add_line(&line);
                }
                fold.add(&line);
            };
            self.each_line(date, &mut left, add).await?;
            days.push(fold.day());
        }
        Ok((days, hours))
    }

    /// Reads a day's usage records page by page, with only one page in memory.
    async fn each_line(
        &self,
        date: Date,
        left: &mut usize,
        mut take: impl FnMut(Line),
    ) -> Result<(), DaysError> {
        let mut page = None;
        loop {
            let listed = self.table.lines(date, page).await?;
            *left = left.checked_sub(listed.items.len()).ok_or(DaysError::TooMany)?;
            listed.items.into_iter().for_each(&mut take);
            page = listed.next;
            if page.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns the prices of a day, along with the latest ones: those may be the only prices of a
    /// type that was first seen on that day.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn history(&self, date: Date) -> Result<History, ReadError> {
        let read = self.table.prices_of(date);
        let (mut hours, last) = try_join(read, self.table.prices()).await?;
        hours.extend(last.map(Stored::into_record));
        Ok(History::new(hours))
    }

    /// Returns a usage record with its price.
    #[must_use]
    pub fn priced(&self, mut line: Line, history: &History) -> Line {
        let pool = line.pool.as_ref().and_then(|name| self.settings.pool(name));
        let own = pool.and_then(|pool| pool.disk.as_ref());
        history.price(&mut line, own.map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib));
        line
    }
}
