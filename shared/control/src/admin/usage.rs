//! What machines cost and how long jobs waited.

use muster_domain::ids::PoolName;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Costs, Date, Day, Key, Line, Sum, Waits};

use super::answers::{
    Answer, CostsList, CostsOfDay, CostsRow, LineList, WaitsAt, WaitsList, WaitsRow,
};
use super::request::{CostsRequest, LinesRequest, WaitsRequest};
use super::{Admin, AdminError, AdminErrorCode};
use crate::context::{Context, Ports};
use crate::ports::ReadError;
use crate::ports::Usage as _;
use crate::sums::Days;

/// Most days of one answer: as long as days are kept.
const MOST_DAYS: usize = 400;
/// Most days of lines of one answer.
const MOST_DAYS_OF_LINES: usize = 92;
/// Most days whose waits are told by the hour.
const MOST_DAYS_BY_HOUR: usize = 3;
/// Without a day to begin at: a month.
const USUAL: Seconds = Seconds(29 * 86_400);
/// Most rows of costs; what is left out is told.
const MOST_ROWS: usize = 2_000;

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn costs(
        &self,
        request: &CostsRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let CostsRequest { since, until, by, spread, pool, repository, prices } = request;
        let with_jobs = *by == By::Job;
        let most = if with_jobs { MOST_DAYS_OF_LINES } else { MOST_DAYS };
        let (from, to) = within(*since, *until, most, now)?;
        if let Some(wrong) = prices.as_ref().and_then(|own| own.check().err()) {
            return Err(AdminError::new(AdminErrorCode::BadRequest, format!("prices: {wrong}")));
        }
        let mut days = self.days().between(from, to, with_jobs, now).await?;
        for day in &mut days {
            prices.iter().for_each(|own| day.reprice(own));
            if *spread {
                day.spread();
            }
            keep(day, |key| {
                pool.as_ref().is_none_or(|pool| key.pool.as_ref() == Some(pool))
                    && repository.as_ref().is_none_or(|only| {
                        key.repository.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(only))
                    })
            });
        }
        let last = self.context.table.prices().await?;
        let Costs { mut rows, rest, all, unpriced, days } = Costs::of(&days, *by);
        let left_out = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        Ok(Answer::Costs(Box::new(CostsList {
            from,
            to,
            by: *by,
            spread: *spread,
            rows: rows.into_iter().map(|(name, sum)| CostsRow { name, sum }).collect(),
            left_out,
            rest,
            all,
            unpriced,
            days: days.into_iter().map(of_day).collect(),
            spot_at: last.as_ref().map(|prices| prices.at),
            listed_at: last.map(|prices| prices.listed_at).filter(|at| *at > Time::default()),
        })))
    }

    pub(super) async fn waits(
        &self,
        request: &WaitsRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let WaitsRequest { since, until, pool, hourly } = request;
        let most = if *hourly { MOST_DAYS_BY_HOUR } else { MOST_DAYS };
        let (from, to) = within(*since, *until, most, now)?;
        let wanted = self.pools(pool.as_ref())?;
        let is_wanted = |name: &PoolName| pool.is_none() || wanted.contains(name);
        let (mut days, mut series) = (Vec::new(), Vec::new());
        if *hourly {
            let (by_day, by_hour) = self.days().by_hour(from, to, is_wanted).await?;
            days.extend(by_day);
            series.extend(by_hour.iter().map(|(hour, waits)| WaitsAt::new(*hour, waits)));
        } else {
            days.extend(self.days().between(from, to, false, now).await?);
            days.iter_mut().for_each(|day| day.waits.retain(|of| is_wanted(&of.pool)));
            series.extend(days.iter().map(|day| WaitsAt::new(day.date.begin(), &together(day))));
        }
        let mut pools: Vec<(String, Waits)> = Vec::new();
        let mut all = Waits::default();
        for of in days.iter().flat_map(|day| &day.waits) {
            all.join(&of.waits);
            match pools.iter_mut().find(|(known, _)| known == of.pool.as_str()) {
                Some((_, known)) => known.join(&of.waits),
                None => pools.push((of.pool.as_str().to_owned(), of.waits.clone())),
            }
        }
        pools.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.count()));
        Ok(Answer::Waits(WaitsList {
            from,
            to,
            all: WaitsRow::new("all".to_owned(), &all),
            pools: pools.into_iter().map(|(name, waits)| WaitsRow::new(name, &waits)).collect(),
            series,
        }))
    }

    /// Lines with their prices, page by page: a page is of one day.
    pub(super) async fn lines(
        &self,
        request: &LinesRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let (from, to) = within(request.since, request.until, MOST_DAYS_OF_LINES, now)?;
        let (mut date, mut page) = match &request.page {
            None => (from, None),
            Some(token) => place(token)?,
        };
        loop {
            let found = self.context.table.lines(date, page).await?;
            let next = match found.next {
                Some(inner) => Some(format!("{date}|{inner}")),
                None => (date < to).then(|| format!("{}|", date.after())),
            };
            if found.items.is_empty()
                && let Some(next) = &next
            {
                (date, page) = place(next)?;
                continue;
            }
            let days = self.days();
            let history = days.history(date).await?;
            let mut lines: Vec<Line> =
                found.items.into_iter().map(|line| days.priced(line, &history)).collect();
            lines.sort_by_key(|line| (line.at, line.subject()));
            return Ok(Answer::Lines(LineList { lines, unreadable: found.unreadable, next }));
        }
    }

    /// A line with the price of its day.
    pub(super) async fn with_price(&self, line: Line) -> Result<Line, ReadError> {
        let days = self.days();
        let history = days.history(Date::of(line.at)).await?;
        Ok(days.priced(line, &history))
    }

    const fn days(&self) -> Days<'_, P::Table> {
        let Context { table, settings, .. } = self.context;
        Days { table, settings }
    }
}

fn of_day((date, sum): (Date, Sum)) -> CostsOfDay {
    CostsOfDay { date, jobs: sum.jobs, money: sum.money }
}

/// Where a listing of lines goes on.
fn place(token: &str) -> Result<(Date, Option<String>), AdminError> {
    let wrong = || AdminError::new(AdminErrorCode::BadRequest, "\"page\" is none of an answer");
    let (date, inner) = token.split_once('|').ok_or_else(wrong)?;
    let date = date.parse().map_err(|_| wrong())?;
    Ok((date, (!inner.is_empty()).then(|| inner.to_owned())))
}

/// The days that are asked for.
fn within(
    since: Option<Date>,
    until: Option<Date>,
    most: usize,
    now: Time,
) -> Result<(Date, Date), AdminError> {
    let to = until.unwrap_or_else(|| Date::of(now)).min(Date::of(now));
    let from = since.unwrap_or_else(|| Date::of(to.begin() - USUAL));
    let days = Date::days(from, to).count();
    match days {
        0 => Err(AdminError::new(
            AdminErrorCode::BadRequest,
            format!("no day lies between {from} and {to}"),
        )),
        days if days > most => Err(AdminError::new(
            AdminErrorCode::BadRequest,
            format!("{days} days are too many here: ask for {most} at most"),
        )),
        _ => Ok((from, to)),
    }
}

fn keep(day: &mut Day, wanted: impl Fn(&Key) -> bool) {
    day.groups.retain(|group| wanted(&group.key));
}

fn together(day: &Day) -> Waits {
    let mut all = Waits::default();
    day.waits.iter().for_each(|of| all.join(&of.waits));
    all
}
