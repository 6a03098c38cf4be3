//! Jobs that their pool has no room for, or no machine, move to the next pool that serves them and
//! has.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::instance::{DeleteReason, Instance};
use muster_domain::job::Job;
use muster_domain::job::claim;
use muster_domain::launch::cooldown::first_market;
use muster_domain::launch::plan::Unplaced;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Headroom;
use muster_domain::pool::select;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::Settings;
use crate::launches::headroom;
use crate::ports::{Table, Write};
use crate::writes::{self, PassError};

/// Moves jobs that a launch pass has left over. Each move is one conditional write of the job's
/// row, with the reason; where a slot has waited for the job, it ends in the same commit. The pass
/// of the pool that it came to finds it there, and the sweep if nobody wakes that one.
pub(crate) struct Overflow<'a, T> {
    table: &'a T,
    settings: &'a Settings,
    limits: Headroom,
    /// Each pool that was looked at.
    rooms: BTreeMap<PoolName, Room>,
}

/// What a pool has for jobs from elsewhere.
struct Room {
    /// How many more than wait there already.
    left: u32,
    /// Entities for whose jobs GitHub refuses or limits its runners.
    refused: BTreeSet<Entity>,
    /// Entities of which one job may come, to find out whether GitHub still refuses: it is time
    /// to, and nobody waits here who would.
    asking: BTreeSet<Entity>,
}

impl Room {
    fn is_open_to(&self, entity: &Entity) -> bool {
        self.left > 0 && (!self.refused.contains(entity) || self.asking.contains(entity))
    }

    fn take(&mut self, entity: &Entity) {
        self.left = self.left.saturating_sub(1);
        self.asking.remove(entity);
    }
}

impl<'a, T: Table> Overflow<'a, T> {
    /// Nothing is read when no job could move.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub(crate) async fn new(
        table: &'a T,
        settings: &'a Settings,
        from: &Pool,
        left: &[Unplaced],
    ) -> Result<Option<Self>, PassError> {
        let candidates =
            |left: &Unplaced| select::candidates(&settings.pools, settings.balance, &left.job);
        let elsewhere = |left| candidates(left).iter().any(|pool| pool.name != from.name);
        if !left.iter().any(elsewhere) {
            return Ok(None);
        }
        let limits = headroom::left(table, &settings.limits).await?;
        Ok(Some(Self { table, settings, limits, rooms: BTreeMap::new() }))
    }

    /// Moves what can be moved, the oldest job first; answers with the pools that have work now,
    /// and the jobs.
    ///
    /// # Errors
    /// When the tables do not answer. What was moved before is in its row.
    pub(crate) async fn run(
        &mut self,
        from: &Pool,
        left: &[Unplaced],
        now: Time,
    ) -> Result<BTreeMap<PoolName, Vec<JobKey>>, PassError> {
        let mut woken: BTreeMap<PoolName, Vec<JobKey>> = BTreeMap::new();
        for Unplaced { job, slot, why } in left {
            let settings = self.settings;
            for pool in select::candidates(&settings.pools, settings.balance, job) {
                let Some(entity) = pool.entity_for(job) else { continue };
                if pool.name == from.name || !self.has_room(pool, &entity, left, now).await? {
                    continue;
                }
                // A slot that ends with the move is counted already.
                let ended = slot.as_ref().map_or(&[][..], |slot| &slot.counted_in);
                if self.limits.take_in_place_of(ended, &entity).is_err() {
                    continue;
                }
                let writes = move_to(job, slot.as_ref(), pool, why, now);
                // Where that is a conflict, somebody knows more about the job.
                if writes::commit_unless_changed(self.table, &writes).await? {
                    tracing::info!(job.id = %job.key(), from = %from.name, to = %pool.name,
                        why, "moved a job to another pool");
                    if let Some(room) = self.rooms.get_mut(&pool.name) {
                        room.take(&entity);
                    }
                    woken.entry(pool.name.clone()).or_default().push(job.key());
                }
                break;
            }
        }
        Ok(woken)
    }

    /// Whether a pool would launch for one job more of an entity than wait there already. `left`:
    /// all jobs that look for a pool.
    async fn has_room(
        &mut self,
        pool: &Pool,
        entity: &Entity,
        left: &[Unplaced],
        now: Time,
    ) -> Result<bool, PassError> {
        if !self.rooms.contains_key(&pool.name) {
            let room = self.room(pool, left, now).await?;
            self.rooms.insert(pool.name.clone(), room);
        }
        Ok(self.rooms.get(&pool.name).is_some_and(|room| room.is_open_to(entity)))
    }

    async fn room(&self, pool: &Pool, left: &[Unplaced], now: Time) -> Result<Room, PassError> {
        let entities: BTreeSet<Entity> =
            left.iter().filter_map(|left| pool.entity_for(&left.job)).collect();
        let entities = Vec::from_iter(entities);
        let standing = self.table.standing(&pool.name, &entities).await?;
        let mut unwell = standing.unwell;
        unwell.retain(|health| health.held_in(pool, now).is_some());
        let held = pool.paused
            || standing.switches.is_some_and(|all| all.launches_off(&pool.name).is_some())
            || standing.cooldowns.is_some_and(|refused| {
                refused.offer(pool, first_market(pool.market), now).is_err()
            });
        let live = standing.capacity.map_or(0, |capacity| capacity.live);
        let mut left = if held { 0 } else { pool.max.saturating_sub(live) };
        let mut asking = BTreeSet::new();
        if left > 0 {
            let before = self.table.demand(&pool.name, left.saturating_add(1)).await?.len();
            left = left.saturating_sub(u32::try_from(before).unwrap_or(u32::MAX));
            if before == 0 {
                asking = self.asking(pool, &unwell, now).await?;
            }
        }
        let refused = unwell.into_iter().map(|health| health.entity).collect();
        Ok(Room { left, refused, asking })
    }

    /// The entities of which it is time to ask again, in an empty pool whose runners GitHub refuses.
    async fn asking(
        &self,
        pool: &Pool,
        unwell: &[EntityHealth],
        now: Time,
    ) -> Result<BTreeSet<Entity>, PassError> {
        let mut asking = BTreeSet::new();
        for health in unwell.iter().filter(|health| health.held(now).is_none()) {
            let Some(probe) = health.probe(pool) else { continue };
            let last = self.table.cursor(&probe.cursor).await?;
            if probe.due_at(last) <= now {
                asking.insert(health.entity.clone());
            }
        }
        Ok(asking)
    }
}

fn move_to(
    job: &Stored<Job>,
    slot: Option<&Stored<Instance>>,
    to: &Pool,
    why: &str,
    now: Time,
) -> Vec<Write> {
    let Some(slot) = slot else {
        return vec![job.change(job.moved_to(&to.name, why, now)).into()];
    };
    let mut ended = slot.record().clone();
    ended.clear_claim(now, &format!("job {} moves to pool {}", job.key(), to.name));
    ended.to_pending_delete(DeleteReason::NotNeeded, now);
    let free = claim::release(job, &slot.name).unwrap_or_else(|| job.record().clone());
    let next = free.moved_to(&to.name, why, now);
    vec![job.change(next).into(), slot.change(ended).into()]
}
