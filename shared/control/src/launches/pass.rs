//! The launch pass of a pool: one at a time per pool, drains the table rather than the queue. Each
//! round reads, decides (`launch/plan.rs`), commits, calls EC2 and settles what that answered.

mod call;
mod commit;
mod known;
mod lease;
mod left;
mod look;
mod pool_lease;
mod report;

use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::plan::{self, Plan, PlannedLaunch, View};
use muster_domain::launch::verdict::{BlockScope, Brake, Conditions};
use muster_domain::message::WakePool;
use muster_domain::pool::Pool;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use self::commit::created;
use self::known::Known;
pub use self::look::Looked;
use self::look::{Listed, MAX_DEMAND};
use self::pool_lease::Lease;
pub use self::report::{
    LaunchReport, LaunchStopped, again_after, comes_again, last_call, send_wakes,
};
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::launches::conditions;
use crate::launches::overflow::Overflow;
use crate::ports::{CommitError, Compute, LaunchConditions, Launches as _, Table, Write};
use crate::writes::{self, PassError};

/// How many times as many jobs the next round reads where some wait for what others need not: behind
/// them may be one that has a machine now.
const FURTHER: u32 = 4;
/// Where that ends: 7,680 jobs are eight pages of DynamoDB's, a second or two.
const MAX_READ: u32 = MAX_DEMAND * FURTHER * FURTHER * FURTHER;
/// How many writes a commit takes.
const MAX_WRITES: usize = 100;
/// Rounds in which a launch that is not full gives way to jobs that are just coming in.
const GATHERING: usize = 3;
/// Most rounds of one pass. What is left after that wakes the next pass.
const ROUNDS: usize = 12;

/// What an invocation gives its launch pass.
pub struct LaunchPass<'a, W: Wired> {
    /// The world: tables and EC2.
    pub context: Context<'a, W>,
    /// Names this invocation as holder of a pool's lease. Unique among invocations that may
    /// overlap.
    pub holder: &'a str,
    /// Makes the launch ids of this invocation unique.
    pub seed: u64,
    /// From then on no new work starts: see [`last_call`].
    pub last_call: Time,
    /// The time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Compute: Compute>> LaunchPass<'_, W> {
    /// Runs the launch pass of a pool. If another invocation holds the lease, that one is asked for
    /// one more round, and this wake-up comes again when its jobs may not be visible to it. `looked`
    /// was read for this wake-up, which was received `receives` times.
    ///
    /// # Errors
    /// When the tables do not answer. What was committed before is picked up by a later pass, and
    /// is in the report.
    pub async fn run(
        &self,
        looked: Looked,
        wake: &WakePool,
        receives: u32,
    ) -> Result<LaunchReport, LaunchStopped> {
        let Some(pool) = self.context.settings.pool(&wake.pool) else {
            return Ok(LaunchReport::default());
        };
        if self.is_late() {
            return Ok(LaunchReport { again: true, ..LaunchReport::default() });
        }
        let waits = looked.waits_for(&pool.name);
        if !wake.jobs.is_empty() && !waits {
            // A burst wakes a pool many times, and the first passes served these.
            return Ok(LaunchReport::default());
        }
        let mut run = Run::begin(self, pool, looked, waits && receives > 1).await?;
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
        // Let the next pass in at once rather than after the lease. What went wrong first is what
        // is told.
        if let Err(error) = run.leave().await {
            tracing::warn!(pool.name = %pool.name, error = with_causes(&error), "failed to give back a pool's lease");
        }
        Err(LaunchStopped { report: Box::new(run.report), error })
    }

    /// Lets what stood in the way of the pool begin anew: its configuration is another one than the
    /// last pass saw, which may be the fix. Before that is on record, so that no crash loses it.
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

/// A pass under way, and what it knows.
struct Run<'a, W: Wired> {
    pass: &'a LaunchPass<'a, W>,
    pool: &'a Pool,
    /// When the reading began: the pass knows nothing that came later.
    now: Time,
    known: Known,
    report: LaunchReport,
}

