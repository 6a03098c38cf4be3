//! Reads of instances and of machines' owners.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::{Groups, Instance};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Prices;

use super::{Page, ReadError};

/// The owner of a machine as the bind wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The instance.
    pub owner: InstanceName,
    /// Its record at that time.
    pub record: Option<Stored<Instance>>,
}

/// Reads of instances and of machines' owners.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Instances {
    /// Returns an instance by name.
    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError>;
    /// Returns an instance by name with the latest prices, in one call. Prices that cannot be read
    /// are left out.
    async fn instance_and_prices(
        &self,
        name: &InstanceName,
    ) -> Result<(Option<Stored<Instance>>, Option<Prices>), ReadError>;
    /// Returns instances by name, in no order; missing ones are left out.
    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Returns the instance that owns a machine.
    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError>;
    /// Returns the instance that owns a machine, with its record as the bind wrote it. The record may
    /// have changed since: use it only to write the next version, which is a conflict then.
    async fn bound_to(&self, machine: &MachineId) -> Result<Option<Bound>, ReadError>;
    /// Returns the owners of machines; machines without one are left out.
    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError>;
    /// Returns instances that are due at `now`, in index order, at most `limit` per page.
    async fn due_instances(
        &self,
        now: Time,
        limit: u32,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError>;
    /// Returns a page of a pool's live instances.
    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError>;
    /// Returns the page of live instances that begins after `last`, without reading the table.
    fn after_instance(&self, last: &Instance) -> Result<String, ReadError>;
    /// Returns a pool's instances that may be meant for a job: instances that can take a job, whose
    /// job GitHub has not reported yet, or that are marked because they were idle for too long.
    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Returns a pool's instances in `pending_create`.
    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Counts a pool's live instances by group, without reading their records.
    async fn count_live_instances(&self, pool: &PoolName) -> Result<Groups, ReadError>;
    /// Returns a pool's instances in `pending_delete`, `pending_force_delete` and `deleting`, the
    /// earliest mark first, at most `limit`.
    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Like [`Self::ending_instances`], limited to instances marked at or before `marked_by`.
    async fn late_ends(
        &self,
        pool: &PoolName,
        marked_by: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
    /// Returns a pool's ended instances whose records are kept, the latest end first, at most
    /// `limit`.
    async fn ended_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError>;
}
