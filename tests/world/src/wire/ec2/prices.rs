//! What machines cost: spot's prices as EC2 answers them, and AWS's price list, which has a door of
//! its own that speaks JSON. Here both stand behind one socket.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use muster_cloud::World;
use muster_cloud::ec2::{Ec2Error, prices};
use serde_json::{Value, json};

use super::super::gate::Reply;
use super::super::xml::{list, text};
use super::form::Form;
use super::write::answer;

/// Where no network was made.
const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

/// The types whose spot prices are asked for.
pub(super) fn spot(mut form: Form) -> Result<Vec<String>, Ec2Error> {
    let kinds = form.take_list("InstanceType");
    let of = form.take_list("ProductDescription");
    form.take("StartTime");
    form.take_number("MaxResults")?;
    form.take("NextToken");
    form.finish()?;
    match of.as_slice() {
        [linux] if linux == "Linux/UNIX" => Ok(kinds),
        _ => Err(Ec2Error::new("InvalidParameterValue", format!("no prices of {of:?} here"))),
    }
}

/// The answer to `DescribeSpotPriceHistory`, in one page.
pub(super) fn history(world: &World, kinds: &[String]) -> Reply {
    let own: BTreeSet<&str> =
        world.ec2.network.subnets.iter().map(|one| one.zone.as_str()).collect();
    let zones: Vec<&str> = if own.is_empty() { ZONES.into() } else { own.into_iter().collect() };
    let items = kinds.iter().flat_map(|kind| {
        zones.iter().map(move |zone| {
            text("instanceType", kind)
                + &text("productDescription", "Linux/UNIX")
                + &text("spotPrice", &dollars(prices::spot(kind)))
                + &text("timestamp", "2026-11-01T00:00:00.000Z")
                + &text("availabilityZone", zone)
        })
    });
    answer("DescribeSpotPriceHistory", &list("spotPriceHistorySet", items))
}

/// Whether a request is for the price list.
pub(super) fn is_list(headers: &HeaderMap) -> bool {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    target == Some("AWSPriceListService.GetProducts")
}

/// The answer to `GetProducts`: of a type, or of disks.
pub(super) fn products(body: &[u8]) -> Reply {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let value = |field: &str| {
        let filters = request["Filters"].as_array()?;
        filters.iter().find(|filter| filter["Field"] == field)?["Value"].as_str()
    };
    let is_linux = value("operatingSystem") == Some("Linux");
    let product = match (value("instanceType"), value("volumeApiName")) {
        (Some(kind), None) if is_linux => Some(product("Hrs", prices::on_demand(kind))),
        (None, Some("gp3")) => Some(product("GB-Mo", prices::DISK)),
        _ => None,
    };
    let list: Vec<String> = product.into_iter().map(|product| product.to_string()).collect();
    let body = json!({ "FormatVersion": "aws_v1", "PriceList": list }).to_string();
    Reply {
        status: 200,
        content_type: "application/x-amz-json-1.1",
        body: body.into_bytes(),
        ..Reply::default()
    }
}

fn product(unit: &str, micros: u64) -> Value {
    let dimension = json!({ "unit": unit, "pricePerUnit": { "USD": dollars(micros) } });
    json!({ "serviceCode": "AmazonEC2", "terms": { "OnDemand": {
        "A.B": { "priceDimensions": { "A.B.C": dimension } },
    } } })
}

fn dollars(micros: u64) -> String {
    format!("{}.{:06}0000", micros / 1_000_000, micros % 1_000_000)
}
