//! Moves jobs for which their pool cannot launch now to the next pool that serves them and can.

use std::collections::BTreeMap;

use muster_domain::claim;
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::instance::{DeleteReason, Instance};
use muster_domain::job::Job;
use muster_domain::launch::plan::Unplaced;
use muster_domain::launch::verdict::{Conditions, Wanted, verdict};
use muster_domain::pool::limits::Headroom;
use muster_domain::pool::{Pool, select};
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::context::{Context, Wired};
use crate::launches::{conditions, headroom};
use crate::ports::{Jobs as _, Launches as _, Table, Write};
use crate::writes::{self, PassError};

/// Maximum number of a pool's own waiting jobs that are counted as ahead of a moved job.
const MAX_BEFORE: u32 = 1_000;

/// Moves the jobs that a launch pass could not serve. Each move is one conditional write of the
/// job's row, with the reason; if a slot waited for the job, the slot ends in the same commit. The
/// new pool's pass finds the job there, and so does the sweep if the wake-up is lost.
pub(crate) struct Overflow<'a, W: Wired> {
    /// The ports and the settings.
    context: Context<'a, W>,
    /// Remaining capacity shared by all pools.
    headroom: Headroom,
    /// The pools checked so far.
    pools: BTreeMap<PoolName, Conditions>,
}

/// Moved jobs by their new pool.
type Moved = BTreeMap<PoolName, Vec<JobKey>>;

impl<'a, W: Wired<Table: Table>> Overflow<'a, W> {
    /// Reads the shared limits, unless no job can move.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub(crate) async fn new(
        context: Context<'a, W>,
        from: &Pool,
        left: &[Unplaced],
    ) -> Result<Option<Self>, PassError> {
        let Context { table, settings, .. } = context;
        let candidates =
            |left: &Unplaced| select::candidates(&settings.pools, settings.balance, &left.job);
        let elsewhere = |left| candidates(left).iter().any(|pool| pool.name != from.name);
        if !left.iter().any(elsewhere) {
            return Ok(None);
        }
        let headroom = headroom::left(table, &settings.limits, None).await?;
        Ok(Some(Self { context, headroom, pools: BTreeMap::new() }))
    }

    /// Moves jobs, oldest first. Returns the pools that have work now, with the jobs.
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
            if !self.place(from, one, false, &mut moved, now).await? {
                stay.push(one);
            }
        }
        // A job moved to a failing pool as its probe may get no machine there, so use the youngest,
        // and none whose own pool will launch for it when it has capacity.
        for one in stay.into_iter().rev().filter(|one| !one.block.is_for_room()) {
            self.place(from, one, true, &mut moved, now).await?;
        }
        Ok(moved)
    }

    /// Moves a job to the first other pool that would launch for it. `finds_out` allows pools that
    /// launch one machine at a time after failures. Returns whether there is such a pool.
    async fn place(
        &mut self,
        from: &Pool,
        left: &Unplaced,
        finds_out: bool,
        moved: &mut Moved,
        now: Time,
    ) -> Result<bool, PassError> {
        let settings = self.context.settings;
        for pool in select::candidates(&settings.pools, settings.balance, &left.job) {
            let Some(entity) = pool.entity_for(&left.job).filter(|_| pool.name != from.name) else {
                continue;
            };
            if !self.pools.contains_key(&pool.name) {
                let conditions = self.look(pool, now).await?;
                self.pools.insert(pool.name.clone(), conditions);
            }
            let Some(conditions) = self.pools.get_mut(&pool.name) else { continue };
            if conditions.finds_out(&entity) != finds_out {
                continue;
            }
            // A slot that ends with the move is still counted.
            let ended = left.slot.as_ref().map_or(&[][..], |slot| &slot.counted_in);
            conditions.headroom = self.headroom.without(ended);
            let wanted = Wanted::Job(&left.job);
            if verdict(pool, wanted, conditions, now).is_err() {
                continue;
            }
            conditions.take(wanted, &entity);
            self.headroom.clone_from(&conditions.headroom);
            self.send(left, from, pool, moved, now).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the conditions of a pool, including its own waiting jobs, which come before moved
    /// ones.
    async fn look(&self, pool: &Pool, now: Time) -> Result<Conditions, PassError> {
        let read = self.context.table.launch_conditions(&pool.name).await?;
        let live = read.capacity.as_ref().map_or(0, |capacity| capacity.live);
        let room = pool.max.saturating_sub(live).min(MAX_BEFORE);
        let demand = match room {
            0 => Vec::new(),
            room => self.context.table.demand(&pool.name, room).await?,
        };
        let mut conditions = conditions::of_pool(
            self.context.table,
            self.context.settings,
            pool,
            &read,
            &demand,
            &[],
            now,
        )
        .await?;
        conditions.live += u32::try_from(demand.len()).unwrap_or(u32::MAX);
        if !demand.is_empty() {
            conditions.leave_finding_out();
        }
        Ok(conditions)
    }

    async fn send(
        &self,
        Unplaced { job, slot, block }: &Unplaced,
        from: &Pool,
        to: &Pool,
        moved: &mut Moved,
        now: Time,
    ) -> Result<(), PassError> {
        let writes = move_to(job, slot.as_ref(), to, &block.why, now);
        // On a conflict another writer has newer information about the job.
        if !writes::commit_unless_changed(self.context.table, &writes).await? {
            return Ok(());
        }
        tracing::info!(job.id = %job.key(), from = %from.name, to = %to.name, why = block.why,
            "moved a job to another pool");
        moved.entry(to.name.clone()).or_default().push(job.key());
        Ok(())
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
