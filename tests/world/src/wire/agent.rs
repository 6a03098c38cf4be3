//! The door for runner processes. Its answers are lines of `key=value`, so that a bash script can
//! read them without help.

use std::{fmt::Write, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::{get, post},
};
use serde::Deserialize;

use super::cloud::Cloud;
use crate::machine::agent_archives;
use muster_cloud::github::{GitHubError, JobOffer, Message};

/// How long a request may wait for something to happen. Shorter than any reasonable time-out.
const LONG_POLL: Duration = Duration::from_secs(20);

pub(super) fn router() -> Router<Arc<Cloud>> {
    Router::new()
        .route("/runner/connect", post(connect))
        .route("/runner/message", get(message))
        .route("/runner/job/{id}/began", post(began))
        .route("/runner/job/{id}/over", get(over))
        .route("/runner/job/{id}/done", post(done))
        .route("/runner/disconnect", post(disconnect))
        .route("/machine/{instance}/shutdown", post(shutdown))
        .route("/agents/{file}", get(archive))
}

type Answer = Result<(StatusCode, String), (StatusCode, String)>;

fn refuse(error: GitHubError) -> (StatusCode, String) {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, format!("message={}\n", error.message))
}

fn ok(text: impl Into<String>) -> Answer {
    Ok((StatusCode::OK, text.into()))
}

const NOTHING: Answer = Ok((StatusCode::NO_CONTENT, String::new()));

#[derive(Deserialize)]
struct Session {
    session: String,
}

async fn connect(State(cloud): State<Arc<Cloud>>, headers: HeaderMap) -> Answer {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let secret = text(AUTHORIZATION.as_str()).and_then(|v| v.strip_prefix("Bearer "));
    let secret = secret.unwrap_or_default();
    let machine = text("x-machine");
    let version = text("x-version").unwrap_or_default();
    if !cloud.look(|world, _| world.github.takes_agent(version)) {
        let message =
            format!("Runner version v{version} is deprecated and cannot receive messages.");
        return Err(refuse(GitHubError::new(403, message)));
    }
    let session = cloud.with(|world, now| world.runner_connect(secret, machine, now));
    let session = session.map_err(refuse)?;
    let hooks = cloud.look(|world, _| {
        let machine = machine.and_then(|id| world.machines.get(id));
        !machine.is_some_and(|machine| machine.behaviour.loses_hooks)
    });
    ok(format!("session={session}\nhooks={}\n", u8::from(hooks)))
}

async fn message(State(cloud): State<Arc<Cloud>>, Query(query): Query<Session>) -> Answer {
    let mut changes = cloud.changes();
    let deadline = tokio::time::Instant::now() + LONG_POLL;
    let mut asked = false;
    loop {
        changes.mark_unchanged();
        let late = tokio::time::Instant::now() >= deadline;
        // Only a look, most of the time: if waiting changed the world, all who wait would wake each
        // other for ever.
        if !asked || late || cloud.look(|world, _| world.github.has_message(&query.session)) {
            asked = true;
            let message = cloud.with(|world, now| world.runner_listen(&query.session, now));
            match message.map_err(refuse)? {
                Message::Job(job) => return ok(lines(&job)),
                Message::Deregistered => return ok("deregistered=1\n"),
                Message::Nothing if late => return NOTHING,
                Message::Nothing => {}
            }
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

fn lines(job: &JobOffer) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(out, "{key}={value}");
    };
    line("job", &job.id.to_string());
    line("name", &job.name);
    line("workflow", &job.workflow);
    line("run_id", &job.run_id.to_string());
    line("run_attempt", &job.run_attempt.to_string());
    line("repository", &job.repository);
    line("private", &job.private.to_string());
    if let Some(after) = job.behaviour.runner_crashes_after_ms {
        line("crash_ms", &after.to_string());
    }
    out
}

async fn began(
    State(cloud): State<Arc<Cloud>>,
    Path(id): Path<u64>,
    Query(query): Query<Session>,
) -> Answer {
    cloud.with(|world, now| world.job_began(&query.session, id, now)).map_err(refuse)?;
    NOTHING
}

async fn over(
    State(cloud): State<Arc<Cloud>>,
    Path(id): Path<u64>,
    Query(query): Query<Session>,
) -> Answer {
    let mut changes = cloud.changes();
    let deadline = tokio::time::Instant::now() + LONG_POLL;
    loop {
        changes.mark_unchanged();
        let late = tokio::time::Instant::now() >= deadline;
        let over = cloud
            .look(|world, _| world.github.job(id).is_some_and(muster_cloud::github::Job::is_over));
        if over || late {
            let over = cloud.with(|world, now| world.job_over(&query.session, id, now));
            return match over.map_err(refuse)? {
                Some(conclusion) => ok(format!("conclusion={conclusion}\n")),
                None => NOTHING,
            };
        }
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

#[derive(Deserialize)]
struct Done {
    session: String,
    conclusion: String,
}

async fn done(
    State(cloud): State<Arc<Cloud>>,
    Path(id): Path<u64>,
    Query(query): Query<Done>,
) -> Answer {
    cloud
        .with(|world, now| world.job_done(&query.session, id, &query.conclusion, now))
        .map_err(refuse)?;
    NOTHING
}

async fn disconnect(State(cloud): State<Arc<Cloud>>, Query(query): Query<Session>) -> Answer {
    cloud.with(|world, _| world.runner_disconnect(&query.session)).map_err(refuse)?;
    NOTHING
}

async fn shutdown(State(cloud): State<Arc<Cloud>>, Path(instance): Path<String>) -> Answer {
    cloud.with(|world, now| world.machine_shut_down(&instance, now));
    NOTHING
}

/// The archive of an agent, as github.com has it.
async fn archive(
    State(cloud): State<Arc<Cloud>>,
    Path(file): Path<String>,
) -> Result<Vec<u8>, StatusCode> {
    let folder = agent_archives(&cloud.state_dir);
    std::fs::read(folder.join(file)).map_err(|_| StatusCode::NOT_FOUND)
}
