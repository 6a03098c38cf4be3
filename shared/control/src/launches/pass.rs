//! The launch pass: one at a time per pool, driven by the table rather than the queue. Each round
//! reads, decides (`launch/plan.rs`), commits, calls EC2 and settles the answer.

mod call;
mod commit;
mod known;
mod lease;
mod left;
mod look;
mod pool_lease;
mod report;

use muster_domain::causes::with_causes;
use muster_domain::ids::PoolName;
use muster_domain::image::Images;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::plan::{self, Plan, PlannedLaunch, View};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::verdict::{BlockScope, Brake, Conditions};
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use self::commit::created;
use self::known::PassState;
pub use self::look::WakeUpReads;
use self::look::{Listed, MAX_DEMAND};
use self::pool_lease::Lease;
pub use self::report::{LaunchReport, LaunchStopped, comes_again, last_call, send_wakes};
use crate::context::{Context, Wired};
use crate::launches::conditions;
use crate::launches::overflow::Overflow;
use crate::ports::{CommitError, Compute, LaunchConditions, Launches as _, Table, Write};
use crate::writes::{self, PassError};

/// Factor by which the next round reads more jobs if some must wait for what others do not need: a
/// later job may get a machine now.
const FURTHER: u32 = 4;
/// Maximum of that: 7,680 jobs are eight DynamoDB pages, one or two seconds.
const MAX_READ: u32 = MAX_DEMAND * FURTHER * FURTHER * FURTHER;
/// Maximum writes per commit.
const MAX_WRITES: usize = 100;
/// Rounds in which a launch that is not full waits for jobs that are just arriving.
const GATHERING: usize = 3;
/// Maximum rounds per pass. The rest is left to the next pass.
const ROUNDS: usize = 12;

/// A launch pass and its invocation.
pub struct LaunchPass<'a, W: Wired> {
    /// The ports to tables and EC2, and the settings.
    pub context: Context<'a, W>,
    /// Identifies this invocation as holder of a pool's lease; unique among overlapping
    /// invocations.
    pub holder: &'a str,
    /// Makes the launch IDs of this invocation unique.
    pub seed: u64,
    /// No new work starts after this time: see [`last_call`].
    pub last_call: Time,
    /// Returns the current time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Compute: Compute>> LaunchPass<'_, W> {
    /// Runs the launch pass of a pool. If a different invocation holds the lease, requests one more
    /// round from it; this wake-up returns if that invocation may not see its jobs. `looked` was
    /// read for this wake-up, which was received `receives` times.
    ///
    /// # Errors
    /// When the tables do not answer. A later pass continues from what was committed, and the
    /// report includes it.
    pub async fn run(
        &self,
        looked: WakeUpReads,
        wake: &WakePool,
        receives: u32,
    ) -> Result<LaunchReport, LaunchStopped> {
        let Some(pool) = self.context.settings.pool(&wake.pool) else {
            return Ok(LaunchReport::default());
        };
        if self.is_late() {
            return Ok(LaunchReport { again: true, ..LaunchReport::default() });
        }
        let (waits, is_early) = (looked.waits_for(&pool.name), looked.is_early(wake));
        if !wake.jobs.is_empty() && !waits {
            // A burst wakes a pool many times, and the first passes have served these jobs.
            return Ok(LaunchReport { is_early, ..LaunchReport::default() });
        }
        let mut run = RunningPass::begin(self, pool, looked, waits && receives > 1).await?;
        run.report.is_early = is_early;
        if !run.known.capacity.is_held_by(self.holder) {
            run.report.found_held(waits);
            return Ok(run.report);
        }
        let error = match run.rounds().await {
            Ok(Worked::Ended) => return Ok(run.report),
            Ok(Worked::HeldByOther) => {
                run.report.found_held(waits);
                return Ok(run.report);
            }
            Err(error) => error,
        };
        // Release the lease now instead of letting it expire. The first error is the one to report.
        if let Err(error) = run.leave().await {
            tracing::warn!(pool.name = %pool.name, error = with_causes(&error), "failed to release a pool's lease");
        }
        Err(LaunchStopped { report: Box::new(run.report), error })
    }

    /// Ends the pool's back-off if its configuration changed since the last pass, because the
    /// change may be the fix. Happens before the new configuration is recorded, so that a crash
    /// does not lose it.
    async fn open_anew(
        &self,
        pool: &Pool,
        conditions: &mut LaunchConditions,
        now: Time,
    ) -> Result<(), PassError> {
        let table = self.context.table;
        let is_own = |of: Option<&PoolName>| of.is_none_or(|of| *of == pool.name);
        let opened = |known: Option<&Cooldowns>| known?.opened(is_own, now);
        conditions.cooldowns =
            writes::update(table, async || table.cooldowns().await, opened).await?;
        Ok(())
    }

    fn is_late(&self) -> bool {
        (self.clock)() > self.last_call
    }
}

