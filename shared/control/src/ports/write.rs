//! The writes of a commit.

use muster_domain::audit::Audit;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::image::Images;
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::launch::record::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::{Change, Version};
use muster_domain::switches::Switches;
use muster_domain::usage::{Line, PartOfDay, Prices};

use crate::notices::Notices;

/// A write in a commit. Records are written whole, each write names the version that it replaces,
/// and a commit of several writes is atomic.
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
    /// Adds to a pool's counter without reading it. Conflicts if that would exceed `max`, if
    /// `holder` no longer has the pool's lease, or, with `wakes`, if a pass was requested since.
    CapacityUp {
        /// The pool.
        pool: PoolName,
        /// Number of new instances.
        count: u32,
        /// The pool's maximum.
        max: u32,
        /// The launch pass that holds the lease.
        holder: String,
        /// The number of handled wake-ups; set if newer ones should cause a conflict.
        wakes: Option<u64>,
    },
    /// Subtracts one from a pool's counter without reading it. Conflicts at zero.
    CapacityDown(PoolName),
    /// Adds to a limit's counter without reading it; creates it if missing. Conflicts if that would
    /// exceed `max`.
    CountUp {
        /// The limit.
        scope: Scope,
        /// Number of new instances.
        count: u32,
        /// The maximum.
        max: u32,
    },
    /// Subtracts one from a limit's counter without reading it. Conflicts at zero.
    CountDown(Scope),
    /// Assigns a machine to an instance. `machine#i-…` must not exist: no machine has two owners.
    BindMachine {
        /// The machine.
        machine: MachineId,
        /// Its owner.
        instance: InstanceName,
    },
    /// Adds a machine to the orphan ledger, or changes its entry.
    Orphan(Change<Orphan>),
    /// Removes a machine from the ledger.
    OrphanGone(MachineId),
    /// A workflow run with interrupted jobs.
    Rerun(Box<Change<Rerun>>),
    /// The switches.
    Switches(Change<Switches>),
    /// EC2's recent refusals.
    Cooldowns(Change<Cooldowns>),
    /// The machine images.
    Images(Box<Change<Images>>),
    /// The repositories to query GitHub about.
    Inquiries(Change<Inquiries>),
    /// The position in GitHub's list of webhook deliveries.
    Redeliveries(Box<Change<Redeliveries>>),
    /// The notices that the receiver knows about.
    Notices(Box<Change<Notices>>),
    /// The set of pools.
    Pools(Box<Change<PoolSet>>),
    /// Stores a version of the set along with the current one. It must not exist.
    PoolsVersion(Box<PoolSet>),
    /// Removes a version, if it exists.
    PoolsVersionGone(u64),
    /// Checks the set of pools without writing. Conflicts if it no longer has this version or, for
    /// `None`, if it has a record.
    PoolsUnchanged(Option<Version>),
    /// Adds to the audit trail.
    Audit(Audit),
    /// A usage record. Writing the same key again replaces it with newer information.
    Usage(Box<Line>),
    /// An item of a day's roll-up. Writing it again replaces it with newer information.
    UsageDay(Box<PartOfDay>),
    /// The latest prices, which are also stored under their day.
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

impl From<Change<Rerun>> for Write {
    fn from(change: Change<Rerun>) -> Self {
        Self::Rerun(Box::new(change))
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

impl From<Change<Images>> for Write {
    fn from(change: Change<Images>) -> Self {
        Self::Images(Box::new(change))
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
