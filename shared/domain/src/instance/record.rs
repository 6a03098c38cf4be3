//! The parts of an instance's record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::state::RunnerState;
use super::used::Used;
use crate::agent::AgentInUse;
use crate::ids::{JobKey, RunnerId};
use crate::provider::ErrorDetail;
use crate::time::Time;

/// Why an instance is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeleteReason {
    /// An operator ordered it; the order has the name and the reason.
    Ordered,
    /// The runner ended after its job, or without one.
    RunnerEnded,
    /// GitHub reports that the job completed, and the machine never reported its end.
    JobCompleted,
    /// The runner did not report its start before the boot deadline.
    BootTimeout,
    /// No job came.
    Idle,
    /// No job needs the slot, and no machine was launched for it.
    NotNeeded,
    /// The launch failed.
    LaunchFailed,
    /// EC2 reports that the machine is gone.
    MachineGone,
    /// EC2 reports that the machine was stopped; an ephemeral machine is never restarted.
    MachineStopped,
    /// The machine exceeds its pool's maximum lifetime.
    MaxLifetime,
    /// Still without a job at half of the pool's maximum lifetime, which could cut short a job that
    /// starts now.
    Retired,
    /// GitHub no longer has the registration of an idle runner, or its agent is not connected: no
    /// job can reach it.
    Unreachable,
    /// EC2 announced a Spot interruption.
    SpotNotice,
    /// The machine no longer matches its pool: see [`super::Instance::is_outdated`].
    Outdated,
    /// The build of an image no longer needs it.
    BuildEnded,
}

impl DeleteReason {
    /// Returns the name used in tables, logs and responses.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// An operator's delete order. Orders only gain flags: a later plain delete does not withdraw
/// force.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteOrder {
    /// When it was first given.
    pub at: Time,
    /// Who gave it, as the caller reported.
    pub by: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// Whether the delete proceeds despite errors from EC2 and GitHub.
    pub force: bool,
    /// Whether the delete proceeds despite 401 and 403 responses from GitHub.
    pub bypass_github_unauthorized: bool,
    /// Whether to kill a running job.
    pub kill_running_job: bool,
}

impl DeleteOrder {
    /// Formats the reason and the flags, for the audit log.
    #[must_use]
    pub fn told(&self) -> String {
        let flags = [
            (self.force, "force"),
            (self.bypass_github_unauthorized, "bypass_github_unauthorized"),
            (self.kill_running_job, "kill_running_job"),
        ];
        let given: Vec<&str> =
            flags.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect();
        match given.is_empty() {
            true => self.reason.clone(),
            false => format!("{} (with {})", self.reason, given.join(", ")),
        }
    }

    /// Returns this order with the flags of a later one added.
    #[must_use]
    pub fn joined(&self, later: &Self) -> Self {
        let stronger = (later.force && !self.force)
            || (later.kill_running_job && !self.kill_running_job)
            || (later.bypass_github_unauthorized && !self.bypass_github_unauthorized);
        // The time limit of a forced delete starts when force was ordered, and the order names the
        // operator who ordered it.
        let base = if stronger { later } else { self };
        Self {
            force: self.force || later.force,
            bypass_github_unauthorized: self.bypass_github_unauthorized
                || later.bypass_github_unauthorized,
            kill_running_job: self.kill_running_job || later.kill_running_job,
            ..base.clone()
        }
    }
}

/// What a delete is waiting for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waiting {
    /// A configuration request may still be in flight.
    Registering,
    /// The runner's own hook, or GitHub's event, reports a running job.
    JobRunning,
    /// GitHub refused to remove a busy runner (422).
    Busy,
    /// The second of two "not busy" reads is not due yet.
    SecondRead,
    /// GitHub's rate limit.
    RateLimited,
    /// GitHub rejects the App's credentials.
    Unauthorized,
    /// GitHub does not answer.
    GithubUnavailable,
    /// EC2 has not answered the launch request yet: there may be a machine.
    LaunchOpen,
    /// EC2 refused or failed; the error is in `last_error`.
    Provider,
    /// EC2 does not know the machine; checks over twenty minutes must confirm it.
    Absent,
    /// An operator has paused deletes.
    SwitchedOff,
}

impl Waiting {
    /// Returns a short phrase that completes "waits for …".
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Registering => "GitHub's answer to its registration",
            Self::JobRunning => "the end of its job",
            Self::Busy => "the end of its job, according to GitHub",
            Self::SecondRead => "a second check",
            Self::RateLimited => "GitHub's rate limit",
            Self::Unauthorized => "access to GitHub",
            Self::GithubUnavailable => "GitHub, which does not answer",
            Self::LaunchOpen => "EC2's answer to its launch",
            Self::Provider => "EC2, which refuses or fails",
            Self::Absent => "EC2 to confirm that there is no machine",
            Self::SwitchedOff => "deletes to be resumed",
        }
    }
}

