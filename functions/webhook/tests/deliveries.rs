//! Table-driven tests: the delivery, the response to GitHub, and the queued messages.

mod support;

use muster_aws::signature;
use muster_control::metrics::Metric;
use muster_domain::ids::InstallationId;
use muster_domain::message::{JobsMessage, to_ascii_json};
use muster_webhook::{GatewayEvent, MAX_BODY, WebhookResponse};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{CURRENT, Knock, NOW, PREVIOUS, QUEUED, Secrets, handle, sign, unavailable, webhook};

const STRANGE: &str = "a-secret-that-the-app-never-had-at-any-time";

/// The queued sample, in one line, with a change.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut payload = serde_json::from_str(QUEUED).expect("the sample");
    change(&mut payload);
    payload.to_string()
}

fn sample() -> Knock {
    Knock::of(&changed(|_| {}))
}

fn job(change: impl FnOnce(&mut Value)) -> Knock {
    Knock::of(&changed(|payload| change(&mut payload["workflow_job"])))
}

/// Sends it to `/webhook/NAME`, signed with the secret of the App of this name.
fn to_app(mut knock: Knock, name: &str, signer: &str) -> Knock {
    let secret = signature::secret_of(signer.parse().expect("an App's name"), CURRENT);
    let signed = sign(&secret, knock.body.as_bytes());
    knock.app = Some(name.to_owned());
    knock.signature(&signed)
}

fn event_named(name: &str) -> Knock {
    sample().header("x-github-event", name)
}

/// A signed JSON body of exactly this size.
fn sized(size: usize) -> Knock {
    let start = changed(|_| {});
    Knock::of(&format!("{start}{}", " ".repeat(size - start.len())))
}

/// Adds a second header with a given name.
fn also(mut knock: Knock, name: &str, value: &str) -> Knock {
    knock.headers.push((name.to_owned(), value.to_owned()));
    knock
}

type Case = (&'static str, Knock, u16, &'static str, usize);

fn accepted() -> Vec<Case> {
    let completed_without_labels = changed(|payload| {
        payload["action"] = json!("completed");
        payload["workflow_job"]["labels"] = json!([]);
    });
    let shouted = sample().without("x-hub-signature-256").without("x-github-event");
    let shouted = shouted
        .header("X-Hub-Signature-256", &sign(CURRENT, changed(|_| {}).as_bytes()))
        .header("X-GITHUB-EVENT", "workflow_job");
    let upper = sign(CURRENT, changed(|_| {}).as_bytes()).replace("sha256=", "");
    vec![
        ("a queued job", sample(), 202, "queued", 1),
        ("pretty-printed by GitHub", Knock::of(QUEUED), 202, "queued", 1),
        ("base64 by the gateway", sample().encoded(), 202, "queued", 1),
        ("headers in other case", shouted, 202, "queued", 1),
        (
            "digits in upper case",
            sample().signature(&format!("sha256={}", upper.to_uppercase())),
            202,
            "queued",
            1,
        ),
        (
            "signed with the previous secret",
            sample().signature(&sign(PREVIOUS, changed(|_| {}).as_bytes())),
            202,
            "queued",
            1,
        ),
        (
            "content type with a parameter",
            sample().header("Content-Type", "Application/JSON; charset=utf-8"),
            202,
            "queued",
            1,
        ),
        ("the end of a job without labels", Knock::of(&completed_without_labels), 202, "queued", 1),
        ("no delivery id", sample().without("x-github-delivery"), 202, "queued", 1),
        // The signature identifies the App: the secret belongs to this stack only.
        (
            "any App",
            sample().header("x-github-hook-installation-target-id", "27182"),
            202,
            "queued",
            1,
        ),
        ("exactly 1 MiB", sized(MAX_BODY), 202, "queued", 1),
        ("exactly 1 MiB, base64", sized(MAX_BODY).encoded(), 202, "queued", 1),
        ("a length that is no number", sample().header("content-length", "many"), 202, "queued", 1),
    ]
}

fn ignored() -> Vec<Case> {
    let requested = changed(|payload| payload["action"] = json!("requested"));
    vec![
        ("a job without labels", job(|job| job["labels"] = json!([])), 202, "ignored", 0),
        ("too many labels", job(|job| job["labels"] = vec!["x"; 101].into()), 202, "ignored", 0),
        ("an action without need", Knock::of(&requested), 202, "ignored", 0),
        ("another event", event_named("issues"), 202, "ignored", 0),
        ("a push without a branch", event_named("push"), 202, "ignored", 0),
        ("an event nobody knows", event_named("<b>\u{0}</b>"), 202, "ignored", 0),
        ("another event, and no JSON", event_in("pull_request", "no JSON"), 202, "ignored", 0),
        ("a ping", event_named("ping"), 200, "pong", 0),
    ]
}

