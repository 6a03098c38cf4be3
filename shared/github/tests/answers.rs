//! Every status of every call, and a check that none of the results contains a secret.

mod support;

use axum::http::Method;
use muster_control::ports::{Github, JitError};
use muster_domain::ids::RunnerId;
use muster_domain::job::JobStatus;
use muster_domain::observation::{Deregistration, RunSeen, RunnerSeen};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};
use serde_json::json;
use support::{CANARY, Fake, Reply, granted, now, registrar, reply};

const ID: RunnerId = RunnerId(5);
const RUNNER: &str = "/actions/runners/5";
const JIT: &str = "/generate-jitconfig";

/// The kind of an error, without its text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Unauthorized,
    Limited(Time),
    Unavailable,
}

fn kind(trouble: &ProviderError) -> Kind {
    match trouble {
        ProviderError::Unauthorized(_) => Kind::Unauthorized,
        ProviderError::RateLimited(until) => Kind::Limited(*until),
        ProviderError::Unavailable(_) => Kind::Unavailable,
    }
}

/// Statuses with one meaning for all calls.
fn troubles() -> Vec<(Reply, Kind)> {
    let in_seconds = |wait| now() + Seconds(wait);
    let reset = |at: Time| at.as_secs();
    let message = |text: &str| json!({"message": text});
    vec![
        (reply(401, message("Bad credentials")), Kind::Unauthorized),
        (reply(403, message("Resource not accessible by integration")), Kind::Unauthorized),
        (
            // Below the limit: the presence of the header alone proves nothing.
            reply(403, message("IP not allowed")).header("x-ratelimit-remaining", 17),
            Kind::Unauthorized,
        ),
        (
            reply(403, message("API rate limit exceeded"))
                .header("x-ratelimit-remaining", 0)
                .header("x-ratelimit-reset", reset(in_seconds(900))),
            Kind::Limited(in_seconds(900)),
        ),
        (reply(403, "").header("retry-after", 30), Kind::Limited(in_seconds(30))),
        (
            reply(403, message("You have exceeded a secondary rate limit")),
            Kind::Limited(in_seconds(60)),
        ),
        (
            // GitHub Enterprise Server before 3.x, and github.com until 2021.
            reply(403, message("You have triggered an abuse detection mechanism. Please wait")),
            Kind::Limited(in_seconds(60)),
        ),
        (reply(429, "").header("retry-after", 5), Kind::Limited(in_seconds(5))),
        (reply(429, ""), Kind::Limited(in_seconds(60))),
        (
            // A text instead of a number, and a reset time long past.
            reply(429, "")
                .header("retry-after", "soon")
                .header("x-ratelimit-remaining", 0)
                .header("x-ratelimit-reset", 12),
            Kind::Limited(in_seconds(1)),
        ),
        (reply(429, "").header("retry-after", 99_999_999_999_i64), Kind::Limited(in_seconds(3600))),
        (reply(429, "").header("retry-after", -3), Kind::Limited(in_seconds(1))),
        (reply(500, "<html>oops</html>"), Kind::Unavailable),
        (reply(502, ""), Kind::Unavailable),
        (reply(503, message("Unicorn")), Kind::Unavailable),
        (reply(504, ""), Kind::Unavailable),
        (reply(418, ""), Kind::Unavailable),
    ]
}

