//! What machines cost and how long jobs waited. Money is in millionths of a dollar.

use std::collections::BTreeMap;

use muster_domain::time::Time;
use muster_domain::usage::{By, Date, Line, Parts, Sum, Waits, WaitsFor};
use serde::{Deserialize, Serialize};

/// What days cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsList {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// What the rows are of.
    pub by: By,
    /// Whether what was idle or in vain is divided over jobs.
    pub spread: bool,
    /// Row by row, the dearest first; days in their order.
    pub rows: Vec<CostsRow>,
    /// Rows that are not shown; they are in the sums.
    pub left_out: usize,
    /// What belongs to no row: idle and in vain, where rows are of jobs.
    pub rest: Sum,
    /// All of it.
    pub all: Sum,
    /// Types without a price, with how many machines.
    pub unpriced: BTreeMap<String, u64>,
    /// What each day cost.
    pub days: Vec<CostsOfDay>,
    /// When a Spot price was last learned.
    pub spot_at: Option<Time>,
    /// When a list price was last learned.
    pub listed_at: Option<Time>,
    /// The waits of the same days, so that nobody has to read the days twice. `by`, `spread` and a
    /// repository do not change them.
    pub waits: WaitsList,
}

/// A row of costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsRow {
    /// What it is of.
    pub name: String,
    /// What that adds up to.
    #[serde(flatten)]
    pub sum: Sum,
}

/// What a day cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostsOfDay {
    /// The day.
    pub date: Date,
    /// Jobs that ran.
    pub jobs: u64,
    /// What its machines cost.
    pub money: Parts,
}

/// How long jobs waited for their first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsList {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// Of all pools.
    pub all: WaitsRow,
    /// Pool by pool, the one of most jobs first.
    pub pools: Vec<WaitsRow>,
    /// By the day, or by the hour.
    pub series: Vec<WaitsAt>,
}

/// How long the jobs of a pool waited, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsRow {
    /// The pool.
    pub name: String,
    /// How many jobs.
    pub jobs: u64,
    /// Half of them waited no longer.
    pub p50: Option<u64>,
    /// Nineteen of twenty.
    pub p95: Option<u64>,
    /// Ninety-nine of a hundred.
    pub p99: Option<u64>,
    /// The longest.
    pub longest: u64,
    /// Of each part of the wait what half of the jobs took no longer for.
    pub parts: BTreeMap<WaitsFor, u64>,
    /// What the longest twentieth waited for most of their time, with how many jobs.
    pub because_of: Vec<(WaitsFor, u64)>,
}

impl WaitsRow {
    pub(crate) fn new(name: String, waits: &Waits) -> Self {
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

/// The waits of the jobs that began in an hour or on a day, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsAt {
    /// When that begins.
    pub at: Time,
    /// How many jobs.
    pub jobs: u64,
    /// Half of them waited no longer.
    pub p50: Option<u64>,
    /// Nineteen of twenty.
    pub p95: Option<u64>,
}

impl WaitsAt {
    pub(crate) fn new(at: Time, waits: &Waits) -> Self {
        let (p50, p95) = (waits.percentile(50), waits.percentile(95));
        Self { at, jobs: waits.count(), p50, p95 }
    }
}

/// Lines of usage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineList {
    /// Of one day, by their ends, with their prices.
    pub lines: Vec<Line>,
    /// Lines that this release cannot read, by key.
    pub unreadable: Vec<String>,
    /// The `page` that goes on; none after the last.
    pub next: Option<String>,
}
