//! The parts of a commit.

use muster_domain::audit::Audit;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::stored::Change;
use muster_domain::switches::Switches;
use muster_domain::usage::{Line, PartOfDay, Prices};

use crate::notices::Notices;

/// A part of a commit. Records are written whole; each write names the version that it replaces,
/// and a commit of several is all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// An instance.
    Instance(Box<Change<Instance>>),
    /// A job.
    Job(Box<Change<Job>>),
    /// A launch.
    Launch(Box<Change<Launch>>),
    /// A pool's counter and lease.
    Capacity(Change<Capacity>),
    /// Adds to a pool's counter without reading it. A conflict when that would exceed `max`, or
    /// when `holder` does not hold the pool's lease any more, or, with `wakes`, when somebody asked
    /// for a pass since.
    CapacityUp {
        /// The pool.
        pool: PoolName,
        /// How many instances more.
        count: u32,
        /// The pool's maximum.
        max: u32,
        /// The launch pass that holds the lease.
        holder: String,
        /// The wake-ups that it has looked after, if more of them are to stop it.
        wakes: Option<u64>,
    },
    /// Takes one from a pool's counter without reading it; a conflict at zero.
    CapacityDown(PoolName),
    /// Adds to the counter of a limit without reading it; there is none before the first. A
    /// conflict when that would exceed `max`.
    CountUp {
        /// What is counted.
        scope: Scope,
        /// How many instances more.
        count: u32,
        /// The limit.
        max: u32,
    },
    /// Takes one from the counter of a limit without reading it; a conflict at zero.
    CountDown(Scope),
    /// `machine#i-…` must not exist: no machine has two owners.
    BindMachine {
        /// The machine.
        machine: MachineId,
        /// Its owner.
        instance: InstanceName,
    },
    /// Enters a machine in the orphan ledger, or changes its entry.
    Orphan(Change<Orphan>),
    /// Strikes a machine from the ledger.
    OrphanGone(MachineId),
    /// Switches something off or on.
    Switches(Change<Switches>),
    /// What EC2 refused lately.
    Cooldowns(Change<Cooldowns>),
    /// Which repositories GitHub is to be asked about.
    Inquiries(Change<Inquiries>),
    /// How far GitHub's list of webhook deliveries was read.
    Redeliveries(Box<Change<Redeliveries>>),
    /// What was told to whoever is told notices.
    Notices(Box<Change<Notices>>),
    /// The set of pools.
    Pools(Box<Change<PoolSet>>),
    /// Keeps a version of the set beside the present one. It must not exist.
    PoolsVersion(Box<PoolSet>),
    /// Forgets a version, if there is one.
    PoolsVersionGone(u64),
    /// Adds to the audit trail.
    Audit(Audit),
    /// A line of usage. The same key again is the same line, with all that is known by then.
    Usage(Box<Line>),
    /// An item of a day of usage. The same again is the same day, with what is known by then.
    UsageDay(Box<PartOfDay>),
    /// The last prices, which also stand among those of their day.
    Prices(Box<Change<Prices>>),
}

impl From<Change<Instance>> for Write {
    fn from(change: Change<Instance>) -> Self {
        Self::Instance(Box::new(change))
    }
}

impl From<Change<Job>> for Write {
    fn from(change: Change<Job>) -> Self {
        Self::Job(Box::new(change))
    }
}

impl From<Line> for Write {
    fn from(line: Line) -> Self {
        Self::Usage(Box::new(line))
    }
}

impl From<PartOfDay> for Write {
    fn from(part: PartOfDay) -> Self {
        Self::UsageDay(Box::new(part))
    }
}

impl From<Change<Prices>> for Write {
    fn from(change: Change<Prices>) -> Self {
        Self::Prices(Box::new(change))
    }
}

impl From<Change<Launch>> for Write {
    fn from(change: Change<Launch>) -> Self {
        Self::Launch(Box::new(change))
    }
}

impl From<Change<Capacity>> for Write {
    fn from(change: Change<Capacity>) -> Self {
        Self::Capacity(change)
    }
}

impl From<Change<Orphan>> for Write {
    fn from(change: Change<Orphan>) -> Self {
        Self::Orphan(change)
    }
}

impl From<Change<Switches>> for Write {
    fn from(change: Change<Switches>) -> Self {
        Self::Switches(change)
    }
}

impl From<Change<Cooldowns>> for Write {
    fn from(change: Change<Cooldowns>) -> Self {
        Self::Cooldowns(change)
    }
}

impl From<Change<Inquiries>> for Write {
    fn from(change: Change<Inquiries>) -> Self {
        Self::Inquiries(change)
    }
}

impl From<Change<Redeliveries>> for Write {
    fn from(change: Change<Redeliveries>) -> Self {
        Self::Redeliveries(Box::new(change))
    }
}

impl From<Change<Notices>> for Write {
    fn from(change: Change<Notices>) -> Self {
        Self::Notices(Box::new(change))
    }
}

impl From<Change<PoolSet>> for Write {
    fn from(change: Change<PoolSet>) -> Self {
        Self::Pools(Box::new(change))
    }
}