#[tokio::test]
async fn troubles_are_the_same_for_every_call() {
    let fake = Fake::start().await;
    let (app, acme) = (fake.app(), registrar("acme"));
    for (answer, expected) in troubles() {
        for (method, end) in [
            (Method::GET, RUNNER),
            (Method::DELETE, RUNNER),
            (Method::POST, JIT),
            (Method::GET, "/actions/runners"),
            (Method::GET, "/actions/jobs/9"),
            (Method::GET, "/actions/runs/3"),
        ] {
            fake.on(method, end, [answer.clone()]);
        }
        let seen = app.runner(&acme, ID).await.expect_err("trouble");
        assert_eq!(kind(&seen), expected, "{seen:?}");
        let named = app.runner_named(&acme, "a-1").await.expect_err("trouble");
        assert_eq!(kind(&named), expected, "{named:?}");
        let job = app.job(&acme, "acme/web", 9).await.expect_err("trouble");
        assert_eq!(kind(&job), expected, "{job:?}");
        let run = app.run(&acme, "acme/web", 3).await.expect_err("trouble");
        assert_eq!(kind(&run), expected, "{run:?}");
        let gone = app.deregister(&acme, ID).await.expect_err("trouble");
        assert_eq!(kind(&gone), expected, "{gone:?}");
        match app.configure(&acme, "a-1", &[], 1).await {
            Err(JitError::ProviderError(trouble)) => {
                assert_eq!(kind(&trouble), expected, "{trouble:?}");
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("configured"),
        }
    }
}

/// Each installation has its own hourly quota, and the lowest one is reported.
#[tokio::test]
async fn the_least_that_is_left_of_an_hours_calls_is_told_once() {
    let fake = Fake::start().await;
    let left = |count: u32| reply(404, "").header("x-ratelimit-remaining", count);
    fake.on(Method::GET, RUNNER, [left(4_000), left(17), left(3_999), reply(404, "")]);
    let app = fake.app();
    let _ = app.take_calls_left();
    for _ in 0..4 {
        app.runner(&registrar("acme"), ID).await.expect("absent");
    }
    assert_eq!((app.take_calls_left(), app.take_calls_left()), (Some(17), None));
}

#[tokio::test]
async fn deregistration_has_three_answers() {
    for (status, expected) in
        [(204, Deregistration::Done), (404, Deregistration::NotFound), (422, Deregistration::Busy)]
    {
        let fake = Fake::start().await;
        fake.on(Method::DELETE, RUNNER, [reply(status, "")]);
        let gone = fake.app().deregister(&registrar("acme/web"), ID).await;
        assert_eq!(gone, Ok(expected));
        assert_eq!(fake.paths()[1], "DELETE /repos/acme/web/actions/runners/5");
    }
    // GitHub documents a different status than 200, so it is no proof.
    let fake = Fake::start().await;
    fake.on(Method::DELETE, RUNNER, [reply(200, "{}")]);
    let gone = fake.app().deregister(&registrar("acme"), ID).await;
    assert!(matches!(gone, Err(ProviderError::Unavailable(_))), "{gone:?}");
}

#[tokio::test]
async fn a_runner_is_busy_idle_offline_or_absent() {
    for (answer, expected) in [
        (reply(200, json!({"id": 5, "busy": true, "status": "online"})), RunnerSeen::Busy(ID)),
        (reply(200, json!({"id": 5, "busy": false, "x": [1]})), RunnerSeen::NotBusy(ID)),
        (reply(200, json!({"id": 5, "busy": false, "status": "online"})), RunnerSeen::NotBusy(ID)),
        (reply(200, json!({"id": 5, "busy": false, "status": "offline"})), RunnerSeen::Offline(ID)),
        (reply(200, json!({"id": 5, "busy": true, "status": "offline"})), RunnerSeen::Busy(ID)),
        (reply(404, json!({"message": "Not Found"})), RunnerSeen::Absent),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, RUNNER, [answer]);
        assert_eq!(fake.app().runner(&registrar("enterprises/big"), ID).await, Ok(expected));
        assert_eq!(fake.paths()[1], "GET /enterprises/big/actions/runners/5");
    }
    // Without `busy`, the response is unusable.
    for body in [r#"{"id":5}"#, "{}", "", "[]", "<html>"] {
        let fake = Fake::start().await;
        fake.on(Method::GET, RUNNER, [reply(200, body)]);
        let seen = fake.app().runner(&registrar("acme"), ID).await;
        assert!(matches!(seen, Err(ProviderError::Unavailable(_))), "{body}: {seen:?}");
    }
}

