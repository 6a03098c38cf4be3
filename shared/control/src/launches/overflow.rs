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
use crate::ports::{CommitError, Table, Write};
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
    asking: BTreeMap<Entity, Asking>,
}

/// A question that is due, by the cursor that says when it was asked last.
struct Asking {
    cursor: String,
    last: Option<Time>,
}

impl Room {
    fn is_open_to(&self, entity: &Entity) -> bool {
        self.left > 0 && !self.refused.contains(entity)
    }

    fn may_ask(&self, entity: &Entity) -> bool {
        self.left > 0 && self.asking.contains_key(entity)
    }
}

/// The jobs that came to each pool.
type Moved = BTreeMap<PoolName, Vec<JobKey>>;

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
    ) -> Result<Moved, PassError> {
        let mut moved = Moved::new();
        let mut stay = Vec::new();
        for one in left {
            match self.place(from, one, left, Room::is_open_to, now).await? {
                Some((to, _)) => self.send(one, from, to, &mut moved, now).await?,
                None => stay.push(one),
            }
        }
        // Who asks a pool that GitHub refuses may get nothing there: the youngest, and none whose
        // own pool has a machine for it sooner or later.
        for one in stay.into_iter().rev().filter(|one| !one.waits_for_room) {
            if let Some((to, entity)) = self.place(from, one, left, Room::may_ask, now).await?
                && self.begin_to_ask(to, &entity, now).await?
            {
                self.send(one, from, to, &mut moved, now).await?;
            }
        }
        Ok(moved)
    }

    /// The first other pool that would launch for a job, by what it has room for. `left`: all jobs
    /// that look for a pool.
    async fn place(
        &mut self,
        from: &Pool,
        Unplaced { job, slot, .. }: &Unplaced,
        left: &[Unplaced],
        has_room: impl Fn(&Room, &Entity) -> bool,
        now: Time,
    ) -> Result<Option<(&'a Pool, Entity)>, PassError> {
        let settings = self.settings;
        for pool in select::candidates(&settings.pools, settings.balance, job) {
            let Some(entity) = pool.entity_for(job).filter(|_| pool.name != from.name) else {
                continue;
            };
            if !self.rooms.contains_key(&pool.name) {
                let room = self.room(pool, left, now).await?;
                self.rooms.insert(pool.name.clone(), room);
            }
            // A slot that ends with the move is counted already.
            let ended = slot.as_ref().map_or(&[][..], |slot| &slot.counted_in);
            let is_open = self.rooms.get(&pool.name).is_some_and(|room| has_room(room, &entity));
            if is_open && self.limits.take_in_place_of(ended, &entity).is_ok() {
                return Ok(Some((pool, entity)));
            }
        }
        Ok(None)
    }

    async fn send(
        &mut self,
        Unplaced { job, slot, why, .. }: &Unplaced,
        from: &Pool,
        to: &Pool,
        moved: &mut Moved,
        now: Time,
    ) -> Result<(), PassError> {
        let writes = move_to(job, slot.as_ref(), to, why, now);
        // Where that is a conflict, somebody knows more about the job.
        if !writes::commit_unless_changed(self.table, &writes).await? {
            return Ok(());
        }
        tracing::info!(job.id = %job.key(), from = %from.name, to = %to.name, why,
            "moved a job to another pool");
        if let Some(room) = self.rooms.get_mut(&to.name) {
            room.left = room.left.saturating_sub(1);
        }
        moved.entry(to.name.clone()).or_default().push(job.key());
        Ok(())
    }

    /// Puts on record that a job goes to ask, before it goes: the next one does not before the
    /// answer can be there, whichever pass looks. False where another pass was faster.
    async fn begin_to_ask(
        &mut self,
        pool: &Pool,
        entity: &Entity,
        now: Time,
    ) -> Result<bool, PassError> {
        let room = self.rooms.get_mut(&pool.name);
        let Some(Asking { cursor, last }) = room.and_then(|room| room.asking.remove(entity)) else {
            return Ok(false);
        };
        match self.table.move_cursor(&cursor, last, now).await {
            Ok(()) => Ok(true),
            Err(CommitError::Conflict) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn room(&self, pool: &Pool, left: &[Unplaced], now: Time) -> Result<Room, PassError> {
        let entities: BTreeSet<Entity> =
            left.iter().filter_map(|left| pool.entity_for(&left.job)).collect();
        let entities = Vec::from_iter(entities);
        let conditions = self.table.launch_conditions(&pool.name, &entities).await?;
        let mut unwell = conditions.unwell;
        unwell.retain(|health| health.held_in(pool, now).is_some());
        // One job may come to a pool in trouble when it is time to find out: where none waits there,
        // nobody else would.
        let trouble = conditions.cooldowns.as_ref().and_then(|known| known.trouble(pool));
        let most = match trouble.map(|trouble| trouble.until <= now) {
            None => u32::MAX,
            Some(finds_out) => u32::from(finds_out),
        };
        let held = pool.paused
            || conditions.switches.is_some_and(|all| all.launches_off(&pool.name).is_some())
            || conditions.cooldowns.is_some_and(|refused| {
                refused.offer(pool, first_market(pool.market), now).is_err()
            });
        let live = conditions.capacity.map_or(0, |capacity| capacity.live);
        let mut left = if held { 0 } else { pool.max.saturating_sub(live).min(most) };
        let mut asking = BTreeMap::new();
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

    /// The entities of which it is time to ask again, in an empty pool whose runners GitHub
    /// refuses.
    async fn asking(
        &self,
        pool: &Pool,
        unwell: &[EntityHealth],
        now: Time,
    ) -> Result<BTreeMap<Entity, Asking>, PassError> {
        let mut asking = BTreeMap::new();
        for health in unwell.iter().filter(|health| health.held(now).is_none()) {
            let Some(probe) = health.probe(pool) else { continue };
            let cursor = format!("asking-{}", probe.cursor);
            let last = self.table.cursor(&cursor).await?;
            let probed = self.table.cursor(&probe.cursor).await?;
            if probe.due_at(last.max(probed)) <= now {
                asking.insert(health.entity.clone(), Asking { cursor, last });
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
