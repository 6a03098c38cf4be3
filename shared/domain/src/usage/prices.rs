//! Hourly prices of machines.
//!
//! Prices belong to hours, and usage records to machines. They are stored separately and combined
//! by readers, so that no call on the path of a job or a delete waits for a price, and a price that
//! is learned late still applies to the preceding day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::Line;
use super::price::{Price, PricedBy};
use crate::backoff::is_overdue;
use crate::ec2::classify::classify;
use crate::ec2::{ErrorClass, Make, Market};
use crate::time::{Seconds, Time};

/// How long a Spot price is valid, and how long a refused query is not repeated.
const SPOT_FOR: Seconds = Seconds(3_600);
/// How long a list price is valid.
const LIST_FOR: Seconds = Seconds(24 * 3_600);
/// How long a type's prices are updated after its last use.
const USED_FOR: Seconds = Seconds(30 * 24 * 3_600);
/// How often the record notes that a type is in use.
const NOTED_FOR: Seconds = Seconds(24 * 3_600);
/// Maximum number of types whose prices are stored, which is about all that EC2 has. A type needs
/// some 250 bytes in six zones, and DynamoDB accepts items of 400 KB.
pub const MOST_TYPES: usize = 1_000;
/// The name of disks among the types.
const DISKS: &str = "disks";
/// Average hours per month. EBS bills a monthly price by the second.
const HOURS_OF_MONTH: u64 = 730;

/// Hourly prices by instance type, in millionths of a dollar. The record `prices` has the latest
/// ones; those of each hour are stored next to the usage records of its day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// When a price was last learned.
    pub at: Time,
    /// When a Spot price was last learned.
    #[serde(default)]
    pub spot_at: Time,
    /// When a list price was last learned.
    pub listed_at: Time,
    /// Spot prices by zone.
    pub spot: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
    /// List prices.
    pub list: BTreeMap<Arc<str>, u64>,
    /// The monthly price per GiB of a machine's disk (gp3), if listed.
    pub disk: Option<u64>,
    /// When to query that price again.
    #[serde(default)]
    pub disk_due: Time,
    /// The types whose prices are updated.
    #[serde(default)]
    pub types: BTreeMap<Arc<str>, TypeInUse>,
    /// The sources that deny queries.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<PriceSource, RefusedPrices>,
}

/// A source of prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// EC2's history of Spot prices.
    Spot,
    /// AWS's price list.
    List,
}

/// The queries that a source denies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPrices {
    /// When the first of them was denied.
    pub since: Time,
    /// The code of the last denial.
    pub code: String,
    /// The types, or disks.
    pub of: BTreeSet<Arc<str>>,
}

/// When to query the prices of a type again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeInUse {
    /// When it was last in use.
    pub used: Time,
    /// When to query its Spot prices from EC2.
    pub spot_due: Time,
    /// When to query the price list.
    pub list_due: Time,
}

/// A price query, to one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceQuery {
    /// The Spot prices of a type.
    Spot(Arc<str>),
    /// The list price of a type.
    List(Arc<str>),
    /// The list price of disks.
    Disk,
}

/// The result of one price query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The Spot price of a type in each zone.
    Spot(Arc<str>, BTreeMap<Arc<str>, u64>),
    /// The list price of a type, if listed.
    List(Arc<str>, Option<u64>),
    /// The list price of disks, if listed.
    Disk(Option<u64>),
    /// The query was refused with this code. The known price is kept.
    Refused(PriceQuery, String),
}

impl PriceQuery {
    const fn source(&self) -> PriceSource {
        match self {
            Self::Spot(_) => PriceSource::Spot,
            Self::List(_) | Self::Disk => PriceSource::List,
        }
    }

    /// Returns the type, or disks.
    #[must_use]
    pub fn of(&self) -> Arc<str> {
        match self {
            Self::Spot(kind) | Self::List(kind) => kind.clone(),
            Self::Disk => DISKS.into(),
        }
    }
}

impl Learned {
    fn query(&self) -> PriceQuery {
        match self {
            Self::Spot(kind, _) => PriceQuery::Spot(kind.clone()),
            Self::List(kind, _) => PriceQuery::List(kind.clone()),
            Self::Disk(_) => PriceQuery::Disk,
            Self::Refused(query, _) => query.clone(),
        }
    }

    /// Returns the code if the caller has no permission for the query. Other refusals concern one
    /// type, such as one that the region does not have.
    fn denied(&self) -> Option<&str> {
        match self {
            Self::Refused(_, code) => {
                let is_denied = classify(Some(code), None, "") == ErrorClass::Authorization;
                is_denied.then_some(code)
            }
            Self::Spot(..) | Self::List(..) | Self::Disk(_) => None,
        }
    }
}

