//! The queued jobs of a repository: the calls, and which responses become events.

mod support;

use axum::http::Method;
use muster_control::ports::{Github, QueuedJobs, Reach};
use muster_domain::ids::{AppName, Entity, InstallationId, JobKey};
use muster_domain::job::labels::Labels;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;
use serde_json::{Value, json};
use support::{Fake, now, reply};

const RUNS: &str = "/actions/runs";

fn web() -> Entity {
    "acme/web".parse().expect("a repository")
}

/// Runs in GitHub's form, with only the used fields.
fn run(id: u64, status: &str) -> Value {
    json!({
        "id": id, "name": "ci", "run_attempt": 2, "status": status, "conclusion": null,
        "created_at": "2026-11-01T10:00:00Z",
        "repository": {
            "id": 77, "node_id": "R_77", "name": "web", "full_name": "acme/web", "private": true,
            "owner": { "login": "acme", "id": 9919, "type": "Organization", "site_admin": false },
        },
    })
}

fn runs(total: usize, runs: &[Value]) -> Value {
    json!({ "total_count": total, "workflow_runs": runs })
}

fn job(id: u64, run: u64, status: &str, labels: Value) -> Value {
    json!({
        "id": id, "run_id": run, "run_attempt": 2, "name": "build", "status": status,
        "workflow_name": "ci", "head_branch": "main",
        "conclusion": null, "created_at": "2026-11-01T10:00:05Z",
        "started_at": "2026-11-01T10:00:05Z", "completed_at": null, "labels": labels,
        "runner_id": null, "runner_name": null, "runner_group_id": null, "steps": [],
    })
}

fn jobs(jobs: &[Value]) -> Value {
    json!({ "total_count": jobs.len(), "jobs": jobs })
}

fn event(job: u64, run: u64) -> JobEvent {
    let queued_at: jiff::Timestamp = "2026-11-01T10:00:05Z".parse().expect("a time");
    JobEvent {
        key: JobKey { app: AppName::MAIN, repository: 77, job },
        status: JobStatus::Queued,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        installation: Some(InstallationId(7)),
        run,
        attempt: 2,
        name: "build".into(),
        workflow: Some("ci".into()),
        branch: Some("main".into()),
        actor: None,
        by_person: false,
        deploys: false,
        labels: Labels::new(["self-hosted", "linux"]),
        runner: None,
        runner_id: None,
        conclusion: None,
        queued_at: Some(Time::from_millis(queued_at.as_millisecond())),
        started_at: None,
        completed_at: None,
    }
}

#[tokio::test]
async fn the_queued_jobs_of_runs_that_go_on_become_events() {
    let fake = Fake::start().await;
    // A run may be in two of the three listings, if it progresses between them.
    fake.on(
        Method::GET,
        RUNS,
        [
            reply(200, runs(2, &[run(6, "queued"), run(5, "queued")])),
            reply(200, runs(1, &[run(5, "in_progress")])),
            reply(200, runs(0, &[])),
        ],
    );
    let wanted = || json!(["self-hosted", "linux"]);
    let of_five = [
        job(51, 5, "queued", wanted()),
        job(52, 5, "in_progress", wanted()),
        job(53, 5, "waiting", wanted()),
        job(54, 5, "queued", json!([])),
        job(55, 5, "queued", Value::Null),
        job(56, 5, "completed", wanted()),
    ];
    fake.on(Method::GET, "/actions/runs/5/jobs", [reply(200, jobs(&of_five))]);
    fake.on(Method::GET, "/actions/runs/6/jobs", [reply(404, "{}")]);
    let seen = fake.app().queued_jobs(&web(), Some(InstallationId(7)), Reach::All).await;
    assert_eq!(seen, Ok(Some(QueuedJobs { jobs: vec![event(51, 5)], more: false })));
    let root = "/repos/acme/web/actions/runs";
    let asked = fake.paths();
    assert_eq!(
        asked,
        [
            "POST /app/installations/7/access_tokens".to_owned(),
            format!("GET {root}?status=queued&per_page=100"),
            format!("GET {root}?status=in_progress&per_page=100"),
            format!("GET {root}?status=waiting&per_page=100"),
            format!("GET {root}/5/jobs?filter=latest&per_page=100&page=1"),
            format!("GET {root}/6/jobs?filter=latest&per_page=100&page=1"),
        ]
    );
    // Read permission only: the App may lack the permissions that other kinds of runners need.
    assert_eq!(fake.asked()[0].body, json!({"permissions": {"actions": "read"}}));
}