fn event_in(name: &str, body: &str) -> Knock {
    Knock::of(body).header("x-github-event", name)
}

fn unsigned() -> Vec<Case> {
    let body = changed(|_| {});
    let good = sign(CURRENT, body.as_bytes());
    let digits = good.replace("sha256=", "");
    let reordered: Value = serde_json::from_str(QUEUED).expect("the sample");
    let mut not_base64 = sample().encoded();
    not_base64.body.push('!');
    let mut flag_missing = sample().encoded();
    flag_missing.base64 = false;
    let mut flag_wrong = sample();
    flag_wrong.base64 = true;
    let case = |name, knock| (name, knock, 401, "unsigned", 0);
    vec![
        case("no signature", sample().without("x-hub-signature-256")),
        case("an empty signature", sample().signature("")),
        case("another secret", sample().signature(&sign(STRANGE, body.as_bytes()))),
        case("an empty secret", sample().signature(&sign("", body.as_bytes()))),
        case("another body", sample().signature(&sign(CURRENT, b"{}"))),
        case("digits alone", sample().signature(&digits)),
        case("SHA-1 alone", sample().signature(&format!("sha1={}", &digits[..40]))),
        case("one digit less", sample().signature(&good[..good.len() - 1])),
        case("one digit more", sample().signature(&format!("{good}0"))),
        case("spaces around it", sample().signature(&format!(" {good} "))),
        case("two joined by the gateway", sample().signature(&format!("{good},{good}"))),
        case("two of the same name", also(sample(), "x-hub-signature-256", &good)),
        case("two in different case", also(sample(), "X-HUB-SIGNATURE-256", &good)),
        case(
            "a good one after a bad one",
            also(sample().signature("bad"), "X-Hub-Signature-256", &good),
        ),
        case("base64 that is none", not_base64),
        case("base64 without the flag", flag_missing),
        case("the flag without base64", flag_wrong),
        case("no body", Knock { body: String::new(), ..sample() }),
        case(
            "the same JSON in other bytes",
            Knock { body: serde_json::to_string_pretty(&reordered).expect("JSON"), ..sample() },
        ),
        case("unsigned and not JSON", Knock::of("no JSON").signature(&good)),
        case("unsigned ping", event_named("ping").signature("sha256=00")),
        case("another App's signature", to_app(sample(), "two", "main")),
        case("a third App's signature", to_app(sample(), "two", "three")),
        case("the main App by its name", to_app(sample(), "main", "main")),
        case("no App's name", to_app(sample(), "Two!", "main")),
        case("unsigned form", sample().signature("x").header("content-type", "text/plain")),
    ]
}

fn refused() -> Vec<Case> {
    let form = "application/x-www-form-urlencoded";
    let declared = (MAX_BODY + 1).to_string();
    vec![
        ("no JSON", Knock::of("no JSON"), 400, "unreadable", 0),
        ("an empty body, signed", Knock::of(""), 400, "unreadable", 0),
        ("a list", Knock::of("[]"), 400, "unreadable", 0),
        ("a job without a number", job(|job| job["id"] = Value::Null), 400, "unreadable", 1),
        ("a job that is null", job(|job| *job = Value::Null), 400, "unreadable", 1),
        ("no event header", sample().without("x-github-event"), 400, "malformed", 0),
        ("two event headers", also(sample(), "X-GitHub-Event", "ping"), 400, "malformed", 0),
        ("a form", sample().header("content-type", form), 415, "not_json", 0),
        ("no content type", sample().without("content-type"), 415, "not_json", 0),
        ("nearly JSON", sample().header("content-type", "application/jsonx"), 415, "not_json", 0),
        ("one byte too many", sized(MAX_BODY + 1), 413, "too_large", 0),
        ("one byte too many, base64", sized(MAX_BODY + 1).encoded(), 413, "too_large", 0),
        ("ten MB", sized(10_000_000), 413, "too_large", 0),
        ("a declared length", sample().header("content-length", &declared), 413, "too_large", 0),
        (
            "too large and unsigned",
            sized(MAX_BODY + 1).without("x-hub-signature-256"),
            413,
            "too_large",
            0,
        ),
    ]
}

#[test]
fn every_delivery_has_its_answer() {
    let cases: Vec<Case> = [accepted(), ignored(), unsigned(), refused()].concat();
    assert!(cases.len() >= 40, "{} cases", cases.len());
    for (name, knock, status, outcome, messages) in cases {
        let (answer, sent) = handle(&webhook(), &knock);
        assert_eq!((answer.status, answer.outcome, sent), (status, outcome, messages), "{name}");
        let counted = (outcome == "unreadable").then_some(Metric::WebhooksUnreadable);
        assert_eq!(answer.metric(), counted, "{name}");
    }
}

