//! The launch pass of a pool: one at a time per pool, drains the table rather than the queue.

use domain::capacity::Capacity;
use domain::ids::{MachineId, PoolName};
use domain::instance::Instance;
use domain::job::Job;
use domain::launch::{Launch, LaunchState};
use domain::plan::{self, Answered, Outcome, PlannedLaunch, View};
use domain::pool::Pool;
use domain::time::Time;

use crate::Settings;
use crate::ports::{CommitError, Compute, Table, Write};
use crate::writes::{CONFLICT_ROUNDS, PassError};

/// Most jobs that one round reads: two full launches and some to spare.
const DEMAND_READ: u32 = 120;
/// Most rounds of one pass. What is left after that wakes the next pass.
const ROUNDS: usize = 12;

/// What a launch pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Another pass holds the pool; it will see that it was asked to run again.
    pub held_by_other: bool,
    /// Jobs given to runners that were there.
    pub claimed: usize,
    /// Machines bound.
    pub launched: usize,
    /// Slots that EC2 refused.
    pub failed: usize,
    /// Launches whose answer is not known yet.
    pub open: usize,
    /// Jobs that wait because the pool is at its maximum.
    pub over_maximum: usize,
    /// An operator has switched launches off.
    pub switched_off: bool,
    /// There may be more to do: send another wake-up.
    pub unfinished: bool,
}

/// The launch pass.
pub struct ScaleUp<'a, T, C> {
    /// The tables.
    pub table: &'a T,
    /// EC2.
    pub compute: &'a C,
    /// The stack.
    pub settings: &'a Settings,
    /// Names this invocation as holder of a pool's lease. Unique among invocations that may overlap.
    pub holder: &'a str,
    /// Makes the launch ids of this invocation unique.
    pub seed: u64,
}

