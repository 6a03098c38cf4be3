//! Everything that a pass has observed. Every field starts as "not checked"; a missing answer never
//! counts as absence.

use crate::ec2::{ErrorClass, Make, StateReason};
use crate::ids::RunnerId;
use crate::launch::LaunchState;
use crate::provider::{ErrorDetail, ProviderError};
use crate::time::Time;

/// The result of checking an external system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Look<T> {
    /// Not checked.
    #[default]
    Unknown,
    /// Checked without getting an answer.
    Failed(ProviderError),
    /// Checked; this is the result.
    Seen(T),
}

impl<T> Look<T> {
    /// Returns the result, if there is one.
    #[must_use]
    pub const fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(seen) => Some(seen),
            Self::Unknown | Self::Failed(_) => None,
        }
    }
}

/// A workflow run at GitHub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSeen {
    /// Whether the run has ended, even if GitHub shows a different status for its jobs.
    pub is_over: bool,
    /// Its conclusion.
    pub conclusion: Option<String>,
    /// Its last attempt.
    pub attempt: u32,
    /// Whether an App started that attempt.
    pub is_by_app: bool,
    /// When its first attempt was created.
    pub created_at: Option<Time>,
    /// Where it comes from, if GitHub shows that.
    pub origin: Option<RunOrigin>,
}

/// What the runs of one workflow that replace each other have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOrigin {
    /// The ID of the workflow.
    pub workflow: u64,
    /// The event, for example `push`.
    pub event: String,
    /// The branch.
    pub branch: Option<String>,
    /// The repository of the branch, `owner/repo`: that of a fork for some pull requests.
    pub head_repository: Option<String>,
}

impl RunOrigin {
    /// Returns whether it is a pull request, whose newer runs replace the older ones.
    #[must_use]
    pub fn is_pull_request(&self) -> bool {
        self.event.starts_with("pull_request")
    }
}

/// The state of a machine at EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// Boots.
    Pending,
    /// Runs.
    Running,
    /// Stopped or stopping.
    Stopped,
    /// Shutting down or terminated: will never run again.
    Gone,
    /// Unknown to EC2. Alone this proves nothing: EC2 is eventually consistent.
    Absent,
}

/// EC2's description of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineSeen {
    /// The state.
    pub state: Machine,
    /// Why it is in this state, if EC2 or an AWS user changed it.
    pub reason: Option<StateReason>,
    /// When it ended, if EC2 reports that.
    pub ended_at: Option<Time>,
    /// Instance type, zone and market.
    pub make: Make,
}

impl From<Machine> for MachineSeen {
    fn from(state: Machine) -> Self {
        Self { state, reason: None, ended_at: None, make: Make::default() }
    }
}

/// The state of a runner at GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunnerSeen {
    /// GitHub has no registration with that ID or name.
    Absent,
    /// Registered and not busy, according to GitHub. Not proof of idleness.
    NotBusy(RunnerId),
    /// Registered and not busy, and its agent is not connected, or never was (`status: offline`;
    /// GitHub's REST API, "Get a self-hosted runner").
    Offline(RunnerId),
    /// Registered and busy.
    Busy(RunnerId),
}

/// GitHub's response to the DELETE of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deregistration {
    /// Removed (204).
    Done,
    /// 404: the registration never existed, was already removed, or will only be created later.
    NotFound,
    /// 422: it runs a job.
    Busy,
}

/// EC2's response to TerminateInstances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    /// Accepted; the machine is in this state now.
    Accepted(Machine),
    /// EC2 does not know the ID. Not proof of the machine's end.
    NotFound(ErrorDetail),
    /// Refused or failed.
    Failed(ErrorClass, ErrorDetail),
}

/// The state of an instance's launch record and the end of its lease. `None` if there is no such
/// record.
pub type LaunchSeen = Option<(LaunchState, Time)>;

/// Everything a pass has observed so far, including the outcome of its own effects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The message that woke the pass reports a change of the machine.
    pub machine_hint: bool,
    /// EC2's own event reports that the machine is ending or has ended.
    pub machine_told_gone: bool,
    /// When it ended, from that event or from EC2's description of the machine.
    pub machine_ended_at: Option<Time>,
    /// The message announces a Spot interruption.
    pub spot_notice: bool,
    /// When EC2 announced it, two minutes before the interruption, if the message has the time.
    pub spot_notice_at: Option<Time>,
    /// The machine no longer matches its pool: see [`crate::instance::Instance::is_outdated`].
    pub outdated: bool,
    /// The pool was removed from the pool file: it launches no machines.
    pub pool_removed: bool,
    /// An operator has paused deletes.
    pub deletes_off: bool,
    /// The result of DescribeInstances.
    pub machine: Look<Machine>,
    /// Why the machine is in its state, from that response.
    pub machine_reason: Option<StateReason>,
    /// Instance type, zone and market of the machine, from that response.
    pub machine_make: Make,
    /// The machine's console output.
    pub console: Look<String>,
    /// GitHub's view of the runner.
    pub runner: Look<RunnerSeen>,
    /// The launch record: state and end of its lease.
    pub launch: Look<LaunchSeen>,
    /// Whether the claimed job still waits for a runner.
    pub claimed_job_waits: Look<bool>,
    /// Whether the idle runner exceeds what its pool keeps.
    pub surplus: Look<bool>,
    /// Outcome of this pass's DELETE.
    pub deregistration: Look<Deregistration>,
    /// Outcome of this pass's TerminateInstances.
    pub termination: Option<Termination>,
}

impl Observation {
    /// Records the response to this pass's TerminateInstances. It makes EC2's earlier description
    /// of the machine obsolete.
    pub fn terminated(&mut self, answer: Termination) {
        self.machine = Look::Unknown;
        self.termination = Some(answer);
    }

    /// Returns what the next round of a pass still knows after a concurrent writer changed the
    /// record: the contents of its message, the console output, and the responses to its own calls.
    /// The record shows such a response as outstanding; without it the next round would wait for
    /// the lease to expire. The response about a registration is valid only for that registration.
    #[must_use]
    pub fn carried_over(&self, same_registration: bool) -> Self {
        let deregistration =
            if same_registration { self.deregistration.clone() } else { Look::Unknown };
        Self {
            machine_hint: self.machine_hint,
            machine_told_gone: self.machine_told_gone,
            machine_ended_at: self.machine_ended_at,
            spot_notice: self.spot_notice,
            spot_notice_at: self.spot_notice_at,
            console: self.console.clone(),
            deregistration,
            termination: self.termination.clone(),
            ..Self::default()
        }
    }
}