#[tokio::test]
async fn a_job_is_where_github_says_it_is() {
    let shown = |status: &str| {
        reply(200, json!({"id": 9, "status": status, "runner_name": "a-1", "conclusion": null}))
    };
    for (answer, expected) in [
        (shown("queued"), Some(JobStatus::Queued)),
        (shown("waiting"), Some(JobStatus::Waiting)),
        // API states that no event has: no runner has taken the job yet.
        (shown("requested"), Some(JobStatus::Queued)),
        (shown("pending"), Some(JobStatus::Queued)),
        (shown("in_progress"), Some(JobStatus::InProgress)),
        (shown("completed"), Some(JobStatus::Completed)),
        (reply(404, json!({"message": "Not Found"})), None),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, "/actions/jobs/9", [answer]);
        let seen = fake.app().job(&registrar("acme"), "acme/web", 9).await.expect("an answer");
        assert_eq!(fake.paths()[1], "GET /repos/acme/web/actions/jobs/9");
        assert_eq!(seen.as_ref().map(|seen| seen.status), expected);
        if let Some(seen) = seen {
            assert_eq!((seen.runner.as_deref(), seen.conclusion), (Some("a-1"), None));
        }
    }
    // A payload's repository name must not determine the path.
    let fake = Fake::start().await;
    for name in ["", "acme", "acme/web/x", "acme/web?x=1", "acme/web#", "acme/..%2f", "a b/c"] {
        assert_eq!(fake.app().job(&registrar("acme"), name, 9).await, Ok(None), "{name}");
    }
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn a_run_is_over_when_github_calls_it_completed() {
    let shown = |status: &str, conclusion: Option<&str>| {
        reply(200, json!({"id": 3, "status": status, "conclusion": conclusion, "jobs_url": 7}))
    };
    let seen = |is_over, conclusion: Option<&str>| {
        let conclusion = conclusion.map(str::to_owned);
        Some(RunSeen { is_over, conclusion, attempt: 1, ..RunSeen::default() })
    };
    for (answer, expected) in [
        (shown("completed", Some("startup_failure")), seen(true, Some("startup_failure"))),
        (shown("completed", None), seen(true, None)),
        (shown("queued", None), seen(false, None)),
        (shown("in_progress", None), seen(false, None)),
        (shown("waiting", None), seen(false, None)),
        (reply(404, json!({"message": "Not Found"})), None),
    ] {
        let fake = Fake::start().await;
        fake.on(Method::GET, "/actions/runs/3", [answer]);
        let run = fake.app().run(&registrar("acme"), "acme/web", 3).await;
        assert_eq!(run, Ok(expected));
        assert_eq!(fake.paths()[1], "GET /repos/acme/web/actions/runs/3");
    }
    // Without a status, the response is unusable.
    let fake = Fake::start().await;
    fake.on(Method::GET, "/actions/runs/3", [reply(200, json!({"conclusion": "success"}))]);
    let run = fake.app().run(&registrar("acme"), "acme/web", 3).await;
    assert!(matches!(run, Err(ProviderError::Unavailable(_))), "{run:?}");
    let before = fake.asked().len();
    assert_eq!(fake.app().run(&registrar("acme"), "acme/..%2f", 3).await, Ok(None));
    assert_eq!(fake.asked().len(), before, "the name does not choose the path");
}

fn listed(total: usize, names: &[&str]) -> Reply {
    let runners: Vec<_> =
        names.iter().map(|name| json!({"id": 5, "name": name, "busy": true})).collect();
    reply(200, json!({"total_count": total, "runners": runners}))
}