enum Worked {
    /// All that could be done is done, or left for later.
    Ended,
    /// Another pass was faster, and has been asked to look again.
    HeldByOther,
}

enum Round {
    /// There is more.
    Again,
    /// Nothing is left that can be done now.
    Drained,
}

impl<'a, W: Wired<Table: Table, Compute: Compute>> Run<'a, W> {
    /// Asks for the pool. `again`: the wake-up has asked before.
    async fn begin(
        pass: &'a LaunchPass<'a, W>,
        pool: &'a Pool,
        looked: Looked,
        again: bool,
    ) -> Result<Self, PassError> {
        let Looked { at: now, jobs, mut conditions, listed } = looked;
        let read = conditions.capacity.take();
        if read.as_ref().is_some_and(|read| read.differs_from(&pool.version())) {
            pass.open_anew(pool, &mut conditions, now).await?;
        }
        let (lease, listed) = match pass.ask(pool, read, again, false, now).await {
            // What was read before is overtaken.
            Err(PassError::Commit(CommitError::Conflict)) => {
                let lease = pass.ask_again(pool, again, now).await?;
                conditions = pass.context.table.launch_conditions(&pool.name).await?;
                (lease, None)
            }
            asked => (asked?, Some(listed)),
        };
        let mut known = Known::new(lease, conditions, listed);
        known.saw(jobs);
        Ok(Self { pass, pool, now, known, report: LaunchReport::default() })
    }

