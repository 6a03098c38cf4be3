//! The parts of an instance's record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::state::RunnerState;
use crate::agent::AgentInUse;
use crate::ids::{JobKey, RunnerId};
use crate::time::Time;

/// Why an instance is on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DeleteReason {
    /// Somebody asked for it; who and why stand in the order.
    Ordered,
    /// The runner ended after its job, or without one.
    RunnerEnded,
    /// GitHub says the job completed and the machine never reported its end.
    JobCompleted,
    /// The runner did not report its start before the boot deadline.
    BootTimeout,
    /// No job came.
    Idle,
    /// No job needs the slot any more and no machine was launched for it.
    NotNeeded,
    /// The launch failed.
    LaunchFailed,
    /// EC2 says that the machine is gone.
    MachineGone,
    /// EC2 says that the machine was stopped; an ephemeral machine is never started again.
    MachineStopped,
    /// The machine is older than its pool allows.
    MaxLifetime,
    /// Still without a job at half of the pool's longest life: a job that came now could be cut
    /// short by it.
    Retired,
    /// GitHub has no registration of an idle runner any more, or its agent is not connected: no job
    /// can reach it.
    Unreachable,
    /// EC2 has announced that it takes the machine back.
    SpotNotice,
    /// Not what its pool says now: see [`super::Instance::is_outdated`].
    Outdated,
}

impl DeleteReason {
    /// The word in tables, logs and answers.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// An operator's delete order. Orders only gain flags: a later plain delete does not take force
/// back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// When it was first given.
    pub at: Time,
    /// Who gave it, as the caller says.
    pub by: String,
    /// Why, in the operator's words.
    pub reason: String,
    /// Provider errors do not hold the delete up.
    pub force: bool,
    /// 401 and 403 from GitHub do not hold the delete up.
    pub bypass_github_unauthorized: bool,
    /// A running job is killed.
    pub kill_running_job: bool,
}

impl Order {
    /// Its reason and all that it was to overrule, for the audit trail.
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

    /// This order with the flags of a later one added.
    #[must_use]
    pub fn joined(&self, later: &Self) -> Self {
        let stronger = (later.force && !self.force)
            || (later.kill_running_job && !self.kill_running_job)
            || (later.bypass_github_unauthorized && !self.bypass_github_unauthorized);
        // The clock of force starts with force, and the name on it is of the one who forced.
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

/// What holds a delete up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Waiting {
    /// A configuration call may still be in flight.
    Registering,
    /// The runner's own hook, or GitHub's event, says that a job runs.
    JobRunning,
    /// GitHub refused to remove a busy runner (422).
    Busy,
    /// The second of two "not busy" reads is not due yet.
    SecondRead,
    /// GitHub's rate limit.
    RateLimited,
    /// GitHub refuses our credentials.
    Unauthorized,
    /// GitHub does not answer.
    GithubUnavailable,
    /// EC2 has not answered the launch yet: there may be a machine.
    LaunchOpen,
    /// EC2 refused or failed; the error stands in `last_error`.
    Provider,
    /// EC2 does not know the machine; looks for twenty minutes must confirm it.
    Absent,
    /// An operator has switched deletes off.
    SwitchedOff,
}

impl Waiting {
    /// What it is, in short.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Registering => "GitHub's answer to its registration",
            Self::JobRunning => "the end of its job",
            Self::Busy => "the end of its job, says GitHub",
            Self::SecondRead => "a second look",
            Self::RateLimited => "GitHub's rate limit",
            Self::Unauthorized => "access to GitHub",
            Self::GithubUnavailable => "GitHub, which does not answer",
            Self::LaunchOpen => "EC2's answer to its launch",
            Self::Provider => "EC2, which refuses or fails",
            Self::Absent => "EC2 to confirm that there is no machine",
            Self::SwitchedOff => "deletes to be switched on",
        }
    }
}

/// The delete mark and the evidence gathered since it was set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteMark {
    /// Since when.
    pub at: Time,
    /// Why.
    pub reason: DeleteReason,
    /// First of an unbroken row of "not busy" reads.
    pub not_busy_since: Option<Time>,
    /// The kill gate was passed; it is not asked again.
    pub gate_passed: bool,
    /// GitHub is asked to remove the registration and has not refused: no job may start until it
    /// has. Until then the call belongs to the pass that makes it.
    pub removing_until: Option<Time>,
    /// GitHub has no registration of this runner any more.
    pub deregistered: bool,
    /// What the delete waits for right now.
    pub waiting: Option<Waiting>,
    /// Calls to GitHub in a row that brought no answer.
    pub silences: u32,
    /// GitHub is told, and the audit trail if a job runs, that the end does not wait for a job.
    pub kill_told: bool,
}

impl DeleteMark {
    /// No job may start any more: somebody wants the machine gone, EC2 takes it, or it is too old.
    #[must_use]
    pub const fn refuses_jobs(&self) -> bool {
        matches!(
            self.reason,
            DeleteReason::Ordered | DeleteReason::SpotNotice | DeleteReason::MaxLifetime
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
    /// The workflow run.
    pub run: u64,
    /// The job's name.
    pub name: String,
    /// When the hook reported the end.
    pub completed_at: Option<Time>,
    /// When GitHub's word for its end was taken, since the machine has said nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_off_at: Option<Time>,
}

impl StartedJob {
    /// It runs, as far as the machine has told.
    #[must_use]
    pub const fn is_under_way(&self) -> bool {
        self.completed_at.is_none() && self.written_off_at.is_none()
    }
}

/// Which job it is, in GitHub's words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobTitle {
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Its name, as the workflow's author wrote it.
    pub name: Arc<str>,
}

/// How the runner's agent ended, or why it never started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// When it was reported.
    pub at: Time,
    /// The agent's exit code; none when it never started.
    pub code: Option<i32>,
    /// The last log lines of a failed boot.
    pub log: Option<String>,
    /// GitHub's refusal of its configuration, where the machine was sent away for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<ErrorDetail>,
    /// The job that it was given and may not run: which, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
}

impl Exit {
    /// An end of which nothing more is known.
    pub(super) const fn at(at: Time) -> Self {
        Self { at, code: None, log: None, refused: None, foreign: None }
    }
}

/// The runner side of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Runner {
    /// Where it is.
    pub state: RunnerState,
    /// Since when.
    pub since: Time,
    /// How many configurations were asked of GitHub; the newest registration is `<instance>-<n>`.
    pub n: u32,
    /// Since when the call for configuration `n` has been out without an answer on record.
    pub asking_since: Option<Time>,
    /// The registration of configuration `n`.
    pub id: Option<RunnerId>,
    /// The agent that its machine runs, where it has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentInUse>,
    /// The job its hook reported.
    pub started: Option<StartedJob>,
    /// The job that GitHub's event says it took and has not completed.
    pub github_job: Option<JobKey>,
    /// The job that it ran or runs, by GitHub's event alone: a job can tell as its machine what it
    /// likes. Kept for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<JobKey>,
    /// Which one that is, by the same event: who lists machines reads no jobs for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_title: Option<JobTitle>,
    /// When GitHub said `completed` for the job it took.
    pub github_completed_at: Option<Time>,
    /// GitHub says that this job failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// The end of the agent.
    pub exit: Option<Exit>,
}

/// An error worth keeping.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// When it happened.
    pub at: Time,
    /// What was tried.
    pub operation: String,
    /// The other side's code.
    pub code: String,
    /// The other side's sentence.
    pub message: String,
}

impl std::fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.operation, self.code, self.message)
    }
}

/// One line of an instance's story.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What happened, in a sentence.
    pub what: Arc<str>,
}
