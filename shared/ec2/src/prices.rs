//! Prices of machines: Spot prices from EC2, all others from AWS's price list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_sdk_ec2::types::{InstanceType, SpotPrice};
use aws_sdk_pricing::types::{Filter, FilterType};
use aws_smithy_types::DateTime;
use muster_aws::SdkConfig;
use muster_control::ports::{PriceList, SpotPrices};
use muster_domain::ec2::ErrorClass;
use muster_domain::provider::{ErrorDetail, ProviderError};
use serde_json::Value;

use crate::{Ec2, classified};

/// The product description for Spot prices.
const LINUX: &str = "Linux/UNIX";
/// Number of prices per page: EC2's maximum.
const PAGE: i32 = 1_000;

/// Returns the region with the price list endpoint for a region's partition. `None` if AWS has
/// none.
/// Source: docs.aws.amazon.com/general/latest/gr/billing.html, "AWS Price List Service endpoints"
fn list_of(region: &str) -> Option<&'static str> {
    match region {
        _ if region.starts_with("us-gov-") || region.starts_with("us-iso") => None,
        _ if region.starts_with("eusc-") => None,
        // Its list is in yuan, which Muster does not convert to dollars.
        _ if region.starts_with("cn-") => None,
        _ => Some("us-east-1"),
    }
}

/// The price list for one region's machines.
#[derive(Clone, Debug)]
pub(crate) struct List {
    client: aws_sdk_pricing::Client,
    region: String,
}

impl List {
    pub(crate) fn new(config: &SdkConfig) -> Option<Self> {
        let region = config.region()?.to_string();
        let at = aws_sdk_pricing::config::Region::new(list_of(&region)?);
        let config = aws_sdk_pricing::config::Builder::from(config).region(at).build();
        Some(Self { client: aws_sdk_pricing::Client::from_conf(config), region })
    }

    /// Returns the price of the product that these attributes describe, in millionths of a dollar.
    /// Source:
    /// docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html
    async fn price(&self, words: &[(&str, &str)]) -> Result<Option<u64>, ProviderError> {
        let region = ("regionCode", self.region.as_str());
        let filters = words.iter().chain([&region]).filter_map(|(field, value)| {
            let filter = Filter::builder().r#type(FilterType::TermMatch);
            filter.field(*field).value(*value).build().ok()
        });
        let answer = self
            .client
            .get_products()
            .service_code("AmazonEC2")
            .set_filters(Some(filters.collect()))
            .send()
            .await
            .map_err(|error| failed(classified("GetProducts", &error)))?;
        Ok(answer.price_list().iter().filter_map(|product| on_demand(product)).max())
    }
}

impl PriceList for Ec2 {
    /// With a start time of now, EC2 returns the current price of each type and zone.
    /// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
    async fn spot_prices(&self, kinds: &BTreeSet<Arc<str>>) -> Result<SpotPrices, ProviderError> {
        let now = muster_aws::clock::now();
        let mut prices: BTreeMap<_, BTreeMap<_, (i64, u64)>> = BTreeMap::new();
        let mut page = None;
        loop {
            let kinds = kinds.iter().map(|kind| InstanceType::from(&**kind)).collect();
            let answer = self
                .client
                .describe_spot_price_history()
                .set_instance_types(Some(kinds))
                .product_descriptions(LINUX)
                .start_time(DateTime::from_millis(now.as_millis()))
                .max_results(PAGE)
                .set_next_token(page)
                .send()
                .await
                .map_err(|error| failed(classified("DescribeSpotPriceHistory", &error)))?;
            for (kind, zone, at, price) in answer.spot_price_history().iter().filter_map(spot) {
                // A response may also contain an announced new price.
                let known = prices.entry(kind).or_default().entry(zone).or_insert((at, price));
                *known = (*known).max((at, price));
            }
            page = answer.next_token().filter(|token| !token.is_empty()).map(str::to_owned);
            if page.is_none() {
                break;
            }
        }
        let newest = |zones: BTreeMap<Arc<str>, (i64, u64)>| {
            zones.into_iter().map(|(zone, (_, price))| (zone, price)).collect()
        };
        Ok(prices.into_iter().map(|(kind, zones)| (kind, newest(zones))).collect())
    }

    async fn list_price(&self, kind: &str) -> Result<Option<u64>, ProviderError> {
        let Some(list) = &self.list else { return Ok(None) };
        list.price(&[
            ("instanceType", kind),
            ("operatingSystem", "Linux"),
            ("tenancy", "Shared"),
            ("preInstalledSw", "NA"),
            ("capacitystatus", "Used"),
            ("marketoption", "OnDemand"),
        ])
        .await
    }

    async fn disk_price(&self) -> Result<Option<u64>, ProviderError> {
        let Some(list) = &self.list else { return Ok(None) };
        list.price(&[("productFamily", "Storage"), ("volumeApiName", "gp3")]).await
    }
}

/// Converts an error: to a refusal, which is not retried for an hour, unless the next sweep may
/// succeed.
fn failed((class, fault): (ErrorClass, ErrorDetail)) -> ProviderError {
    match class {
        ErrorClass::Throttle | ErrorClass::Ambiguous => ProviderError::Unavailable(fault),
        _ => ProviderError::Unauthorized(fault),
    }
}

/// Returns type, zone, start time and price.
fn spot(price: &SpotPrice) -> Option<(Arc<str>, Arc<str>, i64, u64)> {
    let since = price.timestamp().map_or(0, DateTime::secs);
    let kind = price.instance_type()?.as_str().into();
    Some((kind, price.availability_zone()?.into(), since, micros(price.spot_price()?)?))
}

/// Returns a product's On-Demand price. `None` if it is zero, as for machines that belong to a
/// reservation, or not in dollars.
fn on_demand(product: &str) -> Option<u64> {
    let product: Value = serde_json::from_str(product).ok()?;
    let terms = product.pointer("/terms/OnDemand")?.as_object()?;
    let dimensions =
        terms.values().filter_map(|term| term["priceDimensions"].as_object()).flatten();
    let prices = dimensions.filter_map(|(_, one)| micros(one["pricePerUnit"]["USD"].as_str()?));
    prices.filter(|price| *price > 0).max()
}

/// Converts dollars in AWS's notation, `0.1008000000`, to millionths.
fn micros(dollars: &str) -> Option<u64> {
    let (whole, parts) = dollars.split_once('.').unwrap_or((dollars, ""));
    let parts = format!("{parts:0<6}");
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(parts.get(..6)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_to_the_millionth() {
        let told = ["0.1008000000", "12", "0.0000119", "1.5"].map(micros);
        assert_eq!(told, [Some(100_800), Some(12_000_000), Some(11), Some(1_500_000)]);
        assert_eq!(["", "x.1", "-1", "1.x"].map(micros), [None; 4]);
    }

    #[test]
    fn some_regions_have_no_list() {
        let told = ["eu-central-1", "us-gov-west-1", "cn-north-1"].map(list_of);
        assert_eq!(told, [Some("us-east-1"), None, None]);
    }
}
