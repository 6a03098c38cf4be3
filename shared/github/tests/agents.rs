//! GitHub's list of agents: which entries are used, and how rarely it is queried.

mod support;

use std::time::{Duration, Instant};

use axum::http::Method;
use muster_control::ports::Github;
use muster_domain::agent::AgentDownload;
use muster_domain::ec2::Arch;
use muster_domain::provider::ProviderError;
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};
use support::{Fake, Reply, advance, registrar, reply};

const LIST: &str = "/orgs/acme/actions/runners/downloads";
const SHA: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn application(os: &str, architecture: &str, filename: &str, sha256: Value) -> Value {
    json!({
        "os": os,
        "architecture": architecture,
        "download_url": format!("https://github.com/actions/runner/releases/download/x/{filename}"),
        "filename": filename,
        "sha256_checksum": sha256,
    })
}

fn list(version: &str) -> Reply {
    let named = |arch: &str| format!("actions-runner-linux-{arch}-{version}.tar.gz");
    reply(
        200,
        json!([
            application(
                "osx",
                "x64",
                &format!("actions-runner-osx-x64-{version}.tar.gz"),
                json!(SHA)
            ),
            application("linux", "x64", &named("x64"), json!(SHA)),
            application("linux", "arm", &named("arm"), json!(SHA)),
            application("linux", "arm64", &named("arm64"), Value::Null),
            application("win", "x64", &format!("actions-runner-win-x64-{version}.zip"), json!(SHA)),
        ]),
    )
}

fn agent(arch: Arch, version: &str, sha256: Option<&str>) -> AgentDownload {
    let name = format!("actions-runner-linux-{}-{version}.tar.gz", arch.as_str());
    AgentDownload {
        version: version.parse().expect("a version"),
        arch,
        url: format!("https://github.com/actions/runner/releases/download/x/{name}"),
        sha256: sha256.map(str::to_owned),
    }
}

#[tokio::test]
async fn those_for_linux_are_taken_and_kept_for_an_hour() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [list("2.335.0"), list("2.336.0")]);
    let (app, acme) = (fake.app(), registrar("acme"));
    let both =
        |version| Ok(vec![agent(Arch::X64, version, Some(SHA)), agent(Arch::Arm64, version, None)]);
    assert_eq!(app.agents(&acme).await, both("2.335.0"));
    advance(Seconds(3599));
    assert_eq!(app.agents(&acme).await, both("2.335.0"));
    assert_eq!(fake.count(LIST), 1);
    advance(Seconds(1));
    assert_eq!(app.agents(&acme).await, both("2.336.0"));
    assert_eq!(fake.count(LIST), 2);
}

#[tokio::test]
async fn each_entity_has_its_own() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [list("2.335.0")]);
    fake.on(Method::GET, "/repos/acme/web/actions/runners/downloads", [list("2.334.0")]);
    let app = fake.app();
    for (entity, version) in [("acme", "2.335.0"), ("acme/web", "2.334.0")] {
        let listed = app.agents(&registrar(entity)).await.expect("a list");
        assert_eq!(listed[0].version, version.parse().expect("a version"), "{entity}");
    }
}

#[tokio::test]
async fn what_is_not_understood_is_left_out() {
    let odd = [
        application("linux", "x64", "actions-runner-linux-x64-2.335.tar.gz", json!(SHA)),
        application("linux", "x64", "actions-runner-linux-x64-2.335.0.tar.gz", json!("no digest")),
        application("linux", "x64", "actions-runner-linux-arm64-2.335.0.tar.gz", json!(SHA)),
        application("linux", "x64", "actions-runner-linux-x64-2.335.0.zip", json!(SHA)),
        application("osx", "x64", "actions-runner-linux-x64-2.335.0.tar.gz", json!(SHA)),
    ];
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [reply(200, json!(odd))]);
    assert_eq!(fake.app().agents(&registrar("acme")).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_github_without_an_answer_is_asked_once_a_minute_and_the_last_list_holds_on() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [reply(502, ""), list("2.335.0"), reply(502, "")]);
    let (app, acme) = (fake.app(), registrar("acme"));
    for _ in 0..2 {
        assert!(matches!(app.agents(&acme).await, Err(ProviderError::Unavailable(_))));
    }
    assert_eq!(fake.count(LIST), 1);
    advance(Seconds(60));
    let listed = app.agents(&acme).await.expect("a list");
    advance(Seconds(3600));
    assert_eq!(app.agents(&acme).await, Ok(listed.clone()));
    advance(Seconds(59));
    assert_eq!(app.agents(&acme).await, Ok(listed));
    assert_eq!(fake.count(LIST), 3);
}

#[tokio::test]
async fn a_slow_answer_is_not_waited_for() {
    let fake = Fake::start().await;
    fake.on(Method::GET, LIST, [list("2.335.0").after(Duration::from_secs(60))]);
    let begun = Instant::now();
    let answer = fake.app().agents(&registrar("acme")).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(fault)) if fault.code == "timeout"));
    assert!(begun.elapsed() < Duration::from_secs(9), "its client waits for twenty");
}

/// GitHub's responses about the end of a version. If a response contains no date, the thirty days
/// apply.
#[tokio::test]
async fn the_end_of_a_version_is_the_earlier_date_that_github_announces() {
    let version = "2.334.0".parse().expect("a version");
    let at = |text: &str| {
        let time: jiff::Timestamp = text.parse().expect("a time");
        Some(Time::from_millis(time.as_millisecond()))
    };
    let dates = |runtime: Value, registration: Value| {
        reply(
            200,
            json!({"runner_version": "2.334.0", "runtime_deprecates_at": runtime,
            "registration_deprecates_at": registration}),
        )
    };
    let (one, two) = ("2026-12-01T00:00:00Z", "2026-12-20T00:00:00Z");
    let rows = [
        ("the runtime's alone", reply(200, json!({"runtime_deprecates_at": one})), Ok(at(one))),
        ("the registration's first", dates(json!(two), json!(one)), Ok(at(one))),
        ("the runtime's first", dates(json!(one), json!(two)), Ok(at(one))),
        ("the newest release", dates(Value::Null, Value::Null), Ok(None)),
        ("neither field", reply(200, json!({"runner_version": "2.334.0"})), Ok(None)),
        ("a version that it does not know", reply(404, json!({"message": "Not Found"})), Ok(None)),
        ("no answer", reply(502, ""), Err(())),
        ("no date", dates(json!("soon"), Value::Null), Err(())),
        ("no right to it", reply(403, json!({"message": "Forbidden"})), Err(())),
    ];
    for (what, answer, expected) in rows {
        for (entity, path) in [("acme", "/orgs/acme"), ("acme/web", "/repos/acme/web")] {
            let fake = Fake::start().await;
            let path = format!("{path}/actions/runners/deprecations/2.334.0");
            fake.on(Method::GET, &path, [answer.clone()]);
            let (app, of) = (fake.app(), registrar(entity));
            for _ in 0..3 {
                let told = app.agent_ends_at(&of, version).await.map_err(drop);
                assert_eq!(told, expected, "{what}");
            }
            assert_eq!(fake.count(&path), 1, "{what}: asked once");
        }
    }
}
