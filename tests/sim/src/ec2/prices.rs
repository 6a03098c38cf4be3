//! What machines cost, by the world's own books.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_cloud::ec2::prices;
use muster_control::ports::{PriceList, SpotPrices};
use muster_domain::provider::ProviderError;

use super::ZONES;
use crate::door::Door;
use crate::world::World;

impl World {
    fn price_answers<'a>(
        &mut self,
        operation: &'a str,
        of: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), ProviderError> {
        self.ec2_answers(operation)?;
        if of.into_iter().chain([operation]).any(|one| self.ec2.without_prices.contains(&one)) {
            return Err(ProviderError::Unauthorized(self.told(operation, "AccessDenied")));
        }
        Ok(())
    }
}

impl PriceList for Door {
    async fn spot_prices(&self, kinds: &BTreeSet<Arc<str>>) -> Result<SpotPrices, ProviderError> {
        self.call(|world| {
            world.price_answers("DescribeSpotPriceHistory", kinds.iter().map(|kind| &**kind))?;
            let of = |kind: &Arc<str>| {
                let price = prices::spot(kind);
                (kind.clone(), ZONES.iter().map(|zone| (Arc::from(*zone), price)).collect())
            };
            Ok(kinds.iter().map(of).collect::<BTreeMap<_, _>>())
        })
        .await
    }

    async fn list_price(&self, kind: &str) -> Result<Option<u64>, ProviderError> {
        self.call(|world| {
            world.price_answers("GetProducts", [kind])?;
            Ok(Some(prices::on_demand(kind)))
        })
        .await
    }

    /// The books have machines alone.
    async fn disk_price(&self) -> Result<Option<u64>, ProviderError> {
        self.call(|world| world.price_answers("GetProducts", ["disk"]).map(|()| None)).await
    }
}
