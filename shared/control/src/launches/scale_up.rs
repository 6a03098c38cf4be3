//! The launch pass of a pool: one at a time per pool, drains the table rather than the queue.

mod allowances;
mod commits;
mod lease;
mod pool_snapshot;
mod report;

use std::collections::BTreeSet;

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::{JobKey, MachineId, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::Job;
use muster_domain::job::claim;
use muster_domain::job::untold;
use muster_domain::launch::cooldown::{self, Cooldowns};
use muster_domain::launch::plan::{
    self, Answered, BlockedSlot, Outcome, Plan, PlannedLaunch, Unplaced, View,
};
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Limits;
use muster_domain::stored::{Change, Committed, Stored};
use muster_domain::time::Time;

use self::commits::{created, outcome_writes};
use self::pool_snapshot::{PoolSnapshot, count_refusals, newest};
pub use self::report::{LaunchReport, again_after, comes_again, last_call, send_wakes};
use crate::Settings;
use crate::launches::headroom;
use crate::launches::overflow::Overflow;
use crate::ports::{CommitError, Compute, Table, Write};
use crate::writes::{self, CONFLICT_ROUNDS, PassError};

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
    /// more, and what it may not see comes again. `receives`: how often this wake-up was received.
    ///
    /// # Errors
    /// When the tables do not answer. What was committed before is picked up by a later pass.
    pub async fn pass(
        &self,
        wake: &WakePool,
        receives: u32,
        now: Time,
    ) -> Result<LaunchReport, PassError> {
        let (name, mut report) = (&wake.pool, LaunchReport::default());
        let Some(pool) = self.settings.pool(name) else {
            return Ok(report);
        };
        if self.is_late() {
            report.again = true;
            return Ok(report);
        }
        let jobs = match wake.jobs.is_empty() {
            true => Vec::new(),
            false => self.table.jobs(&wake.jobs).await?,
        };
        let waits = jobs.iter().any(|job| job.is_demand() && job.pool.as_ref() == Some(name));
        if !wake.jobs.is_empty() && !waits {
            // A burst wakes a pool many times, and the first passes served these.
            return Ok(report);
        }
        let mut known = self.wake(pool, &jobs, waits && receives > 1, now).await?;
        known.saw(jobs);
        // Whoever wants the whole pool looked at knows better than the counter.
        known.thorough = wake.jobs.is_empty();
        if !known.capacity.is_held_by(self.holder) {
            report.held_by_other = true;
            // The holder reads an index, which may not show them before it is done.
            report.again = waits;
            return Ok(report);
        }
        let worked = self.rounds(pool, &mut known, now, &mut report).await;
        if worked.is_err() {
            // Let the next pass in at once rather than after the lease. What went wrong first is
            // what is told.
            if let Err(error) = self.leave(name).await {
                tracing::warn!(pool.name = %name, %error, "failed to give back a pool's lease");
            }
        }
        worked.map(|()| report)
    }

    /// Works until nothing is left, and gives the lease back.
    async fn rounds(
        &self,
        pool: &Pool,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<(), PassError> {
        for round in 0..ROUNDS {
            if round > 0 {
                if self.is_late() {
                    break;
                }
                known.refresh(self.table, pool).await?;
            }
            match self.round(pool, round, known, now, report).await {
                Ok(Round::Again) | Err(PassError::Commit(CommitError::Conflict)) => continue,
                Ok(Round::Drained) => {}
                Err(error) => return Err(error),
            }
            if self.give_back(known, report).await? {
                return Ok(());
            }
            match self.release(&pool.name, known, report).await? {
                None => return Ok(()),
                Some(woken) => known.wakes = woken.wakes,
            }
        }
        self.leave(&pool.name).await?;
        report.unfinished = true;
        Ok(())
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
        let listed = self.table.demand(&pool.name, known.reach).await?;
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
        for (job, instance) in &plan.claims {
            self.commit(&[job.clone().into(), instance.clone().into()], known).await?;
            report.claimed += 1;
        }
        self.put_off(&mut plan, report).await?;
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
            let launch = Change::create(planned.launch.clone());
            let writes = self.launch_writes(pool, planned, &launch, wakes, now);
            let committed = self.commit(&writes, known).await?;
            known.count_up(planned.instances().count(), now, &committed);
            let mut slots = self.claim_beyond(planned, &committed, known, now).await;
            let there = planned.fresh.iter().map(|(instance, _)| instance).chain(&planned.idle);
            slots.extend(there.map(|slot| created(slot, &committed)));
            slots.extend(planned.again.iter().map(|slot| slot.clone().stored(&committed)));
            self.call(launch.stored(&committed), slots, known, now, report).await?;
        }
        let mut left = plan.left;
        left.extend(self.refused(pool, plan.stuck, known, now).await?);
        left.sort_by_key(|left| (left.job.queued_at(), left.job.key()));
        if let Some(mut spill) = Overflow::new(self.table, self.settings, pool, &left).await? {
            for (to, jobs) in spill.run(pool, &left, now).await? {
                report.moved_to.entry(to).or_default().extend(jobs);
            }
        }
        if full_read && !progress && plan.entity_full && known.reach < MAX_READ {
            known.reach *= FURTHER;
            return Ok(Round::Again);
        }
        let rest = known.rest.iter().any(|slot| plan::falls_back_at_once(pool, slot));
        Ok(if (progress && full_read) || rest { Round::Again } else { Round::Drained })
    }

    /// The jobs of slots for which EC2 is asked nothing now: since before this pass, or after what
    /// it has just said.
    async fn refused(
        &self,
        pool: &Pool,
        mut stuck: Vec<BlockedSlot>,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Result<Vec<Unplaced>, PassError> {
        if let Some(cooldowns) = &known.cooldowns {
            known.rest.retain(|slot| {
                let waits = slot.state() == State::PendingCreate;
                let held = waits.then(|| plan::stuck(pool, slot, cooldowns, now)).flatten();
                let goes_on = held.is_none();
                stuck.extend(held);
                goes_on
            });
        }
        let keys: Vec<JobKey> = stuck.iter().filter_map(|one| one.slot.claim()).collect();
        if keys.is_empty() || self.settings.pools.len() < 2 {
            return Ok(Vec::new());
        }
        let jobs = self.table.jobs(&keys).await?;
        let left = |BlockedSlot { slot, why }: BlockedSlot| {
            let waits =
                |job: &&Stored<Job>| job.is_waiting() && job.claim.as_ref() == Some(&slot.name);
            let job = jobs.iter().find(waits)?.clone();
            Some(Unplaced { job, slot: Some(slot), why })
        };
        Ok(stuck.into_iter().filter_map(left).collect())
    }

    async fn view<'b>(
        &'b self,
        pool: &'b Pool,
        demand: Vec<Stored<Job>>,
        round: usize,
        known: &mut PoolSnapshot,
        cooldowns: &'b Cooldowns,
        now: Time,
    ) -> Result<View<'b>, PassError> {
        let timings = &self.settings.timings;
        known.wait_for(demand.iter().map(|job| pool.launches_at(job).max(job.listed_at())), now);
        let mut allowances = self.withhold(pool, &demand, now).await?;
        let demand: Vec<Stored<Job>> =
            demand.into_iter().filter(|job| plan::is_job_due(job, cooldowns, now)).collect();
        let has_instances = known.has_instances();
        let works = !demand.is_empty() || pool.idle_wanted() > 0;
        let mut supply: Vec<Stored<Instance>> = if works && has_instances {
            self.table.free_instances(&pool.name).await?
        } else {
            Vec::new()
        };
        let (demand, told_until) = untold::without(demand, &supply, now);
        known.wait_for(told_until, now);
        supply.retain(|one| one.is_free_supply() || one.may_be_kept());
        let limits = if works { &self.settings.limits } else { &Limits::default() };
        let room = headroom::left(self.table, limits).await?;
        let idle_hold = if known.capacity.is_idle_healed(&supply, timings) {
            self.heal_idle(&pool.name).await?;
            None
        } else {
            known.capacity.idle_hold.clone()
        };
        known.wait_for(
            idle_hold.iter().filter(|_| pool.idle_wanted() > 0).map(|hold| hold.until),
            now,
        );
        let listed = match has_instances {
            true => self.table.slots_to_retry(&pool.name).await?,
            false => Vec::new(),
        };
        let mut retries = newest(known.rest.drain(..).chain(listed));
        retries.retain(|slot| slot.claim().is_some());
        known.wait_for(retries.iter().filter_map(|slot| slot.retry_at(timings)), now);
        retries.retain(|slot| plan::is_launch_due(pool, slot, cooldowns, now, timings));
        allowances.extend(self.allowances(pool, &demand, &retries, known, now).await?);
        Ok(View {
            stack: &self.settings.stack,
            pool,
            live: known.capacity.live,
            room,
            idle_hold,
            held: None,
            demand,
            supply,
            retries,
            cooldowns,
            allowances,
            seed: self.seed.wrapping_add(round as u64),
            now,
            timings,
        })
    }

    /// Machines of the min idle come up again: nothing holds them back any more.
    async fn heal_idle(&self, pool: &PoolName) -> Result<(), PassError> {
        let healed = |stored: Option<&Capacity>| stored.map(Capacity::idle_healed);
        writes::update(self.table, async || self.table.capacity(pool).await, healed).await?;
        Ok(())
    }

    /// Puts on record what waits for EC2, and until when. Whoever wrote one of the records
    /// meanwhile knows better, and another pool does not get that one either.
    async fn put_off(&self, plan: &mut Plan, report: &mut LaunchReport) -> Result<(), PassError> {
        report.held += plan.held.len();
        let jobs = plan.held.iter().cloned().map(Write::from);
        let slots = plan.put_off.iter().cloned().map(Write::from);
        let writes: Vec<Write> = jobs.chain(slots).collect();
        for part in writes.chunks(MAX_WRITES) {
            match self.table.commit(part).await {
                Ok(committed) => part.iter().for_each(|write| goes_on(plan, write, &committed)),
                // One of them has changed: the others need not wait for the next pass.
                Err(CommitError::Conflict) => {
                    for write in part {
                        match self.table.commit(std::slice::from_ref(write)).await {
                            Ok(committed) => goes_on(plan, write, &committed),
                            Err(CommitError::Conflict) => {}
                            Err(error) => return Err(error.into()),
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Claims what the launch's own commit had no room to claim. Where a job has changed meanwhile,
    /// or nobody answers, the slot stays free, for it or for another job.
    async fn claim_beyond(
        &self,
        planned: &PlannedLaunch,
        committed: &Committed,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Vec<Stored<Instance>> {
        let free: Vec<Stored<Instance>> =
            planned.beyond.iter().map(|(slot, _)| created(slot, committed)).collect();
        if free.is_empty() {
            return free;
        }
        let (mut jobs, mut slots) = (Vec::new(), Vec::new());
        for (slot, (_, job)) in free.iter().zip(&planned.beyond) {
            let (mut claims, mut claimed) = (job.record().clone(), slot.record().clone());
            claim::assign(&mut claims, &mut claimed, now, &self.settings.timings);
            jobs.push(job.change(claims));
            slots.push(slot.change(claimed));
        }
        let pairs = jobs.into_iter().zip(slots.iter().cloned());
        let writes: Vec<Write> =
            pairs.flat_map(|(job, slot)| [Write::from(job), Write::from(slot)]).collect();
        match self.commit(&writes, known).await {
            Ok(claimed) => slots.into_iter().map(|slot| slot.stored(&claimed)).collect(),
            Err(error) => {
                tracing::warn!(launch.id = %planned.launch.id, %error, "failed to claim jobs for new slots");
                free
            }
        }
    }

    /// Replays launches whose pass was stopped before EC2's answer was on record.
    async fn replay_open(
        &self,
        pool: &Pool,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<bool, PassError> {
        for (number, listed) in self.table.open_launches(&pool.name).await?.into_iter().enumerate()
        {
            if number > 0 && self.is_late() {
                return Ok(false);
            }
            // The listing may be late; the record decides.
            let Some(stored) = self.table.launch(&listed.id).await? else {
                continue;
            };
            let Some(leased) = stored.leased_again(now, &self.settings.timings) else {
                continue;
            };
            let leased = stored.change(leased);
            let leased = match self.table.commit(&[leased.clone().into()]).await {
                Ok(committed) => leased.stored(&committed),
                Err(CommitError::Conflict) => continue,
                Err(error) => return Err(error.into()),
            };
            let slots = self.table.instances(&leased.slots).await?;
            if slots.iter().any(|slot| slot.is_free_slot_of(&leased.id)) {
                // Rare, and large: not part of every pass.
                Box::pin(self.call(leased, slots, known, now, report)).await?;
                continue;
            }
            // Its machines have bound themselves: there is nothing left to ask. And EC2 forgets
            // tokens after a while, so a late replay would launch again.
            let settled = leased.change(leased.settled()).into();
            writes::commit_unless_changed(self.table, &[settled]).await?;
        }
        Ok(true)
    }

    /// Calls EC2 and puts its answer on record.
    async fn call(
        &self,
        mut launch: Stored<Launch>,
        mut slots: Vec<Stored<Instance>>,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<(), PassError> {
        let mut answer = self.compute.launch(&launch.id, &launch.request).await;
        if known.capacity.is_settling(now, &self.settings.timings) {
            answer = cooldown::while_settling(answer);
        }
        count_refusals(&launch, &answer, report);
        known.remember(self.table, &launch, &answer, now, &self.settings.timings).await;
        // A replayed fleet may be answered without its machines, and a look by tag may be late:
        // neither is trusted alone. A token that EC2 knows with other parameters has most likely
        // launched.
        let is_known = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Idempotency);
        let found = if launch.is_replay() || is_known {
            self.compute.find_launched(&launch.id).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let answered = Answered { answer, found };
        let mut owned = BTreeSet::new();
        for _ in 0..CONFLICT_ROUNDS {
            let timings = &self.settings.timings_of(&launch.pool);
            let is_owned = |machine: &MachineId| owned.contains(machine);
            let outcome = plan::apply(&launch, slots.clone(), &answered, is_owned, now, timings);
            match self.put_down(&outcome).await {
                Ok(committed) => {
                    count(&outcome, report);
                    let failed: Vec<Stored<Instance>> =
                        outcome.failed.into_iter().map(|slot| slot.stored(&committed)).collect();
                    let claimed = failed.iter().filter(|slot| slot.claim().is_some());
                    known.wait_for(claimed.filter_map(|slot| slot.retry_at(timings)), now);
                    self.probe_again(&failed, known, now).await;
                    for slot in &slots {
                        known.probing.remove(&slot.entity);
                    }
                    known.rest.extend(failed);
                    return Ok(());
                }
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
            // A machine registered by itself, a job ended, or a delete was ordered meanwhile.
            let Some(stored) = self.table.launch(&launch.id).await? else {
                return Ok(());
            };
            if stored.state == LaunchState::Settled || stored.calls != launch.calls {
                return Ok(());
            }
            slots = self.table.instances(&stored.slots).await?;
            owned = self.owned_among(&answered).await?;
            launch = stored;
        }
        Err(CommitError::Conflict.into())
    }

    /// Writes what EC2's answer means. What one commit does not hold goes before it; stopped in
    /// between, the launch is open, and is replayed for the others.
    async fn put_down(&self, outcome: &Outcome) -> Result<Committed, CommitError> {
        let mut last = vec![outcome.launch.clone().into()];
        let mut first = Vec::new();
        for part in outcome_writes(outcome) {
            let fits = last.len() + part.len() <= MAX_WRITES;
            if fits { &mut last } else { &mut first }.extend(part);
        }
        if !first.is_empty() {
            self.table.commit(&first).await?;
        }
        self.table.commit(&last).await
    }

    /// Machines of the answer that somebody owns by now, in one read.
    async fn owned_among(&self, answered: &Answered) -> Result<BTreeSet<MachineId>, PassError> {
        let answer = answered.answer.iter().flat_map(|answer| &answer.machines);
        let machines: Vec<MachineId> = answer.chain(&answered.found).cloned().collect();
        Ok(self.table.owners_of(&machines).await?.into_keys().collect())
    }
}

/// What was put off may find a machine in another pool: the plan goes on with the record as it is
/// stored now.
fn goes_on(plan: &mut Plan, write: &Write, committed: &Committed) {
    match write {
        Write::Job(held) => {
            for left in plan.left.iter_mut().filter(|left| left.job.key() == held.key()) {
                left.job = Change::clone(held).stored(committed);
            }
        }
        Write::Instance(put_off) => {
            for stuck in plan.stuck.iter_mut().filter(|one| one.slot.name == put_off.name) {
                stuck.slot = Change::clone(put_off).stored(committed);
            }
        }
        _ => {}
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

enum Round {
    /// The listing was cut: there is more.
    Again,
    /// Nothing is left that can be done now.
    Drained,
}

fn count(outcome: &Outcome, report: &mut LaunchReport) {
    report.launched += outcome.bound.len();
    report.failed += outcome.failed.len();
    report.open += usize::from(outcome.launch.state == LaunchState::Open);
    for (machine, instance) in &outcome.bound {
        tracing::info!(instance.id = %instance.name, machine.id = %machine, "bound a machine");
    }
    for instance in &outcome.failed {
        tracing::warn!(instance.id = %instance.name, instance.state = %instance.state(),
            error = ?instance.last_error, "failed to launch a slot");
    }
}
