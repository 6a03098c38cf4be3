//! What days cost, by what somebody asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::fold::{Day, Group, Key, Sum};

/// What the rows are of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Repositories.
    #[default]
    Repository,
    /// Workflows of repositories.
    Workflow,
    /// Jobs of workflows, by name.
    Job,
    /// Pools.
    Pool,
    /// Instance types and markets.
    Type,
    /// Days.
    Day,
}

impl By {
    /// Whether what ran no job has rows as well. Otherwise it belongs to nobody's row.
    #[must_use]
    pub const fn is_of_machines(self) -> bool {
        matches!(self, Self::Pool | Self::Type | Self::Day)
    }

    /// The row of a group; none of what belongs to nobody.
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
            Self::Pool => Some(key.pool.as_ref().map_or("orphans".into(), ToString::to_string)),
            Self::Type => {
                let market = key.market.map_or_else(|| "?".to_owned(), |market| market.to_string());
                Some(format!("{} {market}", key.kind.as_deref().unwrap_or("?")))
            }
            Self::Day => Some(date.to_string()),
        }
    }
}

/// What some days cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Row by row, the dearest first; days in their order.
    pub rows: Vec<(String, Sum)>,
    /// What belongs to none of them.
    pub rest: Sum,
    /// All of it.
    pub all: Sum,
    /// Types without a price, with how many machines.
    pub unpriced: BTreeMap<String, u64>,
    /// What each day cost.
    pub days: Vec<(Date, Sum)>,
}

impl Costs {
    /// Returns what these days cost.
    #[must_use]
    pub fn of(days: &[Day], by: By) -> Self {
        let mut fold = CostsFold::new(by);
        days.iter().for_each(|day| fold.add(day));
        fold.costs()
    }
}

/// Costs to which days are added one by one, so that none of them is kept.
#[derive(Clone, Debug)]
pub struct CostsFold {
    by: By,
    rows: BTreeMap<String, Sum>,
    costs: Costs,
}

impl CostsFold {
    /// Returns the costs of no day.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self { by, rows: BTreeMap::new(), costs: Costs::default() }
    }

    /// Adds a day, after the days before it.
    pub fn add(&mut self, day: &Day) {
        let Self { by, rows, costs } = self;
        let mut whole = Sum::default();
        for Group { key, sum } in &day.groups {
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

    /// Returns the costs of the days that were added.
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
