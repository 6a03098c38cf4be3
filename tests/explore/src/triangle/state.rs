//! What there is: the tables, the machines, GitHub's jobs, and two Lambdas at work.

use std::sync::Arc;

use muster_domain::ids::{InstanceName, JobKey, LaunchId, MachineId};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::pool::capacity::Capacity;
use muster_domain::time::Time;

use super::ingest::Ingest;
use super::reap::Reap;
use super::scale_up::ScaleUp;

/// How many jobs there are.
pub(super) const JOBS: usize = 2;

/// A job event that is under way, as a bit.
pub(super) const QUEUED: u8 = 1;
/// See [`QUEUED`].
pub(super) const STARTED: u8 = 2;
/// See [`QUEUED`].
pub(super) const COMPLETED: u8 = 4;

/// Everything there is at one moment.
#[derive(Clone)]
pub struct State {
    /// The time.
    pub now: Time,
    /// How many faults may still happen.
    pub faults: u8,
    /// A message that asks for a launch pass is in the jobs queue.
    pub wake: bool,
    /// What EC2 answers to a replay, once it had to.
    pub replay: Option<Replay>,
    /// The jobs.
    pub jobs: [JobSide; JOBS],
    /// The instances table.
    pub rows: Vec<Arc<Instance>>,
    /// Launches, in the table and at EC2.
    pub launches: Vec<Arc<LaunchSide>>,
    /// The pool's counter and lease.
    pub capacity: Arc<Capacity>,
    /// The machines.
    pub machines: Vec<Arc<MachineSide>>,
    /// The Lambdas at work.
    pub workers: [Worker; 2],
}

/// What EC2 answers to a token that it knows. AWS does not document it, so every answer must do.
/// Which one it is shows at the first replay, and then it stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// As the first time.
    Whole,
    /// Nothing.
    Bare,
    /// The errors of the first time, and no machines.
    ErrorsOnly,
}

/// A job at GitHub, on its way, and in the table.
#[derive(Clone)]
pub struct JobSide {
    /// Its row.
    pub row: Option<Arc<Job>>,
    /// What is true at GitHub.
    pub truth: Truth,
    /// The runner that GitHub gave it to.
    pub runner: Option<Arc<str>>,
    /// Events that GitHub has sent.
    pub sent: u8,
    /// Events that are in the jobs queue.
    pub queue: u8,
}

/// Where a job is at GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// Nobody has asked for it yet.
    Coming,
    /// Waits for a runner.
    Queued,
    /// A runner has it.
    Taken,
    /// Is over.
    Ended,
}

/// A launch: its record, and what EC2 made of its token.
#[derive(Clone)]
pub struct LaunchSide {
    /// The record in the table. None: EC2 knows the token and the table does not.
    pub record: Option<Arc<Launch>>,
    /// Client token and tag.
    pub id: LaunchId,
    /// EC2's side.
    pub fleet: Fleet,
    /// The record was settled without knowing, after a long look: what shows up later is a stray.
    pub given_up: bool,
}

/// What EC2 made of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fleet {
    /// It never saw the token.
    Unseen,
    /// The request is still under way; nobody waits for its answer any more.
    UnderWay,
    /// It launched these machines. `short`: fewer than asked for, with an error for the rest.
    Launched {
        /// The machines by number.
        machines: Vec<u8>,
        /// Fewer than asked for.
        short: bool,
    },
}

/// A machine, its `machine#` item, its agent and its registration.
#[derive(Clone)]
pub struct MachineSide {
    /// Its number.
    pub number: u8,
    /// Its launch tag.
    pub launch: LaunchId,
    /// Not terminated.
    pub alive: bool,
    /// Its boot hangs.
    pub hangs: bool,
    /// When EC2 launched it.
    pub launched_at: Time,
    /// The owner in its `machine#` item.
    pub owner: Option<InstanceName>,
    /// The software on it.
    pub agent: Agent,
    /// GitHub has its registration.
    pub registered: bool,
}

