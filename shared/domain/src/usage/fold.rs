//! A day's usage records, aggregated: the part that is kept for a year, and the input of `costs`
//! and `waits`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::by::By;
use super::date::Date;
use super::line::{EarlyEndCause, Line, OfJob, UsageKind};
use super::parts::Parts;
use super::price::PricedBy;
use super::prices::OwnPrices;
use super::waits::Waits;
use crate::ec2::Market;
use crate::ids::PoolName;
use crate::time::Seconds;

/// Retention of a day: thirteen months.
pub const DAY_KEPT: Seconds = Seconds(400 * 24 * 3_600);

/// Attempts after this many re-runs are counted together, so that days in long-term storage stay
/// small.
pub(super) const MOST_RERUNS: u32 = 2;

/// The aggregated usage of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The date.
    pub date: Date,
    /// What its machines cost, grouped by their common key.
    pub groups: Vec<UsageGroup>,
    /// How long its jobs waited, by pool.
    pub waits: Vec<PoolWaits>,
}

/// How long the jobs of a pool waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolWaits {
    /// The pool.
    pub pool: PoolName,
    /// The waits of its jobs.
    pub waits: Waits,
}

/// The machines of a day with an equal key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageGroup {
    /// The key.
    pub key: Key,
    /// The sum over the machines.
    pub sum: Sum,
}

/// The grouping key of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The repository whose job they ran. `None` if they ran no job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Arc<str>>,
    /// The job's workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// The job's name. Days in long-term storage have neither it nor the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Arc<str>>,
    /// The number of the job's pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u32>,
    /// The GitHub user who caused the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    /// The pool. `None` for orphans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The instance type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// The market.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
    /// Whether the repository is private.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Number of earlier attempts of the job's run, up to [`MOST_RERUNS`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reruns: u32,
}

/// The sum over machines. Money is in millionths of a dollar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Number of machines, including orphans.
    pub machines: u64,
    /// Number of jobs that they ran.
    pub jobs: u64,
    /// Number of those jobs that Spot machines ran.
    pub spot_jobs: u64,
    /// Number of those jobs that failed.
    pub failed: u64,
    /// Job minutes, each job's rounded up, as GitHub counts them.
    pub minutes: u64,
    /// Job minutes of private repositories.
    pub private_minutes: u64,
    /// The billed time, in milliseconds.
    pub time: Parts,
    /// Its cost, without machines whose price is unknown.
    pub money: Parts,
    /// Job minutes of private repositories, by the number of CPUs that the machine measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_minutes: BTreeMap<String, u64>,
    /// The cost of the Spot machines among them.
    pub spot: u64,
    /// What the Spot machines would have cost as On-Demand. Without those in `interrupted`: no
    /// On-Demand machine would have run these jobs twice.
    pub on_demand: u64,
    /// Spot machines that EC2 reclaimed during a job, whose work was lost.
    #[serde(default, skip_serializing_if = "MachineCost::is_none")]
    pub interrupted: MachineCost,
    /// Machines of jobs in attempts that Muster ordered after an interruption.
    #[serde(default, skip_serializing_if = "MachineCost::is_none")]
    pub ordered_reruns: MachineCost,
    /// Number of machines without a price.
    pub unpriced: u64,
    /// Wasted machines, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub in_vain: BTreeMap<String, MachineCost>,
}

/// Some of the machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCost {
    /// Number of machines.
    pub machines: u64,
    /// Their time, in milliseconds.
    pub time: u64,
    /// Its cost, in millionths of a dollar.
    pub money: u64,
}

impl MachineCost {
    const fn is_none(&self) -> bool {
        self.machines == 0
    }

    const fn add(&mut self, other: &Self) {
        self.machines += other.machines;
        self.time += other.time;
        self.money += other.money;
    }
}

