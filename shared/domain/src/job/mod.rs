//! Jobs, and the fold that merges any number of events, in any order, into one record.

mod fold;
pub mod labels;
pub mod run;
mod wait;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::fold::fold;
use crate::ids::{Entity, InstallationId, InstanceName, JobKey, PoolName, RunKey, RunnerId};
use crate::job::labels::Labels;
use crate::time::{Seconds, Time};

/// A job's status at GitHub. The order is the rank: a job only moves up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Blocked by a deployment protection rule; no machine is needed yet.
    Waiting,
    /// Needs a runner.
    Queued,
    /// A runner took it.
    InProgress,
    /// Finished, with any conclusion.
    Completed,
}

/// The parameter `UsageActors`: whether records contain the GitHub user who caused a run. What a
/// person costs is personal data, so it is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Actors {
    /// They do not.
    #[default]
    No,
    /// They do.
    Yes,
}

/// The contents of one `workflow_job` delivery. Also the message on the jobs queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEvent {
    /// The job's key.
    pub key: JobKey,
    /// The status that this event reports.
    pub status: JobStatus,
    /// `owner/repo`, for display and for GitHub's API paths.
    pub repository: Arc<str>,
    /// Whether the repository is private. Jobs of public ones are refused by default.
    pub private: bool,
    /// Whether a user rather than an organization owns the repository. Its runners can then only be
    /// registered at the repository.
    pub user_owned: bool,
    /// The App installation that sent the event.
    pub installation: Option<InstallationId>,
    /// The ID of the workflow run.
    pub run: u64,
    /// The attempt of that run.
    pub attempt: u32,
    /// The job's name. Written by the workflow's author: displayed, never interpreted.
    pub name: Arc<str>,
    /// The workflow's name. Also written by the workflow's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// The branch of the run. Also written by the workflow's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Arc<str>>,
    /// The login of the GitHub user who caused the run, in a `queued` event, if the stack records
    /// actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
    /// Whether a person caused it, in a `queued` event of a re-run. GitHub names an App otherwise. Never
    /// for a job with a deployment: GitHub may name the person who approved it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_person: bool,
    /// Whether the job belongs to a deployment environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deploys: bool,
    /// The labels of `runs-on`. Empty in some `completed` events (ARC #1370).
    pub labels: Labels,
    /// The runner that took the job, by name.
    pub runner: Option<String>,
    /// The ID of that runner's registration.
    pub runner_id: Option<RunnerId>,
    /// The conclusion, for example `success`.
    pub conclusion: Option<String>,
    /// When GitHub queued the job.
    pub queued_at: Option<Time>,
    /// When a runner took the job.
    pub started_at: Option<Time>,
    /// When the job ended.
    pub completed_at: Option<Time>,
}

impl JobEvent {
    /// Returns the key of its workflow run.
    #[must_use]
    pub const fn run_key(&self) -> RunKey {
        RunKey { app: self.key.app, run: self.run }
    }

    /// Returns whether GitHub reports that the job failed, as opposed to being cancelled.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.status == JobStatus::Completed
            && matches!(self.conclusion.as_deref(), Some("failure" | "timed_out"))
    }
}

/// Time after which a job that waits for an approval is given up. GitHub ends such a job after 30
/// days (its documentation, "Reviewing deployments"); the extra day is a safety margin.
pub const APPROVAL_EXPIRY: Seconds = Seconds(31 * 24 * 3600);

/// Interval between GitHub queries for a job whose state is in doubt, for example one that was
/// reported waiting for an approval while GitHub could not be queried. In the meantime a machine
/// may be launched for it and wasted.
const DOUBT_LASTS: Seconds = Seconds(300);

/// The state of a job's approval.
///
/// GitHub sends `queued` first, then `waiting`, and `queued` again after the approval (RunsOn
/// #539). Deliveries are late and unordered, so a `waiting` event only causes a query; GitHub's
/// answer to that query decides. `queued` opens the job immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// An event reported, at this time, that the job waits; GitHub has not confirmed it yet. The
    /// job is served in the meantime.
    Told(Time),
    /// GitHub confirmed it in a later query. The job needs no machine. The time is that of the
    /// first report.
    Closed(Time),
}

