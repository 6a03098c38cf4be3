//! A day's lines in short: what is kept for a year, and what `costs` and `waits` are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::date::Date;
use super::line::{Cause, Kind, Line};
use super::parts::Parts;
use super::prices::{OwnPrices, PricedBy};
use super::waits::Waits;
use crate::ec2::Market;
use crate::ids::PoolName;
use crate::time::Seconds;

/// How long a day is kept: thirteen months.
pub const DAY_KEPT: Seconds = Seconds(400 * 24 * 3_600);

/// A day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Which one.
    pub date: Date,
    /// What its machines cost, by what they have in common.
    pub groups: Vec<Group>,
    /// How long its jobs waited, pool by pool.
    pub waits: Vec<PoolWaits>,
}

/// How long the jobs of a pool waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolWaits {
    /// The pool.
    pub pool: PoolName,
    /// Its jobs' waits.
    pub waits: Waits,
}

/// The machines of a day that have all these in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What they have in common.
    pub key: Key,
    /// What they add up to.
    pub sum: Sum,
}

/// What machines have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Whose job they ran; none of a machine that ran none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Arc<str>>,
    /// Its workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// Its name. Days that are kept for a year do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Arc<str>>,
    /// Whose machines they are; none of orphans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Their type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// How they were bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
    /// Whether the repository is private.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

/// What machines add up to. Money is in millionths of a dollar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Machines, orphans among them.
    pub machines: u64,
    /// Jobs that they ran.
    pub jobs: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// The jobs' minutes, each job's rounded up, as GitHub counts them.
    pub minutes: u64,
    /// Those of private repositories.
    pub private_minutes: u64,
    /// The time that is paid for, milliseconds.
    pub time: Parts,
    /// What it costs, as far as it has a price.
    pub money: Parts,
    /// What spot machines among them cost.
    pub spot: u64,
    /// What the same machines would have cost on demand.
    pub on_demand: u64,
    /// Machines that have no price.
    pub unpriced: u64,
    /// Machines that were bought in vain, by why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub in_vain: BTreeMap<String, InVain>,
}

/// Machines that were bought for jobs and ran none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InVain {
    /// How many.
    pub machines: u64,
    /// Their time, milliseconds.
    pub time: u64,
    /// What that cost, millionths of a dollar.
    pub money: u64,
}

