//! Days as somebody asks for them: the last ones of their lines, earlier ones as they were rolled
//! up.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join};
use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Day, History, Line, Waits};

use super::roll_up::FOLDED;
use crate::Settings;
use crate::ports::{ReadError, Usage};

/// Milliseconds.
const HOUR: i64 = 3_600_000;
/// Days that are read at once. Each one has connections of its own.
const AT_ONCE: usize = 8;

/// The days of a record of usage.
pub struct Days<'a, T> {
    /// The tables.
    pub table: &'a T,
    /// The stack.
    pub settings: &'a Settings,
}

impl<T: Usage> Days<'_, T> {
    /// The days from one to another, both included. With the names of jobs, which days that were
    /// rolled up do not have, they are read of lines as far as those are kept.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn between(
        &self,
        from: Date,
        to: Date,
        with_jobs: bool,
        now: Time,
    ) -> Result<Vec<Day>, ReadError> {
        let dates: Vec<Date> = Date::days(from, to).collect();
        let mut days = Vec::with_capacity(dates.len());
        for some in dates.chunks(AT_ONCE) {
            let read = some.iter().map(|date| self.day(*date, with_jobs, now));
            for day in join_all(read).await {
                days.push(day?);
            }
        }
        Ok(days)
    }

    async fn day(&self, date: Date, with_jobs: bool, now: Time) -> Result<Day, ReadError> {
        let is_folded = now.since(date.begin()) > FOLDED && !with_jobs;
        if is_folded {
            let parts = self.table.rolled_up(date).await?;
            if let Some(day) = Day::of_parts(parts).pop() {
                return Ok(day);
            }
        }
        let day = self.fold(date).await?;
        Ok(if with_jobs { day } else { day.without_jobs() })
    }

    /// A day of its lines, at the prices that are known by now.
    ///
    /// # Errors
    /// When the table does not answer.
    pub(super) async fn fold(&self, date: Date) -> Result<Day, ReadError> {
        let (lines, history) = try_join(self.all_lines(date), self.history(date)).await?;
        let lines = lines.into_iter().map(|line| self.priced(line, &history));
        Ok(Day::fold(date, &lines.collect::<Vec<Line>>()))
    }

    /// The waits of days, and of the jobs that began in each hour of them; of the pools that are
    /// wanted.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn by_hour(
        &self,
        from: Date,
        to: Date,
        is_wanted: impl Fn(&PoolName) -> bool,
    ) -> Result<(Vec<Day>, BTreeMap<Time, Waits>), ReadError> {
        let (mut days, mut hours) = (Vec::new(), BTreeMap::<Time, Waits>::new());
        for date in Date::days(from, to) {
            let mut lines = self.all_lines(date).await?;
            lines.retain(|line| line.pool.as_ref().is_some_and(&is_wanted));
            for line in &lines {
                let Some(started) = line.t.started else { continue };
                let began = line.since.as_millis() + started;
                let hour = Time::from_millis(began - began.rem_euclid(HOUR));
                hours.entry(hour).or_default().add_line(line);
            }
            days.push(Day::fold(date, &lines));
        }
        Ok((days, hours))
    }

    async fn all_lines(&self, date: Date) -> Result<Vec<Line>, ReadError> {
        let (mut lines, mut page) = (Vec::new(), None);
        loop {
            let listed = self.table.lines(date, page).await?;
            lines.extend(listed.items);
            page = listed.next;
            if page.is_none() {
                return Ok(lines);
            }
        }
    }

    /// The prices of a day, and the last ones: of a type that was first seen on that day they may be
    /// the only ones.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn history(&self, date: Date) -> Result<History, ReadError> {
        let read = self.table.prices_of(date);
        let (mut hours, last) = try_join(read, self.table.prices()).await?;
        hours.extend(last.map(Stored::into_record));
        Ok(History::new(hours))
    }

    /// A line with its price.
    #[must_use]
    pub fn priced(&self, mut line: Line, history: &History) -> Line {
        let pool = line.pool.as_ref().and_then(|name| self.settings.pool(name));
        let own = pool.and_then(|pool| pool.disk.as_ref());
        history.price(&mut line, own.map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib));
        line
    }
}
