//! The queued jobs of a repository's unfinished runs.
//!
//! Source: "REST API endpoints for workflow runs" and "… for workflow jobs" in GitHub's
//! documentation.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use muster_control::ports::{QueuedJobs, Reach};
use muster_domain::ids::{AppName, Entity, InstallationId, JobKey};
use muster_domain::job::labels::Labels;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;
use serde::Deserialize;

use crate::answer::ApiResponse;
use crate::client::ApiRequest;
use crate::{App, AppKey, PAGE_SIZE, route};

/// The states of a run that may have queued jobs. A run with running jobs is in progress, and one
/// with a job that waits for an approval may be waiting.
const STATES: [&str; 3] = ["queued", "in_progress", "waiting"];
/// Maximum number of runs whose jobs are queried, with one call each: the oldest ones.
const MAX_RUNS: usize = 50;
/// Maximum number of calls for jobs with [`Reach::Few`].
const FEW_CALLS: usize = 5;
/// Maximum number of pages of one run's jobs. A matrix has at most 256 jobs.
const MAX_PAGES: u32 = 3;
/// Limits as for webhook events: the maximum stored length of a name, and the maximum number of a
/// job's labels.
const MAX_NAME: usize = 200;
const MAX_LABELS: usize = 100;

#[derive(Deserialize)]
struct Runs {
    total_count: usize,
    workflow_runs: Vec<QueuedRun>,
}

#[derive(Deserialize)]
struct QueuedRun {
    id: u64,
    repository: RunRepository,
}

#[derive(Clone, Deserialize)]
struct RunRepository {
    id: u64,
    full_name: String,
    #[serde(default)]
    private: bool,
    owner: RepositoryOwner,
}

#[derive(Clone, Deserialize)]
struct RepositoryOwner {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct RunJobs {
    total_count: usize,
    jobs: Vec<QueuedJob>,
}

#[derive(Deserialize)]
struct QueuedJob {
    id: u64,
    run_id: u64,
    status: String,
    #[serde(default)]
    run_attempt: Option<u32>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    workflow_name: Option<String>,
    #[serde(default)]
    head_branch: Option<String>,
    #[serde(default)]
    labels: Option<Vec<String>>,
    #[serde(default)]
    created_at: Option<jiff::Timestamp>,
}

impl<K: AppKey> App<K> {
    pub(crate) async fn queued(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError> {
        let ask = async |operation, path| {
            let call = ApiRequest { operation, method: Method::GET, path, body: None };
            let token = async || self.token_for_jobs(repository, installation).await;
            self.call_with(&call, token).await
        };
        let (mut runs, mut found) = (BTreeMap::new(), QueuedJobs::default());
        let states = match reach {
            Reach::All => &STATES[..],
            Reach::Few(_) => &STATES[..2],
        };
        for state in states {
            let answer = ask("list-runs", route::runs(repository, state, PAGE_SIZE)).await?;
            let Some(listed) = shown::<Runs>(&answer)? else { return Ok(None) };
            found.more |= listed.total_count > listed.workflow_runs.len();
            runs.extend(listed.workflow_runs.into_iter().map(|run| (run.id, run.repository)));
        }
        let count = runs.len();
        let (first, mut calls_left) = match reach {
            Reach::All => (0, usize::MAX),
            Reach::Few(number) => (somewhere(count, number), FEW_CALLS),
        };
        found.more |= count > MAX_RUNS;
        let runs = runs.iter().cycle().skip(first).take(count.min(MAX_RUNS));
        for (&run, of) in runs {
            let mut passed = 0;
            for page in 1..=MAX_PAGES {
                if calls_left == 0 {
                    found.more = true;
                    return Ok(Some(found));
                }
                calls_left -= 1;
                let path = route::jobs_of(repository, run, PAGE_SIZE, page);
                let answer = ask("list-jobs", path).await?;
                // The run may have been deleted since it was listed.
                let Some(listed) = shown::<RunJobs>(&answer)? else { break };
                passed += listed.jobs.len();
                let is_last = listed.jobs.is_empty() || passed >= listed.total_count;
                let queued = listed.jobs.into_iter().filter(QueuedJob::is_queued);
                found.jobs.extend(queued.map(|job| job.event(repository.app(), of, installation)));
                if is_last {
                    break;
                }
                found.more |= page == MAX_PAGES;
            }
        }
        Ok(Some(found))
    }
}

/// Returns a number below `count`, using the finalizer of SplitMix64, which spreads evenly spaced
/// numbers.
fn somewhere(count: usize, number: u64) -> usize {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ mixed >> 31) >> 32).unwrap_or(0) % count.max(1)
}

/// Parses a response. `None` if GitHub does not show the resource.
fn shown<T: serde::de::DeserializeOwned>(answer: &ApiResponse) -> Result<Option<T>, ProviderError> {
    match answer.status {
        StatusCode::OK => answer.read().map(Some),
        StatusCode::NOT_FOUND => Ok(None),
        _ => Err(answer.trouble()),
    }
}

impl QueuedJob {
    /// Returns whether the job is queued. A job without labels does not concern Muster.
    fn is_queued(&self) -> bool {
        let labels = self.labels.as_ref().map_or(0, Vec::len);
        self.status == "queued" && (1..=MAX_LABELS).contains(&labels)
    }

    fn event(
        self,
        app: AppName,
        of: &RunRepository,
        installation: Option<InstallationId>,
    ) -> JobEvent {
        let kept = |text: String| text.chars().take(MAX_NAME).collect::<String>();
        let shown = |text: Option<String>| {
            text.filter(|text| !text.is_empty()).map(|text| kept(text).into())
        };
        JobEvent {
            key: JobKey { app, repository: of.id, job: self.id },
            status: JobStatus::Queued,
            repository: app.qualify(&of.full_name).into(),
            private: of.private,
            user_owned: of.owner.kind == "User",
            installation,
            run: self.run_id,
            attempt: self.run_attempt.unwrap_or(1),
            name: kept(self.name.unwrap_or_default()).into(),
            workflow: shown(self.workflow_name),
            branch: shown(self.head_branch),
            actor: None,
            by_person: false,
            deploys: false,
            labels: Labels::new(self.labels.unwrap_or_default()),
            runner: None,
            runner_id: None,
            conclusion: None,
            queued_at: self.created_at.map(|at| Time::from_millis(at.as_millisecond())),
            started_at: None,
            completed_at: None,
        }
    }
}
