//! What a pass sees. Every field starts as "not looked"; silence is never taken for absence.

use crate::ec2::{ErrorClass, Make, StateReason};
use crate::ids::RunnerId;
use crate::instance::ErrorDetail;
use crate::launch::LaunchState;
use crate::time::Time;

/// A look at something outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Look<T> {
    /// Nobody looked.
    #[default]
    Unknown,
    /// Looked, and got no answer.
    Failed(ProviderError),
    /// Looked, and saw this.
    Seen(T),
}

impl<T> Look<T> {
    /// What was seen, if anything was.
    #[must_use]
    pub const fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(seen) => Some(seen),
            Self::Unknown | Self::Failed(_) => None,
        }
    }
}

/// What EC2 says about a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// Boots.
    Pending,
    /// Runs.
    Running,
    /// Was stopped, or is stopping.
    Stopped,
    /// Shutting down or terminated: will never run again.
    Gone,
    /// EC2 does not know it. Alone this proves nothing: EC2 is eventually consistent.
    Absent,
}

/// A look at a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineSeen {
    /// Where it is.
    pub state: Machine,
    /// Why it is there, for a machine that EC2 or somebody has moved.
    pub reason: Option<StateReason>,
    /// When it ended, if EC2 says so.
    pub ended_at: Option<Time>,
    /// What it is.
    pub make: Make,
}

impl From<Machine> for MachineSeen {
    fn from(state: Machine) -> Self {
        Self { state, reason: None, ended_at: None, make: Make::default() }
    }
}

/// What GitHub says about a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunnerSeen {
    /// Has no registration of that id or name.
    Absent,
    /// Registered and not busy, as far as GitHub says. Not proof of idleness.
    NotBusy(RunnerId),
    /// Registered and not busy either, and its agent is not connected, or never was (`status:
    /// offline`; GitHub's REST API, "Get a self-hosted runner").
    Offline(RunnerId),
    /// Registered and busy.
    Busy(RunnerId),
}

/// GitHub's answer to a DELETE of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deregistration {
    /// 204
    Done,
    /// 404: there is none, or there is none any more, or there will be one later.
    NotFound,
    /// 422: it runs a job.
    Busy,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ProviderError {
    /// 401 or 403 that is not a rate limit.
    #[error("refused: {0}")]
    Unauthorized(ErrorDetail),
    /// A rate limit, with the time when it ends.
    #[error("rate limited until {0}")]
    RateLimited(Time),
    /// 5xx, time-out, reset: nobody knows.
    #[error("no answer: {0}")]
    Unavailable(ErrorDetail),
}

/// EC2's answer to TerminateInstances.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Termination {
    /// Accepted; the machine is in this state now.
    Accepted(Machine),
    /// EC2 does not know the id. Not a proof of its end.
    NotFound(ErrorDetail),
    /// Refused or failed.
    Failed(ErrorClass, ErrorDetail),
}

/// The state of an instance's launch record; none when there is no such record.
pub type LaunchSeen = Option<(LaunchState, Time)>;

/// Everything a pass has seen so far, the outcome of its own effects included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The message that woke the pass says that something happened to the machine.
    pub machine_hint: bool,
    /// EC2's own event says that the machine ends, or has ended.
    pub machine_told_gone: bool,
    /// When, by that event or by EC2's description of the machine.
    pub machine_ended_at: Option<Time>,
    /// The message says that EC2 takes the machine back in two minutes.
    pub spot_notice: bool,
    /// The machine is not what its pool wants any more, or its pool wants none: see
    /// [`crate::instance::Instance::is_outdated`].
    pub outdated: bool,
    /// The pool is not in the pool file any more: it launches nothing.
    pub pool_removed: bool,
    /// An operator has switched deletes off.
    pub deletes_off: bool,
    /// DescribeInstances.
    pub machine: Look<Machine>,
    /// Why the machine is there, as the same answer says.
    pub machine_reason: Option<StateReason>,
    /// What the machine is, as the same answer says.
    pub machine_make: Make,
    /// What stands on the machine's console.
    pub console: Look<String>,
    /// GitHub's view of the runner.
    pub runner: Look<RunnerSeen>,
    /// The launch record: state and end of its lease.
    pub launch: Look<LaunchSeen>,
    /// Whether the claimed job still waits for a runner.
    pub claimed_job_waits: Look<bool>,
    /// Whether the idle runner is more than its pool wants.
    pub surplus: Look<bool>,
    /// Outcome of this pass's DELETE.
    pub deregistration: Look<Deregistration>,
    /// Outcome of this pass's TerminateInstances.
    pub termination: Option<Termination>,
}

impl Observation {
    /// Takes the answer to this pass's TerminateInstances. What EC2 showed of the machine before is
    /// overtaken by it.
    pub fn terminated(&mut self, answer: Termination) {
        self.machine = Look::Unknown;
        self.termination = Some(answer);
    }

    /// What the next round of a pass still knows after another writer has changed the record: what
    /// its message has told, what the console said, and the answers to its own calls. The record says that such an answer
    /// is out, and without it the next round would wait for the end of the lease. The answer about
    /// a registration counts for that registration alone.
    #[must_use]
    pub fn carried_over(&self, same_registration: bool) -> Self {
        let deregistration =
            if same_registration { self.deregistration.clone() } else { Look::Unknown };
        Self {
            machine_hint: self.machine_hint,
            machine_told_gone: self.machine_told_gone,
            machine_ended_at: self.machine_ended_at,
            spot_notice: self.spot_notice,
            console: self.console.clone(),
            deregistration,
            termination: self.termination.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorDetail, ProviderError};
    use crate::time::Time;

    #[test]
    fn a_providers_error_is_told_with_what_was_tried_and_its_code() {
        let detail = ErrorDetail {
            at: Time::from_millis(0),
            operation: "get-runner".to_owned(),
            code: "403".to_owned(),
            message: "Forbidden".to_owned(),
        };
        let told = |error: ProviderError| error.to_string();
        assert_eq!(
            told(ProviderError::Unavailable(detail.clone())),
            "no answer: get-runner: 403: Forbidden"
        );
        assert_eq!(
            told(ProviderError::Unauthorized(detail)),
            "refused: get-runner: 403: Forbidden"
        );
    }
}