#[tokio::test]
async fn a_runner_is_found_by_its_exact_name() {
    let fake = Fake::start().await;
    let (app, acme) = (fake.app(), registrar("acme"));
    fake.on(Method::GET, "/actions/runners", [listed(1, &["a-1"])]);
    assert_eq!(app.runner_named(&acme, "a-1").await, Ok(RunnerSeen::Busy(ID)));
    let path = "GET /orgs/acme/actions/runners?name=a-1&per_page=100&page=1";
    assert_eq!(fake.paths().last().expect("asked"), path);
    assert_eq!(app.runner_named(&acme, "a-11").await, Ok(RunnerSeen::Absent));
    assert_eq!(app.runner_named(&acme, "A-1").await, Ok(RunnerSeen::Absent));
    fake.on(Method::GET, "/actions/runners", [listed(0, &[])]);
    assert_eq!(app.runner_named(&acme, "a b&c").await, Ok(RunnerSeen::Absent));
    let path = "GET /orgs/acme/actions/runners?name=a+b%26c&per_page=100&page=1";
    assert_eq!(fake.paths().last().expect("asked"), path);
}

#[tokio::test]
async fn a_server_that_ignores_the_name_is_read_to_the_end() {
    let fake = Fake::start().await;
    let (app, acme) = (fake.app(), registrar("acme"));
    let pages = [listed(3, &["x"]), listed(3, &["y"]), listed(3, &["a-1"])];
    fake.on(Method::GET, "/actions/runners", pages);
    assert_eq!(app.runner_named(&acme, "a-1").await, Ok(RunnerSeen::Busy(ID)));
    assert_eq!(fake.count("page=3"), 1);
    // It claims that more exist but shows none: absent, as far as the listing goes.
    fake.on(Method::GET, "/actions/runners", [listed(9, &["x"]), listed(9, &[])]);
    assert_eq!(app.runner_named(&acme, "a-1").await, Ok(RunnerSeen::Absent));
    // Without an end of the listing, absence is not proven.
    fake.on(Method::GET, "/actions/runners", [listed(99_999, &["x"])]);
    let seen = app.runner_named(&acme, "a-1").await;
    assert!(matches!(seen, Err(ProviderError::Unavailable(_))), "{seen:?}");
}

#[tokio::test]
async fn a_configuration_is_asked_for_in_githubs_words() {
    let fake = Fake::start().await;
    let config = format!("{CANARY}-config");
    let body = json!({"runner": {"id": 5, "busy": false}, "encoded_jit_config": config});
    fake.on(Method::POST, JIT, [reply(201, body)]);
    let labels = ["linux".to_owned(), "x64".to_owned()];
    let Ok(jit) = fake.app().configure(&registrar("acme/web"), "a-1", &labels, 3).await else {
        panic!("refused")
    };
    assert_eq!((jit.runner, jit.encoded), (ID, config));
    let asked = fake.asked().pop().expect("asked");
    assert_eq!(asked.path, "/repos/acme/web/actions/runners/generate-jitconfig");
    assert_eq!(
        asked.body,
        json!({
            "name": "a-1", "runner_group_id": 3, "labels": ["linux", "x64"], "work_folder": "_work"
        })
    );
    assert_eq!(asked.headers.get_all("user-agent").iter().count(), 1);
    assert!(asked.headers["user-agent"].to_str().expect("text").starts_with("muster/"));
    // Pinned: later versions have breaking changes, and a server without versions ignores it.
    assert_eq!(asked.headers.get_all("x-github-api-version").iter().count(), 1);
    assert_eq!(asked.headers["x-github-api-version"], "2022-11-28");
    assert_eq!(asked.headers["accept"], "application/vnd.github+json");
}

