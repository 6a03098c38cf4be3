//! Costs of a range of days, grouped by a chosen key.

use std::collections::BTreeMap;

use super::by::By;
use super::date::Date;
use super::fold::{Day, Key, MOST_RERUNS, Sum, UsageGroup};

impl By {
    /// Returns the row of a group. `None` if the group belongs to no row.
    fn row(self, key: &Key, date: Date) -> Option<String> {
        let own = |part: &Option<_>| part.as_ref().map(ToString::to_string);
        let below = |row: Option<String>, part: &Option<std::sync::Arc<str>>| {
            let part = part.as_deref().unwrap_or("?");
            row.map(|row| format!("{row} · {part}"))
        };
        let repository = || own(&key.repository);
        match self {
            Self::Repository => repository(),
            Self::Workflow => below(repository(), &key.workflow),
            Self::Job => below(below(repository(), &key.workflow), &key.job),
            Self::PullRequest => repository().map(|row| match key.pull_request {
                Some(number) => format!("{row}#{number}"),
                None => format!("{row} · no pull request"),
            }),
            Self::Actor => repository().map(|_| own(&key.actor).unwrap_or(Self::NO_ACTOR.into())),
            Self::Pool => Some(key.pool.as_ref().map_or("orphans".into(), ToString::to_string)),
            Self::Type => {
                let market = key.market.map_or_else(|| "?".to_owned(), |market| market.to_string());
                Some(format!("{} {market}", key.kind.as_deref().unwrap_or("?")))
            }
            Self::Attempt => repository().map(|_| match key.reruns {
                MOST_RERUNS.. => format!("{} and later", MOST_RERUNS + 1),
                reruns => (reruns + 1).to_string(),
            }),
            Self::Day => Some(date.to_string()),
        }
    }
}

/// The costs of a range of days.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// The rows, highest cost first; days in chronological order.
    pub rows: Vec<(String, Sum)>,
    /// The costs that belong to no row.
    pub rest: Sum,
    /// The total.
    pub all: Sum,
    /// Instance types without a price, with their numbers of machines.
    pub unpriced: BTreeMap<String, u64>,
    /// The costs of each day.
    pub days: Vec<(Date, Sum)>,
}

impl Costs {
    /// Returns the costs of these days.
    #[must_use]
    pub fn of(days: &[Day], by: By) -> Self {
        let mut fold = CostsFold::new(by);
        days.iter().for_each(|day| fold.add(day));
        fold.costs()
    }
}

/// Accumulates costs day by day, so that the days need not be kept in memory.
#[derive(Clone, Debug)]
pub struct CostsFold {
    by: By,
    rows: BTreeMap<String, Sum>,
    costs: Costs,
}

impl CostsFold {
    /// Returns empty costs.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self { by, rows: BTreeMap::new(), costs: Costs::default() }
    }

    /// Adds a day. Days must be added in chronological order.
    pub fn add(&mut self, day: &Day) {
        let Self { by, rows, costs } = self;
        let mut whole = Sum::default();
        for UsageGroup { key, sum } in &day.groups {
            whole.add(sum);
            match by.row(key, day.date) {
                Some(row) => rows.entry(row).or_default().add(sum),
                None => costs.rest.add(sum),
            }
            if sum.unpriced > 0 {
                let kind = key.kind.as_deref().unwrap_or("unknown").to_owned();
                *costs.unpriced.entry(kind).or_default() += sum.unpriced;
            }
        }
        costs.all.add(&whole);
        costs.days.push((day.date, whole));
    }

    /// Returns the accumulated costs.
    #[must_use]
    pub fn costs(self) -> Costs {
        let Self { by, rows, mut costs } = self;
        costs.rows = rows.into_iter().collect();
        if by != By::Day {
            costs.rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.money.sum()));
        }
        costs
    }
}
