//! What an hour of a machine costs.
//!
//! Prices are facts of an hour, and lines are facts of time: the two are kept side by side, and
//! whoever reads lines puts them together. So no call on the way of a job or a delete waits for a
//! price, and a price that is learned late holds for the day that was before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::line::Line;
use crate::ec2::{Make, Market};
use crate::time::{Seconds, Time};

/// How long a Spot price is valid, and how long a refusal is not asked about again.
const SPOT_FOR: Seconds = Seconds(3_600);
/// How long a list price is valid.
const LIST_FOR: Seconds = Seconds(24 * 3_600);
/// How long the prices of a type are kept up to date after it was last in use.
const USED_FOR: Seconds = Seconds(30 * 24 * 3_600);
/// How often the record notes that a type is in use.
const NOTED_FOR: Seconds = Seconds(24 * 3_600);
/// Maximum number of types whose prices are kept, about all that EC2 has. A type needs some 250
/// bytes in six zones, and DynamoDB accepts items of 400 KB.
pub const MOST_TYPES: usize = 1_000;
/// EBS bills a month's price by the second. Months differ; this is the mean one, in hours.
const HOURS_OF_MONTH: u64 = 730;

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PricedBy {
    /// Spot's price of the hour.
    SpotHour,
    /// The price list.
    List,
    /// An operator's own file.
    Import,
}

/// What an hour of a machine costs, in millionths of a dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Price {
    /// The machine, on its market.
    pub machine: u64,
    /// Where that comes from.
    pub by: PricedBy,
    /// Its type on demand, where the list has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<u64>,
    /// Its disk, where the list has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
}

impl Price {
    /// Machine and disk.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.machine + self.disk.unwrap_or(0)
    }
}

/// Prices of an hour, in millionths of a dollar, by instance type. The record `prices` has the last
/// ones; those of each hour are kept next to the lines of its day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// When a price was last learned.
    pub at: Time,
    /// When a Spot price was last learned.
    #[serde(default)]
    pub spot_at: Time,
    /// When a list price was last learned.
    pub listed_at: Time,
    /// The Spot price in each zone.
    pub spot: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
    /// The list price.
    pub list: BTreeMap<Arc<str>, u64>,
    /// A GiB of a machine's disk (gp3), a month, if the list has it.
    pub disk: Option<u64>,
    /// When to ask for that price again.
    #[serde(default)]
    pub disk_due: Time,
    /// The types whose prices are kept up to date.
    #[serde(default)]
    pub types: BTreeMap<Arc<str>, TypeInUse>,
}

/// When to ask for the prices of a type again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeInUse {
    /// When it was last in use.
    pub used: Time,
    /// When to ask EC2 for its Spot prices.
    pub spot_due: Time,
    /// When to ask the price list.
    pub list_due: Time,
}

/// One answer about prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// The Spot price of a type in each zone.
    Spot(Arc<str>, BTreeMap<Arc<str>, u64>),
    /// The list price of a type, if the list has it.
    List(Arc<str>, Option<u64>),
    /// The list price of disks, if the list has it.
    Disk(Option<u64>),
    /// The Spot price of this type is refused. The known price stays.
    SpotRefused(Arc<str>),
    /// The list price of this type is refused. The known price stays.
    ListRefused(Arc<str>),
    /// The list price of disks is refused. The known price stays.
    DiskRefused,
}

impl Prices {
    /// What machines of this make, with a disk of so many GiB, cost. None where the type, the
    /// market or the zone has no price: a price is never guessed.
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

    /// Notes the types that are in use, and forgets those that were not in use for a month. If there
    /// are too many, those that were in use last stay.
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

    fn due(&self, is_due: impl Fn(&TypeInUse) -> bool) -> Vec<Arc<str>> {
        self.types.iter().filter(|(_, kind)| is_due(kind)).map(|(name, _)| name.clone()).collect()
    }

    /// Notes an answer.
    pub fn learn(&mut self, learned: Learned, now: Time) {
        let (again, next) = (now + SPOT_FOR, now + LIST_FOR);
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
            Learned::SpotRefused(kind) => self.in_use(&kind).spot_due = again,
            Learned::ListRefused(kind) => self.in_use(&kind).list_due = again,
            Learned::DiskRefused => self.disk_due = again,
        }
    }

    fn in_use(&mut self, kind: &Arc<str>) -> &mut TypeInUse {
        self.types.entry(kind.clone()).or_default()
    }
}

/// The prices of some time, hour by hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    hours: Vec<Prices>,
}

impl History {
    /// Of records in any order.
    #[must_use]
    pub fn new(mut hours: Vec<Prices>) -> Self {
        hours.sort_by_key(|prices| prices.at);
        Self { hours }
    }

    /// The price of a machine that ended at a time: of the last hour before it that has one, else
    /// of the first hour after it.
    #[must_use]
    pub fn of(&self, make: &Make, disk_gib: u32, at: Time) -> Option<Price> {
        let after = self.hours.partition_point(|prices| prices.at <= at);
        let (before, after) = self.hours.split_at(after);
        before.iter().rev().chain(after).find_map(|prices| prices.of(make, disk_gib))
    }

    /// Puts a line's price beside it.
    pub fn price(&self, line: &mut Line, disk_gib: u32) {
        let make = line.machine.as_ref().map(|machine| &machine.make);
        line.price = make.and_then(|make| self.of(make, disk_gib, line.at));
    }
}

/// An operator's own prices, where AWS's list is not what is paid: dollars an hour by type, and a
/// factor on what else has a price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnPrices {
    /// Machines on demand.
    #[serde(default)]
    pub on_demand: BTreeMap<Arc<str>, f64>,
    /// Spot machines.
    #[serde(default)]
    pub spot: BTreeMap<Arc<str>, f64>,
    /// What is paid of the price, of a market: 0.72 for a saving of 28 %.
    #[serde(default)]
    pub factor: BTreeMap<Market, f64>,
}

impl OwnPrices {
    /// What is wrong with them, if anything is.
    ///
    /// # Errors
    /// The first number that is no price or factor.
    pub fn check(&self) -> Result<(), String> {
        let all = self.on_demand.iter().chain(&self.spot);
        let all = all.map(|(kind, price)| (kind.to_string(), *price));
        let factors = self.factor.iter().map(|(market, factor)| (market.to_string(), *factor));
        let wrong = all.chain(factors).find(|(_, it)| !it.is_finite() || *it < 0.0 || *it > 1e4);
        match wrong {
            Some((name, it)) => {
                Err(format!("{name}: {it} is neither dollars an hour nor a factor"))
            }
            None => Ok(()),
        }
    }

    /// The operator's price of this type on this market, in millionths of a dollar an hour.
    #[must_use]
    pub fn of(&self, kind: &str, market: Market) -> Option<u64> {
        let own = match market {
            Market::Spot => &self.spot,
            Market::OnDemand => &self.on_demand,
        };
        own.get(kind).map(|dollars| micros(dollars * 1e6))
    }

    /// What is paid of so much.
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
