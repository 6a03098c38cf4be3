//! What the passes need of the world, in the domain's words.
//!
//! Each port has exactly two implementations: the real cloud (crates `aws`, `ec2`, `github`), and
//! the simulated one. The passes are written once, over these.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::audit::Audit;
use muster_domain::entity::EntityHealth;
use muster_domain::entity::app::AppSettings;
use muster_domain::ids::{
    Entity, InstallationId, InstanceName, JobKey, LaunchId, MachineId, PoolName, RunnerId,
};
use muster_domain::instance::{ErrorDetail, Instance};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchError, LaunchRequest};
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::observation::{
    Deregistration, Machine, MachineSeen, ProviderError, RunnerSeen, Termination,
};
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_file::{EntityId, FoundImage, Group, ImageFilter};
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Committed, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::{Seconds, Time};

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
        /// When: the pool is scaled up.
        at: Time,
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
    /// The set of pools.
    Pools(Box<Change<PoolSet>>),
    /// Keeps a version of the set beside the present one. It must not exist.
    PoolsVersion(Box<PoolSet>),
    /// Forgets a version, if there is one.
    PoolsVersionGone(u64),
    /// Adds to the audit trail.
    Audit(Audit),
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

impl From<Change<PoolSet>> for Write {
    fn from(change: Change<PoolSet>) -> Self {
        Self::Pools(Box::new(change))
    }
}

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else wrote one of the records in between. Read again and decide again.
    #[error("another writer was faster")]
    Conflict,
    /// The table did not answer, or refused for a reason that is not ours. The commit may have
    /// happened: read before trying again.
    #[error("table unavailable: {0}")]
    Unavailable(String),
}

/// The table did not answer, or holds something that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No answer.
    #[error("table unavailable: {0}")]
    Unavailable(String),
    /// A record of an unknown version or state: left alone, and counted.
    #[error("record {key} cannot be read by this version: {why}")]
    Unreadable {
        /// The record's key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

/// What a launch pass asks before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The pool's counter and lease.
    pub capacity: Option<Stored<Capacity>>,
    /// What operators have switched off.
    pub switches: Option<Stored<Switches>>,
    /// What EC2 refused lately.
    pub cooldowns: Option<Stored<Cooldowns>>,
    /// Of the entities that were asked for, those that GitHub refuses us or limits.
    pub unwell: Vec<EntityHealth>,
}

/// One page of a listing and where the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Records on this page that this version cannot read, by key.
    pub unreadable: Vec<String>,
    /// Pass it to the next call; none on the last page.
    pub next: Option<String>,
}

/// The three tables. Reads by key are consistent; listings come from indexes and may be late, so
/// nothing is decided on them alone.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Table {
    /// Writes all or nothing.
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError>;

    /// An instance by name.
    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError>;
    /// Many instances by name, in no order; missing ones are left out.
    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// The owner of a machine.
    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError>;
    /// The owners of many machines; machines without one are left out.
    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError>;
    /// Instances whose time has come, in index order, at most `limit` per page.
    async fn due_instances(
        &self,
        now: Time,
        limit: u32,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError>;
    /// Instances of a pool that a job may be meant for: those that could take one, those of which
    /// GitHub has not told yet that they have, and marked ones that are not on their way out yet.
    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Running instances of a pool that are marked and not on their way out yet, the one that was
    /// marked first before the others.
    async fn marked_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Live instances of a pool.
    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError>;

    /// Instances of a pool in `pending_create`.
    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Instances of a pool on their way out (`pending_delete`, `pending_force_delete`, `deleting`),
    /// the one that was marked first before the others, at most `limit`.
    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;

    /// A job by key.
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError>;
    /// Many jobs by key, in no order; missing ones are left out.
    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs of a pool that wait without a claim, at most `limit`: those whose time came first
    /// before the others, so that jobs on hold never hide those that are due.
    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Queued jobs that no pool serves, at most `limit`, oldest first.
    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs that wait for an approval, at most `limit`, those first that GitHub was asked for
    /// longest ago.
    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs of a pool that wait, with and without a claim; each group oldest first.
    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError>;

    /// A launch by id.
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError>;
    /// Open launches of a pool.
    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError>;
    /// A pool's counter and lease.
    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError>;
    /// How a pool and these entities stand: all records in one call, each as it was at some moment
    /// of the call.
    async fn standing(&self, pool: &PoolName, entities: &[Entity]) -> Result<Standing, ReadError>;
    /// What EC2 refused lately; none while it never did.
    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError>;

    /// How many instances a limit counts.
    async fn counted(&self, scope: &Scope) -> Result<u32, ReadError>;

    /// The orphan ledger.
    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError>;
    /// An entry of the ledger.
    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError>;
    /// What operators have switched off; none while nobody ever did.
    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError>;
    /// The set of pools that was applied last; none while none ever was.
    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError>;
    /// Versions of the set that are kept, in no order; missing ones are left out.
    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError>;
    /// The audit trail about a subject, newest first.
    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError>;
    /// An entity's health; none while all is well.
    async fn entity_health(&self, entity: &Entity) -> Result<Option<EntityHealth>, ReadError>;
    /// All entities that GitHub refuses us or limits, those included whose limit is over.
    async fn unhealthy_entities(&self) -> Result<Vec<EntityHealth>, ReadError>;
    /// Sets or (where all is well) removes an entity's health. Last writer wins.
    async fn set_entity_health(&self, health: &EntityHealth) -> Result<(), CommitError>;
    /// A named point in time kept across invocations, for example of the last reconciliation.
    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError>;
    /// Moves a cursor from what it was; a conflict means that another invocation did.
    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError>;
}