/// A count of connected runners that idled while this job waited, without getting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassedOver {
    /// The number of such runners.
    pub times: u32,
    /// When the last one ended.
    pub at: Time,
}

impl PassedOver {
    /// Returns the record with one more runner counted.
    #[must_use]
    pub const fn again(before: Option<Self>, at: Time) -> Self {
        let times = match before {
            Some(before) => before.times + 1,
            None => 1,
        };
        Self { times, at }
    }
}

/// A job's move from one pool to a different one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moved {
    /// The pool that had no capacity for it.
    pub from: PoolName,
    /// When it moved.
    pub at: Time,
    /// Why the earlier pool could not launch, in a sentence.
    pub why: String,
}

/// A machine that was launched for a job and ended before any job reached it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailedMachine {
    /// Its instance.
    pub instance: InstanceName,
    /// When this was detected.
    pub at: Time,
    /// What happened to it, and its last log lines.
    pub why: String,
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// The record's schema version.
    pub schema: u16,
    /// All events merged.
    #[serde(flatten)]
    pub last_event: JobEvent,
    /// When the first event arrived.
    pub seen_at: Time,
    /// The pool that serves the job.
    pub pool: Option<PoolName>,
    /// Why no pool serves the job, if that is the case.
    pub unmatched: Option<String>,
    /// The instance expected to run the job. Not a binding: GitHub gives a job to any matching
    /// runner.
    pub claim: Option<InstanceName>,
    /// Connected runners that idled while the job waited and did not get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<PassedOver>,
    /// The last machine that was launched for the job and wasted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedMachine>,
    /// Whether the job was given up as expired. It needs no runner.
    pub expired: bool,
    /// The last move to a different pool.
    pub moved: Option<Moved>,
    /// When GitHub was last queried about the job, after a long time without an event.
    pub asked_at: Option<Time>,
    /// When Muster learned that the job can have a runner, if later than GitHub's queue time: after
    /// an approval, or after GitHub confirmed an old job.
    pub opened_at: Option<Time>,
    /// The state of the approval if the job, although queued before, was reported to wait for one.
    pub approval: Option<Approval>,
    /// Whether Muster ordered this attempt, because EC2 interrupted the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rerun: bool,
    /// Why the job may never be able to run, or why it was found not to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<run::Doubt>,
}

/// Lets rules accept both plain and stored records.
impl AsRef<Self> for Job {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Job {
    /// Returns the job moved to this pool. Clears `passed_over`, which counted runners of the old
    /// pool.
    #[must_use]
    pub fn moved_to(&self, pool: &PoolName, why: &str, now: Time) -> Self {
        let moved = self.pool.clone().map(|from| Moved { from, at: now, why: why.to_owned() });
        Self { pool: Some(pool.clone()), passed_over: None, moved, ..self.clone() }
    }

    /// Returns the job's key.
    #[must_use]
    pub const fn key(&self) -> JobKey {
        self.last_event.key
    }

    /// Returns the highest status that GitHub has reported.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        self.last_event.status
    }