#[tokio::test]
async fn a_configuration_is_refused_in_three_ways() {
    let taken = json!({"message": "Already exists - A runner with the name a-1 already exists."});
    let fake = Fake::start().await;
    fake.on(Method::POST, JIT, [reply(409, taken)]);
    let Err(error) = fake.app().configure(&registrar("acme"), "a-1", &[], 1).await else {
        panic!("configured")
    };
    assert_eq!(error, JitError::NameTaken);
    for status in [400, 404, 422] {
        fake.on(Method::POST, JIT, [reply(status, json!({"message": "no such group"}))]);
        let Err(error) = fake.app().configure(&registrar("acme"), "a-1", &[], 1).await else {
            panic!("configured")
        };
        let code = status.to_string();
        let message = "no such group".to_owned();
        let operation = "generate-jitconfig".to_owned();
        assert_eq!(error, JitError::Refused(ErrorDetail { at: now(), operation, code, message }));
    }
}

/// The bodies contain GitHub's credentials, and those sent to it.
#[tokio::test]
async fn nothing_secret_is_in_any_error() {
    let leaks = [
        json!({"message": format!("token ghs_{CANARY}1 is bad"), "token": CANARY}).to_string(),
        json!({"message": format!("(ghs_{CANARY}) github_pat_{CANARY},eyJ{CANARY}.x-{CANARY}")})
            .to_string(),
        format!("<html>Authorization: Bearer ghs_{CANARY}1</html>"),
        json!({"runner": {"id": CANARY}, "encoded_jit_config": CANARY}).to_string(),
        json!({"id": CANARY, "busy": CANARY}).to_string(),
        json!({"total_count": CANARY}).to_string(),
        format!("\"{CANARY}"),
    ];
    let fake = Fake::start().await;
    let (app, acme) = (fake.app(), registrar("acme"));
    for body in &leaks {
        for status in [200, 201, 400, 401, 403, 404, 409, 422, 429, 500] {
            for (method, end) in [
                (Method::GET, RUNNER),
                (Method::DELETE, RUNNER),
                (Method::POST, JIT),
                (Method::GET, "/actions/runners"),
                (Method::GET, "/actions/jobs/9"),
                (Method::GET, "/actions/runs/3"),
            ] {
                fake.on(method, end, [reply(status, body).header("x-echo", CANARY)]);
            }
            let shown = format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {app:?}",
                app.run(&acme, "acme/web", 3).await.map(|seen| seen.map(|seen| seen.is_over)),
                app.job(&acme, "acme/web", 9).await.map(|seen| seen.map(|seen| seen.status)),
                app.runner(&acme, ID).await,
                app.runner_named(&acme, "a-1").await,
                app.deregister(&acme, ID).await,
                app.configure(&acme, "a-1", &[], 1).await.map(|jit| jit.runner),
            );
            assert!(!shown.contains(CANARY), "{status} {body}: {shown}");
        }
    }
}

/// Tokens need not have a known format.
#[tokio::test]
async fn a_token_that_is_quoted_back_is_blanked_whatever_it_looks_like() {
    let fake = Fake::start().await;
    let token = format!("{CANARY}/of/another:form");
    fake.on(Method::POST, "/access_tokens", [granted(&token, Seconds(3600))]);
    let message = json!({"message": format!("no access with {token}!")});
    fake.on(Method::GET, RUNNER, [reply(403, message)]);
    let seen = fake.app().runner(&registrar("acme"), ID).await;
    let Err(ProviderError::Unauthorized(fault)) = seen else { panic!("{seen:?}") };
    assert_eq!(fault.message, "no access with [redacted]!");
}

#[tokio::test]
async fn a_long_sentence_is_cut_and_stays_on_one_line() {
    let fake = Fake::start().await;
    let message = format!("a\nb\u{1b}[31m{}", "é".repeat(10_000));
    fake.on(Method::GET, RUNNER, [reply(500, json!({"message": message}))]);
    let seen = fake.app().runner(&registrar("acme"), ID).await;
    let Err(ProviderError::Unavailable(fault)) = seen else { panic!("{seen:?}") };
    assert_eq!(fault.message.chars().count(), 300);
    assert!(!fault.message.contains(char::is_control));
}