impl Prices {
    /// Returns the price of machines of this make with a disk of `disk_gib` GiB. `None` if the
    /// type, the market or the zone has no price: prices are never guessed.
    #[must_use]
    pub fn of(&self, make: &Make, disk_gib: u32) -> Option<Price> {
        let kind = make.kind.as_ref()?;
        let on_demand = self.list.get(kind).copied();
        let (machine, by) = match make.market? {
            Market::Spot => (*self.spot.get(kind)?.get(make.zone.as_ref()?)?, PricedBy::SpotHour),
            Market::OnDemand => (on_demand?, PricedBy::List),
        };
        let disk = self.disk.map(|month| month * u64::from(disk_gib) / HOURS_OF_MONTH);
        Some(Price { machine, by, on_demand, disk })
    }

    /// Records the types in use, and drops those unused for a month. If there are too many, keeps
    /// the most recently used.
    pub fn note_used(&mut self, used: &BTreeSet<Arc<str>>, now: Time) {
        for kind in used {
            let kind = self.types.entry(kind.clone()).or_default();
            if now.is_past(kind.used, NOTED_FOR) {
                kind.used = now;
            }
        }
        let mut types: Vec<_> = std::mem::take(&mut self.types).into_iter().collect();
        types.retain(|(_, kind)| !now.is_past(kind.used, USED_FOR));
        types.sort_by_key(|(name, kind)| (!used.contains(name), std::cmp::Reverse(kind.used)));
        types.truncate(MOST_TYPES);
        self.types = types.into_iter().collect();
        self.spot.retain(|name, _| self.types.contains_key(name));
        self.list.retain(|name, _| self.types.contains_key(name));
        for refused in self.refused.values_mut() {
            refused.of.retain(|name| &**name == DISKS || self.types.contains_key(name));
        }
        self.refused.retain(|_, refused| !refused.of.is_empty());
    }

    /// Returns the types whose Spot prices are due.
    #[must_use]
    pub fn spot_due(&self, now: Time) -> Vec<Arc<str>> {
        self.due(|kind| kind.spot_due <= now)
    }

    /// Returns the types whose list price is due.
    #[must_use]
    pub fn list_due(&self, now: Time) -> Vec<Arc<str>> {
        self.due(|kind| kind.list_due <= now)
    }

    /// Returns whether an earlier sweep should have learned a price, and recorded that.
    #[must_use]
    pub fn is_overdue(&self, now: Time) -> bool {
        // The prices of a new type were due at no time.
        let is_late = |due: Time| due != Time::default() && is_overdue(due, now);
        let mut types = self.types.values();
        types.any(|kind| is_late(kind.spot_due) || is_late(kind.list_due)) || is_late(self.disk_due)
    }

    fn due(&self, is_due: impl Fn(&TypeInUse) -> bool) -> Vec<Arc<str>> {
        self.types.iter().filter(|(_, kind)| is_due(kind)).map(|(name, _)| name.clone()).collect()
    }

    /// Records the result of a query.
    pub fn learn(&mut self, learned: Learned, now: Time) {
        let (again, next) = (now + SPOT_FOR, now + LIST_FOR);
        self.note_denied(&learned.query(), learned.denied(), now);
        match learned {
            Learned::Spot(kind, zones) => {
                (self.at, self.spot_at) = (now, now);
                self.in_use(&kind).spot_due = again;
                self.spot.insert(kind, zones);
            }
            Learned::List(kind, price) => {
                (self.at, self.listed_at) = (now, now);
                self.in_use(&kind).list_due = next;
                match price {
                    Some(price) => self.list.insert(kind, price),
                    None => self.list.remove(&kind),
                };
            }
            Learned::Disk(price) => {
                (self.at, self.disk, self.disk_due) = (now, price, next);
            }
            Learned::Refused(PriceQuery::Spot(kind), _) => self.in_use(&kind).spot_due = again,
            Learned::Refused(PriceQuery::List(kind), _) => self.in_use(&kind).list_due = again,
            Learned::Refused(PriceQuery::Disk, _) => self.disk_due = again,
        }
    }

    /// Records that a query was denied with this code, or that it was not.
    fn note_denied(&mut self, query: &PriceQuery, code: Option<&str>, now: Time) {
        let (source, of) = (query.source(), query.of());
        if let Some(code) = code {
            let known = self.refused.entry(source).or_insert_with(|| RefusedPrices {
                since: now,
                code: String::new(),
                of: BTreeSet::new(),
            });
            code.clone_into(&mut known.code);
            known.of.insert(of);
        } else if let Some(known) = self.refused.get_mut(&source) {
            known.of.remove(&of);
            if known.of.is_empty() {
                self.refused.remove(&source);
            }
        }
    }

