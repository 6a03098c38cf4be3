//! Responses about costs and waits. Money is in millionths of a dollar.

use std::collections::BTreeMap;

use muster_domain::time::Time;
use muster_domain::usage::{By, Date, Line, Parts, Sum, Waits, WaitsFor};
use serde::{Deserialize, Serialize};

/// Costs of a range of days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsList {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// What the rows are grouped by.
    pub by: By,
    /// Whether idle and wasted costs are distributed over jobs.
    pub spread: bool,
    /// The rows, most expensive first; days in chronological order.
    pub rows: Vec<CostsRow>,
    /// Number of rows that are not shown; their costs are in the sums.
    pub left_out: usize,
    /// Costs that belong to no row: idle and wasted time when rows are grouped by a property of
    /// jobs.
    pub rest: Sum,
    /// The total.
    pub all: Sum,
    /// Number of machines of each type that has no price.
    pub unpriced: BTreeMap<String, u64>,
    /// Costs by day.
    pub days: Vec<CostsOfDay>,
    /// When Spot prices were last updated.
    pub spot_at: Option<Time>,
    /// When list prices were last updated.
    pub listed_at: Option<Time>,
    /// Waits of the same days, so that clients do not have to read them separately. `by`, `spread`
    /// and a repository do not change them.
    pub waits: WaitsList,
}

/// A row of costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsRow {
    /// The group's name.
    pub name: String,
    /// The group's total.
    #[serde(flatten)]
    pub sum: Sum,
}

/// Costs of one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsOfDay {
    /// The day.
    pub date: Date,
    /// Number of jobs that ran.
    pub jobs: u64,
    /// Costs of its machines.
    pub money: Parts,
}

/// How long jobs waited for their first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsList {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// All pools together.
    pub all: WaitsRow,
    /// By pool, the pool with most jobs first.
    pub pools: Vec<WaitsRow>,
    /// By day, or by hour.
    pub series: Vec<WaitsAt>,
}

/// How long the jobs of a pool waited, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsRow {
    /// The pool.
    pub name: String,
    /// Number of jobs.
    pub jobs: u64,
    /// The median.
    pub p50: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
    /// The 99th percentile.
    pub p99: Option<u64>,
    /// The maximum.
    pub longest: u64,
    /// The median of each part of the wait.
    pub parts: BTreeMap<WaitsFor, u64>,
    /// The main reason for waiting among the longest 5 % of waits, with the number of jobs for
    /// each.
    pub because_of: Vec<(WaitsFor, u64)>,
}

impl WaitsRow {
    /// Creates the row of a pool from its waits.
    #[must_use]
    pub fn new(name: String, waits: &Waits) -> Self {
        let part = |what: &WaitsFor| Some((*what, waits.percentile_of(*what, 50)?));
        Self {
            name,
            jobs: waits.count(),
            p50: waits.percentile(50),
            p95: waits.percentile(95),
            p99: waits.percentile(99),
            longest: waits.longest,
            parts: WaitsFor::ALL.iter().filter_map(part).collect(),
            because_of: waits.reasons_of_longest(),
        }
    }
}

/// Waits of the jobs that started in one hour or on one day, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsAt {
    /// When the hour or day begins.
    pub at: Time,
    /// Number of jobs.
    pub jobs: u64,
    /// The median.
    pub p50: Option<u64>,
    /// The 95th percentile.
    pub p95: Option<u64>,
}

impl WaitsAt {
    /// Creates the point of the hour or day that begins at `at`.
    #[must_use]
    pub fn new(at: Time, waits: &Waits) -> Self {
        let (p50, p95) = (waits.percentile(50), waits.percentile(95));
        Self { at, jobs: waits.count(), p50, p95 }
    }
}

/// A page of usage records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineList {
    /// Records of one day, ordered by the time they ended, with prices.
    pub lines: Vec<Line>,
    /// Keys of records that this release cannot read.
    pub unreadable: Vec<String>,
    /// The `page` of the next request; absent on the last page.
    pub next: Option<String>,
}