#[test]
fn one_body_for_everything_unsigned() {
    let mut answers: Vec<String> = unsigned()
        .into_iter()
        .map(|(_, knock, ..)| {
            serde_json::to_string(&handle(&webhook(), &knock).0).expect("serializable")
        })
        .collect();
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:#?}");
}

/// An event that may warm pools: a small message of our own, if GitHub signed it.
#[test]
fn a_forecast_is_queued_if_it_is_signed() {
    for (name, payload) in [
        ("push", include_str!("../../../events/payloads/push.json")),
        ("pull_request", include_str!("../../../events/payloads/pull_request.opened.json")),
        ("check_run", include_str!("../../../events/payloads/check_run.created.json")),
    ] {
        let knock = event_in(name, payload);
        let genuine = webhook();
        let (answer, sent) = handle(&genuine, &knock);
        assert_eq!((answer.status, answer.outcome, sent), (202, "queued", 1), "{name}");
        let messages = genuine.queue.messages.borrow();
        let JobsMessage::Repository { event, delivery } = &messages[0] else {
            panic!("{messages:?}")
        };
        assert_eq!(delivery, "72d3162e-cc78-11e3-81ab-4c9367dc0958");
        assert_eq!((event.kind.as_str(), event.at), (name, NOW));
        let ascii = to_ascii_json(&messages[0]);
        assert!(ascii.len() < 400, "{} bytes", ascii.len());
        for forged in [
            knock.clone().signature(&sign(STRANGE, payload.as_bytes())),
            knock.clone().without("x-hub-signature-256"),
        ] {
            let forged_at = webhook();
            let (answer, sent) = handle(&forged_at, &forged);
            assert_eq!((answer.status, sent), (401, 0), "{name}");
        }
        let mut closed = webhook();
        closed.queue.closed = true;
        let (answer, _) = handle(&closed, &knock);
        assert_eq!((answer.status, answer.outcome), (503, "failed"), "{name}");
    }
}

/// What an App's events say is about that App alone, whatever the payload calls its repository.
#[test]
fn an_event_speaks_for_its_own_app() {
    let sent = |knock: &Knock| {
        let webhook = webhook();
        let (answer, _) = handle(&webhook, knock);
        let message = webhook.queue.messages.borrow().first().cloned();
        (answer.status, message)
    };
    let (status, message) = sent(&to_app(sample(), "two", "two"));
    let Some(JobsMessage::JobEvent { event, .. }) = message else { panic!("{status}") };
    assert!(event.repository.starts_with("two:") && event.key.to_string().starts_with("two:"));
    let broken = Knock::of(&changed(|payload| payload["workflow_job"] = Value::Null));
    let (_, message) = sent(&to_app(broken, "two", "two"));
    let Some(JobsMessage::Unreadable { repository, .. }) = message else { panic!("{message:?}") };
    assert_eq!(repository.app().as_str(), "two");
    let posing = Knock::of(&changed(|payload| {
        payload["repository"]["full_name"] = json!("two:acme/web");
    }));
    assert_eq!(sent(&posing), (202, None), "a name with a colon is ignored");
}