impl Day {
    /// Returns the day of these lines, which have their prices, with the names of jobs.
    #[must_use]
    pub fn fold<'a>(date: Date, lines: impl IntoIterator<Item = &'a Line>) -> Self {
        let mut fold = Fold::new(date, true);
        lines.into_iter().for_each(|line| fold.add(line));
        fold.day()
    }

    /// The same at an operator's own prices.
    pub fn reprice(&mut self, own: &OwnPrices) {
        self.groups.iter_mut().for_each(|Group { key, sum }| sum.reprice(key, own));
    }

    /// Divides what was idle or in vain over the jobs of its pool, by their time.
    pub fn spread(&mut self) {
        let mut pools: BTreeMap<PoolName, (u64, u64)> = BTreeMap::new();
        for Group { key, sum } in &self.groups {
            if let Some(pool) = &key.pool {
                let (shared, time) = pools.entry(pool.clone()).or_default();
                *shared += sum.money.idle + sum.money.vain;
                *time += sum.time.work;
            }
        }
        // What earlier groups of the pool got, so that what is cut off one is in the next.
        let mut so_far: BTreeMap<PoolName, (u64, u64)> = BTreeMap::new();
        for Group { key, sum } in &mut self.groups {
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

/// A day whose lines are added one by one, so that none of them is kept.
#[derive(Clone, Debug)]
pub struct Fold {
    date: Date,
    with_jobs: bool,
    groups: BTreeMap<Key, Sum>,
    waits: BTreeMap<PoolName, Waits>,
}

impl Fold {
    /// Returns an empty day. The names of jobs, whose number has no bound, are in its groups only
    /// if they are asked for.
    #[must_use]
    pub const fn new(date: Date, with_jobs: bool) -> Self {
        Self { date, with_jobs, groups: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// Adds a line, which has its price.
    pub fn add(&mut self, line: &Line) {
        if line.kind != Kind::Job {
            let mut key = Key::of(line);
            key.job = key.job.filter(|_| self.with_jobs);
            self.groups.entry(key).or_default().add_line(line);
        }
        if let Some(pool) = line.pool.as_ref().filter(|_| line.wait().is_some()) {
            self.waits.entry(pool.clone()).or_default().add_line(line);
        }
    }

    /// Returns the day of what was added.
    #[must_use]
    pub fn day(self) -> Day {
        let groups = self.groups.into_iter().map(|(key, sum)| Group { key, sum }).collect();
        let waits = self.waits.into_iter().map(|(pool, waits)| PoolWaits { pool, waits }).collect();
        Day { date: self.date, groups, waits }
    }
}

impl Key {
    fn of(line: &Line) -> Self {
        let job = line.job.as_ref();
        let make = line.machine.as_ref().map(|machine| &machine.make);
        Self {
            repository: job.map(|job| job.repository.clone()),
            workflow: job.and_then(|job| job.workflow.clone()),
            job: job.map(|job| job.name.clone()),
            pool: line.pool.clone(),
            kind: make.and_then(|make| make.kind.clone()),
            market: make.and_then(|make| make.market),
            private: job.is_some_and(|job| job.private),
        }
    }
}

impl Sum {
    /// Those of another one.
    pub fn add(&mut self, other: &Self) {
        self.machines += other.machines;
        self.jobs += other.jobs;
        self.failed += other.failed;
        self.minutes += other.minutes;
        self.private_minutes += other.private_minutes;
        self.time += other.time;
        self.money += other.money;
        self.spot += other.spot;
        self.on_demand += other.on_demand;
        self.unpriced += other.unpriced;
        for (why, other) in &other.in_vain {
            let own = self.in_vain.entry(why.clone()).or_default();
            own.machines += other.machines;
            own.time += other.time;
            own.money += other.money;
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
            self.failed += u64::from(job.conclusion.as_deref() == Some("failure"));
            self.minutes += line.minutes();
            self.private_minutes += if job.private { line.minutes() } else { 0 };
        }
        let price = line.price.filter(|price| price.by == PricedBy::SpotHour);
        if let Some((price, on_demand)) = price.and_then(|price| Some((price, price.on_demand?))) {
            self.spot += line.parts.at(price.machine).sum();
            self.on_demand += line.parts.at(on_demand).sum();
        }
        if line.parts.vain > 0 {
            let own = self.in_vain.entry(line.why_in_vain()).or_default();
            own.machines += 1;
            own.time += line.parts.vain;
            own.money += money.vain;
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
        for one in self.in_vain.values_mut() {
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
                let listed = price_of(self.time.sum(), listed);
                self.on_demand = own.paid(listed, Some(Market::OnDemand));
            }
        }
    }
}

fn price_of(time: u64, micros_an_hour: u64) -> u64 {
    Parts { work: time, ..Parts::default() }.at(micros_an_hour).work
}

impl Line {
    /// What it cost, in millionths of a dollar; none without a price.
    #[must_use]
    pub fn cost(&self) -> Option<Parts> {
        self.price.map(|price| self.parts.at(price.whole()))
    }

    /// Its job's minutes as GitHub counts them: what has begun counts whole.
    /// Source: docs.github.com/en/billing/concepts/product-billing/github-actions
    #[must_use]
    pub fn minutes(&self) -> u64 {
        let started = self.t.started.filter(|_| self.job.is_some());
        let lasted = started.and_then(|started| u64::try_from(self.t.completed? - started).ok());
        lasted.map_or(0, |lasted| lasted.div_ceil(60_000).max(1))
    }

    /// Why it was for nothing, in a word or two.
    fn why_in_vain(&self) -> String {
        let machine = self.machine.as_ref();
        match (self.kind, machine.and_then(|machine| machine.cause)) {
            (Kind::Orphan, _) => "orphan".to_owned(),
            (_, Some(Cause::SpotNotice)) => "spot".to_owned(),
            (_, Some(Cause::HostLost)) => "host lost".to_owned(),
            (_, Some(Cause::Killed | Cause::MaxLifetime) | None) => {
                let reason = machine.and_then(|machine| machine.reason.as_deref());
                reason.unwrap_or("unknown").replace('_', " ")
            }
        }
    }
}
