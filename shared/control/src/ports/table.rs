//! The three tables.

use std::collections::BTreeMap;

use muster_domain::audit::Audit;
use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, InstanceName, JobKey, LaunchId, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Committed, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::{Unavailable, Write};

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else wrote one of the records in between. Read again and decide again.
    #[error("another writer was faster")]
    Conflict,
    /// The table did not answer, or refused for a reason that is not ours. The commit may have
    /// happened: read before trying again.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
}

/// The table did not answer, or holds something that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No answer.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
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
