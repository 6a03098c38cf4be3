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

/// Spot's prices are asked for after this time.
pub const SPOT_FOR: Seconds = Seconds(3_600);
/// The price list is asked after this time.
pub const LIST_FOR: Seconds = Seconds(24 * 3_600);
/// Most types whose prices are kept. The record has some sixty bytes for each of a type's zones.
pub const MOST_TYPES: usize = 200;
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
/// ones; each hour's stand beside the lines of its day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// When EC2 was asked for spot's.
    pub at: Time,
    /// When the price list was asked.
    pub listed_at: Time,
    /// Spot's price in each zone.
    pub spot: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
    /// The list's.
    pub list: BTreeMap<Arc<str>, u64>,
    /// Types that were asked about, and that the list does not have.
    pub unlisted: BTreeSet<Arc<str>>,
    /// A GiB of a machine's disk (gp3), a month, where the list has it.
    pub disk: Option<u64>,
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

    /// The types that are to be asked about: the known ones, and those that were seen.
    #[must_use]
    pub fn to_ask(&self, seen: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        self.known().chain(seen).take(MOST_TYPES).cloned().collect()
    }

    /// Whether one of these types was never asked about, and there is room for it.
    #[must_use]
    pub fn lacks(&self, seen: &BTreeSet<Arc<str>>) -> bool {
        self.known().count() < MOST_TYPES && seen.iter().any(|kind| !self.knows(kind))
    }

    /// Whether the list was asked about this type.
    #[must_use]
    pub fn knows(&self, kind: &Arc<str>) -> bool {
        self.list.contains_key(kind) || self.unlisted.contains(kind)
    }

    fn known(&self) -> impl Iterator<Item = &Arc<str>> {
        self.list.keys().chain(&self.unlisted)
    }

    /// Notes what the list says of a type.
    pub fn note(&mut self, kind: Arc<str>, price: Option<u64>) {
        match price {
            Some(price) => {
                self.unlisted.remove(&kind);
                self.list.insert(kind, price);
            }
            None => {
                self.list.remove(&kind);
                self.unlisted.insert(kind);
            }
        }
    }

    /// Whether the price list is to be asked.
    #[must_use]
    pub fn is_list_old(&self, now: Time) -> bool {
        now.is_past(self.listed_at, LIST_FOR)
    }

    /// Whether spot's prices are to be asked for.
    #[must_use]
    pub fn is_spot_old(&self, now: Time) -> bool {
        now.is_past(self.at, SPOT_FOR)
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
