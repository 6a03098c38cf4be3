//! The launch pass of a pool: one at a time per pool, drains the table rather than the queue.

mod allowances;
mod calls;
mod commits;
mod lease;
mod look;
mod pool_lease;
mod pool_snapshot;
mod report;
mod trouble;
mod unplaced;
mod view;

use muster_domain::launch::plan::{self, PlannedLaunch, View};
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::stored::Change;
use muster_domain::time::Time;

use self::commits::created;
pub use self::look::Looked;
use self::pool_lease::Lease;
use self::pool_snapshot::PoolSnapshot;
pub use self::report::{
    LaunchReport, LaunchStopped, again_after, comes_again, last_call, send_wakes,
};
use crate::Settings;
use crate::causes::with_causes;
use crate::launches::overflow::Overflow;
use crate::ports::{CommitError, Compute, Table};
use crate::writes::PassError;

/// Most jobs that one round reads: two full launches and some to spare.
const MAX_DEMAND: u32 = 120;
/// How many times as many the next round reads where those jobs are of entities that may have no
/// machine more: behind them may be one of another entity.
const FURTHER: u32 = 4;
/// Where that ends: 7,680 jobs are eight pages of DynamoDB's, a second or two.
const MAX_READ: u32 = MAX_DEMAND * FURTHER * FURTHER * FURTHER;
/// How many writes a commit takes.
const MAX_WRITES: usize = 100;
/// Rounds in which a launch that is not full gives way to jobs that are just coming in.
const GATHERING: usize = 3;
/// Most rounds of one pass. What is left after that wakes the next pass.
const ROUNDS: usize = 12;

