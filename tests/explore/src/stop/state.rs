//! What there is: one row, its machine, GitHub's view of its runner, and two Lambdas at work.

use std::sync::Arc;

use muster_domain::ids::RunnerId;
use muster_domain::instance::Instance;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::passes::{Cause, Pass};

/// A report or event that is under way, as a bit.
pub(super) const STARTED: u8 = 1;
/// See [`STARTED`].
pub(super) const COMPLETED: u8 = 2;
/// See [`STARTED`].
pub(super) const EXITED: u8 = 4;

/// Everything there is at one moment.
#[derive(Clone)]
pub struct State {
    /// The time.
    pub(super) now: Time,
    /// The row, without its story.
    pub(super) row: Arc<Stored<Instance>>,
    /// The machine is in the orphan ledger.
    pub(super) ledger: bool,
    /// The audit trail says that a job was killed.
    pub(super) kill_audited: bool,
    /// EC2's side.
    pub(super) machine: Vm,
    /// When EC2 began to deny a machine that it has, if its last answer did.
    pub(super) denied_since: Option<Time>,
    /// The software on the machine.
    pub(super) agent: Agent,
    /// The software hangs; the machine stays.
    pub(super) hangs: bool,
    /// The hooks run. If they do not, nobody knows.
    pub(super) hooks: bool,
    /// The number of the configuration that the agent runs with.
    pub(super) number: u32,
    /// Registrations at GitHub by number, as bits.
    pub(super) registered: u8,
    /// GitHub takes the agent's job for ended, whatever the machine does.
    pub(super) job_over: bool,
    /// GitHub denied that the agent is busy.
    pub(super) lied: bool,
    /// Our DELETE has removed the agent's registration.
    pub(super) removed: bool,
    /// The machine's reports under way.
    pub(super) reports: u8,
    /// GitHub's events under way.
    pub(super) events: u8,
    /// The job's end has been folded.
    pub(super) folded: bool,
    /// How many faults may still happen.
    pub(super) faults: u8,
    /// Orders that the operator may still give.
    pub(super) orders: u8,
    /// EC2 answers nothing but errors from now on.
    pub(super) ec2_dead: bool,
    /// GitHub answers nothing but errors from now on.
    pub(super) github_dead: bool,
    /// The Lambdas at work.
    pub(super) workers: [Worker; 2],
}

/// A machine at EC2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vm {
    /// Runs.
    Running,
    /// Was stopped.
    Stopped,
    /// Shuts down or is terminated.
    Gone,
}

/// How far the software on the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// Boots.
    Boot,
    /// Waits for the answer to its configuration call of this number.
    Asking(u32),
    /// Waits for a job.
    Listening,
    /// GitHub gave it a job; the hook has not asked yet whether it may start.
    Given,
    /// The job's steps run.
    Working,
    /// Has ended; the machine shuts down.
    Exited,
}

impl Agent {
    /// A job was given to it, and it has not ended.
    pub(super) const fn has_job(self) -> bool {
        matches!(self, Self::Given | Self::Working)
    }
}

/// A Lambda.
#[derive(Clone)]
pub(super) enum Worker {
    /// Does nothing.
    Idle,
    /// Runs a pass: the reaper's, or one that an operator's order began.
    Pass(Arc<Running>),
    /// Gets the machine its configuration.
    Configure(Configure),
}

/// A pass that waits for the answer to a call.
#[derive(Clone)]
pub(super) struct Running {
    /// The pass.
    pub(super) pass: Pass,
    /// EC2 has shown it the machine, after it had denied it and not since.
    pub(super) corrects: bool,
}

/// A configuration call.
#[derive(Clone, Copy)]
pub(super) struct Configure {
    /// When it started.
    pub(super) at: Time,
    /// Its number.
    pub(super) number: u32,
    /// The registration of an earlier call.
    pub(super) earlier: Option<RunnerId>,
    /// GitHub has answered.
    pub(super) answered: bool,
}

impl Worker {
    /// Runs a pass of the reaper.
    pub(super) fn reaps(&self) -> bool {
        let Self::Pass(running) = self else { return false };
        !matches!(running.pass.cause, Cause::Order(_))
    }

    pub(super) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// When it started.
    pub(super) fn at(&self) -> Option<Time> {
        match self {
            Self::Idle => None,
            Self::Pass(running) => Some(running.pass.at),
            Self::Configure(call) => Some(call.at),
        }
    }
}

impl State {
    pub(super) fn is_live(&self) -> bool {
        self.row.state().is_live()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.machine != Vm::Gone
    }

    /// The software on the machine can act.
    pub(super) fn is_up(&self) -> bool {
        self.machine == Vm::Running && !self.hangs
    }

    /// Whether GitHub has a registration of this number.
    pub(super) fn is_registered(&self, number: u32) -> bool {
        self.registered & bit(number) != 0
    }

    /// Whether GitHub knows that the runner of this number has a job.
    pub(super) fn is_busy(&self, number: u32) -> bool {
        self.is_registered(number)
            && number == self.number
            && self.agent.has_job()
            && !self.job_over
    }

    /// A job runs whose start the hook has reported and we have allowed.
    pub(super) fn runs_started_job(&self) -> bool {
        self.machine == Vm::Running && self.agent == Agent::Working && self.hooks
    }

    /// What comes next is chance, and no fault: it costs nothing.
    pub(super) const fn free(&mut self) {
        self.faults += 1;
    }

    /// The software ends, with its registration if it had a job.
    pub(super) fn exit(&mut self) {
        if self.agent.has_job() && !self.job_over {
            self.events |= COMPLETED;
            self.registered &= !bit(self.number);
        }
        self.reports |= EXITED;
        self.agent = Agent::Exited;
    }

    /// The machine is gone or stopped, and with it everything on it; GitHub notices.
    pub(super) fn stop(&mut self, to: Vm) {
        if self.agent.has_job() && !self.job_over {
            self.events |= COMPLETED;
        }
        self.registered &= !bit(self.number);
        self.agent = Agent::Exited;
        self.machine = to;
    }
}

/// The bit of a registration; configuration 0 is none.
pub(super) const fn bit(number: u32) -> u8 {
    if number == 0 { 0 } else { 1 << (number - 1) }
}
