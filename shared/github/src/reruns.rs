//! Workflow runs, their attempts, and the calls that re-run jobs.
//!
//! Source: "REST API endpoints for workflow runs" and "… for workflow jobs" in GitHub's
//! documentation.

use http::{Method, StatusCode};
use muster_control::ports::WorkflowRuns;
use muster_domain::ids::{Entity, RunnerId};
use muster_domain::observation::{RunOrigin, RunSeen};
use muster_domain::provider::ProviderError;
use muster_domain::rerun::{AttemptJob, NewerRun, RerunAnswer, RerunCall, RunOf};
use muster_domain::time::Time;
use serde::Deserialize;

use crate::answer::{ApiResponse, fault};
use crate::client::ApiRequest;
use crate::{App, AppKey, PAGE_SIZE, route};

/// Maximum number of pages of an attempt's jobs.
const MAX_PAGES: u32 = 10;
/// Number of latest runs to read: a run that is replaced has a newer one among them.
const LATEST: usize = 20;

/// The used fields of a run.
#[derive(Deserialize)]
pub(crate) struct RunResponse {
    #[serde(default)]
    id: u64,
    status: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    run_attempt: Option<u32>,
    #[serde(default)]
    created_at: Option<jiff::Timestamp>,
    #[serde(default)]
    workflow_id: Option<u64>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    head_branch: Option<String>,
    #[serde(default)]
    head_repository: Option<HeadRepository>,
    #[serde(default)]
    triggering_actor: Option<Actor>,
}

#[derive(Deserialize)]
struct HeadRepository {
    full_name: String,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "type", default)]
    kind: String,
}

impl RunResponse {
    pub(crate) fn seen(self) -> RunSeen {
        let origin = self.workflow_id.zip(self.event).map(|(workflow, event)| RunOrigin {
            workflow,
            event,
            branch: self.head_branch,
            head_repository: self.head_repository.map(|of| of.full_name),
        });
        RunSeen {
            is_over: self.status == "completed",
            conclusion: self.conclusion,
            attempt: self.run_attempt.unwrap_or(1),
            is_by_app: self.triggering_actor.is_some_and(|actor| actor.kind == "Bot"),
            created_at: self.created_at.map(time),
            origin,
        }
    }
}

#[derive(Deserialize)]
struct AttemptJobs {
    total_count: usize,
    jobs: Vec<JobOfAttempt>,
}

#[derive(Deserialize)]
struct JobOfAttempt {
    id: u64,
    #[serde(default)]
    runner_id: Option<u64>,
    #[serde(default)]
    runner_name: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    completed_at: Option<jiff::Timestamp>,
}

impl JobOfAttempt {
    fn seen(self) -> AttemptJob {
        AttemptJob {
            id: self.id,
            // GitHub sends 0 for a job that no runner took.
            runner_id: self.runner_id.filter(|id| *id != 0).map(RunnerId),
            runner: self.runner_name.filter(|name| !name.is_empty()),
            conclusion: self.conclusion,
            completed_at: self.completed_at.map(time),
        }
    }
}

#[derive(Deserialize)]
struct LatestRuns {
    workflow_runs: Vec<RunResponse>,
}

impl<K: AppKey> App<K> {
    /// Makes a call that only reads workflow runs.
    async fn read_run(
        &self,
        of: &RunOf,
        operation: &'static str,
        path: String,
    ) -> Result<ApiResponse, ProviderError> {
        let repository = self.run_repository(of, operation)?;
        let call = ApiRequest { operation, method: Method::GET, path, body: None };
        let token = async || self.token_for_jobs(&repository, of.installation).await;
        self.call_with(&call, token).await
    }

    /// Returns the run's repository, whose name comes from a webhook payload.
    fn run_repository(&self, of: &RunOf, operation: &str) -> Result<Entity, ProviderError> {
        of.repository.parse().map_err(|_| {
            let message = format!("{:?} is no repository", of.repository);
            ProviderError::Unavailable(fault(operation, "repository", message, (self.clock)()))
        })
    }
}

