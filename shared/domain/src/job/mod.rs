//! Jobs, and the fold that makes one of any number of events in any order.

pub mod claim;
pub mod explain;
mod fold;
pub mod labels;
pub mod run;
mod wait;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::fold::fold;
use crate::ids::{Entity, InstallationId, InstanceName, JobKey, PoolName, RunnerId};
use crate::instance::Instance;
use crate::job::labels::Labels;
use crate::time::{Seconds, Time};

/// Where GitHub is with a job. The order is the rank: a job only moves up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Held back by a deployment protection rule; no machine is needed yet.
    Waiting,
    /// Needs a runner.
    Queued,
    /// A runner took it.
    InProgress,
    /// Over, however it ended.
    Completed,
}

/// What one `workflow_job` delivery says. This is also the message on the jobs queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEvent {
    /// Which job.
    pub key: JobKey,
    /// The status that this event reports.
    pub status: JobStatus,
    /// `owner/repo`, for people and for GitHub's paths.
    pub repository: Arc<str>,
    /// Whether the repository is private. Jobs of public ones are refused by default.
    pub private: bool,
    /// Whether a person rather than an organization owns the repository: its runners can only be
    /// registered at the repository itself.
    pub user_owned: bool,
    /// The App's installation that sent the event.
    pub installation: Option<InstallationId>,
    /// The workflow run and its attempt.
    pub run: u64,
    /// See `run`.
    pub attempt: u32,
    /// The job's name. Text of the workflow's author: shown, never interpreted.
    pub name: Arc<str>,
    /// The name of its workflow, and the branch of its run. Text of the workflow's author, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Arc<str>>,
    /// See `workflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Arc<str>>,
    /// The labels of `runs-on`. Empty in some `completed` events (ARC #1370).
    pub labels: Labels,
    /// The runner that took the job, by name.
    pub runner: Option<String>,
    /// The number of that runner's registration.
    pub runner_id: Option<RunnerId>,
    /// How it ended.
    pub conclusion: Option<String>,
    /// When GitHub queued the job.
    pub queued_at: Option<Time>,
    /// When a runner took it.
    pub started_at: Option<Time>,
    /// When it ended.
    pub completed_at: Option<Time>,
}

impl JobEvent {
    /// GitHub says that it failed by itself: nobody has cancelled it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.status == JobStatus::Completed
            && matches!(self.conclusion.as_deref(), Some("failure" | "timed_out"))
    }
}

/// A job that waits for an approval is given up after this long. GitHub itself ends it after 30
/// days (its documentation, "Reviewing deployments"); a day more is no harm.
pub const APPROVAL_EXPIRY: Seconds = Seconds(31 * 24 * 3600);

/// A job that is said to wait for an approval, and of which GitHub could not be asked, is asked for
/// again after this long: until then a machine may come for it in vain.
const DOUBT_LASTS: Seconds = Seconds(300);

/// What is known of the approval that a job waits for. GitHub says `queued` first, then `waiting`,
/// and `queued` again once somebody has approved (RunsOn #539). Deliveries come late and in any
/// order, so one that says `waiting` is a reason to ask; only GitHub's own answer settles it.
/// `queued` opens it at once, whatever was said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It was said, at this time, that the job waits; GitHub is to be asked. The job is served
    /// meanwhile.
    Told(Time),
    /// GitHub was asked after that, and says so too: the job needs no machine.
    Closed(Time),
}

/// A connected runner idled beside a job in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassedOver {
    /// How many runners did.
    pub times: u32,
    /// When the last one was given up.
    pub at: Time,
}

impl PassedOver {
    /// One more.
    #[must_use]
    pub const fn again(before: Option<Self>, at: Time) -> Self {
        let times = match before {
            Some(before) => before.times + 1,
            None => 1,
        };
        Self { times, at }
    }
}

/// How a job came to a pool that was not the first choice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moved {
    /// The pool that had no room for it.
    pub from: PoolName,
    /// When.
    pub at: Time,
    /// What stood in the way there, in a sentence.
    pub why: String,
}

/// A machine that was launched for a job, and ended before any job reached it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailedMachine {
    /// Its instance.
    pub instance: InstanceName,
    /// When that was known.
    pub at: Time,
    /// What became of it, and what it said last.
    pub why: String,
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Version of the record's form.
    pub schema: u16,
    /// All that GitHub said, merged.
    #[serde(flatten)]
    pub last_event: JobEvent,
    /// When the first event reached us.
    pub seen_at: Time,
    /// The pool that serves the job.
    pub pool: Option<PoolName>,
    /// Why no pool serves it, if none does.
    pub unmatched: Option<String>,
    /// The instance that is to serve it. Not a binding: GitHub gives a job to any matching runner.
    pub claim: Option<InstanceName>,
    /// Connected runners idled beside it, and GitHub gave it to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<PassedOver>,
    /// The last machine that was launched for it in vain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedMachine>,
    /// Set when the job was given up as expired; it needs no runner any more.
    pub expired: bool,
    /// Its last move to another pool.
    pub moved: Option<Moved>,
    /// When GitHub was last asked for the job, because nothing had been heard of it for long.
    pub asked_at: Option<Time>,
    /// When we heard that it could have a runner, if that is not when GitHub queued it: after an
    /// approval, or after GitHub confirmed an old job.
    pub opened_at: Option<Time>,
    /// Set while it is known or said to wait for an approval, although it was queued before.
    pub approval: Option<Approval>,
    /// Set while it may be one that can never run, or when it was found to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<run::Doubt>,
}

