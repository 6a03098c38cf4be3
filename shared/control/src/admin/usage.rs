//! What machines cost and how long jobs waited.

use std::collections::BTreeMap;

use muster_api::answers::{
    Answer, CostsList, CostsOfDay, CostsRow, LineList, WaitsAt, WaitsList, WaitsRow,
};
use muster_api::{AdminError, AdminErrorCode, CostsRequest, LinesRequest, WaitsRequest};
use muster_domain::ids::PoolName;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{By, Costs, CostsFold, Date, Day, Key, Line, Sum, Waits};

use super::Admin;
use crate::context::{Context, Ports};
use crate::ports::ReadError;
use crate::ports::Usage as _;
use crate::sums::{Days, DaysError};

/// Maximum days per response: as long as roll-ups are kept.
const MOST_DAYS: usize = 400;
/// Maximum days of usage records per response.
const MOST_DAYS_OF_LINES: usize = 92;
/// Maximum days of hourly waits.
const MOST_DAYS_BY_HOUR: usize = 3;
/// The default range: a month.
const USUAL: Seconds = Seconds(29 * 86_400);
/// Maximum rows of costs; the response has the number of omitted rows.
const MOST_ROWS: usize = 2_000;

impl<P: Ports> Admin<'_, P> {
    pub(super) async fn costs(
        &self,
        request: &CostsRequest,
        now: Time,
    ) -> Result<Answer, AdminError> {
        let CostsRequest { since, until, by, spread, pool, repository, prices } = request;
        let most = if by.is_unbounded() { MOST_DAYS_OF_LINES } else { MOST_DAYS };
        let (from, to) = within(*since, *until, most, now)?;
        if let Some(wrong) = prices.as_ref().and_then(|own| own.check().err()) {
            return Err(AdminError::new(AdminErrorCode::BadRequest, format!("prices: {wrong}")));
        }
        let is_wanted = |key: &Key| {
            pool.as_ref().is_none_or(|pool| key.pool.as_ref() == Some(pool))
                && repository.as_ref().is_none_or(|only| {
                    key.repository.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(only))
                })
        };
        let (mut costs, mut waits) = (CostsFold::new(*by), WaitsFold::default());
        let add = |mut day: Day| {
            let of_day = waits.add(&day, |name| pool.as_ref().is_none_or(|pool| pool == name));
            waits.series.push(of_day);
            prices.iter().for_each(|own| day.reprice(own));
            if *spread {
                day.spread();
            }
            day.groups.retain(|group| is_wanted(&group.key));
            costs.add(&day);
        };
        self.days().each(from, to, *by, now, add).await?;
        let last = self.context.table.prices().await?;
        let Costs { mut rows, rest, all, unpriced, days } = costs.costs();
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
            spot_at: last.as_ref().map(|prices| prices.spot_at).filter(|at| *at > Time::default()),
            listed_at: last.map(|prices| prices.listed_at).filter(|at| *at > Time::default()),
            waits: waits.list(from, to),
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
        let mut waits = WaitsFold::default();
        if *hourly {
            let (by_day, by_hour) = self.days().by_hour(from, to, is_wanted).await?;
            for day in &by_day {
                waits.add(day, is_wanted);
            }
            let at = |(hour, of): (&Time, &Waits)| WaitsAt::new(*hour, of);
            waits.series = by_hour.iter().map(at).collect();
        } else {
            let add = |day: Day| {
                let of_day = waits.add(&day, is_wanted);
                waits.series.push(of_day);
            };
            self.days().each(from, to, By::Day, now, add).await?;
        }
        Ok(Answer::Waits(waits.list(from, to)))
    }

    /// Returns a page of usage records with their prices. A page covers one day.
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

    /// Returns a usage record with its price on that day.
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

/// Accumulates waits day by day.
#[derive(Default)]
struct WaitsFold {
    pools: BTreeMap<PoolName, Waits>,
    series: Vec<WaitsAt>,
}

impl WaitsFold {
    /// Adds a day's wanted pools. Returns their combined waits.
    fn add(&mut self, day: &Day, is_wanted: impl Fn(&PoolName) -> bool) -> WaitsAt {
        let mut together = Waits::default();
        for of in day.waits.iter().filter(|of| is_wanted(&of.pool)) {
            together.join(&of.waits);
            self.pools.entry(of.pool.clone()).or_default().join(&of.waits);
        }
        WaitsAt::new(day.date.begin(), &together)
    }

    /// Returns the answer, the pool with most jobs first.
    fn list(self, from: Date, to: Date) -> WaitsList {
        let mut all = Waits::default();
        self.pools.values().for_each(|waits| all.join(waits));
        let mut pools: Vec<(PoolName, Waits)> = self.pools.into_iter().collect();
        pools.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.count()));
        let row = |(name, waits): (PoolName, Waits)| WaitsRow::new(name.to_string(), &waits);
        WaitsList {
            from,
            to,
            all: WaitsRow::new("all".to_owned(), &all),
            pools: pools.into_iter().map(row).collect(),
            series: self.series,
        }
    }
}

fn of_day((date, sum): (Date, Sum)) -> CostsOfDay {
    CostsOfDay { date, jobs: sum.jobs, money: sum.money }
}

/// Parses a `page` token.
fn place(token: &str) -> Result<(Date, Option<String>), AdminError> {
    let wrong = || {
        AdminError::new(AdminErrorCode::BadRequest, "\"page\" is not the \"next\" of a response")
    };
    let (date, inner) = token.split_once('|').ok_or_else(wrong)?;
    let date = date.parse().map_err(|_| wrong())?;
    Ok((date, (!inner.is_empty()).then(|| inner.to_owned())))
}

/// Validates and returns the requested range of days.
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
            format!("there are no days between {from} and {to}"),
        )),
        days if days > most => Err(AdminError::new(
            AdminErrorCode::BadRequest,
            format!("{days} days are too many for this request; the maximum is {most}"),
        )),
        _ => Ok((from, to)),
    }
}

impl From<DaysError> for AdminError {
    fn from(error: DaysError) -> Self {
        match error {
            DaysError::Read(error) => error.into(),
            DaysError::TooMany => Self::new(AdminErrorCode::BadRequest, error.to_string()),
        }
    }
}
