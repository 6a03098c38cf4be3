//! Instances, and the owners of machines.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::{Groups, Instance};
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::{Page, ReadError};

/// Instances, and the owners of machines.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Instances {
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
    /// Live instances of a pool.
    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError>;
    /// The page of those that begins behind this one. The table is not asked.
    fn after_instance(&self, last: &Instance) -> Result<String, ReadError>;
    /// Instances of a pool that a job may be meant for: those that could take one, those of which
    /// GitHub has not told yet that they have, and those that are marked because they were idle for
    /// long.
    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Instances of a pool in `pending_create`.
    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// How many live instances of a pool are in each group. None of their records is read.
    async fn count_live_instances(&self, pool: &PoolName) -> Result<Groups, ReadError>;
    /// Instances of a pool on their way out (`pending_delete`, `pending_force_delete`, `deleting`),
    /// the one that was marked first before the others, at most `limit`.
    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Those of them that were marked at this time or earlier, in the same order.
    async fn late_ends(
        &self,
        pool: &PoolName,
        marked_by: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Instances of a pool that have ended and whose records are kept, the last one before the
    /// others, at most `limit`.
    async fn ended_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
}