impl Day {
    /// Aggregates these records, which must have their prices.
    #[must_use]
    pub fn fold<'a>(date: Date, by: By, lines: impl IntoIterator<Item = &'a Line>) -> Self {
        let mut fold = Fold::new(date, by);
        lines.into_iter().for_each(|line| fold.add(line));
        fold.day()
    }

    /// Recalculates the costs with an operator's own prices.
    pub fn reprice(&mut self, own: &OwnPrices) {
        self.groups.iter_mut().for_each(|UsageGroup { key, sum }| sum.reprice(key, own));
    }

    /// Distributes the cost of idle and wasted time over the jobs of its pool, in proportion to
    /// their time.
    pub fn spread(&mut self) {
        let mut pools: BTreeMap<PoolName, (u64, u64)> = BTreeMap::new();
        for UsageGroup { key, sum } in &self.groups {
            if let Some(pool) = &key.pool {
                let (shared, time) = pools.entry(pool.clone()).or_default();
                *shared += sum.money.idle + sum.money.vain;
                *time += sum.time.work;
            }
        }
        // Amounts already assigned in the pool, so that what rounding cuts off one group goes to
        // the next.
        let mut so_far: BTreeMap<PoolName, (u64, u64)> = BTreeMap::new();
        for UsageGroup { key, sum } in &mut self.groups {
            let Some(pool) = &key.pool else { continue };
            let (shared, time) = pools[pool];
            if time == 0 {
                continue;
            }
            (sum.money.idle, sum.money.vain) = (0, 0);
            let (spent, given) = so_far.entry(pool.clone()).or_default();
            *spent += sum.time.work;
            let until = u128::from(shared) * u128::from(*spent) / u128::from(time);
            let until = u64::try_from(until).unwrap_or(u64::MAX);
            sum.money.work += until - *given;
            *given = until;
            sum.in_vain.values_mut().for_each(|one| one.money = 0);
        }
    }
}

/// Aggregates a day record by record, so that the records need not be kept in memory.
#[derive(Clone, Debug)]
pub struct Fold {
    date: Date,
    by: By,
    groups: BTreeMap<Key, Sum>,
    waits: BTreeMap<PoolName, Waits>,
}

