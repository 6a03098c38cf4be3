//! The port to EC2's Spot prices and AWS's price list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::provider::ProviderError;

/// Spot prices by instance type and zone, in millionths of a dollar per hour.
pub type SpotPrices = BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>;

/// Prices for Linux in the stack's region, in millionths of a dollar.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait PriceList {
    /// Returns the current Spot prices of these types, per hour.
    async fn spot_prices(&self, kinds: &BTreeSet<Arc<str>>) -> Result<SpotPrices, ProviderError>;
    /// Returns a type's On-Demand price per hour, if the price list has the type.
    async fn list_price(&self, kind: &str) -> Result<Option<u64>, ProviderError>;
    /// Returns the price of a GiB-month of gp3 storage, if the price list has one.
    async fn disk_price(&self) -> Result<Option<u64>, ProviderError>;
}
