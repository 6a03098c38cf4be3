//! The fields of the events that may warm a pool: `push`, `pull_request` and `check_run`.
//!
//! Source: docs.github.com/en/webhooks/webhook-events-and-payloads. Only an event after which GitHub
//! starts workflows is of use. An event that cannot be read is ignored: it is only a forecast, and
//! its jobs are announced separately.

use serde::Deserialize;

use muster_domain::ids::AppName;
use muster_domain::pool::warm::{RepositoryEvent, WarmEvent};
use muster_domain::time::Time;

use crate::payload::{PayloadRepository, cut, repository_of};

/// The words in a commit message with which GitHub starts no workflow.
/// Source: docs.github.com/en/actions/how-tos/manage-workflow-runs/skip-workflow-runs
const SKIPS: &[&str] = &["[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]"];

#[derive(Deserialize)]
struct ForecastPayload {
    #[serde(default)]
    action: Option<String>,
    /// Of a push: `refs/heads/main`.
    #[serde(default, rename = "ref")]
    pushed: Option<String>,
    #[serde(default)]
    deleted: Option<bool>,
    #[serde(default)]
    head_commit: Option<Commit>,
    #[serde(default)]
    pull_request: Option<PullRequest>,
    #[serde(default)]
    check_run: Option<CheckRun>,
    repository: PayloadRepository,
}

#[derive(Deserialize)]
struct Commit {
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
struct PullRequest {
    base: BaseBranch,
}

#[derive(Deserialize)]
struct BaseBranch {
    #[serde(rename = "ref")]
    branch: String,
}

#[derive(Deserialize)]
struct CheckRun {
    check_suite: CheckSuite,
}

#[derive(Deserialize)]
struct CheckSuite {
    /// Null for a fork's commits.
    #[serde(default)]
    head_branch: Option<String>,
}

/// Reads an event that may warm a pool.
///
/// # Errors
/// Why it warms none.
pub fn read_forecast(
    kind: WarmEvent,
    app: AppName,
    body: &[u8],
    now: Time,
) -> Result<RepositoryEvent, String> {
    let name = kind.as_str();
    let payload: ForecastPayload =
        serde_json::from_slice(body).map_err(|_| format!("not a {name} payload"))?;
    let branch = match kind {
        WarmEvent::Push => pushed_branch(&payload)?,
        WarmEvent::PullRequest => {
            let actions = ["opened", "synchronize", "reopened", "ready_for_review"];
            acts(&payload, name, &actions)?;
            payload.pull_request.map(|request| request.base.branch)
        }
        WarmEvent::CheckRun => {
            acts(&payload, name, &["created", "rerequested"])?;
            payload.check_run.and_then(|run| run.check_suite.head_branch)
        }
    };
    let branch = branch.filter(|branch| !branch.is_empty());
    let branch = branch.ok_or_else(|| format!("the {name} event names no branch"))?;
    let repository = repository_of(app, &payload.repository.full_name)?;
    Ok(RepositoryEvent {
        kind,
        private: payload.repository.private,
        user_owned: payload.repository.owner.kind == "User",
        repository: repository.into(),
        branch: cut(&branch).into(),
        at: now,
    })
}

fn acts(payload: &ForecastPayload, name: &str, actions: &[&str]) -> Result<(), String> {
    let action = payload.action.as_deref().unwrap_or_default();
    if actions.contains(&action) {
        return Ok(());
    }
    Err(format!("{name} action {:?} starts no workflow", cut(action)))
}

fn pushed_branch(payload: &ForecastPayload) -> Result<Option<String>, String> {
    let pushed = payload.pushed.as_deref().unwrap_or_default();
    let Some(branch) = pushed.strip_prefix("refs/heads/") else {
        return Err("the push is not to a branch".to_owned());
    };
    if payload.deleted == Some(true) {
        return Err("the push deletes a branch".to_owned());
    }
    let commit = payload.head_commit.as_ref();
    let message = commit.and_then(|commit| commit.message.as_deref()).unwrap_or_default();
    if SKIPS.iter().any(|skips| message.contains(skips)) {
        return Err("the commit skips workflows".to_owned());
    }
    Ok(Some(branch.to_owned()))
}
