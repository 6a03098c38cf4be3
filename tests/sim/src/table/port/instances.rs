//! Instances, and the owners of machines.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::{Bound, Instances, Page, ReadError, Unavailable};
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::{Group, Groups, Instance};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Prices;

use super::unreadable;
use crate::door::Door;
use crate::table::Tables;
use crate::table::index::OfPool;

/// The partitions of the real `due` index (`shared/aws/src/table/keys.rs`).
const DUE_SHARDS: u64 = 4;

impl Instances for Door {
    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        self.read(|tables| tables.readable(name)).await?
    }

    async fn instance_and_prices(
        &self,
        name: &InstanceName,
    ) -> Result<(Option<Stored<Instance>>, Option<Prices>), ReadError> {
        self.read(|tables| {
            let prices = tables.prices.clone().filter(|_| !tables.broken.contains("prices"));
            Ok((tables.readable(name)?, prices.map(Stored::into_record)))
        })
        .await?
    }

    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.read(|tables| {
            let names: BTreeSet<&InstanceName> = names.iter().collect();
            names.into_iter().filter_map(|name| tables.readable(name).transpose()).collect()
        })
        .await?
    }

    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError> {
        let key = format!("machine#{machine}");
        self.read_of(&key, |tables| tables.owners.get(machine).cloned()).await
    }

    async fn bound_to(&self, machine: &MachineId) -> Result<Option<Bound>, ReadError> {
        self.read_of(&format!("machine#{machine}"), |tables| {
            let owner = tables.owners.get(machine)?.clone();
            Some(Bound { owner, record: tables.bound.get(machine).cloned() })
        })
        .await
    }

    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError> {
        let key = self.broken_of(machines.iter().map(|machine| format!("machine#{machine}")));
        self.read_of(&key, |tables| {
            let owner = |id: &MachineId| Some((id.clone(), tables.owners.get(id)?.clone()));
            machines.iter().filter_map(owner).collect()
        })
        .await
    }

    async fn due_instances(
        &self,
        now: Time,
        limit: u32,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        let start = start_of(page)?;
        // Each shard that has more is asked for its part of the page: all of them at most.
        self.list_by(DUE_SHARDS, |tables| {
            let due = tables.index.due.iter().take_while(|((at, _), _)| *at <= now);
            let due = due.map(|(_, instance)| instance);
            page_of(tables, due, start, tables.page.min(limit as usize))
        })
        .await
    }

    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        let start = start_of(page)?;
        self.list(|tables| match tables.index.pool(pool) {
            Some(of) => page_of(tables, of.live.values(), start, tables.page),
            None => page_of(tables, std::iter::empty(), 0, 1),
        })
        .await
    }

    fn after_instance(&self, last: &Instance) -> Result<String, ReadError> {
        let world = self.sim.world.borrow();
        let of = world.tables.index.pool(&last.pool);
        let mut live = of.iter().flat_map(|of| of.live.values());
        Ok(after(live.position(|one| one.name == last.name)))
    }

    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let free = |group| matches!(group, Group::Free | Group::FreeRetry);
        let listed = self.of_pool(pool, |of| groups(of, free, usize::MAX)).await;
        self.readable(listed, |row| row.name.to_string())
    }

    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let retry = |group| matches!(group, Group::Retry | Group::FreeRetry);
        let listed = self.of_pool(pool, |of| groups(of, retry, usize::MAX)).await;
        self.readable(listed, |row| row.name.to_string())
    }

    async fn count_live_instances(&self, pool: &PoolName) -> Result<Groups, ReadError> {
        self.list_by(Group::ALL.len() as u64, |tables| {
            let mut groups = Groups::default();
            let live = tables.index.pool(pool).into_iter().flat_map(|of| of.live.keys());
            live.for_each(|(group, ..)| groups.add(*group, 1));
            groups
        })
        .await
    }

    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        let listed = self
            .of_pool(pool, |of| groups(of, |group| group == Group::Ending, limit as usize))
            .await;
        self.readable(listed, |row| row.name.to_string())
    }

    async fn late_ends(
        &self,
        pool: &PoolName,
        marked_by: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.of_pool(pool, |of| {
            let is_late = |group: Group, at: Time| group == Group::Ending && at <= marked_by;
            let late = of.live.iter().filter(|((group, at, _), _)| is_late(*group, *at));
            late.take(limit as usize).map(|(_, instance)| Stored::clone(instance)).collect()
        })
        .await
    }

    async fn ended_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.list(|tables| {
            let all = tables.instances.values();
            let mut ended: Vec<_> =
                all.filter(|one| !one.state().is_live() && one.pool == *pool).collect();
            ended.sort_by_key(|one| std::cmp::Reverse((one.since(), &one.name)));
            ended.into_iter().take(limit as usize).map(|one| Stored::clone(one)).collect()
        })
        .await
    }
}

impl Tables {
    fn is_unreadable(&self, name: &InstanceName) -> bool {
        self.unreadable.contains(name) || self.broken.contains(name.as_str())
    }

    /// An instance, unless it is of another version.
    fn readable(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        if self.is_unreadable(name) {
            return Err(unreadable(name.as_str()));
        }
        Ok(self.instances.get(name).map(|one| Stored::clone(one)))
    }
}

/// Where a page starts. What is no mark of ours is refused, as DynamoDB does.
/// The page behind the one at this place.
pub(super) fn after(place: Option<usize>) -> String {
    place.map_or(0, |place| place + 1).to_string()
}

pub(super) fn start_of(page: Option<String>) -> Result<usize, ReadError> {
    let Some(mark) = page else { return Ok(0) };
    mark.parse()
        .map_err(|_| ReadError::Unavailable(Unavailable::new(format!("{mark}: not a page"))))
}

fn groups(of: &OfPool, wanted: impl Fn(Group) -> bool, limit: usize) -> Vec<Stored<Instance>> {
    let live = of.live.iter().filter(|((group, ..), _)| wanted(*group));
    live.take(limit).map(|(_, instance)| Stored::clone(instance)).collect()
}

/// Records that cannot be read are named, and take their place on the page.
fn page_of<'a>(
    tables: &Tables,
    all: impl Iterator<Item = &'a std::rc::Rc<Stored<Instance>>>,
    start: usize,
    limit: usize,
) -> Page<Stored<Instance>> {
    let mut rest = all.skip(start);
    let page: Vec<Stored<Instance>> =
        rest.by_ref().take(limit).map(|instance| Stored::clone(instance)).collect();
    let next = rest.next().map(|_| (start + page.len()).to_string());
    let (unreadable, items): (Vec<_>, Vec<_>) =
        page.into_iter().partition(|instance| tables.is_unreadable(&instance.name));
    let unreadable = unreadable.iter().map(|instance| instance.name.to_string()).collect();
    Page { items, unreadable, next }
}