/// The launch pass.
pub struct ScaleUp<'a, T, C> {
    /// The tables.
    pub table: &'a T,
    /// EC2.
    pub compute: &'a C,
    /// The stack.
    pub settings: &'a Settings,
    /// Names this invocation as holder of a pool's lease. Unique among invocations that may
    /// overlap.
    pub holder: &'a str,
    /// Makes the launch ids of this invocation unique.
    pub seed: u64,
    /// From when on nothing more is begun: see [`last_call`].
    pub last_call: Time,
    /// The time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<T: Table, C: Compute> ScaleUp<'_, T, C> {
    /// Runs the launch pass of a pool, unless another invocation does: then that one runs once
    /// more, and what it may not see comes again. `looked` was read for this wake-up, which was
    /// received `receives` times.
    ///
    /// # Errors
    /// When the tables do not answer. What was committed before is picked up by a later pass, and
    /// is in the report.
    pub async fn pass(
        &self,
        looked: Looked,
        wake: &WakePool,
        receives: u32,
    ) -> Result<LaunchReport, LaunchStopped> {
        let (name, mut report) = (&wake.pool, LaunchReport::default());
        let Some(pool) = self.settings.pool(name) else {
            return Ok(report);
        };
        if self.is_late() {
            report.again = true;
            return Ok(report);
        }
        let Looked { at: now, jobs, mut conditions, entities, demand } = looked;
        let waits = jobs.iter().any(|job| job.is_demand() && job.pool.as_ref() == Some(name));
        if !wake.jobs.is_empty() && !waits {
            // A burst wakes a pool many times, and the first passes served these.
            return Ok(report);
        }
        let read = conditions.capacity.take();
        let again = waits && receives > 1;
        let mut known = match self.ask(pool, read, again, false, now).await {
            Err(PassError::Commit(CommitError::Conflict)) => {
                // What was read before is overtaken.
                let lease = self.ask_again(pool, again, now).await?;
                let mut known = PoolSnapshot::new(lease, conditions, entities);
                known.refresh(self.table, pool).await?;
                known
            }
            asked => {
                let mut known = PoolSnapshot::new(asked?, conditions, entities);
                known.listed = Some(demand);
                known
            }
        };
        known.saw(jobs);
        // Whoever wants the whole pool looked at knows better than the counter.
        known.thorough = wake.jobs.is_empty();
        if !known.capacity.is_held_by(self.holder) {
            report.found_held(waits);
            return Ok(report);
        }
        let worked = self.rounds(pool, &mut known, now, &mut report).await;
        self.put_probes_back(&mut known, now).await;
        let error = match worked {
            Ok(Worked::Ended) => return Ok(report),
            Ok(Worked::HeldByOther) => {
                report.found_held(waits);
                return Ok(report);
            }
            Err(error) => error,
        };
        // Let the next pass in at once rather than after the lease. What went wrong first is what
        // is told.
        if let Err(error) = self.leave(name).await {
            tracing::warn!(pool.name = %name, error = with_causes(&error), "failed to give back a pool's lease");
        }
        Err(LaunchStopped { report: Box::new(report), error })
    }

    /// Works until nothing is left, and gives the lease back.
    async fn rounds(
        &self,
        pool: &Pool,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<Worked, PassError> {
        for round in 0..ROUNDS {
            if round > 0 {
                if self.is_late() {
                    break;
                }
                if known.capacity.is_planned() {
                    // Another pass may have been faster: from now on this one works alone.
                    known.capacity = self.ask_again(pool, false, now).await?;
                }
                known.refresh(self.table, pool).await?;
                if !known.capacity.is_held_by(self.holder) {
                    return Ok(Worked::HeldByOther);
                }
            }
            match self.round(pool, round, known, now, report).await {
                Ok(Round::Again) | Err(PassError::Commit(CommitError::Conflict)) => continue,
                Ok(Round::Drained) => {}
                Err(error) => return Err(error),
            }
            if self.give_back(known, report).await? {
                return Ok(Worked::Ended);
            }
            match self.release(&pool.name, known, report).await? {
                None => return Ok(Worked::Ended),
                Some(woken) => known.wakes = woken.wakes,
            }
        }
        self.leave(&pool.name).await?;
        report.unfinished = true;
        Ok(Worked::Ended)
    }

    fn is_late(&self) -> bool {
        (self.clock)() > self.last_call
    }

    async fn round(
        &self,
        pool: &Pool,
        round: usize,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<Round, PassError> {
        let has_instances = known.has_instances();
        if has_instances && !self.replay_open(pool, known, now, report).await? {
            return Ok(Round::Again);
        }
        known.waits = None;
        let listed = match known.listed.take() {
            Some(listed) => listed,
            None => self.table.demand(&pool.name, known.reach).await?,
        };
        let full_read = listed.len() >= known.reach as usize;
        let demand = known.demand(&pool.name, listed);
        let cooldowns = known.cooldowns.as_deref().cloned().unwrap_or_default();
        let view = self.view(pool, demand, round, known, &cooldowns, now).await?;
        let most_slots = view.most_slots();
        let mut plan = match held_back(pool, known) {
            None => plan::plan(view),
            Some(held) => {
                report.switched_off |= !plan::plan(view.clone()).launches.is_empty();
                plan::plan(View { held: Some(held), ..view })
            }
        };
        let progress = !plan.claims.is_empty() || !plan.launches.is_empty();
        report.over_maximum = plan.over_maximum;
        if plan.writes_beside_launches() || !known.probes.is_empty() {
            self.hold(known).await?;
        }
        for (job, instance) in &plan.claims {
            self.commit(&[job.clone().into(), instance.clone().into()], known).await?;
            report.claimed += 1;
        }
        self.put_off(&mut plan, known, report).await?;
        let held = plan.held.iter().map(|job| job.listed_at());
        known.wait_for(held.chain(plan.put_off.iter().filter_map(|slot| slot.due_at())), now);
        if !self.begin_probes(&plan, known, now).await? {
            return Ok(Round::Again);
        }
        for (number, planned) in plan.launches.iter().enumerate() {
            // An earlier call of this pass has just found out. What it would have asked for is
            // asked for again, or held, by the next round.
            let is_refused = known.is_refused(&planned.launch, now);
            if is_refused || (number > 0 && self.is_late()) {
                return Ok(Round::Again);
            }
            // When more jobs have come since demand was read, they go with a launch that is not
            // full: a conflict, and the next round plans anew. Not for ever: the first launch of a
            // later round is made as it is.
            let is_full = planned.launch.slots.len() >= most_slots;
            let may_wait = !is_full && (number > 0 || round < GATHERING);
            let wakes = may_wait.then_some(known.wakes);
            self.launch(pool, planned, wakes, known, now, report).await?;
        }
        let mut left = plan.left;
        left.extend(self.refused(pool, plan.stuck, known, now).await?);
        left.sort_by_key(|left| (left.job.queued_at(), left.job.key()));
        if let Some(mut spill) = Overflow::new(self.table, self.settings, pool, &left).await? {
            self.hold(known).await?;
            for (to, jobs) in spill.run(pool, &left, now).await? {
                report.moved_to.entry(to).or_default().extend(jobs);
            }
        }
        if full_read && !progress && plan.entity_full && known.reach < MAX_READ {
            known.reach *= FURTHER;
            return Ok(Round::Again);
        }
        let rest = known.rest.iter().any(|slot| plan::is_asked_at_once(pool, slot));
        Ok(if (progress && full_read) || rest { Round::Again } else { Round::Drained })
    }

    /// Commits a planned launch, and asks EC2 for it. A pass's first launch takes the lease along.
    async fn launch(
        &self,
        pool: &Pool,
        planned: &PlannedLaunch,
        wakes: Option<u64>,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<(), PassError> {
        let launch = Change::create(planned.launch.clone());
        let count = u32::try_from(planned.instances().count()).unwrap_or(u32::MAX);
        if count == 0 {
            self.hold(known).await?;
        }
        let counted = known.counted_up(count, now);
        let taken = known.capacity.is_planned().then_some(&counted);
        let writes = self.launch_writes(pool, planned, &launch, taken, wakes, now);
        let committed = self.commit(&writes, known).await?;
        if count > 0 {
            known.capacity = Lease::Stored(counted.stored(&committed));
        }
        let mut slots = self.claim_beyond(planned, &committed, known, now).await;
        let there = planned.fresh.iter().map(|(instance, _)| instance).chain(&planned.idle);
        slots.extend(there.map(|slot| created(slot, &committed)));
        slots.extend(planned.again.iter().map(|slot| slot.clone().stored(&committed)));
        self.call(launch.stored(&committed), slots, known, now, report).await
    }
}

/// Why no machine of the pool is launched, if none is. Runners that are there go on taking jobs,
/// and launches that are under way are brought to their end.
fn held_back(pool: &Pool, known: &PoolSnapshot) -> Option<String> {
    if pool.is_removed() {
        return Some("the pool is being removed".to_owned());
    }
    if pool.paused {
        return Some("the pool is paused".to_owned());
    }
    known.switches.launches_off(&pool.name).map(|off| format!("launches are {off}"))
}

enum Worked {
    /// All that could be done is done, or left for later.
    Ended,
    /// Another pass was faster, and has been asked to look again.
    HeldByOther,
}

enum Round {
    /// The listing was cut: there is more.
    Again,
    /// Nothing is left that can be done now.
    Drained,
}