/// A running pass with its state.
struct RunningPass<'a, W: Wired> {
    pass: &'a LaunchPass<'a, W>,
    pool: &'a Pool,
    /// When reading started: the pass knows nothing newer.
    now: Time,
    known: PassState,
    report: LaunchReport,
}

enum Worked {
    /// Everything possible is done, or left for later.
    Ended,
    /// A different pass holds the lease, and was asked for one more round.
    HeldByOther,
}

enum RoundResult {
    /// There may be more to do.
    Again,
    /// There is no more to do now.
    Drained,
}

impl<'a, W: Wired<Table: Table, Compute: Compute>> RunningPass<'a, W> {
    /// Requests a pass of the pool. `again` means that this wake-up has requested one before.
    async fn begin(
        pass: &'a LaunchPass<'a, W>,
        pool: &'a Pool,
        looked: WakeUpReads,
        again: bool,
    ) -> Result<Self, PassError> {
        let WakeUpReads { at: now, jobs, mut conditions, listed } = looked;
        let read = conditions.capacity.take();
        if read.as_ref().is_some_and(|read| read.differs_from(&pool.version())) {
            pass.open_anew(pool, &mut conditions, now).await?;
        }
        let (lease, listed) = match pass.ask(pool, read, again, false, now).await {
            // The earlier reads are outdated.
            Err(PassError::Commit(CommitError::Conflict)) => {
                let lease = pass.ask_again(pool, again, now).await?;
                conditions = pass.context.table.launch_conditions(&pool.name).await?;
                (lease, None)
            }
            asked => (asked?, Some(listed)),
        };
        let mut known = PassState::new(lease, conditions, listed);
        known.saw(jobs);
        Ok(Self { pass, pool, now, known, report: LaunchReport::default() })
    }

    /// Runs rounds until there is no more to do, then releases the lease.
    async fn rounds(&mut self) -> Result<Worked, PassError> {
        for round in 0..ROUNDS {
            if round > 0 {
                if self.pass.is_late() {
                    break;
                }
                self.refresh().await?;
                if !self.known.capacity.is_held_by(self.pass.holder) {
                    return Ok(Worked::HeldByOther);
                }
            }
            match self.round(round).await {
                Ok(RoundResult::Again) | Err(PassError::Commit(CommitError::Conflict)) => continue,
                Ok(RoundResult::Drained) => {}
                Err(error) => return Err(error),
            }
            if self.known.is_given_back || self.give_back().await? {
                return Ok(Worked::Ended);
            }
            match self.release().await? {
                None => return Ok(Worked::Ended),
                Some(woken) => self.known.wakes = woken.wakes,
            }
        }
        self.leave().await?;
        self.report.unfinished = true;
        Ok(Worked::Ended)
    }

    /// Reads the pool's records again and takes the lease: a different pass may have been faster.
    async fn refresh(&mut self) -> Result<(), PassError> {
        if self.known.capacity.is_planned() {
            self.known.capacity = self.pass.ask_again(self.pool, false, self.now).await?;
        }
        let read = self.pass.context.table.launch_conditions(&self.pool.name).await?;
        self.known.read_again(read);
        Ok(())
    }