/// How far the software on a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Boots.
    Boot,
    /// Its configuration is asked of GitHub under this name.
    Asked(Arc<str>),
    /// Waits for a job.
    Listening(Arc<str>),
    /// GitHub gave it a job; the hook has not asked yet whether it may start.
    Given(Arc<str>, u8),
    /// The job's steps run.
    Working(Arc<str>, u8),
    /// Has ended; the machine shuts down.
    Exited,
}

/// A Lambda.
#[derive(Clone)]
pub enum Worker {
    /// Does nothing.
    Idle,
    /// Folds an event.
    Ingest(Arc<Ingest>),
    /// Runs the launch pass.
    ScaleUp(Arc<ScaleUp>),
    /// Runs a reap pass.
    Reap(Arc<Reap>),
}

impl Worker {
    /// Does nothing.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Idle, or just before or after an effect on the outside.
    #[must_use]
    pub fn is_at_effect(&self) -> bool {
        match self {
            Self::Idle => true,
            Self::Ingest(_) => false,
            Self::ScaleUp(pass) => pass.call.is_some(),
            Self::Reap(pass) => pass.is_at_effect(),
        }
    }
}

impl Agent {
    /// The job it was given, if it has not ended.
    #[must_use]
    pub const fn job(&self) -> Option<u8> {
        match self {
            Self::Given(_, job) | Self::Working(_, job) => Some(*job),
            _ => None,
        }
    }
}

/// The key of a job by number.
#[must_use]
pub(super) const fn key(job: u8) -> JobKey {
    JobKey { repository: 1, job: job as u64 + 1 }
}

/// The number of a job by key.
#[must_use]
pub(super) fn number(key: JobKey) -> usize {
    usize::try_from(key.job - 1).expect("a job of this world")
}

/// EC2's id of a machine by number.
#[must_use]
pub(super) fn machine_id(number: u8) -> MachineId {
    format!("i-{number:08x}").parse().expect("a valid id")
}

impl State {
    /// A row by name.
    #[must_use]
    pub fn row(&self, name: &InstanceName) -> Option<&Arc<Instance>> {
        self.rows.iter().find(|row| row.name == *name)
    }

    /// A job's row by key.
    #[must_use]
    pub fn job(&self, key: JobKey) -> Option<&Arc<Job>> {
        self.jobs[number(key)].row.as_ref()
    }

    /// A launch by id.
    #[must_use]
    pub fn launch(&self, id: &LaunchId) -> Option<&Arc<LaunchSide>> {
        self.launches.iter().find(|launch| launch.id == *id)
    }

    /// A launch's record by id.
    #[must_use]
    pub fn record(&self, id: &LaunchId) -> Option<&Arc<Launch>> {
        self.launch(id).and_then(|launch| launch.record.as_ref())
    }

    /// A machine by number.
    pub fn machine_mut(&mut self, number: u8) -> &mut MachineSide {
        let machine = self.machines.iter_mut().find(|machine| machine.number == number);
        Arc::make_mut(machine.expect("a machine of this world"))
    }

    /// A machine by id; none when EC2 has forgotten it.
    #[must_use]
    pub fn machine(&self, id: &MachineId) -> Option<&Arc<MachineSide>> {
        self.machines.iter().find(|machine| machine_id(machine.number) == *id)
    }

    /// Whether a live row owns the machine.
    #[must_use]
    pub fn is_owned(&self, machine: &MachineSide) -> bool {
        let owner = machine.owner.as_ref().and_then(|name| self.row(name));
        owner.is_some_and(|owner| owner.state().is_live())
    }

    /// A live row that a machine of this launch may still be bound to.
    #[must_use]
    pub fn is_wanted(&self, launch: &LaunchId) -> bool {
        self.rows.iter().any(|row| row.is_free_slot_of(launch))
    }
}