    /// Works until nothing is left, and gives the lease back.
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
                Ok(Round::Again) | Err(PassError::Commit(CommitError::Conflict)) => continue,
                Ok(Round::Drained) => {}
                Err(error) => return Err(error),
            }
            if self.give_back().await? {
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

    /// Reads the pool's records anew, and holds it from now on: another pass may have been faster.
    async fn refresh(&mut self) -> Result<(), PassError> {
        if self.known.capacity.is_planned() {
            self.known.capacity = self.pass.ask_again(self.pool, false, self.now).await?;
        }
        let read = self.pass.context.table.launch_conditions(&self.pool.name).await?;
        self.known.read_again(read);
        Ok(())
    }

    async fn round(&mut self, round: usize) -> Result<Round, PassError> {
        // Read.
        let Listed { demand, open, free, retries } = self.listed().await?;
        if self.replay(open).await? {
            // What was listed beside them is overtaken.
            return Ok(Round::Again);
        }
        self.known.waits = None;
        let is_full_read = demand.len() >= self.known.reach as usize;
        let demand = self.known.demand(&self.pool.name, demand);
        let free = self.known.as_known(free);
        let conditions = self.conditions(&demand, &free).await?;
        self.end_trouble(&conditions).await?;
        let supply = supply(free);
        let retries = self.known.due_retries(self.pool, retries, self.now, self.timings());

        // Decide.
        let view = View {
            stack: &self.pass.context.settings.stack,
            pool: self.pool,
            conditions,
            demand,
            supply,
            retries,
            seed: self.pass.seed.wrapping_add(round as u64),
            now: self.now,
            timings: self.timings(),
        };
        let most_slots = view.most_slots();
        let finds_out = view.conditions.are_troubled();
        let mut plan = plan::plan(view);
        let progress = !plan.claims.is_empty() || !plan.launches.is_empty();
        self.report.counts(&plan);

        // Commit what needs no machine.
        self.commit_beside_launches(&mut plan).await?;

        // Commit each launch, call EC2, settle.
        for (number, planned) in plan.launches.iter().enumerate() {
            // An earlier call of this pass has just found out. What it would have asked for is
            // asked for again, or waits, in the next round.
            let is_refused = self.known.is_refused(&planned.launch, self.now);
            if is_refused || (number > 0 && self.pass.is_late()) {
                return Ok(Round::Again);
            }
            // When more jobs have come since demand was read, they go with a launch that is not
            // full: a conflict, and the next round plans anew. Not for ever: the first launch of a
            // later round is made as it is.
            let is_full = planned.launch.slots.len() >= most_slots;
            let may_wait = !is_full && (number > 0 || round < GATHERING);
            let wakes = may_wait.then_some(self.known.wakes);
            self.launch(planned, wakes, finds_out).await?;
        }

        // What is left over.
        self.known.wait_for(plan.blocks().filter_map(|block| block.until), self.now);
        let hides = |scope| matches!(scope, BlockScope::Entity | BlockScope::Job);
        let is_hidden =
            plan.left.iter().any(|left| hides(left.block.scope) && left.block.brake != Brake::Age);
        self.move_on(plan).await?;
        if is_full_read && !progress && is_hidden && self.known.reach < MAX_READ {
            self.known.reach *= FURTHER;
            return Ok(Round::Again);
        }
        let rest = self.known.rest.iter().any(|slot| plan::is_asked_at_once(self.pool, slot));
        Ok(if (progress && is_full_read) || rest { Round::Again } else { Round::Drained })
    }

    /// What the indexes list, all of it at the same moment.
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
        let Known { capacity, switches, cooldowns, counted, .. } = &self.known;
        let read = LaunchConditions {
            switches: switches.clone(),
            cooldowns: cooldowns.clone(),
            counted: *counted,
            ..LaunchConditions::default()
        };
        let mut conditions =
            conditions::of_pool(table, settings, self.pool, &read, demand, free, self.now).await?;
        // With the launches of this pass.
        conditions.live = capacity.live;
        Ok(conditions)
    }

    /// Puts on record that a live machine shows that the pool's machines serve again.
    async fn end_trouble(&mut self, conditions: &Conditions) -> Result<(), PassError> {
        if conditions.trouble_is_over() {
            let name = &self.pool.name;
            self.known.remember(self.pass.context.table, |all| all.without_trouble(name)).await;
            tracing::info!(pool.name = %name, "the pool's machines serve again");
        }
        Ok(())
    }

    /// Claims, and slots that are put off. All of it holds the pool first.
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
    /// want to, one meets a conflict and looks again.
    async fn launch(
        &mut self,
        planned: &PlannedLaunch,
        wakes: Option<u64>,
        finds_out: bool,
    ) -> Result<(), PassError> {
        let launch = Change::create(planned.launch.clone());
        let count = u32::try_from(planned.instances().count()).unwrap_or(u32::MAX);
        if count == 0 {
            self.hold().await?;
        }
        let counted = self.known.counted_up(count);
        let taken = self.known.capacity.is_planned().then_some(&counted);
        // A trouble that is over finds nothing out, also where that could not be put on record.
        let probed = finds_out.then(|| self.probed(planned)).flatten();
        let mut writes = self.launch_writes(planned, &launch, taken, wakes);
        writes.extend(probed.clone().map(Write::from));
        let committed = self.commit(&writes).await?;
        if let Some(probed) = probed {
            self.known.cooldowns = Some(probed.stored(&committed));
        }
        if count > 0 {
            self.known.capacity = Lease::Stored(counted.stored(&committed));
        }
        let mut slots = self.claim_beyond(planned, &committed).await;
        let there = planned.fresh.iter().map(|(instance, _)| instance).chain(&planned.idle);
        slots.extend(there.map(|slot| created(slot, &committed)));
        slots.extend(planned.again.iter().map(|slot| slot.clone().stored(&committed)));
        self.call(launch.stored(&committed), slots).await
    }

    fn probed(&self, planned: &PlannedLaunch) -> Option<Change<Cooldowns>> {
        let stored = self.known.cooldowns.as_ref()?;
        let next = stored.probed(self.pool, &planned.entities(), self.now)?;
        Some(stored.change(next))
    }

    /// Moves jobs that this pool launches nothing for to pools that do.
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

/// Runners that could take a job, or be kept for one.
fn supply(mut free: Vec<Stored<Instance>>) -> Vec<Stored<Instance>> {
    free.retain(|one| one.is_free_supply() || one.may_be_kept());
    free
}
