//! Deliveries of the App's webhook: listed in pages and redelivered, as the App itself.

mod support;

use axum::http::Method;
use muster_control::ports::Github;
use muster_domain::ids::AppName;
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::{Delivery, DeliveryPage};
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

fn ago(seconds: u32) -> Time {
    START - Seconds(seconds)
}

fn told(id: u64, seconds: u32, is_settled: bool) -> Delivery {
    let (guid, at) = (format!("guid-{id}"), ago(seconds));
    Delivery { id, guid, at, is_settled, is_again: false, is_queued: true }
}

/// A link header in GitHub's form, with the previous page first.
fn next(cursor: &str) -> String {
    format!(
        "<https://api.github.com{LIST}?cursor=back>; rel=\"prev\", \
         <https://api.github.com{LIST}?per_page=100&cursor={cursor}>; rel=\"next\""
    )
}

#[tokio::test]
async fn jobs_attempts_are_listed_page_by_page() {
    let fake = Fake::start().await;
    let again = {
        let mut again = attempt(7, 60, Some(503), "workflow_job");
        (again["redelivery"], again["action"]) = (json!(true), json!("completed"));
        again
    };
    let pages = [
        reply(200, json!([attempt(9, 5, Some(202), "workflow_job"), attempt(8, 6, None, "push")]))
            .header("link", next("v1_8")),
        reply(200, json!([attempt(8, 6, None, "push"), again])),
    ];
    fake.on(Method::GET, LIST, pages);
    let app = fake.app();
    let first = app.deliveries(AppName::MAIN, None).await.expect("an answer").expect("a page");
    assert_eq!(first.deliveries, [told(9, 5, true)]);
    assert_eq!((first.newest, first.oldest), (Some(ago(5)), Some(ago(6))));
    assert_eq!(first.next.as_deref(), Some("v1_8"));
    let second = app
        .deliveries(AppName::MAIN, first.next.as_deref())
        .await
        .expect("an answer")
        .expect("a page");
    let again = Delivery { is_again: true, is_queued: false, ..told(7, 60, false) };
    assert_eq!((second.deliveries.as_slice(), second.next), (&[again][..], None));

    let asked = fake.asked();
    let paths: Vec<&str> = asked.iter().map(|one| one.path.as_str()).collect();
    let first = format!("{LIST}?per_page=100");
    assert_eq!(paths, [first.clone(), format!("{first}&cursor=v1_8")]);
    // As the App: with a token of three parts, not an installation's token.
    assert!(asked.iter().all(|one| one.bearer().split('.').count() == 3));
}

#[tokio::test]
async fn no_deliveries_are_an_empty_page() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [reply(200, json!([]))]);
    assert_eq!(fake.app().deliveries(AppName::MAIN, None).await, Ok(Some(DeliveryPage::default())));
}

#[tokio::test]
async fn a_cursor_that_github_does_not_know_is_no_page() {
    for status in [400, 404, 422] {
        let fake = Fake::start().await;
        fake.on(Method::GET, LIST, [reply(status, json!({})), reply(status, json!({}))]);
        assert_eq!(fake.app().deliveries(AppName::MAIN, Some("v1_8")).await, Ok(None), "{status}");
        assert!(fake.app().deliveries(AppName::MAIN, None).await.is_err(), "{status}");
    }
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
        let trouble =
            fake.app().deliveries(AppName::MAIN, Some("v1_8")).await.expect_err("trouble");
        assert_eq!(matches!(trouble, ProviderError::Unauthorized(_)), unauthorized, "{trouble:?}");
    }
}

#[tokio::test]
async fn an_attempt_is_repeated_or_kept_no_more() {
    for (status, expected) in [(202, true), (404, false), (422, false)] {
        let fake = Fake::start().await;
        fake.on(Method::POST, "/app/hook/deliveries/7/attempts", [reply(status, json!({}))]);
        assert_eq!(fake.app().redeliver(AppName::MAIN, 7).await, Ok(expected), "{status}");
    }
    let fake = Fake::start().await;
    fake.on(Method::POST, "/app/hook/deliveries/7/attempts", [reply(502, "")]);
    assert!(fake.app().redeliver(AppName::MAIN, 7).await.is_err());
}
