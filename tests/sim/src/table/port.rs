//! The tables' door: every call takes a moment, and may fail.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::ports::{CommitError, Page, ReadError, Standing, Table, Unavailable, Write};
use muster_domain::audit::Audit;
use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, InstanceName, JobKey, LaunchId, MachineId, PoolName};
use muster_domain::instance::{Group, Instance};
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

use super::Tables;
use super::index::{Entry, OfPool};
use crate::door::Door;
use crate::fault::Fault;
use crate::world::World;

/// How many records one page of a listing holds. Small, so that paging happens.
const PAGE: usize = 40;

/// The partitions of the real `due` index (`shared/aws/src/table/keys.rs`).
const DUE_SHARDS: u64 = 4;

/// Where a page starts. What is no mark of ours is refused, as DynamoDB does.
fn start_of(page: Option<String>) -> Result<usize, ReadError> {
    let Some(mark) = page else { return Ok(0) };
    mark.parse()
        .map_err(|_| ReadError::Unavailable(Unavailable::new(format!("{mark}: not a page"))))
}

fn unavailable() -> ReadError {
    ReadError::Unavailable(Unavailable::new("no answer"))
}

impl Door {
    async fn read<R>(&self, read: impl FnOnce(&Tables) -> R) -> Result<R, ReadError> {
        self.call(|world| {
            world.calls.reads += 1;
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::ReadFailed) {
                return Err(unavailable());
            }
            Ok(read(&world.tables))
        })
        .await
    }

    async fn list<R>(&self, read: impl FnOnce(&Tables) -> R) -> Result<R, ReadError> {
        self.list_by(1, read).await
    }

    /// A listing that the real table makes of some queries.
    async fn list_by<R>(
        &self,
        queries: u64,
        read: impl FnOnce(&Tables) -> R,
    ) -> Result<R, ReadError> {
        self.call(|world| {
            world.calls.reads += queries;
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::ReadFailed) {
                return Err(unavailable());
            }
            world.tables.index.catch_up(world.now);
            Ok(read(&world.tables))
        })
        .await
    }

    async fn of_pool<R: Default>(
        &self,
        pool: &PoolName,
        read: impl FnOnce(&OfPool) -> R,
    ) -> Result<R, ReadError> {
        self.list(|tables| tables.index.pool(pool).map(read).unwrap_or_default()).await
    }

    async fn write(
        &self,
        write: impl FnOnce(&mut World) -> Result<(), CommitError>,
    ) -> Result<(), CommitError> {
        self.call(|world| {
            if world.is_away(Fault::OutageTable) || world.strikes(Fault::CommitRefused) {
                return Err(CommitError::Unavailable(Unavailable::new("throttled")));
            }
            write(world)
        })
        .await
    }
}

fn groups(of: &OfPool, wanted: impl Fn(Group) -> bool, limit: usize) -> Vec<Stored<Instance>> {
    let live = of.live.iter().filter(|((group, ..), _)| wanted(*group));
    live.take(limit).map(|(_, instance)| Stored::clone(instance)).collect()
}

fn jobs(of: &OfPool, has_claim: bool, limit: u32) -> impl Iterator<Item = Stored<Job>> {
    of.waiting
        .iter()
        .filter(move |((claimed, ..), _)| *claimed == has_claim)
        .take(limit as usize)
        .map(|(_, job)| Stored::clone(job))
}

