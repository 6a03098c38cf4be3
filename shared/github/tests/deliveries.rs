//! Deliveries of the App's webhook: listed page by page, as the App itself, and tried again.

mod support;

use axum::http::Method;
use muster_control::ports::{Delivery, Github};
use muster_domain::observation::ProviderError;
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};
use support::{Fake, START, reply};

const LIST: &str = "/app/hook/deliveries";

/// An attempt `ago` seconds before now.
fn attempt(id: u64, ago: u32, code: Option<u16>, event: &str) -> Value {
    let at = jiff::Timestamp::from_millisecond((START - Seconds(ago)).as_millis());
    json!({
        "id": id,
        "guid": format!("guid-{id}"),
        "delivered_at": at.expect("a time").to_string(),
        "redelivery": false,
        "duration": 0.27,
        "status": "as it is",
        "status_code": code,
        "event": event,
        "action": "queued",
        "installation_id": 7,
        "throttled_at": null,
    })
}

fn told(id: u64, ago: u32, settled: bool) -> Delivery {
    let at = Time::from_millis((START - Seconds(ago)).as_millis());
    Delivery { id, guid: format!("guid-{id}"), at, settled }
}

/// As GitHub writes it: the way back stands there too, and first.
fn next(cursor: &str) -> String {
    format!(
        "<https://api.github.com{LIST}?cursor=back>; rel=\"prev\", \
         <https://api.github.com{LIST}?per_page=100&cursor={cursor}>; rel=\"next\""
    )
}

#[tokio::test]
async fn jobs_attempts_are_listed_until_the_time() {
    let fake = Fake::start().await;
    let pages = [
        reply(200, json!([attempt(9, 5, Some(202), "workflow_job"), attempt(8, 6, None, "push")]))
            .header("link", next("v1_8")),
        reply(
            200,
            json!([
                attempt(7, 60, Some(503), "workflow_job"),
                attempt(6, 61, None, "workflow_job"),
                attempt(5, 900, Some(500), "workflow_job"),
            ]),
        )
        .header("link", next("v1_5")),
        reply(500, "the third page is not needed"),
    ];
    fake.on(Method::GET, LIST, pages);
    let listed = fake.app().deliveries(START - Seconds(600)).await.expect("an answer");
    assert_eq!(listed, [told(9, 5, true), told(7, 60, false), told(6, 61, false)]);

    let asked = fake.asked();
    let paths: Vec<&str> = asked.iter().map(|one| one.path.as_str()).collect();
    let first = format!("{LIST}?per_page=100");
    assert_eq!(paths, [first.clone(), format!("{first}&cursor=v1_8")]);
    // As the App: with a token of three parts, and not an installation's.
    assert!(asked.iter().all(|one| one.bearer().split('.').count() == 3));
}

#[tokio::test]
async fn no_deliveries_are_one_page() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [reply(200, json!([]))]);
    assert_eq!(fake.app().deliveries(START).await, Ok(Vec::new()));
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test]
async fn a_list_that_is_not_there_is_trouble() {
    for (answer, unauthorized) in [
        (reply(401, ""), true),
        (reply(500, ""), false),
        (reply(200, "<html>"), false),
        (reply(200, json!([{ "id": 1 }])), false),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, LIST, [answer]);
        let trouble = fake.app().deliveries(START).await.expect_err("trouble");
        assert_eq!(matches!(trouble, ProviderError::Unauthorized(_)), unauthorized, "{trouble:?}");
    }
}

#[tokio::test]
async fn an_attempt_is_repeated_or_kept_no_more() {
    for (status, expected) in [(202, true), (404, false), (422, false)] {
        let fake = Fake::start().await;
        fake.on(Method::POST, "/app/hook/deliveries/7/attempts", [reply(status, json!({}))]);
        assert_eq!(fake.app().redeliver(7).await, Ok(expected), "{status}");
    }
    let fake = Fake::start().await;
    fake.on(Method::POST, "/app/hook/deliveries/7/attempts", [reply(502, "")]);
    assert!(fake.app().redeliver(7).await.is_err());
}
