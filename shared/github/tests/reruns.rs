//! Workflow runs and re-runs: the calls, their tokens, and the meaning of GitHub's responses.

mod support;

use axum::http::Method;
use muster_control::ports::WorkflowRuns;
use muster_domain::ids::{InstallationId, RunnerId};
use muster_domain::observation::RunOrigin;
use muster_domain::rerun::{AttemptJob, NewerRun, RerunAnswer, RerunCall, RunOf};
use muster_domain::time::{Seconds, Time};
use serde_json::json;
use support::{Fake, now, reply};

fn of() -> RunOf {
    RunOf {
        run: 3,
        repository: "acme/web".into(),
        repository_id: Some(77),
        installation: Some(InstallationId(7)),
    }
}

fn origin() -> RunOrigin {
    RunOrigin {
        workflow: 5,
        event: "pull_request".to_owned(),
        branch: Some("a&b".to_owned()),
        head_repository: Some("fork/web".to_owned()),
    }
}

fn time(text: &str) -> Time {
    text.parse().expect("a time")
}

#[tokio::test]
async fn a_run_tells_its_attempt_and_where_it_comes_from() {
    let fake = Fake::start().await;
    let run = json!({
        "id": 3, "status": "completed", "conclusion": "failure", "run_attempt": 2,
        "created_at": "2026-11-01T10:00:00Z", "workflow_id": 5, "event": "pull_request",
        "head_branch": "a&b", "head_repository": { "full_name": "fork/web" },
        "triggering_actor": { "login": "muster[bot]", "type": "Bot" },
    });
    fake.on(Method::GET, "/actions/runs/3", [reply(200, run)]);
    let seen = fake.app().workflow_run(&of()).await.expect("an answer").expect("shown");
    assert!(seen.is_over && seen.is_by_app);
    assert_eq!((seen.conclusion.as_deref(), seen.attempt), (Some("failure"), 2));
    assert_eq!(seen.created_at, Some(time("2026-11-01T10:00:00.000Z")));
    assert_eq!(seen.origin, Some(origin()));
}

#[tokio::test]
async fn an_attempt_lists_its_jobs_and_their_runners() {
    let fake = Fake::start().await;
    let job = |id: u64, runner: Option<&str>| {
        json!({ "id": id, "runner_id": if runner.is_some() { 8 } else { 0 }, "runner_name": runner,
            "conclusion": "failure", "completed_at": "2026-11-01T10:00:00Z" })
    };
    let first = json!({ "total_count": 2, "jobs": [job(1, Some("a-1"))] });
    let second = json!({ "total_count": 2, "jobs": [job(2, None)] });
    fake.on(Method::GET, "/attempts/2/jobs", [reply(200, first), reply(200, second)]);
    let jobs = fake.app().attempt_jobs(&of(), 2).await.expect("an answer");
    let expected = |id, runner: Option<&str>| AttemptJob {
        id,
        runner_id: runner.map(|_| RunnerId(8)),
        runner: runner.map(str::to_owned),
        conclusion: Some("failure".to_owned()),
        completed_at: Some(time("2026-11-01T10:00:00.000Z")),
    };
    assert_eq!(jobs, [expected(1, Some("a-1")), expected(2, None)]);
}

#[tokio::test]
async fn runs_of_other_forks_replace_none() {
    let fake = Fake::start().await;
    let run = |id: u64, status: &str, head: &str| {
        json!({ "id": id, "status": status, "workflow_id": 5, "event": "pull_request",
            "head_branch": "a&b", "head_repository": { "full_name": head } })
    };
    let runs = [
        run(5, "queued", "fork/web"),
        run(4, "queued", "other/web"),
        run(3, "completed", "fork/web"),
    ];
    let answer = json!({ "total_count": 3, "workflow_runs": runs });
    fake.on(Method::GET, "/actions/workflows/5/runs", [reply(200, answer)]);
    let found = fake.app().latest_runs(&of(), &origin()).await.expect("an answer");
    let is = |run, is_over| NewerRun { run, is_over };
    assert_eq!(found, [is(5, false), is(3, true)]);
    let path = fake.paths().pop().expect("a call");
    assert!(path.ends_with("/runs?event=pull_request&branch=a%26b&per_page=20"), "{path}");
}

#[tokio::test]
async fn each_answer_to_a_re_run_has_its_meaning() {
    use RerunAnswer::{Accepted, Busy, NotAllowed, Refused, Unanswered};
    let no = |message: &str| reply(403, json!({ "message": message }));
    let month = "Unable to retry this workflow run because it was created over a month ago";
    let rows = [
        (reply(201, json!({})), Accepted),
        (no("This workflow is already running"), Busy),
        (no("The workflow run containing this job is already running"), Busy),
        (no("Only jobs from the current attempt can be re-run"), Busy),
        (no("Resource not accessible by integration"), NotAllowed),
        (
            no("This workflow run cannot be retried"),
            Refused("This workflow run cannot be retried".to_owned()),
        ),
        (no(month), Refused(month.to_owned())),
        (reply(401, json!({ "message": "Bad credentials" })), NotAllowed),
        (reply(404, json!({ "message": "Not Found" })), Busy),
        (reply(502, json!({})), Unanswered),
    ];
    for (answer, expected) in rows {
        let fake = Fake::start().await;
        fake.on(Method::POST, "/actions/jobs/9/rerun", [answer]);
        let later = now() + Seconds(5);
        let told = fake.app().rerun(&of(), RerunCall::Job(9), later).await;
        assert_eq!(told, expected);
        assert_eq!(
            fake.paths().last().map(String::as_str),
            Some("POST /repos/acme/web/actions/jobs/9/rerun")
        );
    }
    let fake = Fake::start().await;
    fake.on(Method::POST, "/rerun-failed-jobs", [reply(201, json!({}))]);
    let told = fake.app().rerun(&of(), RerunCall::Failed, now() + Seconds(5)).await;
    assert_eq!(told, Accepted);
    // A token for this repository alone, and a new one for each call.
    let asked = fake.asked();
    let token = asked.iter().find(|one| one.path.ends_with("/access_tokens")).expect("a token");
    assert_eq!(
        token.body,
        json!({ "repositories": ["web"], "permissions": { "actions": "write" } })
    );
    let told = fake.app().rerun(&of(), RerunCall::Failed, now()).await;
    assert_eq!(told, RerunAnswer::NotSent, "too late");
}