impl<T: Table, C: Compute> ScaleUp<'_, T, C> {
    /// Runs the launch pass of a pool, unless another invocation does: then that one runs once more.
    ///
    /// # Errors
    /// When the tables do not answer. What was committed before is picked up by a later pass.
    pub async fn pass(&self, name: &PoolName, now: Time) -> Result<Report, PassError> {
        let mut report = Report::default();
        let Some(pool) = self.settings.pool(name) else {
            return Ok(report);
        };
        let mut capacity = self.wake(name, now).await?;
        if !capacity.is_held_by(self.holder) {
            report.held_by_other = true;
            return Ok(report);
        }
        for round in 0..ROUNDS {
            let work = self.round(pool, round, now, &mut report).await;
            match work {
                Ok(Round::Again) | Err(PassError::Commit(CommitError::Conflict)) => continue,
                Ok(Round::Drained) => {}
                Err(error) => {
                    // Let the next pass in at once rather than after the lease.
                    let _ = self.release(name, None).await;
                    return Err(error);
                }
            }
            match self.release(name, Some(capacity.wakes)).await? {
                None => return Ok(report),
                Some(woken) => capacity = woken,
            }
        }
        self.release(name, None).await?;
        report.unfinished = true;
        Ok(report)
    }

    /// Asks for a pass and takes the lease when it is free.
    async fn wake(&self, name: &PoolName, now: Time) -> Result<Capacity, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let stored = self.table.capacity(name).await?;
            let replaces = stored.as_ref().map(|capacity| capacity.generation);
            let next = stored.unwrap_or_else(|| Capacity::empty(name.clone())).woken(
                self.holder,
                now,
                &self.settings.timings,
            );
            let write = Write::Capacity { next: next.clone(), replaces };
            match self.table.commit(&[write]).await {
                Ok(()) => return Ok(next),
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }

    /// Gives the lease back. With `seen` wakes: only if nobody asked for a pass since; otherwise answers with
    /// the record, and the lease is kept.
    async fn release(
        &self,
        name: &PoolName,
        seen: Option<u64>,
    ) -> Result<Option<Capacity>, PassError> {
        for _ in 0..CONFLICT_ROUNDS {
            let Some(stored) = self.table.capacity(name).await? else {
                return Ok(None);
            };
            if !stored.is_held_by(self.holder) {
                return Ok(None);
            }
            if seen.is_some_and(|wakes| wakes != stored.wakes) {
                return Ok(Some(stored));
            }
            let next = stored.released();
            let write = Write::Capacity { next, replaces: Some(stored.generation) };
            match self.table.commit(&[write]).await {
                Ok(()) => return Ok(None),
                Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CommitError::Conflict.into())
    }

    async fn round(
        &self,
        pool: &Pool,
        round: usize,
        now: Time,
        report: &mut Report,
    ) -> Result<Round, PassError> {
        self.replay_open(pool, now, report).await?;
        let demand = self.table.demand(&pool.name, DEMAND_READ).await?;
        let full_read = demand.len() >= DEMAND_READ as usize;
        let view = self.view(pool, demand, round, now).await?;
        let mut plan = plan::plan(view);
        if pool.is_removed() {
            // Its slots that wait for another attempt give their jobs back.
            plan.launches.clear();
        }
        if !plan.launches.is_empty() && self.is_switched_off(pool).await? {
            report.switched_off = true;
            plan.launches.clear();
        }
        let progress = !plan.claims.is_empty() || !plan.launches.is_empty();
        report.over_maximum = plan.over_maximum;
        for (job, instance) in &plan.claims {
            self.table.commit(&claim_writes(job, instance)).await?;
            report.claimed += 1;
        }
        for planned in &plan.launches {
            self.table.commit(&self.launch_writes(pool, planned)).await?;
            let slots: Vec<Instance> = planned
                .fresh
                .iter()
                .map(|(instance, _)| instance)
                .chain(&planned.again)
                .cloned()
                .collect();
            self.call(&planned.launch, slots, now, report).await?;
        }
        Ok(if progress && full_read { Round::Again } else { Round::Drained })
    }

    async fn view<'b>(
        &'b self,
        pool: &'b Pool,
        demand: Vec<Job>,
        round: usize,
        now: Time,
    ) -> Result<View<'b>, PassError> {
        let timings = &self.settings.timings;
        // What the pool does not serve any more since it was changed, the sweep matches anew.
        let is_served = |job: &Job| job.is_due(now) && pool.serves(job).is_ok();
        let demand: Vec<Job> = demand.into_iter().filter(is_served).collect();
        let supply = if demand.is_empty() {
            Vec::new()
        } else {
            let listed = self.table.free_instances(&pool.name).await?;
            listed.into_iter().filter(Instance::is_free_supply).collect()
        };
        let retries = self.table.slots_to_retry(&pool.name).await?;
        let retries = retries
            .into_iter()
            .filter(|slot| slot.claim().is_some() && slot.is_retry_due(now, timings))
            .collect();
        let live = match demand.is_empty() {
            true => 0,
            false => self.table.capacity(&pool.name).await?.map_or(0, |capacity| capacity.live),
        };
        Ok(View {
            stack: &self.settings.stack,
            pool,
            live,
            demand,
            supply,
            retries,
            seed: self.seed.wrapping_add(round as u64),
            now,
            timings,
        })
    }

    /// Runners that are there go on taking jobs, and launches that are under way are brought to their end.
    async fn is_switched_off(&self, pool: &Pool) -> Result<bool, PassError> {
        let switches = self.table.switches().await?;
        Ok(switches.is_some_and(|all| all.launches_off(&pool.name).is_some()))
    }

    fn launch_writes(&self, pool: &Pool, planned: &PlannedLaunch) -> Vec<Write> {
        let mut writes =
            vec![Write::Launch { next: Box::new(planned.launch.clone()), replaces: None }];
        let count = u32::try_from(planned.fresh.len()).unwrap_or(u32::MAX);
        if count > 0 {
            writes.push(Write::CapacityUp {
                pool: pool.name.clone(),
                count,
                max: pool.max,
                holder: self.holder.to_owned(),
            });
        }
        for (instance, job) in &planned.fresh {
            writes.push(Write::Instance { next: Box::new(instance.clone()), replaces: None });
            writes.push(Write::Job {
                next: Box::new(job.clone()),
                replaces: Some(job.generation - 1),
            });
        }
        for instance in &planned.again {
            // `relaunch` is one move, which is one generation.
            let replaces = Some(instance.generation() - 1);
            writes.push(Write::Instance { next: Box::new(instance.clone()), replaces });
        }
        writes
    }

    /// Replays launches whose pass was stopped before EC2's answer was on record.
    async fn replay_open(
        &self,
        pool: &Pool,
        now: Time,
        report: &mut Report,
    ) -> Result<(), PassError> {
        for listed in self.table.open_launches(&pool.name).await? {
            // The listing may be late; the record decides.
            let Some(stored) = self.table.launch(&listed.id).await? else {
                continue;
            };
            let Some(leased) = stored.leased_again(now, &self.settings.timings) else {
                continue;
            };
            let write =
                Write::Launch { next: Box::new(leased.clone()), replaces: Some(stored.generation) };
            match self.table.commit(&[write]).await {
                Ok(()) => {}
                Err(CommitError::Conflict) => continue,
                Err(error) => return Err(error.into()),
            }
            let slots = self.table.instances(&leased.slots).await?;
            if slots.iter().any(|slot| slot.is_free_slot_of(&leased.id)) {
                self.call(&leased, slots, now, report).await?;
                continue;
            }
            // Its machines have bound themselves: there is nothing left to ask. And EC2 forgets tokens after a
            // while, so a late replay would launch again.
            let replaces = Some(leased.generation);
            let write = Write::Launch { next: Box::new(leased.settled()), replaces };
            match self.table.commit(&[write]).await {
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Calls EC2 and puts its answer on record.
    async fn call(
        &self,
        launch: &Launch,
        slots: Vec<Instance>,
        now: Time,
        report: &mut Report,
    ) -> Result<(), PassError> {
        let answer = self.compute.launch(&launch.id, &launch.request).await;
        if let Err(error) = &answer {
            tracing::warn!(launch.id = %launch.id, class = ?error.class, %error, "launch refused");
        }
        // A replayed fleet may be answered without its machines, and a look by tag may be late:
        // neither is trusted alone.
        let found = if launch.calls > 1 {
            self.compute.find_launched(&launch.id).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let answered = Answered { answer, found };
        let (mut launch, mut slots) = (launch.clone(), slots);
        let mut owned: Vec<MachineId> = Vec::new();
        for _ in 0..CONFLICT_ROUNDS {
            let timings = &self.settings.timings_of(&launch.pool);
            let is_owned = |machine: &MachineId| owned.contains(machine);
            let outcome = plan::apply(&launch, slots.clone(), &answered, is_owned, now, timings);
            match self.table.commit(&outcome_writes(&launch, &slots, &outcome)).await {
                Ok(()) => {
                    count(&outcome, report);
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

    async fn owned_among(&self, answered: &Answered) -> Result<Vec<MachineId>, PassError> {
        let answer = answered.answer.iter().flat_map(|answer| &answer.machines);
        let mut owned = Vec::new();
        for machine in answer.chain(&answered.found) {
            if self.table.owner_of(machine).await?.is_some() {
                owned.push(machine.clone());
            }
        }
        Ok(owned)
    }
}

enum Round {
    /// The listing was cut: there is more.
    Again,
    /// Nothing is left that can be done now.
    Drained,
}

fn claim_writes(job: &Job, instance: &Instance) -> Vec<Write> {
    // `claim::assign` is one change of each record, which is one generation.
    vec![
        Write::Job { next: Box::new(job.clone()), replaces: Some(job.generation - 1) },
        Write::Instance {
            next: Box::new(instance.clone()),
            replaces: Some(instance.generation() - 1),
        },
    ]
}

fn outcome_writes(launch: &Launch, slots: &[Instance], outcome: &Outcome) -> Vec<Write> {
    let before = |next: &Instance| slots.iter().find(|slot| slot.name == next.name);
    let mut writes = vec![Write::Launch {
        next: Box::new(outcome.launch.clone()),
        replaces: Some(launch.generation),
    }];
    for (machine, next) in &outcome.bound {
        writes.push(Write::BindMachine { machine: machine.clone(), instance: next.name.clone() });
        writes.extend(before(next).and_then(|before| crate::writes::instance(before, next)));
    }
    for next in outcome.failed.iter().chain(&outcome.waiting) {
        writes.extend(before(next).and_then(|before| crate::writes::instance(before, next)));
    }
    writes
}

fn count(outcome: &Outcome, report: &mut Report) {
    report.launched += outcome.bound.len();
    report.failed += outcome.failed.len();
    report.open += usize::from(outcome.launch.state == LaunchState::Open);
    for (machine, instance) in &outcome.bound {
        tracing::info!(instance.id = %instance.name, machine.id = %machine, "machine bound");
    }
    for instance in &outcome.failed {
        tracing::warn!(instance.id = %instance.name, instance.state = %instance.state(),
            error = ?instance.last_error, "slot not launched");
    }
}