/// The delete mark and the evidence gathered since it was set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteMark {
    /// When it was set.
    pub at: Time,
    /// Why it was set.
    pub reason: DeleteReason,
    /// The first of an unbroken series of "not busy" reads.
    pub not_busy_since: Option<Time>,
    /// Whether the kill gate was passed; it is then not evaluated again.
    pub gate_passed: bool,
    /// The lease of a request to GitHub to remove the registration. Until the lease ends, the call
    /// belongs to the pass that makes it, and no job may start until GitHub has refused.
    pub removing_until: Option<Time>,
    /// Whether GitHub no longer has the registration of this runner.
    pub deregistered: bool,
    /// What the delete waits for right now.
    pub waiting: Option<Waiting>,
    /// Consecutive calls to GitHub without an answer.
    pub silences: u32,
    /// Whether GitHub, and the audit log if a job runs, were notified that the end does not wait
    /// for a job.
    pub kill_told: bool,
}

impl DeleteMark {
    /// Returns whether no job may start: an operator wants the machine gone, EC2 is reclaiming it,
    /// it is too old, or it never was for jobs.
    #[must_use]
    pub const fn refuses_jobs(&self) -> bool {
        matches!(
            self.reason,
            DeleteReason::Ordered
                | DeleteReason::SpotNotice
                | DeleteReason::MaxLifetime
                | DeleteReason::BuildEnded
        )
    }
}

/// A job that the runner's own hook reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartedJob {
    /// When the hook reported the start.
    pub at: Time,
    /// `owner/repo`.
    pub repository: String,
    /// The ID of the workflow run.
    pub run: u64,
    /// The job's name.
    pub name: String,
    /// The number of its pull request. The machine's word: displayed and summed only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<u32>,
    /// When the hook reported the end.
    pub completed_at: Option<Time>,
    /// When GitHub's report of the end was accepted in place of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_off_at: Option<Time>,
}

impl StartedJob {
    /// Returns whether it is still running, according to the machine.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.completed_at.is_none() && self.written_off_at.is_none()
    }
}

/// The name of a job at GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobTitle {
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// The job's name, as the workflow's author wrote it.
    pub name: Arc<str>,
}

/// Why the machine's supervisor stopped the agent, as the machine reported. A job that can become
/// root can report it too, so EC2 must confirm it before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StopCause {
    /// EC2 announced a Spot interruption.
    Interruption,
}

/// How the runner's agent ended, or why it never started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// When it was reported.
    pub at: Time,
    /// The agent's exit code. `None` if the agent never started.
    pub code: Option<i32>,
    /// The last log lines of a failed boot.
    pub log: Option<String>,
    /// GitHub's refusal of its configuration, if the machine was shut down for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<ErrorDetail>,
    /// The job that it was given but must not run, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// Why the supervisor stopped it, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_for: Option<StopCause>,
}

impl Exit {
    /// Creates an exit without details.
    pub(super) const fn at(at: Time) -> Self {
        Self { at, code: None, log: None, refused: None, foreign: None, stopped_for: None }
    }
}

/// The runner side of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Runner {
    /// The state.
    pub state: RunnerState,
    /// When it entered this state.
    pub since: Time,
    /// Number of configurations requested from GitHub; the newest registration is `<instance>-<n>`.
    pub n: u32,
    /// When the request for configuration `n` was sent, while its response is not recorded.
    pub asking_since: Option<Time>,
    /// The registration of configuration `n`.
    pub id: Option<RunnerId>,
    /// The agent that its machine runs, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentInUse>,
    /// The job that its hook reported.
    pub started: Option<StartedJob>,
    /// The job that, according to GitHub's event, it took and has not completed.
    pub github_job: Option<JobKey>,
    /// The job that it ran or runs, according to GitHub's event only: a job can make its machine
    /// report anything. Never cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<JobKey>,
    /// The name of that job, from that event, so that listing machines does not read job records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_title: Option<JobTitle>,
    /// When GitHub reported `completed` for the job it took.
    pub github_completed_at: Option<Time>,
    /// Whether GitHub reported that this job failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// When the machine reported that it saw EC2's notice of a Spot interruption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_at: Option<Time>,
    /// What its job used, if its machine reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// How the agent ended.
    pub exit: Option<Exit>,
}

/// One entry of an instance's history.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When it happened.
    pub at: Time,
    /// What happened, in a sentence.
    pub what: Arc<str>,
}