#[test]
fn the_message_is_ours_and_in_ascii() {
    let webhook = webhook();
    handle(&webhook, &Knock::of(QUEUED));
    assert_eq!(*webhook.queue.calls.borrow(), 1);
    let messages = webhook.queue.messages.borrow();
    let JobsMessage::JobEvent { event, delivery } = &messages[0] else { panic!("{messages:?}") };
    assert_eq!(delivery, "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    let payload: Value = serde_json::from_str(QUEUED).expect("the sample");
    assert_eq!(&*event.name, payload["workflow_job"]["name"].as_str().expect("a name"));
    assert!(!event.name.is_ascii(), "the sample shows nothing");
    let ascii = to_ascii_json(&messages[0]);
    assert!(ascii.is_ascii());
    assert!(ascii.len() < 2048, "{} bytes", ascii.len());
    for stranger in ["head_sha", "sender", "avatar_url", "organization"] {
        assert!(!ascii.contains(stranger), "{stranger}");
    }
}

#[test]
fn a_delivery_id_that_is_no_word_is_not_carried() {
    for id in ["a b", "\u{1b}[31m", &"x".repeat(65), "{}", "é"] {
        let webhook = webhook();
        handle(&webhook, &sample().header("x-github-delivery", id));
        let messages = webhook.queue.messages.borrow();
        let JobsMessage::JobEvent { delivery, .. } = &messages[0] else { panic!("{messages:?}") };
        assert_eq!(delivery, "", "{id:?}");
    }
}

#[test]
fn a_queue_that_takes_nothing_fails_the_delivery() {
    let mut webhook = webhook();
    webhook.queue.closed = true;
    let (answer, sent) = handle(&webhook, &sample());
    assert_eq!((answer.status, answer.outcome, sent), (503, "failed", 0));
    assert_eq!(*webhook.queue.calls.borrow(), 1, "GitHub is told; it is not tried for ever");
}

/// Its repository is queried; if that cannot be queued, GitHub must redeliver.
#[test]
fn what_is_queued_where_an_unreadable_event_comes_from_is_asked_for() {
    let payload: Value = serde_json::from_str(QUEUED).expect("the sample");
    let knock = job(|job| *job = Value::Null);
    let mut webhook = webhook();
    handle(&webhook, &knock);
    let expected = JobsMessage::Unreadable {
        repository: payload["repository"]["full_name"]
            .as_str()
            .expect("a name")
            .parse()
            .expect("it"),
        installation: payload["installation"]["id"].as_u64().map(InstallationId),
        delivery: "72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned(),
    };
    assert_eq!(*webhook.queue.messages.borrow(), [expected]);
    webhook.queue.closed = true;
    let (answer, _) = handle(&webhook, &knock);
    assert_eq!((answer.status, answer.outcome), (503, "failed"));
}

#[test]
fn a_secret_that_cannot_be_read_fails_the_delivery_without_saying_why() {
    let mut webhook = webhook();
    webhook.signatures = Secrets(Err(unavailable("arn:aws:secretsmanager:…", "AccessDenied")));
    let (answer, sent) = handle(&webhook, &sample());
    assert_eq!((answer.status, answer.outcome, sent), (503, "failed", 0));
    assert!(!answer.reason.contains("arn:"), "{}", answer.reason);
}

#[test]
fn a_form_is_told_which_setting_to_change() {
    let form = sample().header("content-type", "application/x-www-form-urlencoded");
    let (answer, _) = handle(&webhook(), &form);
    assert!(answer.reason.contains("set content_type"), "{}", answer.reason);
}

#[test]
fn the_answer_is_what_the_gateway_expects() {
    let (answer, _) = handle(&webhook(), &sample());
    let answer = serde_json::to_value(&answer).expect("serializable");
    assert_eq!(answer["statusCode"], 202);
    assert_eq!(answer["headers"], json!({"content-type": "application/json"}));
    let body: Value = serde_json::from_str(answer["body"].as_str().expect("a text")).expect("JSON");
    assert_eq!(body["outcome"], "queued");
    assert_eq!(body["reason"], "event \"queued\" of job 700800900/56789012345 is on its way");
    // Untrusted text is returned as text.
    let requested = changed(|payload| payload["action"] = json!("\"},{\"\n<script>"));
    let (answer, _) = handle(&webhook(), &Knock::of(&requested));
    let answer = serde_json::to_value(&answer).expect("serializable");
    let body: Value = serde_json::from_str(answer["body"].as_str().expect("a text")).expect("JSON");
    assert_eq!(body["outcome"], "ignored");
}

/// The files of `events/`, for sending by hand.
#[test]
fn the_sample_events_are_answered() {
    let answer = |text: &str| -> WebhookResponse {
        let event: GatewayEvent = serde_json::from_str(text).expect("an event");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(webhook().handle(&event, NOW))
    };
    for text in [
        include_str!("../../../events/webhook-queued.json"),
        include_str!("../../../events/webhook-queued-base64.json"),
        include_str!("../../../events/webhook-in_progress.json"),
        include_str!("../../../events/webhook-completed.json"),
    ] {
        assert_eq!(answer(text).status, 202);
    }
    assert_eq!(answer(include_str!("../../../events/webhook-ping.json")).status, 200);
}

#[test]
fn events_of_odd_shape_are_answered() {
    for text in [
        "{}",
        r#"{"headers":null,"body":null}"#,
        r#"{"headers":{},"body":""}"#,
        r#"{"headers":{"x-hub-signature-256":null,"x-github-event":[1]},"isBase64Encoded":false}"#,
    ] {
        let event: GatewayEvent = serde_json::from_str(text).expect("an event");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(runtime.block_on(webhook().handle(&event, NOW)).status, 401, "{text}");
    }
}

proptest! {
    #[test]
    fn no_delivery_panics(
        name in "[a-zA-Z0-9-]{0,30}",
        value in any::<String>(),
        body in any::<String>(),
        base64 in any::<bool>(),
    ) {
        let knock = Knock { body, base64, ..sample() }.header(&name, &value);
        let (answer, sent) = handle(&webhook(), &knock);
        prop_assert_eq!((answer.status, sent), (401, 0));
    }

    #[test]
    fn no_signed_body_panics(body in any::<String>(), base64 in any::<bool>()) {
        let knock = Knock::of(&body);
        let (answer, sent) = handle(&webhook(), &if base64 { knock.encoded() } else { knock });
        prop_assert_eq!((answer.status, sent), (400, 0));
    }
}
