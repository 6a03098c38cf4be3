//! Prices: requests and the handling of responses.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::PriceList as _;
use muster_domain::provider::ProviderError;
use serde_json::json;

use super::stub::{Stub, error};
use super::value;

fn history(prices: &[(&str, &str, &str, &str)], next: &str) -> (u16, String) {
    let items: String = prices
        .iter()
        .map(|(kind, zone, since, price)| {
            format!(
                "<item><instanceType>{kind}</instanceType><availabilityZone>{zone}</availabilityZone>\
                 <timestamp>{since}</timestamp><spotPrice>{price}</spotPrice>\
                 <productDescription>Linux/UNIX</productDescription></item>"
            )
        })
        .collect();
    let body = format!(
        "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>{items}</spotPriceHistorySet>\
         <nextToken>{next}</nextToken></DescribeSpotPriceHistoryResponse>"
    );
    (200, body)
}

#[tokio::test]
async fn spots_present_price_is_the_last_one_of_all_pages() {
    let (early, late) = ("2026-11-01T08:00:00.000Z", "2026-11-01T09:00:00.000Z");
    let first = [
        ("m7i.large", "us-east-1a", late, "0.040000"),
        ("m7i.large", "us-east-1a", early, "0.050000"),
    ];
    let second =
        [("m7i.large", "us-east-1b", early, "0.0375"), ("m6i.large", "us-east-1a", early, "x")];
    let stub = Stub::new(vec![history(&first, "more"), history(&second, "")]).await;
    let kinds = BTreeSet::from(["m6i.large".into(), "m7i.large".into()]);
    let zones = BTreeMap::from([("us-east-1a".into(), 40_000), ("us-east-1b".into(), 37_500)]);
    let expected = BTreeMap::from([("m7i.large".into(), zones)]);
    assert_eq!(stub.ec2.spot_prices(&kinds).await, Ok(expected));
    let forms = stub.forms();
    assert_eq!(forms.len(), 2);
    for (key, expected) in [
        ("Action", "DescribeSpotPriceHistory"),
        ("InstanceType.1", "m6i.large"),
        ("InstanceType.2", "m7i.large"),
        ("ProductDescription.1", "Linux/UNIX"),
    ] {
        assert_eq!(value(&forms[0], key), Some(expected), "{key} in {:#?}", forms[0]);
    }
    assert!(value(&forms[0], "StartTime").is_some(), "without one it is ninety days");
    assert_eq!(value(&forms[1], "NextToken"), Some("more"));
}

/// Products in the price list's form: JSON text within JSON.
fn products(prices: &[&str]) -> (u16, String) {
    let product = |price: &&str| {
        let dimension = json!({ "unit": "Hrs", "pricePerUnit": { "USD": price } });
        let terms = json!({ "A.B": { "priceDimensions": { "A.B.C": dimension } } });
        json!({ "serviceCode": "AmazonEC2", "terms": { "OnDemand": terms } }).to_string()
    };
    let list: Vec<String> = prices.iter().map(product).collect();
    (200, json!({ "FormatVersion": "aws_v1", "PriceList": list }).to_string())
}

#[tokio::test]
async fn the_list_has_a_price_or_none() {
    let stub = Stub::new(vec![products(&["0.0000000000", "0.1008000000"]), products(&[])]).await;
    assert_eq!(stub.ec2.list_price("m7i.large").await, Ok(Some(100_800)));
    assert_eq!(stub.ec2.list_price("x9.metal").await, Ok(None));
    let asked = stub.forms()[0].iter().map(|(name, _)| name.clone()).collect::<String>();
    for word in ["AmazonEC2", "us-east-1", "m7i.large", "Shared", "OnDemand"] {
        assert!(asked.contains(word), "{word} in {asked}");
    }
    let stub = Stub::new(vec![products(&["0.0800000000"])]).await;
    assert_eq!(stub.ec2.disk_price().await, Ok(Some(80_000)));
}

/// Each source, an error and whether it is a refusal, which waits an hour.
#[tokio::test]
async fn a_refusal_is_told_from_an_answer_that_failed() {
    let kinds = BTreeSet::from(["m7i.large".into()]);
    for (status, code, is_refused) in [
        (403, "UnauthorizedOperation", true),
        (400, "InvalidParameterValue", true),
        (400, "OptInRequired", true),
        (503, "RequestLimitExceeded", false),
        (500, "InternalError", false),
    ] {
        let stub = Stub::new(vec![error(status, code); 5]).await;
        let answer = stub.ec2.spot_prices(&kinds).await;
        let refused = matches!(&answer, Err(ProviderError::Unauthorized(_)));
        assert!(answer.is_err() && refused == is_refused, "{code}: {answer:?}");
    }
    for (status, code, is_refused) in [
        (400, "AccessDeniedException", true),
        (400, "InvalidParameterException", true),
        (400, "ThrottlingException", false),
        (500, "InternalErrorException", false),
    ] {
        let body = json!({ "__type": code, "message": "no" }).to_string();
        let stub = Stub::new(vec![(status, body); 5]).await;
        let answer = stub.ec2.list_price("m7i.large").await;
        let refused = matches!(&answer, Err(ProviderError::Unauthorized(_)));
        assert!(answer.is_err() && refused == is_refused, "{code}: {answer:?}");
    }
}
