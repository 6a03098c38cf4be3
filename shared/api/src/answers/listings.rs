//! Responses that list instances and jobs, or show one with its explanation.

use std::sync::Arc;

use muster_domain::audit::Audit;
use muster_domain::ec2::Make;
use muster_domain::explain;
use muster_domain::ids::{InstanceName, JobKey, MachineId, PoolName, RunnerId};
use muster_domain::instance::{Instance, JobTitle, RunnerState, State, Waiting};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, Moved};
use muster_domain::launch::verdict::{Wait, WaitReason};
use muster_domain::observation::RunnerSeen;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::Line;
use serde::{Deserialize, Serialize};

use super::Finding;

/// Live instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceList {
    /// The instances, by pool.
    pub instances: Vec<InstanceSummary>,
    /// Keys of records that this release cannot read.
    pub unreadable: Vec<String>,
    /// Whether the list is complete.
    #[serde(flatten)]
    pub more: More,
}

/// An instance in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceSummary {
    /// Its name.
    pub name: InstanceName,
    /// Its pool.
    pub pool: PoolName,
    /// Its state.
    pub state: State,
    /// When it entered that state.
    pub since: Time,
    /// Seconds since it was planned.
    pub age_seconds: Seconds,
    /// Its machine, once EC2 has launched one.
    pub machine: Option<MachineId>,
    /// The machine's instance type, zone and purchase option.
    #[serde(flatten)]
    pub make: Make,
    /// The state of its runner.
    pub runner_state: RunnerState,
    /// The runner's ID on GitHub.
    pub runner_id: Option<RunnerId>,
    /// The job that it is meant for.
    pub claim: Option<JobKey>,
    /// The job that it runs or ran, according to GitHub's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<RanJob>,
    /// What its end waits for.
    pub waiting_for: Option<Waiting>,
    /// Failed launches; once there is a machine, failed terminations.
    pub attempts: u32,
    /// When it is checked next.
    pub due_at: Option<Time>,
    /// Until when its machine is kept for inspection because its job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,
    /// Whether an operator ordered a forced delete.
    pub forced: bool,
}

/// The job of a machine in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanJob {
    /// Its key.
    pub key: JobKey,
    /// Its repository and name, if recorded.
    #[serde(flatten)]
    pub title: Option<JobTitle>,
}

impl InstanceSummary {
    /// Creates the summary of an instance.
    #[must_use]
    pub fn new(instance: &Instance, now: Time) -> Self {
        Self {
            name: instance.name.clone(),
            pool: instance.pool.clone(),
            state: instance.state(),
            since: instance.since(),
            age_seconds: now.since(instance.created_at),
            machine: instance.machine().cloned(),
            make: instance.make.clone(),
            runner_state: instance.runner.state,
            runner_id: instance.runner.id,
            claim: instance.claim(),
            job: instance
                .runner
                .ran
                .map(|key| RanJob { key, title: instance.runner.ran_title.clone() }),
            waiting_for: instance.mark().and_then(|mark| mark.waiting.clone()),
            attempts: instance.attempts,
            due_at: instance.due_at(),
            kept_until: instance.kept_until,
            forced: instance.is_forced(),
        }
    }

    /// Returns the texts to search.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let title = self.job.as_ref().and_then(|job| job.title.as_ref());
        let mut words = vec![self.name.to_string()];
        words.extend(self.machine.as_ref().map(ToString::to_string));
        words.extend(self.key().map(|key| key.to_string()));
        words.extend(title.map(|title| format!("{} {}", title.repository, title.name)));
        words.extend(self.make.kind.as_ref().map(ToString::to_string));
        words.extend(self.make.zone.as_ref().map(ToString::to_string));
        words.extend(self.make.market.map(|market| market.to_string()));
        words
    }

    /// Returns the job that it runs or ran, or else is meant for.
    #[must_use]
    pub fn key(&self) -> Option<JobKey> {
        self.job.as_ref().map(|job| job.key).or(self.claim)
    }
}

/// One instance in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownInstance {
    /// Its record.
    pub instance: Instance,
    /// Its runner's name on GitHub, once it was registered.
    pub runner_name: Option<String>,
    /// The runner's state on GitHub, if it was queried and GitHub answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_seen: Option<ShownRunner>,
    /// What it does and waits for, in sentences.
    pub explanation: Vec<String>,
    /// Its audit trail, newest first.
    pub audit: Vec<Audit>,
}

/// A runner's state on GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownRunner {
    /// The runner does not exist.
    Absent,
    /// Its agent is not connected.
    Offline,
    /// It is connected and waits for a job.
    Online,
    /// It is running a job.
    Busy,
}

impl From<RunnerSeen> for ShownRunner {
    fn from(seen: RunnerSeen) -> Self {
        match seen {
            RunnerSeen::Absent => Self::Absent,
            RunnerSeen::Offline(_) => Self::Offline,
            RunnerSeen::NotBusy(_) => Self::Online,
            RunnerSeen::Busy(_) => Self::Busy,
        }
    }
}

