//! GitHub's payloads of the events that may warm a pool.

use muster_domain::ids::AppName;
use muster_domain::pool::warm::{RepositoryEvent, WarmEvent};
use muster_domain::time::Time;
use muster_webhook::forecast::read_forecast;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: Time = Time::from_millis(1_795_000_000_000);

fn payload(kind: WarmEvent) -> Value {
    let text = match kind {
        WarmEvent::Push => include_str!("../../../events/payloads/push.json"),
        WarmEvent::PullRequest => include_str!("../../../events/payloads/pull_request.opened.json"),
        WarmEvent::CheckRun => include_str!("../../../events/payloads/check_run.created.json"),
    };
    serde_json::from_str(text).expect("a sample")
}

fn read(kind: WarmEvent, change: impl FnOnce(&mut Value)) -> Result<RepositoryEvent, String> {
    let mut payload = payload(kind);
    change(&mut payload);
    read_forecast(kind, AppName::MAIN, payload.to_string().as_bytes(), NOW)
}

#[test]
fn the_samples_are_read() {
    for (_, kind) in WarmEvent::ALL {
        let expected = RepositoryEvent {
            kind: *kind,
            repository: "harbor-example/tide-tables".into(),
            private: true,
            user_owned: false,
            branch: "main".into(),
            at: NOW,
        };
        assert_eq!(read(*kind, |_| {}), Ok(expected), "{kind:?}");
    }
}

#[test]
fn only_events_that_start_workflows_are_forecasts() {
    use WarmEvent::{CheckRun, PullRequest, Push};
    type Change = fn(&mut Value);
    let rows: &[(WarmEvent, Change, Result<&str, &str>)] = &[
        (Push, |it| it["ref"] = json!("refs/heads/release/2.1"), Ok("release/2.1")),
        (Push, |it| it["ref"] = json!("refs/tags/v1"), Err("the push is not to a branch")),
        (Push, |it| it["ref"] = Value::Null, Err("the push is not to a branch")),
        (Push, |it| it["ref"] = json!("refs/heads/"), Err("the push event names no branch")),
        (Push, |it| it["deleted"] = json!(true), Err("the push deletes a branch")),
        (Push, |it| it["head_commit"] = Value::Null, Ok("main")),
        (
            Push,
            |it| it["head_commit"]["message"] = json!("docs [skip ci]"),
            Err("the commit skips workflows"),
        ),
        (Push, |it| it["repository"] = Value::Null, Err("not a push payload")),
        (PullRequest, |it| it["action"] = json!("synchronize"), Ok("main")),
        (PullRequest, |it| it["action"] = json!("reopened"), Ok("main")),
        (PullRequest, |it| it["action"] = json!("ready_for_review"), Ok("main")),
        (
            PullRequest,
            |it| it["action"] = json!("labeled"),
            Err("pull_request action \"labeled\" starts no workflow"),
        ),
        (PullRequest, |it| it["pull_request"] = json!({}), Err("not a pull_request payload")),
        (
            PullRequest,
            |it| it["pull_request"] = Value::Null,
            Err("the pull_request event names no branch"),
        ),
        (CheckRun, |it| it["action"] = json!("rerequested"), Ok("main")),
        (
            CheckRun,
            |it| it["action"] = json!("completed"),
            Err("check_run action \"completed\" starts no workflow"),
        ),
        (
            CheckRun,
            |it| it["check_run"]["check_suite"]["head_branch"] = Value::Null,
            Err("the check_run event names no branch"),
        ),
    ];
    for (kind, change, expected) in rows {
        let branch = read(*kind, *change).map(|event| event.branch.to_string());
        assert_eq!(branch.as_deref().map_err(String::as_str), *expected, "{kind:?}");
    }
    let long = read(Push, |it| it["ref"] = json!(format!("refs/heads/{}", "x".repeat(300))));
    assert_eq!(long.map(|event| event.branch.len()), Ok(200));
    let long = read(Push, |it| it["repository"]["full_name"] = json!("a/".repeat(101)));
    assert!(long.is_err(), "a name that cannot be one");
}

/// Anyone can open a pull request in a public repository, so what is missing counts as public.
#[test]
fn the_owner_and_the_visibility_are_read() {
    let of = |change: fn(&mut Value)| {
        let event = read(WarmEvent::Push, change).expect("a forecast");
        (event.private, event.user_owned)
    };
    assert_eq!(of(|it| it["repository"]["private"] = json!(false)), (false, false));
    assert_eq!(of(|it| it["repository"]["private"] = Value::Null), (false, false));
    assert_eq!(of(|it| it["repository"]["owner"]["type"] = json!("User")), (true, true));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (_, kind) in WarmEvent::ALL {
            let _ = read_forecast(*kind, AppName::MAIN, &bytes, NOW);
        }
    }
}