/// A message could not be sent or hidden.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue unavailable: {0}")]
pub struct QueueError(pub String);

/// The queues.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Queue {
    /// Sends job events to the jobs queue.
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError>;
    /// Sends to the launch queue what nobody receives before `delay` (at most 15 minutes) has
    /// passed.
    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError>;
    /// Sends to the reap queue.
    async fn send_reap(&self, messages: &[ReapMessage]) -> Result<(), QueueError>;
    /// Hides a message of the reap queue, which the caller then reports as failed, for `wait` (at
    /// most 12 hours from its receipt).
    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// The same for a message of the jobs queue.
    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// The same for a message of the launch queue.
    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
}

/// A machine as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMachine {
    /// EC2's id.
    pub id: MachineId,
    /// Its state.
    pub state: Machine,
    /// When EC2 launched it.
    pub launched_at: Time,
    /// The tag `muster:launch`, where it is one of ours.
    pub launch: Option<LaunchId>,
}

/// EC2, limited to machines that carry our stack's tag.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Compute {
    /// CreateFleet (instant) with the launch's id as client token. An error is of the whole call.
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError>;
    /// The machines that carry a launch's tag and are not gone. Late: not seeing one proves
    /// nothing.
    async fn find_launched(&self, id: &LaunchId) -> Result<Vec<MachineId>, ProviderError>;
    /// The machine's state. `Absent` when EC2 does not know it.
    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError>;
    /// A machine with its launch tag; without one when it is not of our stack. None when EC2 does
    /// not know it.
    async fn identify(&self, id: &MachineId) -> Result<Option<ListedMachine>, ProviderError>;
    /// All machines of our stack that are not gone, page by page.
    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError>;
    /// One TerminateInstances of at most [`MAX_TERMINATED`] machines, without retries of the SDK's
    /// own: the row's ladder is the retry. Answers what EC2 says that they are now.
    /// [`crate::reaps::terminate::all`] keeps what is wrong with one of them from the others.
    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, Refusal>;
}

/// Most machines of one TerminateInstances: EC2 takes more, and recommends small batches.
pub const MAX_TERMINATED: usize = 100;

/// The error of a whole TerminateInstances. Some of its machines may end all the same: a protected
/// machine fails those of its own zone alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What it is for a machine that it is about.
    pub answer: Termination,
    /// The machines of the call that EC2 names in it.
    pub named: BTreeSet<MachineId>,
}

/// Where a runner is, or will be, registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registrar {
    /// The entity.
    pub entity: Entity,
    /// The App installation to act as; looked up when none is known.
    pub installation: Option<InstallationId>,
}

/// A runner's just-in-time configuration. A credential: never logged, never stored.
#[derive(Clone)]
pub struct JitConfig {
    /// The registration's number.
    pub runner: RunnerId,
    /// What the agent takes as `--jitconfig`.
    pub encoded: String,
}

/// The answer to a configuration call that is not a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JitError {
    /// 409: the name is taken, most likely by our own earlier call.
    NameTaken,
    /// The call failed.
    ProviderError(ProviderError),
    /// GitHub says that the request is wrong (for example 404 for the entity, 422 for the group).
    Refused(ErrorDetail),
}

/// A job as GitHub shows it when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Where GitHub is with it.
    pub status: JobStatus,
    /// The runner that took it, by name.
    pub runner: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
}

impl JobSeen {
    /// The event that would have told it, after what is on record.
    #[must_use]
    pub fn event(self, said: JobEvent) -> JobEvent {
        JobEvent {
            status: self.status,
            runner: self.runner.filter(|name| !name.is_empty()),
            conclusion: self.conclusion,
            ..said
        }
    }
}

/// An attempt to deliver a `workflow_job` event to the App's webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its number.
    pub id: u64,
    /// Names the event: all attempts share it.
    pub guid: String,
    /// When it was tried.
    pub at: Time,
    /// It was answered with something that another attempt would not change.
    pub settled: bool,
}

/// GitHub.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Github {
    /// Registers a runner and returns its configuration.
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError>;
    /// A runner by its number.
    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError>;
    /// A runner by its name.
    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError>;
    /// A job of a repository (`owner/repo`); none when GitHub does not show it.
    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        job: u64,
    ) -> Result<Option<JobSeen>, ProviderError>;
    /// Removes a registration.
    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError>;
    /// What the App's webhook was sent since a time, as far as GitHub shows it, the newest attempt
    /// first. GitHub keeps attempts for three days.
    async fn deliveries(&self, since: Time) -> Result<Vec<Delivery>, ProviderError>;
    /// Has GitHub try once more. False when it does not keep the delivery any more.
    async fn redeliver(&self, delivery: u64) -> Result<bool, ProviderError>;
}

/// What GitHub knows of the App and behind the names of a pool file. Asked for an operator, and at
/// no other time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Directory {
    /// The entity of an id, as it is called now; none when the App is not installed there, or
    /// suspended.
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError>;
    /// Which events the App is sent, and what it may do.
    async fn app(&self) -> Result<AppSettings, ProviderError>;
    /// All runner groups of an organization or enterprise.
    async fn groups(&self, entity: &Entity) -> Result<Vec<Group>, ProviderError>;
}

/// EC2's images. Asked when a pool file is applied, and at no other time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Images {
    /// The newest available image that fits; none when there is none.
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError>;
}