/// Waiting jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobList {
    /// The jobs, by pool, without a claim first, and oldest first.
    pub jobs: Vec<WaitingJob>,
    /// Jobs that no pool serves, oldest first; empty if the request names a pool.
    pub unserved: Vec<UnservedJob>,
    /// Jobs that wait for an approval on GitHub.
    pub waiting_for_approval: Vec<UnservedJob>,
    /// Whether the list is complete.
    #[serde(flatten)]
    pub more: More,
}

impl JobList {
    /// Whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.unserved.is_empty() && self.waiting_for_approval.is_empty()
    }
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingJob {
    /// Its key.
    pub job: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Its name in the workflow.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The pool that serves it.
    pub pool: Option<PoolName>,
    /// Its last move to a different pool.
    pub moved: Option<Moved>,
    /// When GitHub queued it.
    pub queued_at: Time,
    /// Seconds since when it could have had a runner.
    pub age_seconds: Seconds,
    /// The instance that is meant for it.
    pub claim: Option<InstanceName>,
    /// The reason for waiting, with the same values as the metric `JobsWaiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// Why no machine is launched for it now, without a full stop.
    pub why: Option<String>,
    /// When that is checked again, if it depends on time.
    pub until: Option<Time>,
}

impl WaitingJob {
    /// Creates the summary of a job. `wait` is why no machine is launched for it.
    #[must_use]
    pub fn new(job: Job, wait: Option<Wait>, now: Time) -> Self {
        let has_claim = job.claim.is_some();
        let (reason, block) = wait.map(|wait| (wait.reason, wait.block)).unzip();
        let block = block.flatten();
        Self {
            waits_for: reason.or(has_claim.then_some(WaitReason::Starting)),
            until: block.as_ref().and_then(|block| block.until),
            why: block.map(|block| block.why),
            job: job.key(),
            queued_at: job.queued_at(),
            age_seconds: now.since(job.waits_since()),
            repository: job.last_event.repository,
            name: job.last_event.name,
            labels: job.last_event.labels,
            pool: job.pool,
            moved: job.moved,
            claim: job.claim,
        }
    }

    /// Returns the texts to search.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = words(&self.repository, &self.name, self.job, &self.labels);
        words.extend(self.claim.as_ref().map(ToString::to_string));
        words.extend(self.waits_for.map(|reason| reason.as_str().to_owned()));
        words
    }
}

fn words(repository: &str, name: &str, key: JobKey, labels: &Labels) -> Vec<String> {
    let labels = labels.iter().map(ToString::to_string);
    [format!("{repository} {name}"), key.to_string()].into_iter().chain(labels).collect()
}

/// A job without a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnservedJob {
    /// Its key.
    pub job: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Its name in the workflow.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The pool that will serve it after the approval.
    pub pool: Option<PoolName>,
    /// When GitHub queued it.
    pub queued_at: Time,
    /// Seconds since when it has waited for this.
    pub age_seconds: Seconds,
    /// Why no machine is launched for it, as a sentence.
    pub reason: String,
}

impl UnservedJob {
    /// Creates the summary of a job that no pool serves or that waits for an approval.
    #[must_use]
    pub fn new(job: Job, now: Time) -> Self {
        let since = if job.is_gated() { job.gated_since() } else { job.waits_since() };
        Self {
            job: job.key(),
            queued_at: job.queued_at(),
            age_seconds: now.since(since),
            reason: explain::unserved(&job),
            repository: job.last_event.repository,
            name: job.last_event.name,
            labels: job.last_event.labels,
            pool: job.pool,
        }
    }

    /// Returns the texts to search.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        words(&self.repository, &self.name, self.job, &self.labels)
    }
}

/// The result of importing a repository's queued jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedJobs {
    /// Jobs that were imported and that a pool serves.
    pub taken_in: Vec<WaitingJob>,
    /// Jobs that already had a record.
    pub known: Vec<JobKey>,
    /// Imported jobs that no pool serves, with the reason.
    pub unserved: Vec<UnservedJob>,
    /// Number of other jobs: those for GitHub-hosted runners.
    pub not_ours: usize,
    /// Whether more jobs are queued; repeat the request when these have runners.
    pub more: bool,
}

/// Whether a list is complete, and how to get the next page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// Whether there is more.
    pub more: bool,
    /// The `page` of the next request. Each page is read at its own time: a row that moves in
    /// between may be missing or appear twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl From<Option<String>> for More {
    fn from(next: Option<String>) -> Self {
        Self { more: next.is_some(), next }
    }
}

/// Why a job is in its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedJob {
    /// Its record.
    pub job: Job,
    /// The explanation in sentences.
    pub explanation: Vec<String>,
    /// What may keep it waiting, while it has no machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The instance that ran it or is meant for it, while it has a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_on: Option<InstanceSummary>,
    /// The parts of its wait and the cost of its machine: from its usage record or, while the
    /// machine is live, computed as of now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
}

/// Why an instance is in its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedInstance {
    /// The explanation in sentences.
    pub explanation: Vec<String>,
}