impl Table for Door {
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError> {
        self.call(|world| world.commit(writes)).await
    }

    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        self.read(|tables| tables.instances.get(name).map(|one| Stored::clone(one))).await
    }

    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.read(|tables| {
            let names: BTreeSet<&InstanceName> = names.iter().collect();
            let found = names.into_iter().filter_map(|name| tables.instances.get(name));
            found.map(|one| Stored::clone(one)).collect()
        })
        .await
    }

    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError> {
        self.read(|tables| tables.owners.get(machine).cloned()).await
    }

    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError> {
        self.read(|tables| {
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
        let limit = (limit as usize).min(PAGE);
        // Each shard is asked; a later page goes on in one of them.
        let queries = if start == 0 { DUE_SHARDS } else { 1 };
        self.list_by(queries, |tables| {
            let due = tables.index.due.iter().take_while(|((at, _), _)| *at <= now);
            page_of(due.map(|(_, instance)| instance), start, limit)
        })
        .await
    }

    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let free = |group| (Group::Marked..=Group::FreeRetry).contains(&group);
        self.of_pool(pool, |of| groups(of, free, usize::MAX)).await
    }

    async fn marked_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.of_pool(pool, |of| groups(of, |group| group == Group::Marked, usize::MAX)).await
    }

    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        let start = start_of(page)?;
        self.list(|tables| match tables.index.pool(pool) {
            Some(of) => page_of(of.live.values(), start, PAGE),
            None => page_of(std::iter::empty(), 0, PAGE),
        })
        .await
    }

    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let retry = |group| matches!(group, Group::Retry | Group::FreeRetry);
        self.of_pool(pool, |of| groups(of, retry, usize::MAX)).await
    }

    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.of_pool(pool, |of| groups(of, |group| group == Group::Ending, limit as usize)).await
    }

    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        self.read(|tables| tables.jobs.get(&key).map(|one| Stored::clone(one))).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        self.read(|tables| {
            let keys: BTreeSet<&JobKey> = keys.iter().collect();
            let found = keys.into_iter().filter_map(|key| tables.jobs.get(key));
            found.map(|one| Stored::clone(one)).collect()
        })
        .await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.of_pool(pool, |of| jobs(of, false, limit).collect()).await
    }

    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.list(|tables| {
            let jobs = tables.index.unmatched.values().take(limit as usize);
            jobs.map(|job| Stored::clone(job)).collect()
        })
        .await
    }

    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.list(|tables| {
            let jobs = tables.index.gated.values().take(limit as usize);
            jobs.map(|job| Stored::clone(job)).collect()
        })
        .await
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        let of = |of: &OfPool| jobs(of, false, limit).chain(jobs(of, true, limit)).collect();
        self.list_by(2, |tables| tables.index.pool(pool).map(of).unwrap_or_default()).await
    }

    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError> {
        self.read(|tables| tables.launches.get(id).map(|one| Stored::clone(one))).await
    }

    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError> {
        self.of_pool(pool, |of| of.open.values().map(|one| Stored::clone(one)).collect()).await
    }

    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError> {
        self.read(|tables| tables.capacities.get(pool).cloned()).await
    }

    async fn counted(&self, scope: &Scope) -> Result<u32, ReadError> {
        self.read(|tables| tables.counted(scope)).await
    }

    async fn standing(&self, pool: &PoolName, entities: &[Entity]) -> Result<Standing, ReadError> {
        self.read(|tables| Standing {
            capacity: tables.capacities.get(pool).cloned(),
            switches: tables.switches.clone(),
            cooldowns: tables.cooldowns.clone(),
            unwell: entities.iter().filter_map(|one| tables.entities.get(one).cloned()).collect(),
        })
        .await
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.read(|tables| tables.cooldowns.clone()).await
    }

    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError> {
        self.list(|tables| tables.index.orphans.values().cloned().collect()).await
    }

    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError> {
        self.read(|tables| tables.orphans.get(machine).cloned()).await
    }

    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError> {
        self.read(|tables| tables.switches.clone()).await
    }

    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError> {
        self.read(|tables| tables.pools.clone()).await
    }

    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError> {
        self.read(|tables| {
            let wanted: BTreeSet<&u64> = versions.iter().collect();
            wanted
                .into_iter()
                .filter_map(|version| tables.pool_versions.get(version))
                .cloned()
                .collect()
        })
        .await
    }

    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError> {
        self.list(|tables| {
            let lines = tables.audits.iter().rev().filter(|line| line.subject == subject);
            let mut lines: Vec<Audit> = lines.cloned().collect();
            lines.sort_by_key(|line| std::cmp::Reverse(line.at));
            lines.truncate(limit as usize);
            lines
        })
        .await
    }

    async fn entity_health(&self, entity: &Entity) -> Result<Option<EntityHealth>, ReadError> {
        self.read(|tables| tables.entities.get(entity).cloned()).await
    }

    async fn unhealthy_entities(&self) -> Result<Vec<EntityHealth>, ReadError> {
        self.list(|tables| tables.index.entities.values().cloned().collect()).await
    }

    async fn set_entity_health(&self, health: &EntityHealth) -> Result<(), CommitError> {
        self.write(|world| {
            let entity = health.entity.clone();
            let next = (!health.is_well()).then(|| health.clone());
            match next.clone() {
                Some(next) => world.tables.entities.insert(entity.clone(), next),
                None => world.tables.entities.remove(&entity),
            };
            let visible = world.visible_from();
            world.tables.index.enter(visible, Entry::Entity(entity, next));
            Ok(())
        })
        .await
    }

    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError> {
        self.read(|tables| tables.cursors.get(name).copied()).await
    }

    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError> {
        self.write(|world| {
            if world.tables.cursors.get(name).copied() != from {
                return Err(CommitError::Conflict);
            }
            world.tables.cursors.insert(name.to_owned(), to);
            Ok(())
        })
        .await
    }
}

fn page_of<'a>(
    all: impl Iterator<Item = &'a std::rc::Rc<Stored<Instance>>>,
    start: usize,
    limit: usize,
) -> Page<Stored<Instance>> {
    let mut rest = all.skip(start);
    let items: Vec<Stored<Instance>> =
        rest.by_ref().take(limit).map(|instance| Stored::clone(instance)).collect();
    let next = rest.next().map(|_| (start + items.len()).to_string());
    Page { items, unreadable: Vec::new(), next }
}
