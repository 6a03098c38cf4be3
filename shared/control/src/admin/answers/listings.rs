//! Instances and jobs: many in short, or one with its explanation.

use std::sync::Arc;

use muster_domain::audit::Audit;
use muster_domain::ec2::Make;
use muster_domain::ids::{InstanceName, JobKey, MachineId, PoolName, RunnerId};
use muster_domain::instance::{Instance, JobTitle, RunnerState, State, Waiting};
use muster_domain::job::explain;
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, Moved};
use muster_domain::launch::verdict::{Wait, WaitReason};
use muster_domain::observation::RunnerSeen;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::Line;
use serde::{Deserialize, Serialize};

/// Live instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceList {
    /// Pool by pool.
    pub instances: Vec<InstanceSummary>,
    /// Records that this release cannot read, by key.
    pub unreadable: Vec<String>,
    /// Whether these are all.
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
    /// Where it is on its way.
    pub state: State,
    /// Since when it is in that state.
    pub since: Time,
    /// How long ago it was planned, seconds.
    pub age_seconds: Seconds,
    /// Its machine, once EC2 has made one.
    pub machine: Option<MachineId>,
    /// What the machine is.
    #[serde(flatten)]
    pub make: Make,
    /// Where its runner is.
    pub runner_state: RunnerState,
    /// GitHub's number of the runner.
    pub runner_id: Option<RunnerId>,
    /// The job that it is meant for.
    pub claim: Option<JobKey>,
    /// The job that it runs or ran, by GitHub's events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<RanJob>,
    /// What its end waits for.
    pub waiting_for: Option<Waiting>,
    /// Failed launches; once there is a machine, failed terminations.
    pub attempts: u32,
    /// The next look at it.
    pub due_at: Option<Time>,
    /// Until when its machine is kept for a look, whose job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,
    /// Whether an operator's order has force.
    pub forced: bool,
}

/// The job of a machine in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanJob {
    /// Its key.
    pub key: JobKey,
    /// Its repository and name, where the record has them.
    #[serde(flatten)]
    pub title: Option<JobTitle>,
}

impl InstanceSummary {
    /// The instance in short.
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

    /// What a search looks at.
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

    /// The job that it runs or ran, or else is meant for.
    #[must_use]
    pub fn key(&self) -> Option<JobKey> {
        self.job.as_ref().map(|job| job.key).or(self.claim)
    }
}

/// One instance, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownInstance {
    /// Its record.
    pub instance: Instance,
    /// Its runner's name at GitHub, once one was asked for.
    pub runner_name: Option<String>,
    /// What GitHub says of it, where it was asked and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_seen: Option<ShownRunner>,
    /// What it does and waits for, in sentences.
    pub explanation: Vec<String>,
    /// Its lines of the audit trail, newest first.
    pub audit: Vec<Audit>,
}

/// A runner, as GitHub shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownRunner {
    /// There is none.
    Absent,
    /// Its agent is not connected.
    Offline,
    /// It is connected and waits for a job.
    Online,
    /// A job runs on it.
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
    /// Pool by pool, those without a claim first; each of them oldest first.
    pub jobs: Vec<WaitingJob>,
    /// Those that no pool serves, the oldest first. Of one pool there are none.
    pub unserved: Vec<UnservedJob>,
    /// Those that wait for an approval at GitHub.
    pub waiting_for_approval: Vec<UnservedJob>,
    /// Whether these are all.
    #[serde(flatten)]
    pub more: More,
}

impl JobList {
    /// Whether there is no job in it.
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
    /// Its name, as the workflow's author wrote it.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The pool that serves it.
    pub pool: Option<PoolName>,
    /// Its last move to another pool.
    pub moved: Option<Moved>,
    /// When GitHub queued it.
    pub queued_at: Time,
    /// How long it could have had a runner, seconds.
    pub age_seconds: Seconds,
    /// The instance that is meant for it.
    pub claim: Option<InstanceName>,
    /// What it waits for, by the same words as the metric `JobsWaiting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// Why no machine is launched for it now, in a sentence without its full stop.
    pub why: Option<String>,
    /// When that is looked at again, where that is a matter of time.
    pub until: Option<Time>,
}

impl WaitingJob {
    /// The job in short. `wait`: why no machine is launched for it.
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

    /// What a search looks at.
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

/// A job in a list that nobody launches for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnservedJob {
    /// Its key.
    pub job: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Its name, as the workflow's author wrote it.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// The pool that is to serve it after the approval.
    pub pool: Option<PoolName>,
    /// When GitHub queued it.
    pub queued_at: Time,
    /// How long it has waited like this, seconds.
    pub age_seconds: Seconds,
    /// Why nothing is launched for it, in a sentence.
    pub reason: String,
}

impl UnservedJob {
    /// A job that no pool serves, or that waits for an approval.
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

    /// What a search looks at.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        words(&self.repository, &self.name, self.job, &self.labels)
    }
}

/// What was queued in a repository, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedJobs {
    /// Jobs that are on record now, that were not, and that a pool serves.
    pub taken_in: Vec<WaitingJob>,
    /// Jobs that were on record.
    pub known: Vec<JobKey>,
    /// Jobs that no pool serves, each with the reason.
    pub unserved: Vec<UnservedJob>,
    /// How many others there are: jobs of GitHub's own runners.
    pub not_ours: usize,
    /// More is queued than was looked at; ask again when these have runners.
    pub more: bool,
}

/// Whether a list is all, and how to see more of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct More {
    /// There is more than is shown.
    pub more: bool,
    /// `page` of the request that shows it. A page is of its own moment: what changes its place in
    /// between may be missing, or stand there twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl From<Option<String>> for More {
    fn from(next: Option<String>) -> Self {
        Self { more: next.is_some(), next }
    }
}

/// Why a job is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedJob {
    /// Its record.
    pub job: Job,
    /// In sentences.
    pub explanation: Vec<String>,
    /// The instance that ran it, or that is meant for it, as long as there is a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_on: Option<InstanceSummary>,
    /// What its wait was made of, and what its machine costs: as its line of usage has it, or, while
    /// the machine lives, would have it by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
}

/// Why an instance is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedInstance {
    /// In sentences.
    pub explanation: Vec<String>,
}