#[tokio::test]
async fn a_long_list_is_read_in_part_and_said_to_be_longer() {
    let fake = Fake::start().await;
    let many: Vec<Value> = (1..=60).map(|id| run(id, "queued")).collect();
    fake.on(Method::GET, RUNS, [reply(200, runs(60, &many)), reply(200, runs(0, &[]))]);
    // The oldest runs come first; each has more jobs than are read.
    let page = json!({ "total_count": 400, "jobs": [job(1, 1, "queued", json!(["gpu"]))] });
    fake.on(Method::GET, "/jobs", [reply(200, page)]);
    let seen = fake
        .app()
        .queued_jobs(&web(), Some(InstallationId(7)), Reach::All)
        .await
        .expect("an answer");
    let QueuedJobs { jobs, more } = seen.expect("shown");
    assert_eq!((jobs.len(), more), (150, true));
    assert!(fake.paths().iter().all(|path| !path.contains("/runs/51/")));
}

#[tokio::test]
async fn a_query_in_turn_makes_seven_calls_and_reads_other_runs_each_time() {
    let fake = Fake::start().await;
    let many: Vec<Value> = (1..=20).map(|id| run(id, "queued")).collect();
    let listings = (0..40).flat_map(|_| [reply(200, runs(20, &many)), reply(200, runs(0, &[]))]);
    fake.on(Method::GET, RUNS, listings);
    fake.on(Method::GET, "/jobs", [reply(200, jobs(&[job(1, 1, "queued", json!(["gpu"]))]))]);
    let app = fake.app();
    for number in 0..40 {
        let reach = Reach::Few(number * 600_000);
        let seen = app.queued_jobs(&web(), Some(InstallationId(7)), reach).await;
        let QueuedJobs { jobs, more } = seen.expect("an answer").expect("shown");
        assert_eq!((jobs.len(), more), (5, true));
    }
    // Plus one for the token.
    assert_eq!(fake.paths().len(), 40 * 7 + 1);
    let read = |id: u32| fake.paths().iter().any(|path| path.contains(&format!("/runs/{id}/")));
    assert!((1..=20).all(read));
}

#[tokio::test]
async fn what_keeps_us_from_the_jobs_is_told_apart() {
    let limited = || reply(429, "").header("retry-after", 30);
    let until = now() + muster_domain::time::Seconds(30);
    let fake = Fake::start().await;
    let ask = async || fake.app().queued_jobs(&web(), Some(InstallationId(7)), Reach::All).await;
    fake.on(Method::GET, RUNS, [reply(404, r#"{"message":"Not Found"}"#)]);
    assert_eq!(ask().await, Ok(None), "not shown");
    fake.on(Method::GET, RUNS, [limited()]);
    assert_eq!(ask().await, Err(ProviderError::RateLimited(until)));
    fake.on(Method::GET, RUNS, [reply(200, runs(1, &[run(5, "queued")]))]);
    fake.on(Method::GET, "/actions/runs/5/jobs", [limited()]);
    assert_eq!(ask().await, Err(ProviderError::RateLimited(until)));
    fake.on(Method::GET, RUNS, [reply(403, r#"{"message":"Resource not accessible"}"#)]);
    assert!(matches!(ask().await, Err(ProviderError::Unauthorized(_))));
    fake.on(Method::GET, RUNS, [reply(502, "")]);
    assert!(matches!(ask().await, Err(ProviderError::Unavailable(_))));
}