    /// Returns whether GitHub reports that the job has ended.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.status() == JobStatus::Completed
    }

    /// Returns whether the job is queued at GitHub and a pool serves it. It must end with a runner,
    /// an end event or a recorded reason.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.needs_runner() && self.pool.is_some()
    }

    /// Returns whether the job waits for an approval at GitHub. It needs no machine, is not late,
    /// and has 30 days.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        let closed = matches!(self.approval, Some(Approval::Closed(_)));
        let waits = self.status() == JobStatus::Waiting;
        (waits || self.status() == JobStatus::Queued && closed) && !self.expired
    }

    fn needs_runner(&self) -> bool {
        self.status() == JobStatus::Queued && !self.is_gated() && !self.expired
    }

    /// Returns whether the job is queued and no pool served it when it arrived. A pool applied
    /// later may serve it.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.needs_runner() && self.pool.is_none()
    }

    /// Returns whether the job waits without a claim, so that the launch pass must find it a
    /// runner.
    #[must_use]
    pub fn is_demand(&self) -> bool {
        self.is_waiting() && self.claim.is_none() && !self.is_unconfirmed()
    }

    /// Returns whether the job is of a merge queue. Whoever can push such a branch gets at most
    /// On-Demand machines.
    /// Source: docs.github.com/en/repositories, "Managing a merge queue"
    #[must_use]
    pub fn is_in_merge_queue(&self) -> bool {
        let branch = self.last_event.branch.as_deref();
        branch.is_some_and(|branch| branch.starts_with("gh-readonly-queue/"))
    }

    /// Returns whether the job was so old when its first event arrived that GitHub must confirm it
    /// before a machine is launched.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.doubt.is_some_and(run::Doubt::bars)
    }

    /// Returns whether GitHub should be queried: nothing was learned about the job for `silence`,
    /// or its state is in doubt.
    #[must_use]
    pub fn is_silent(&self, silence: Seconds, now: Time) -> bool {
        let served = self.is_waiting() || self.is_gated() && self.pool.is_some();
        let is_query_due = self.is_in_doubt(now) || run::is_query_due(self, now);
        served && (is_query_due || now.is_past(self.heard_at(), silence))
    }

    /// Returns whether the job was reported to wait for an approval and GitHub has not been queried
    /// since, or has not answered.
    fn is_in_doubt(&self, now: Time) -> bool {
        let Some(Approval::Told(at)) = self.approval else { return false };
        self.asked_at.is_none_or(|asked| asked < at || now.is_past(asked, DOUBT_LASTS))
    }

    /// Returns when GitHub was last queried about the job, or else when its first event arrived.
    #[must_use]
    pub fn heard_at(&self) -> Time {
        self.asked_at.unwrap_or_else(|| self.seen_at.max(self.queued_at()))
    }

    /// Returns the earliest known time at which the job waited for an approval.
    #[must_use]
    pub fn gated_since(&self) -> Time {
        match self.approval {
            Some(Approval::Told(at) | Approval::Closed(at)) => at,
            None => self.seen_at,
        }
    }

    /// Returns the job after GitHub's API reported it as waiting.
    ///
    /// The first such answer only causes a second query: the `queued` event of an approval may have
    /// arrived during the first one and changed nothing. Had the first answer been final, the job
    /// would then never become demand. The second answer is final.
    #[must_use]
    pub fn found_waiting(&self, now: Time) -> Self {
        let mut next = self.clone();
        if self.status() == JobStatus::Queued && !self.expired {
            next.approval = match self.approval {
                None => Some(Approval::Told(now)),
                Some(Approval::Told(at) | Approval::Closed(at)) => Some(Approval::Closed(at)),
            };
        }
        if next.is_gated() {
            next.asked_at = Some(now);
            // A back-off from before the approval no longer applies once the job is queued again.
            next.passed_over = None;
        }
        next
    }

    /// Returns when GitHub queued the job, or when its first event arrived if GitHub gave no time.
    #[must_use]
    pub fn queued_at(&self) -> Time {
        self.last_event.queued_at.unwrap_or(self.seen_at)
    }

    /// Returns the instance that the job's runner is named after. The name alone is no proof: see
    /// [`Instance::took`](crate::instance::Instance::took).
    #[must_use]
    pub fn ran_on(&self) -> Option<InstanceName> {
        self.last_event.runner.as_deref().and_then(crate::ids::instance_of_runner)
    }

    /// Returns the entity where the job's runners are registered, unless its pool names one.
    #[must_use]
    pub fn home(&self) -> Option<Entity> {
        let repository = &*self.last_event.repository;
        let (owner, _) = repository.split_once('/')?;
        if self.last_event.user_owned { repository } else { owner }.parse().ok()
    }
}
