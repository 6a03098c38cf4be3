//! Days of usage: those that are over as they were rolled up, the present one of its lines.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join};
use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Day, Fold, History, Line, Waits};

use crate::Settings;
use crate::ports::{ReadError, Usage};

/// Milliseconds.
const HOUR: i64 = 3_600_000;
/// Days that are read at once.
const AT_ONCE: usize = 8;
/// Maximum number of lines that one answer reads: about half a minute of one vCPU.
const MOST_LINES: usize = 500_000;

/// The days of a record of usage.
pub struct Days<'a, T> {
    /// The tables.
    pub table: &'a T,
    /// The stack.
    pub settings: &'a Settings,
}

/// Why days were not read.
#[derive(Debug, thiserror::Error)]
pub enum DaysError {
    /// The table does not answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are too many lines.
    #[error(
        "these days need more than {MOST_LINES} lines of usage, too many for one answer: ask for \
         fewer days, or not by job; days that are over are read at once when they are rolled up"
    )]
    TooMany,
}

impl<T: Usage> Days<'_, T> {
    /// Passes the days from one to another, both included, to `take`, one by one in order. Names of
    /// jobs are not rolled up, so days with them are read from their lines.
    ///
    /// # Errors
    /// When the table does not answer, or there are too many lines.
    pub async fn each(
        &self,
        from: Date,
        to: Date,
        with_jobs: bool,
        now: Time,
        mut take: impl FnMut(Day),
    ) -> Result<(), DaysError> {
        let dates: Vec<Date> = Date::days(from, to).collect();
        let mut left = MOST_LINES;
        for some in dates.chunks(AT_ONCE) {
            let rolled_up = some.iter().map(|date| self.rolled_up(*date, with_jobs, now));
            for (date, day) in some.iter().zip(join_all(rolled_up).await) {
                match day? {
                    Some(day) => take(day),
                    None => take(self.fold(*date, with_jobs, &mut left).await?),
                }
            }
        }
        Ok(())
    }

    /// Returns a day as it was rolled up, if it was.
    async fn rolled_up(
        &self,
        date: Date,
        with_jobs: bool,
        now: Time,
    ) -> Result<Option<Day>, ReadError> {
        if with_jobs || date >= Date::of(now) {
            return Ok(None);
        }
        Ok(Day::of_parts(self.table.rolled_up(date).await?))
    }

    /// Returns a day of its lines, at the prices that are known by now.
    ///
    /// # Errors
    /// When the table does not answer.
    pub(super) async fn of_lines(&self, date: Date) -> Result<Day, DaysError> {
        let mut all = usize::MAX;
        self.fold(date, false, &mut all).await
    }

    async fn fold(&self, date: Date, with_jobs: bool, left: &mut usize) -> Result<Day, DaysError> {
        let history = self.history(date).await?;
        let mut fold = Fold::new(date, with_jobs);
        self.each_line(date, left, |line| fold.add(&self.priced(line, &history))).await?;
        Ok(fold.day())
    }

    /// Returns the waits of days, and of the jobs that started in each hour of them, in the pools that
    /// are wanted.
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
            let mut fold = Fold::new(date, false);
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

    /// Reads the lines of a day page by page. Only one page is in memory.
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

    /// Returns the prices of a day, and the last ones: of a type that was first seen on that day they
    /// may be the only ones.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn history(&self, date: Date) -> Result<History, ReadError> {
        let read = self.table.prices_of(date);
        let (mut hours, last) = try_join(read, self.table.prices()).await?;
        hours.extend(last.map(Stored::into_record));
        Ok(History::new(hours))
    }

    /// Returns a line with its price.
    #[must_use]
    pub fn priced(&self, mut line: Line, history: &History) -> Line {
        let pool = line.pool.as_ref().and_then(|name| self.settings.pool(name));
        let own = pool.and_then(|pool| pool.disk.as_ref());
        history.price(&mut line, own.map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib));
        line
    }
}