/// So that a rule takes plain records and stored ones.
impl AsRef<Self> for Job {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Job {
    /// The job as another pool's. What was passed over were runners of the pool that it leaves.
    #[must_use]
    pub fn moved_to(&self, pool: &PoolName, why: &str, now: Time) -> Self {
        let moved = self.pool.clone().map(|from| Moved { from, at: now, why: why.to_owned() });
        Self { pool: Some(pool.clone()), passed_over: None, moved, ..self.clone() }
    }

    /// The job's key.
    #[must_use]
    pub const fn key(&self) -> JobKey {
        self.last_event.key
    }

    /// Where GitHub is with it, as far as we were told.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        self.last_event.status
    }

    /// GitHub says that it is over.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.status() == JobStatus::Completed
    }

    /// Queued at GitHub and served by one of our pools: it must end in a runner, an end event or a
    /// reason.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.needs_runner() && self.pool.is_some()
    }

    /// Waits for an approval at GitHub. It needs no machine, is not late, and has 30 days.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        let closed = matches!(self.approval, Some(Approval::Closed(_)));
        let waits = self.status() == JobStatus::Waiting;
        (waits || self.status() == JobStatus::Queued && closed) && !self.expired
    }

    fn needs_runner(&self) -> bool {
        self.status() == JobStatus::Queued && !self.is_gated() && !self.expired
    }

    /// Queued, and no pool served it when it came. A pool that is applied later may.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.needs_runner() && self.pool.is_none()
    }

    /// Waiting without a claim: the launch pass must find it a runner.
    #[must_use]
    pub fn is_demand(&self) -> bool {
        self.is_waiting() && self.claim.is_none() && !self.is_unconfirmed()
    }

    /// So old when first heard of that GitHub must confirm it before it has a machine.
    fn is_unconfirmed(&self) -> bool {
        self.doubt.is_some_and(run::Doubt::bars)
    }

    /// Whether GitHub is to be asked: it has waited for `silence` since anything was heard of it, or
    /// there is a doubt.
    #[must_use]
    pub fn is_silent(&self, silence: Seconds, now: Time) -> bool {
        let served = self.is_waiting() || self.is_gated() && self.pool.is_some();
        let asks = self.is_in_doubt(now) || run::is_to_be_asked(self, now);
        served && (asks || now.is_past(self.heard_at(), silence))
    }

    /// Said to wait for an approval, and GitHub was not asked since, or has not answered.
    fn is_in_doubt(&self, now: Time) -> bool {
        let Some(Approval::Told(at)) = self.approval else { return false };
        self.asked_at.is_none_or(|asked| asked < at || now.is_past(asked, DOUBT_LASTS))
    }

    /// When GitHub was asked about it last; when we heard of it, if it was not.
    #[must_use]
    pub fn heard_at(&self) -> Time {
        self.asked_at.unwrap_or_else(|| self.seen_at.max(self.queued_at()))
    }

    /// Since when it waits for an approval, as far as we know.
    #[must_use]
    pub fn gated_since(&self) -> Time {
        match self.approval {
            Some(Approval::Told(at) | Approval::Closed(at)) => at,
            None => self.seen_at,
        }
    }

    /// The job as GitHub's answer makes it, which calls it waiting. The first such answer is a
    /// reason to ask again: the `queued` of an approval may have come while it was under way, and
    /// have changed nothing. From then on it would be demand, so a second one is believed.
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
            // What held a launch back is over when the job is queued again.
            next.passed_over = None;
        }
        next
    }

    /// When GitHub queued it; when we first heard of it where GitHub did not say.
    #[must_use]
    pub fn queued_at(&self) -> Time {
        self.last_event.queued_at.unwrap_or(self.seen_at)
    }

    /// The instance that its runner is named after. Only the name says so: see [`Job::is_taken_by`].
    #[must_use]
    pub fn ran_on(&self) -> Option<InstanceName> {
        self.last_event.runner.as_deref().and_then(crate::ids::instance_of_runner)
    }

    /// Returns whether this instance's runner took the job, by everything that GitHub said. A name
    /// alone proves nothing: it can be used in every other account, and at a repository of the same
    /// organization (github.com/github/docs/issues/17589). The number of a registration is recorded
    /// before its machine gets the configuration, so an instance without a number has run nothing.
    #[must_use]
    pub fn is_taken_by(&self, instance: &Instance) -> bool {
        let said = &self.last_event;
        self.ran_on().as_ref() == Some(&instance.name)
            && instance.entity.covers(&said.repository)
            && instance.runner.id.is_some_and(|own| said.runner_id.is_none_or(|told| told == own))
    }

    /// Where runners for it are registered, unless its pool says otherwise.
    #[must_use]
    pub fn home(&self) -> Option<Entity> {
        let repository = &*self.last_event.repository;
        let (owner, _) = repository.split_once('/')?;
        if self.last_event.user_owned { repository } else { owner }.parse().ok()
    }
}
