//! What machines cost, by EC2 and by AWS's price list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::observation::ProviderError;

/// Of each type the price in each zone, in millionths of a dollar an hour.
pub type SpotPrices = BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>;

/// What machines cost. All prices are in millionths of a dollar, of Linux in the stack's region.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait PriceList {
    /// Spot's present prices of these types, an hour.
    async fn spot_prices(&self, kinds: &BTreeSet<Arc<str>>) -> Result<SpotPrices, ProviderError>;
    /// An hour of a type on demand; none where the list has no such type.
    async fn list_price(&self, kind: &str) -> Result<Option<u64>, ProviderError>;
    /// A month of a GiB of a machine's disk (gp3); none where the list has none.
    async fn disk_price(&self) -> Result<Option<u64>, ProviderError>;
}