impl<K: AppKey> WorkflowRuns for App<K> {
    async fn workflow_run(&self, of: &RunOf) -> Result<Option<RunSeen>, ProviderError> {
        let Some(path) = route::run(&of.repository, of.run) else { return Ok(None) };
        let answer = self.read_run(of, "get-run", path).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.read::<RunResponse>()?.seen())),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.trouble()),
        }
    }

    async fn attempt_jobs(
        &self,
        of: &RunOf,
        attempt: u32,
    ) -> Result<Vec<AttemptJob>, ProviderError> {
        let Some(root) = route::run(&of.repository, of.run) else { return Ok(Vec::new()) };
        let mut jobs = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{root}/attempts/{attempt}/jobs?per_page={PAGE_SIZE}&page={page}");
            let answer = self.read_run(of, "list-attempt-jobs", path).await?;
            match answer.status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(Vec::new()),
                _ => return Err(answer.trouble()),
            }
            let listed: AttemptJobs = answer.read()?;
            let is_last = listed.jobs.is_empty();
            jobs.extend(listed.jobs.into_iter().map(JobOfAttempt::seen));
            if is_last || jobs.len() >= listed.total_count {
                return Ok(jobs);
            }
        }
        // A job that is not read could have failed by itself.
        let message = format!("over {} jobs in an attempt", jobs.len());
        let detail = fault("list-attempt-jobs", "too-many", message, (self.clock)());
        Err(ProviderError::Unavailable(detail))
    }

    async fn latest_runs(
        &self,
        of: &RunOf,
        origin: &RunOrigin,
    ) -> Result<Vec<NewerRun>, ProviderError> {
        let Some(path) = route::runs_like(&of.repository, origin, LATEST) else {
            return Ok(Vec::new());
        };
        let answer = self.read_run(of, "list-latest-runs", path).await?;
        match answer.status {
            StatusCode::OK => {}
            // The workflow's file is gone.
            StatusCode::NOT_FOUND => return Ok(Vec::new()),
            _ => return Err(answer.trouble()),
        }
        let listed: LatestRuns = answer.read()?;
        let runs = listed.workflow_runs.into_iter().map(|run| (run.id, run.seen()));
        let alike = runs.filter(|(_, seen)| {
            let head = seen.origin.as_ref().and_then(|of| of.head_repository.as_ref());
            origin.head_repository.is_none() || head == origin.head_repository.as_ref()
        });
        Ok(alike.map(|(run, seen)| NewerRun { run, is_over: seen.is_over }).collect())
    }

    async fn rerun(&self, of: &RunOf, call: RerunCall, before: Time) -> RerunAnswer {
        let operation = "rerun";
        let path = match call {
            RerunCall::Job(job) => {
                route::job(&of.repository, job).map(|job| format!("{job}/rerun"))
            }
            RerunCall::Failed => {
                route::run(&of.repository, of.run).map(|run| format!("{run}/rerun-failed-jobs"))
            }
        };
        let (Some(path), Ok(repository)) = (path, self.run_repository(of, operation)) else {
            return RerunAnswer::Refused(format!("{:?} is no repository", of.repository));
        };
        let token = match self.token_to_rerun(&repository, of.installation).await {
            Ok(token) => token,
            Err(ProviderError::RateLimited(until)) => return RerunAnswer::RateLimited(until),
            Err(ProviderError::Unauthorized(_)) => return RerunAnswer::NotAllowed,
            Err(ProviderError::Unavailable(_)) => return RerunAnswer::NotSent,
        };
        let at = (self.clock)();
        if at >= before {
            return RerunAnswer::NotSent;
        }
        let call = ApiRequest { operation, method: Method::POST, path, body: None };
        let Ok(answer) = self.client.send(&call, &token.base, &token.secret, at).await else {
            return RerunAnswer::Unanswered;
        };
        match (answer.status, answer.trouble()) {
            (status, _) if status.is_success() => RerunAnswer::Accepted,
            (_, ProviderError::RateLimited(until)) => RerunAnswer::RateLimited(until),
            (StatusCode::FORBIDDEN, ProviderError::Unauthorized(detail)) => {
                RerunAnswer::of_refusal(&detail.message)
            }
            (StatusCode::UNAUTHORIZED, _) => RerunAnswer::NotAllowed,
            // The run or the job is gone: the next look finds out.
            (StatusCode::NOT_FOUND, _) => RerunAnswer::Busy,
            (StatusCode::UNPROCESSABLE_ENTITY, _) => RerunAnswer::Refused(answer.fault().message),
            _ => RerunAnswer::Unanswered,
        }
    }
}

fn time(timestamp: jiff::Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}