    async fn round(&mut self, round: usize) -> Result<RoundResult, PassError> {
        let Listed { demand, open, free, retries } = self.listed().await?;
        if self.replay(open).await? {
            // The other lists are outdated.
            return Ok(RoundResult::Again);
        }
        self.known.waits = None;
        let is_full_read = demand.len() >= self.known.reach as usize;
        let demand = self.known.demand(&self.pool.name, demand);
        let free = self.known.as_known(free);
        let conditions = self.conditions(&demand, &free).await?;
        self.end_trouble(&conditions).await?;
        let supply = supply(free);
        let retries = self.known.due_retries(self.pool, retries, self.now, self.timings());

        let view = View {
            stack: &self.pass.context.settings.stack,
            pool: self.pool,
            conditions,
            demand,
            supply,
            retries,
            warm: &self.known.capacity.warm,
            images: self
                .known
                .images
                .as_ref()
                .map(|images| images.choice(self.pool))
                .unwrap_or_default(),
            seed: self.pass.seed.wrapping_add(round as u64),
            now: self.now,
            timings: self.timings(),
        };
        let most_slots = view.most_slots();
        let finds_out = view.conditions.are_troubled();
        let mut plan = plan::plan(view);
        let progress = !plan.claims.is_empty() || !plan.launches.is_empty();
        self.report.counts(&plan);
        self.known.note_warm(std::mem::take(&mut plan.warm));

        self.commit_beside_launches(&mut plan).await?;

        let leaves_none = plan.blocks().next().is_none() && !is_full_read;
        for (number, planned) in plan.launches.iter().enumerate() {
            // An earlier call of this pass was refused for the same reason. The next round plans
            // again or waits.
            let is_refused = self.known.is_refused(&planned.launch, self.now);
            if is_refused || (number > 0 && self.pass.is_late()) {
                return Ok(RoundResult::Again);
            }
            // Jobs may have arrived since demand was read. They should share a launch that is not
            // full: the commit conflicts, and the next round plans again. From round `GATHERING`
            // on, the first launch does not wait.
            let is_full = planned.launch.slots.len() >= most_slots;
            let may_wait = !is_full && (number > 0 || round < GATHERING);
            let wakes = may_wait.then_some(self.known.wakes);
            let is_last = leaves_none && number + 1 == plan.launches.len();
            self.launch(planned, wakes, finds_out, is_last).await?;
        }
        self.record_warm().await?;

        self.known.wait_for(plan.blocks().filter_map(|block| block.until), self.now);
        let hides = |scope| matches!(scope, BlockScope::Entity | BlockScope::Job);
        let is_hidden =
            plan.left.iter().any(|left| hides(left.block.scope) && left.block.brake != Brake::Age);
        self.move_on(plan).await?;
        if is_full_read && !progress && is_hidden && self.known.reach < MAX_READ {
            self.known.reach *= FURTHER;
            return Ok(RoundResult::Again);
        }
        let rest = self.known.rest.iter().any(|slot| plan::is_asked_at_once(self.pool, slot));
        Ok(if (progress && is_full_read) || rest {
            RoundResult::Again
        } else {
            RoundResult::Drained
        })
    }

    /// Returns the index listings, all read concurrently.
    async fn listed(&mut self) -> Result<Listed, PassError> {
        match self.known.listed.take() {
            Some(listed) => Ok(listed),
            None => {
                let table = self.pass.context.table;
                Ok(Listed::read(table, &self.pool.name, self.known.reach).await?)
            }
        }
    }

    async fn conditions(
        &self,
        demand: &[Stored<Job>],
        free: &[Stored<Instance>],
    ) -> Result<Conditions, PassError> {
        let Context { table, settings, .. } = self.pass.context;
        let PassState { capacity, switches, cooldowns, counted, .. } = &self.known;
        let read = LaunchConditions {
            switches: switches.clone(),
            cooldowns: cooldowns.clone(),
            counted: *counted,
            ..LaunchConditions::default()
        };
        let mut conditions =
            conditions::of_pool(table, settings, self.pool, &read, demand, free, self.now).await?;
        // Includes the launches of this pass.
        conditions.live = capacity.live;
        Ok(conditions)
    }

    /// Records that a live machine proves that the pool works again.
    async fn end_trouble(&mut self, conditions: &Conditions) -> Result<(), PassError> {
        if conditions.trouble_is_over() {
            let name = &self.pool.name;
            self.known.remember(self.pass.context.table, |all| all.without_trouble(name)).await;
            tracing::info!(pool.name = %name, "the pool's machines run jobs again");
        }
        Ok(())
    }