impl Fold {
    /// Creates an empty day. `by`: the grouping that it is for. Of the keys whose number is
    /// unbounded, groups contain only this one.
    #[must_use]
    pub const fn new(date: Date, by: By) -> Self {
        Self { date, by, groups: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// Adds a record, which must have its price.
    pub fn add(&mut self, line: &Line) {
        if line.kind != UsageKind::Job {
            self.groups.entry(Key::of(line, self.by)).or_default().add_line(line);
        }
        if let Some(pool) = line.pool.as_ref().filter(|_| line.wait().is_some()) {
            self.waits.entry(pool.clone()).or_default().add_line(line);
        }
    }

    /// Returns the aggregated day.
    #[must_use]
    pub fn day(self) -> Day {
        let groups = self.groups.into_iter().map(|(key, sum)| UsageGroup { key, sum }).collect();
        let waits = self.waits.into_iter().map(|(pool, waits)| PoolWaits { pool, waits }).collect();
        Day { date: self.date, groups, waits }
    }
}

impl Key {
    fn of(line: &Line, by: By) -> Self {
        let job = line.job.as_ref();
        let only = |kept: By| job.filter(|_| by == kept);
        let make = line.machine.as_ref().map(|machine| &machine.make);
        Self {
            repository: job.map(|job| job.repository.clone()),
            workflow: job.and_then(|job| job.workflow.clone()),
            job: only(By::Job).map(|job| job.name.clone()),
            pull_request: only(By::PullRequest).and(line.pull_request),
            actor: only(By::Actor).and_then(|job| job.actor.clone()),
            pool: line.pool.clone(),
            kind: make.and_then(|make| make.kind.clone()),
            market: make.and_then(|make| make.market),
            private: job.is_some_and(|job| job.private),
            reruns: job.map_or(0, |job| job.attempt.saturating_sub(1).min(MOST_RERUNS)),
        }
    }
}

impl Sum {
    /// Adds a different sum.
    pub fn add(&mut self, other: &Self) {
        self.machines += other.machines;
        self.jobs += other.jobs;
        self.spot_jobs += other.spot_jobs;
        self.failed += other.failed;
        self.minutes += other.minutes;
        self.private_minutes += other.private_minutes;
        self.time += other.time;
        self.money += other.money;
        self.spot += other.spot;
        self.on_demand += other.on_demand;
        self.unpriced += other.unpriced;
        for (why, other) in &other.in_vain {
            self.in_vain.entry(why.clone()).or_default().add(other);
        }
        self.interrupted.add(&other.interrupted);
        self.ordered_reruns.add(&other.ordered_reruns);
        for (cpus, minutes) in &other.cpu_minutes {
            *self.cpu_minutes.entry(cpus.clone()).or_default() += minutes;
        }
    }

    fn add_line(&mut self, line: &Line) {
        let money = line.cost().unwrap_or_default();
        self.machines += 1;
        self.time += line.parts;
        self.money += money;
        self.unpriced += u64::from(line.price.is_none());
        if let Some(job) = &line.job {
            self.jobs += 1;
            let market = line.machine.as_ref().and_then(|machine| machine.make.market);
            self.spot_jobs += u64::from(market == Some(Market::Spot));
            self.failed += u64::from(job.conclusion.as_deref() == Some("failure"));
            self.minutes += line.minutes();
            if job.private {
                self.private_minutes += line.minutes();
                if let Some(used) = line.used {
                    self.add_cpu_minutes(used.cpus, line.minutes());
                }
            }
        }
        let price = line.price.filter(|price| price.by == PricedBy::SpotHour);
        if let Some((price, on_demand)) = price.and_then(|price| Some((price, price.on_demand?))) {
            self.spot += line.parts.at(price.machine).sum();
            if !line.is_interrupted() {
                self.on_demand += line.parts.at(on_demand).sum();
            }
        }
        let whole = MachineCost { machines: 1, time: line.parts.sum(), money: money.sum() };
        if line.is_interrupted() {
            self.interrupted.add(&whole);
        }
        if line.job.as_ref().is_some_and(|job| job.rerun.is_some()) {
            self.ordered_reruns.add(&whole);
        }
        if line.parts.vain > 0 {
            let own = MachineCost { machines: 1, time: line.parts.vain, money: money.vain };
            self.in_vain.entry(line.waste_reason()).or_default().add(&own);
        }
    }

    /// A job can report any number of CPUs, so numbers beyond the first few are left out.
    fn add_cpu_minutes(&mut self, cpus: u16, minutes: u64) {
        const MOST_SIZES: usize = 16;
        let cpus = cpus.to_string();
        if self.cpu_minutes.len() < MOST_SIZES || self.cpu_minutes.contains_key(&cpus) {
            *self.cpu_minutes.entry(cpus).or_default() += minutes;
        }
    }

    fn reprice(&mut self, key: &Key, own: &OwnPrices) {
        let of = |market| key.kind.as_deref().and_then(|kind| own.of(kind, market));
        let price = key.market.and_then(of);
        if let Some(price) = price {
            self.money = self.time.at(price);
            self.unpriced = 0;
        }
        self.money = self.money.map(|of| own.paid(of, key.market));
        let Self { in_vain, interrupted, ordered_reruns, .. } = &mut *self;
        for one in in_vain.values_mut().chain([interrupted, ordered_reruns]) {
            let money = price.map_or(one.money, |price| price_of(one.time, price));
            one.money = own.paid(money, key.market);
        }
        if key.market == Some(Market::Spot) {
            self.spot = own.paid(self.spot, key.market);
            self.on_demand = own.paid(self.on_demand, Some(Market::OnDemand));
            if let Some(price) = price {
                self.spot = own.paid(price_of(self.time.sum(), price), key.market);
            }
            if let Some(listed) = of(Market::OnDemand) {
                let listed = price_of(self.time.sum() - self.interrupted.time, listed);
                self.on_demand = own.paid(listed, Some(Market::OnDemand));
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn price_of(time: u64, micros_an_hour: u64) -> u64 {
    Parts { work: time, ..Parts::default() }.at(micros_an_hour).work
}

impl Line {
    /// Returns its cost, in millionths of a dollar. `None` without a price.
    #[must_use]
    pub fn cost(&self) -> Option<Parts> {
        self.price.map(|price| self.parts.at(price.whole()))
    }

    /// Returns its job's minutes as GitHub counts them: a started minute counts in full.
    /// Source: docs.github.com/en/billing/concepts/product-billing/github-actions
    #[must_use]
    pub fn minutes(&self) -> u64 {
        let started = self.t.started.filter(|_| self.job.is_some());
        let lasted = started.and_then(|started| u64::try_from(self.t.completed? - started).ok());
        lasted.map_or(0, |lasted| lasted.div_ceil(60_000).max(1))
    }

    /// Returns whether EC2 reclaimed the machine before its job succeeded.
    fn is_interrupted(&self) -> bool {
        let cause = self.machine.as_ref().and_then(|machine| machine.cause);
        let has_ended = |job: &OfJob| job.conclusion.as_deref() == Some("success");
        cause == Some(EarlyEndCause::SpotNotice)
            && self.job.as_ref().is_some_and(|job| !has_ended(job))
    }

    /// Returns why the machine was wasted, in a word or two.
    fn waste_reason(&self) -> String {
        let machine = self.machine.as_ref();
        match (self.kind, machine.and_then(|machine| machine.cause)) {
            (UsageKind::Orphan, _) => "orphan".to_owned(),
            (_, Some(EarlyEndCause::SpotNotice)) => "spot".to_owned(),
            (_, Some(EarlyEndCause::HostLost)) => "host lost".to_owned(),
            (_, Some(EarlyEndCause::Killed | EarlyEndCause::MaxLifetime) | None) => {
                let reason = machine.and_then(|machine| machine.reason.as_deref());
                reason.unwrap_or("unknown").replace('_', " ")
            }
        }
    }
}