    fn in_use(&mut self, kind: &Arc<str>) -> &mut TypeInUse {
        self.types.entry(kind.clone()).or_default()
    }
}

/// Prices over a period, hour by hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    hours: Vec<Prices>,
}

impl History {
    /// Creates a history from records in any order.
    #[must_use]
    pub fn new(mut hours: Vec<Prices>) -> Self {
        hours.sort_by_key(|prices| prices.at);
        Self { hours }
    }

    /// Returns the price of a machine that ended at `at`: of the last hour before it that has one,
    /// otherwise of the first hour after it.
    #[must_use]
    pub fn of(&self, make: &Make, disk_gib: u32, at: Time) -> Option<Price> {
        let after = self.hours.partition_point(|prices| prices.at <= at);
        let (before, after) = self.hours.split_at(after);
        before.iter().rev().chain(after).find_map(|prices| prices.of(make, disk_gib))
    }

    /// Adds the price to a usage record.
    pub fn price(&self, line: &mut Line, disk_gib: u32) {
        let make = line.machine.as_ref().map(|machine| &machine.make);
        line.price = make.and_then(|make| self.of(make, disk_gib, line.at));
    }
}

/// An operator's own prices, if different from AWS's list: dollars per hour by type, and a factor
/// for all other prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnPrices {
    /// On-Demand prices.
    #[serde(default)]
    pub on_demand: BTreeMap<Arc<str>, f64>,
    /// Spot prices.
    #[serde(default)]
    pub spot: BTreeMap<Arc<str>, f64>,
    /// The fraction of the price that is paid on a market: 0.72 for a discount of 28 %.
    #[serde(default)]
    pub factor: BTreeMap<Market, f64>,
    /// GitHub's price of its own runners, in dollars per minute, by their number of vCPUs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub github: BTreeMap<String, f64>,
}

impl OwnPrices {
    /// Validates the prices.
    ///
    /// # Errors
    ///
    /// The first number that is not a valid price or factor.
    pub fn check(&self) -> Result<(), String> {
        let all = self.on_demand.iter().chain(&self.spot);
        let all = all.map(|(kind, price)| (kind.to_string(), *price));
        let factors = self.factor.iter().map(|(market, factor)| (market.to_string(), *factor));
        let github = self.github.iter().map(|(cpus, rate)| (format!("github: {cpus}"), *rate));
        let mut all = all.chain(factors).chain(github);
        if let Some((name, it)) = all.find(|(_, it)| !it.is_finite() || *it < 0.0 || *it > 1e4) {
            return Err(format!("{name}: {it} is neither a price in dollars nor a factor"));
        }
        match self.github.keys().find(|cpus| cpus.parse::<u16>().is_err()) {
            Some(cpus) => Err(format!("github: {cpus:?} is not a number of vCPUs")),
            None => Ok(()),
        }
    }

    /// Returns what these minutes would have cost on GitHub's runners, in millionths of a dollar,
    /// and how many of them have a rate. `minutes` is by number of vCPUs.
    #[must_use]
    pub fn on_github(&self, minutes: &BTreeMap<String, u64>) -> (u64, u64) {
        let priced =
            minutes.iter().filter_map(|(cpus, count)| Some((self.github.get(cpus)?, *count)));
        #[expect(clippy::cast_precision_loss, reason = "minutes stay far below 2^52")]
        let cost = |(rate, count): (&f64, u64)| (micros(rate * 1e6 * count as f64), count);
        priced.map(cost).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Returns the operator's price of this type on this market, in millionths of a dollar per
    /// hour.
    #[must_use]
    pub fn of(&self, kind: &str, market: Market) -> Option<u64> {
        let own = match market {
            Market::Spot => &self.spot,
            Market::OnDemand => &self.on_demand,
        };
        own.get(kind).map(|dollars| micros(dollars * 1e6))
    }

    /// Applies the market's factor to a price.
    #[must_use]
    pub fn paid(&self, of: u64, market: Option<Market>) -> u64 {
        let factor = market.and_then(|market| self.factor.get(&market));
        #[expect(clippy::cast_precision_loss, reason = "sums of money stay far below 2^52")]
        factor.map_or(of, |factor| micros(of as f64 * factor))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be small and positive"
)]
fn micros(exact: f64) -> u64 {
    exact.round() as u64
}
