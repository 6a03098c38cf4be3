//! The hourly price of one machine.

use serde::{Deserialize, Serialize};

/// The source of a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PricedBy {
    /// The hour's Spot price.
    SpotHour,
    /// The price list.
    List,
    /// An operator's own price file.
    Import,
}

/// The hourly price of a machine, in millionths of a dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Price {
    /// The machine, on its market.
    pub machine: u64,
    /// The source of that price.
    pub by: PricedBy,
    /// The On-Demand price of its type, if listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<u64>,
    /// Its disk, if listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
}

impl Price {
    /// Returns the price of machine and disk.
    #[must_use]
    pub fn whole(&self) -> u64 {
        self.machine + self.disk.unwrap_or(0)
    }
}