    /// Commits claims and postponed slots, after taking the lease.
    async fn commit_beside_launches(&mut self, plan: &mut Plan) -> Result<(), PassError> {
        if plan.writes_beside_launches() {
            self.hold().await?;
        }
        for (job, instance) in &plan.claims {
            self.commit(&[job.clone().into(), instance.clone().into()]).await?;
            self.report.claimed += 1;
        }
        self.put_off(plan).await
    }

    /// Commits a planned launch, and asks EC2 for it. A pass's first launch takes the lease along,
    /// and a machine that is to find out whether a trouble is over that it does: of two passes that
    /// want to, one meets a conflict and looks again. `is_last`: the pass has no work after it.
    async fn launch(
        &mut self,
        planned: &PlannedLaunch,
        wakes: Option<u64>,
        finds_out: bool,
        is_last: bool,
    ) -> Result<(), PassError> {
        let launch = Change::create(planned.launch.clone());
        let count = u32::try_from(planned.instances().count()).unwrap_or(u32::MAX);
        if count == 0 {
            self.hold().await?;
        }
        self.known.launches_idle(planned.idle.len());
        let counted = self.known.counted_up(count);
        // What an event still requires must not outlast the launch that meets it.
        let replaces = self.known.capacity.is_planned() || self.known.warm.is_some();
        let taken = (count > 0 && replaces).then_some(&counted);
        // A failure that is over needs no probe, even if that could not be recorded.
        let probed = finds_out.then(|| self.probed(planned)).flatten();
        let mut writes = self.launch_writes(planned, &launch, taken, wakes);
        writes.extend(probed.clone().map(Write::from));
        let tried = self.tried_image(planned);
        writes.extend(tried.clone().map(Write::from));
        let committed = self.commit(&writes).await?;
        if let Some(tried) = tried {
            self.known.images = Some(tried.stored(&committed));
        }
        if let Some(probed) = probed {
            self.known.cooldowns = Some(probed.stored(&committed));
        }
        if count > 0 {
            self.known.capacity = Lease::Stored(counted.stored(&committed));
            if replaces {
                self.known.warm = None;
            }
        }
        let mut slots = self.claim_beyond(planned, &committed).await;
        let there = planned.fresh.iter().map(|(instance, _)| instance).chain(&planned.idle);
        slots.extend(there.map(|slot| created(slot, &committed)));
        slots.extend(planned.again.iter().map(|slot| slot.clone().stored(&committed)));
        self.call(launch.stored(&committed), slots, is_last).await
    }

    fn probed(&self, planned: &PlannedLaunch) -> Option<Change<Cooldowns>> {
        let stored = self.known.cooldowns.as_ref()?;
        let next = stored.probed(self.pool, &planned.entities(), self.now)?;
        Some(stored.change(next))
    }

    /// Returns the record of images with the machines of this launch, if their image is on probation: of two passes
    /// that launch with it, one meets a conflict and plans again.
    fn tried_image(&self, planned: &PlannedLaunch) -> Option<Change<Images>> {
        let stored = self.known.images.as_ref()?;
        let again = planned.again.iter().map(Change::next);
        let image = planned.instances().chain(again.clone()).find_map(|one| one.image.as_ref())?;
        let next = stored.launched(image, &planned.launch.slots)?;
        Some(stored.change(next))
    }

    /// Moves jobs that this pool cannot serve now to pools that can.
    async fn move_on(&mut self, plan: Plan) -> Result<(), PassError> {
        let mut left = plan.left;
        left.extend(self.left_by_slots(plan.stuck).await?);
        left.retain(|left| left.block.elsewhere);
        left.sort_by_key(|left| (left.job.queued_at(), left.job.key()));
        let context = self.pass.context;
        let Some(mut overflow) = Overflow::new(context, self.pool, &left).await? else {
            return Ok(());
        };
        self.hold().await?;
        for (to, jobs) in overflow.run(self.pool, &left, self.now).await? {
            self.report.moved_to.entry(to).or_default().extend(jobs);
        }
        Ok(())
    }

    const fn timings(&self) -> &'a Timings {
        &self.pass.context.settings.timings
    }
}

/// Returns runners that can take a job or be kept for one.
fn supply(mut free: Vec<Stored<Instance>>) -> Vec<Stored<Instance>> {
    free.retain(|one| one.is_free_supply() || one.may_be_kept());
    free
}
