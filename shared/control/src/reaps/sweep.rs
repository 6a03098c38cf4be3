//! The sweep: every minute, sends every row whose time has come to the reap queue, wakes pools with
//! demand, compares EC2 with the tables, and measures. Its cost is the cost of what is due.

mod gauges;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use futures_util::future::{join_all, join3};
use muster_domain::ids::{InstanceName, JobKey, LaunchId, MachineId, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::{APPROVAL_EXPIRY, Job};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::trouble::Trouble;
use muster_domain::message::{ReapMessage, WakePool};
use muster_domain::observation::Machine;
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage;

use self::gauges::{Fleet, Gauges};
use self::look::{Looked, LookedPool};
use crate::Settings;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::jobs::recover;
use crate::metrics::{self, Measure, Metric};
use crate::pools::Changed;
use crate::ports::{
    CommitError, Compute, Instances as _, ListedMachine, Operations as _, Page, Queue, ReadError,
    Table, Usage as _,
};
use crate::wake::reap_message;
use crate::writes::{self, PassError};

/// Rows of one page of the due index.
const PAGE: u32 = 200;
/// Most rows that one sweep sends; the rest is due in the next one.
const MAX_DUE: usize = 5_000;
/// Most waiting jobs of a pool that a sweep looks at, with and without a claim. A job on hold
/// stands where its time comes, behind younger ones; its age is seen all the same. A page of the
/// index holds hundreds.
const MAX_WAITING: u32 = 5_000;
/// Most jobs of a pool that one sweep gives up; the others are given up by the next ones.
const MAX_EXPIRED: usize = 100;
/// A waiting job is asked for after this silence, and again after each further one. GitHub may have
/// ended it long ago.
const SILENCE: Seconds = Seconds(3600);
/// Most jobs that are asked for after one sweep.
const MAX_SILENT: usize = 20;
/// Most jobs behind an approval that a sweep looks at, those of the longest silence.
const MAX_GATED: u32 = 100;
/// Pools that are read at once. Each read of those at once has a connection of its own.
const POOLS_AT_ONCE: usize = 8;
/// Strays that are entered at once. Each has a connection of its own.
const STRAYS_AT_ONCE: usize = 10;
/// Cursor of the last comparison of EC2 with the tables.
const RECONCILED: &str = "reconciled";
/// Most orphans that one comparison may end, or a fifth of what it saw if that is more. A mistake
/// in a tag must not cost a fleet.
const BLAST_RADIUS: usize = 5;

/// What a sweep saw and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepReport {
    /// Rows sent to the reap queue.
    pub sent: usize,
    /// Pools woken.
    pub woken: usize,
    /// Jobs given up as cancelled by GitHub long ago.
    pub expired: usize,
    /// Machines in the orphan ledger that are still there after a try to end them.
    pub orphans: usize,
    /// The ledger, for the pass after this one; empty where nothing may be ended.
    pub ledger: Vec<Stored<Orphan>>,
    /// The comparison stopped at the blast radius.
    pub stopped_at_blast_radius: bool,
    /// Seconds.
    pub oldest_pending_delete: u32,
    /// Seconds.
    pub oldest_queued_job: u32,
    /// Jobs that no pool serves, and that have waited for long.
    pub unserved: usize,
    /// A job waits that a pool refuses since the App belongs to somebody else, as far as is known.
    pub is_owner_doubted: bool,
    /// Pools that EC2 refuses.
    pub refused_pools: usize,
    /// Pools whose last machines served nothing.
    pub troubled_pools: usize,
    /// How many machines in a row served nothing, of each pool.
    pub served_nothing: Vec<(PoolName, u32)>,
    /// What makes machines for nothing: pools, and entities that GitHub refuses or limits.
    pub troubles: Vec<Trouble>,
    /// Seconds; how long the first of what is switched off has been off.
    pub switched_off: u32,
    /// Types of machines that EC2 showed.
    pub kinds: BTreeSet<Arc<str>>,
    /// Waiting jobs of which nothing was heard for long, those of the longest silence.
    pub silent: Vec<Stored<Job>>,
    /// What is shown, and no alarm watches.
    pub gauges: Gauges,
    /// Parts of the sweep that failed; the others ran.
    pub problems: Vec<String>,
}

impl SweepReport {
    /// Entities that GitHub refuses us, alone or with one pool. A rate limit ends by itself.
    fn refused(&self) -> usize {
        self.troubles.iter().filter(|one| one.is_refusal_of_github()).count()
    }

    /// What CloudWatch is told.
    #[must_use]
    pub fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let age = |metric, seconds: u32| Measure::new(metric, f64::from(seconds));
        let mut all = vec![
            Measure::flag(Metric::ReaperTick, self.problems.is_empty()),
            age(Metric::OldestPendingDeleteAgeSeconds, self.oldest_pending_delete),
            age(Metric::OldestQueuedJobAgeSeconds, self.oldest_queued_job),
            Measure::count(Metric::JobsUnserved, self.unserved),
            Measure::count(Metric::PoolsRefused, self.refused_pools),
            Measure::count(Metric::PoolsInTrouble, self.troubled_pools),
            Measure::count(Metric::Orphans, self.orphans),
            Measure::count(Metric::EntitiesUnhealthy, self.refused()),
            age(Metric::SwitchedOffSeconds, self.switched_off),
            Measure::flag(Metric::BlastRadius, self.stopped_at_blast_radius),
        ];
        all.extend(self.served_nothing.iter().map(|(pool, count)| {
            let of = metrics::pool(settings, pool);
            Measure::of(of, Metric::MachinesServedNothing, f64::from(*count))
        }));
        all.extend(self.gauges.measures(settings));
        all
    }
}

/// The sweep.
pub struct Sweep<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute>> Sweep<'_, W> {
    /// Reads, and then runs all parts. One that fails does not keep the others from running.
    pub async fn sweep(&self, now: Time) -> SweepReport {
        let looked = Looked::read(self.context.table, self.context.settings, now).await;
        let gauges = Gauges::of(&looked, self.context.settings, now);
        let mut report = SweepReport { gauges, ..SweepReport::default() };
        let mut problems = Vec::new();
        note(&mut problems, "due rows", self.send_due(looked.due, now, &mut report).await);
        let mut wakes = Vec::new();
        for (pool, looked) in self.context.settings.pools.iter().zip(looked.pools) {
            let looked_after = self.look_after(pool, looked, &mut wakes, now, &mut report).await;
            note(&mut problems, "pool", looked_after);
        }
        let sent = self.context.queue.send_wakes(&wakes, Seconds(0)).await;
        note(&mut problems, "wake-ups", sent.map(|()| report.woken = wakes.len()));
        note(&mut problems, "gated jobs", self.look_at_gated(looked.gated, now, &mut report).await);
        let changed = self.changed();
        let unserved = changed.match_unmatched(looked.unmatched, now).await;
        let unserved = unserved.map(|left| {
            (report.unserved, report.is_owner_doubted) = (left.late, left.is_owner_doubted);
        });
        note(&mut problems, "jobs without a pool", unserved);
        let known = looked.cooldowns.map(|known| self.count_troubles(known, now, &mut report));
        note(&mut problems, "cool-downs", known);
        self.choose_silent(now, &mut report);
        let ledger = looked.orphans.unwrap_or_else(|error| {
            note(&mut problems, "orphan ledger", Err(error));
            Vec::new()
        });
        match looked.switches {
            // Nothing is terminated on a guess either.
            Err(error) => note(&mut problems, "switches", Err(error)),
            Ok(switches) => {
                let switches = switches.map(Stored::into_record).unwrap_or_default();
                report.switched_off = switches.off_since(now).map_or(0, |since| now.since(since).0);
                let may_end = switches.deletes_off(now).is_none();
                report.orphans = ledger.iter().filter(|one| one.will_not_end() || !may_end).count();
                if may_end {
                    report.ledger = ledger;
                }
                let compared = self.reconcile(looked.reconciled, may_end, now, &mut report).await;
                note(&mut problems, "comparison with EC2", compared);
            }
        }
        report.problems.extend(problems);
        report
    }

    const fn changed(&self) -> Changed<'_, W> {
        Changed { context: self.context }
    }

    /// What launches wait for.
    fn count_troubles(
        &self,
        known: Option<Stored<Cooldowns>>,
        now: Time,
        report: &mut SweepReport,
    ) {
        let Some(known) = known else { return };
        let pools = &self.context.settings.pools;
        report.refused_pools = known.refused_pools(pools, now).count();
        report.served_nothing =
            pools.iter().map(|pool| (pool.name.clone(), known.failures(pool))).collect();
        report.troubled_pools = pools.iter().filter(|pool| known.trouble(pool).is_some()).count();
        report.troubles = known.troubles.to_vec();
    }

    /// Those who have waited longest for a question. A limit that lasts keeps an account's jobs
    /// from being asked for, and they take no other's turn.
    fn choose_silent(&self, now: Time, report: &mut SweepReport) {
        let limited = recover::limited(&report.troubles, now);
        report.silent.retain(|job| !recover::is_of(&limited, job, self.context.settings));
        report.silent.sort_by_key(|job| turn(job));
        report.silent.truncate(MAX_SILENT);
    }

    async fn send_due(
        &self,
        first: Result<Page<Stored<Instance>>, ReadError>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let mut due = first?;
        loop {
            for key in &due.unreadable {
                tracing::error!(instance.id = key, "skipped a record: not of this version");
            }
            let slack = self.context.settings.timings.sweep_slack_seconds;
            let messages: Vec<ReapMessage> = due
                .items
                .iter()
                .filter(|instance| !has_live_chain(instance, now, slack))
                .map(|instance| reap_message(instance, now))
                .collect();
            report.sent += messages.len();
            self.context.queue.send_reap(&messages).await?;
            if due.next.is_none() || report.sent >= MAX_DUE {
                return Ok(());
            }
            due = self.context.table.due_instances(now, PAGE, due.next).await?;
        }
    }

    /// Demand that nobody was woken for, ages, expired jobs.
    async fn look_after(
        &self,
        pool: &Pool,
        looked: LookedPool,
        wakes: &mut Vec<WakePool>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        // An age that an alarm watches: told whatever becomes of the jobs.
        let ending = looked.ending.map(|ending| {
            for instance in ending {
                let since = instance.mark().map_or(instance.since(), |mark| mark.at);
                report.oldest_pending_delete = report.oldest_pending_delete.max(now.since(since).0);
            }
        });
        let waiting = looked.waiting?;
        let mut demand = self.look_at_jobs(pool, &waiting, now, report).await?;
        demand |= is_short_of_idle(pool, &looked.free?);
        // A launch that a stopped pass left open is found through its slots, whose rows become due.
        wakes.extend(demand.then(|| WakePool::whole(pool.name.clone())));
        self.changed().match_anew(pool, &waiting, now).await?;
        if pool.is_removed() {
            self.changed().see_out(pool, now).await?;
        }
        Ok(ending?)
    }

    /// Whether a job is due that nobody was woken for.
    async fn look_at_jobs(
        &self,
        pool: &Pool,
        waiting: &[Stored<Job>],
        now: Time,
        report: &mut SweepReport,
    ) -> Result<bool, PassError> {
        let (mut demand, mut expired) = (false, 0);
        let silent = waiting.iter().filter(|job| job.is_silent(SILENCE, now));
        report.silent.extend(silent.cloned());
        for job in waiting {
            let age = now.since(job.waits_since());
            if age < self.context.settings.timings.job_expiry_seconds {
                demand |= job.is_demand();
                // Nobody is late while the pool wants the job to wait.
                let age = now.since(job.waits_since().max(pool.launches_at(job)));
                report.oldest_queued_job = report.oldest_queued_job.max(age.0);
            } else if expired < MAX_EXPIRED {
                self.expire(job).await?;
                expired += 1;
            }
        }
        report.expired += expired;
        Ok(demand)
    }

    /// Jobs behind an approval: nobody is late. They are asked for like silent ones, and given up
    /// after GitHub's 30 days.
    async fn look_at_gated(
        &self,
        gated: Result<Vec<Stored<Job>>, ReadError>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        for job in gated? {
            if now.is_past(job.gated_since(), APPROVAL_EXPIRY) {
                self.expire(&job).await?;
                report.expired += 1;
            } else if job.is_silent(SILENCE, now) {
                report.silent.push(job);
            }
        }
        Ok(())
    }

    /// GitHub cancels jobs that nobody took for a day or two, and the event may have been lost.
    async fn expire(&self, job: &Stored<Job>) -> Result<(), PassError> {
        let next = Job { expired: true, ..job.record().clone() };
        tracing::error!(job.id = %job.key(), gated = job.is_gated(), "gave up a job that waited for too long");
        // Another writer knows better; the next sweep looks again.
        writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?;
        Ok(())
    }

    /// Compares EC2's list of our machines with the tables: machines without a live record end,
    /// records without a machine get a pass. Every third of the orphan age, by one sweep at a time.
    /// Where nothing may be ended, it looks all the same: what machines cost is told then as well.
    async fn reconcile(
        &self,
        last: Result<Option<Time>, ReadError>,
        may_end: bool,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let last = last?;
        let interval = Seconds(self.context.settings.timings.orphan_age_seconds.0 / 3);
        if last.is_some_and(|last| !now.is_past(last, interval)) {
            return Ok(());
        }
        match self.context.table.move_cursor(RECONCILED, last, now).await {
            Ok(()) => {}
            Err(CommitError::Conflict) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let Context { table, settings, .. } = self.context;
        let (machines, records, prices) =
            join3(self.list_machines(report), self.live_records(), table.prices()).await;
        let Some(machines) = machines else { return Ok(()) };
        let records = records?;
        let priced = prices.map(|prices| {
            let prices = prices.map(Stored::into_record).unwrap_or_default();
            report.gauges.fleet = Some(Fleet::of(&machines, &records, &prices, settings));
        });
        note(&mut report.problems, "prices", priced);
        if !may_end {
            return Ok(());
        }
        self.wake_lost(&machines, &records, now).await?;
        self.end_strays(&machines, &records, now, report).await
    }

    async fn list_machines(&self, report: &mut SweepReport) -> Option<Vec<ListedMachine>> {
        let mut machines = Vec::new();
        let mut page = None;
        loop {
            match self.context.compute.list(page).await {
                Ok(listed) => {
                    machines.extend(listed.items);
                    page = listed.next;
                }
                Err(trouble) => {
                    // Half a list would make machines look lost.
                    tracing::warn!(error = with_causes(&trouble), "failed to list EC2's machines");
                    report.problems.push("EC2 could not be listed".to_owned());
                    return None;
                }
            }
            if page.is_none() {
                let kinds = machines.iter().filter_map(|machine| machine.make.kind.clone());
                report.kinds.extend(kinds);
                return Some(machines);
            }
        }
    }

    async fn live_records(&self) -> Result<Vec<Stored<Instance>>, PassError> {
        let mut records = Vec::new();
        for pools in self.context.settings.pools.chunks(POOLS_AT_ONCE) {
            let listed = join_all(pools.iter().map(|pool| self.live_records_of(&pool.name))).await;
            for some in listed {
                records.extend(some?);
            }
        }
        Ok(records)
    }

    async fn live_records_of(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let mut records = Vec::new();
        let mut page = None;
        loop {
            let listed = self.context.table.live_instances(pool, page).await?;
            records.extend(listed.items);
            page = listed.next;
            if page.is_none() {
                return Ok(records);
            }
        }
    }

    /// Records whose machine EC2 does not list: the event of its end was lost.
    async fn wake_lost(
        &self,
        machines: &[ListedMachine],
        records: &[Stored<Instance>],
        now: Time,
    ) -> Result<(), PassError> {
        let listed: BTreeSet<&MachineId> = machines.iter().map(|machine| &machine.id).collect();
        let settled = self.context.settings.timings.absence_limit_seconds;
        let messages: Vec<ReapMessage> = records
            .iter()
            .filter(|record| record.state() == State::Running)
            .filter(|record| record.bound_at.is_some_and(|at| now.is_past(at, settled)))
            .filter_map(|record| record.machine())
            .filter(|machine| !listed.contains(machine))
            .map(|machine| ReapMessage::MachineChanged {
                machine: machine.clone(),
                what: "not listed".to_owned(),
                at: None,
            })
            .collect();
        Ok(self.context.queue.send_reap(&messages).await?)
    }

    /// Machines that no live record owns and that are old enough that none will.
    async fn end_strays(
        &self,
        machines: &[ListedMachine],
        records: &[Stored<Instance>],
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        let owned: BTreeSet<&MachineId> =
            records.iter().filter_map(|record| record.machine()).collect();
        let open: BTreeSet<&LaunchId> = records
            .iter()
            .filter(|record| record.machine().is_none())
            .map(|record| &record.launch)
            .collect();
        let known: BTreeSet<MachineId> =
            report.ledger.iter().map(|orphan| orphan.machine.clone()).collect();
        let mut strays = Vec::new();
        for machine in machines {
            let old =
                now.is_past(machine.launched_at, self.context.settings.timings.orphan_age_seconds);
            let known = known.contains(&machine.id);
            let wanted = machine.launch.as_ref().is_some_and(|launch| open.contains(launch));
            let owned = owned.contains(&machine.id);
            if !old || known || wanted || owned || machine.state == Machine::Gone {
                continue;
            }
            strays.push(machine);
        }
        let ids: Vec<MachineId> = strays.iter().map(|machine| machine.id.clone()).collect();
        let owners = self.owners(&ids).await?;
        strays.retain(|machine| !matches!(owners.get(&machine.id), Some(Owner::Lives)));
        let most = BLAST_RADIUS.max(machines.len() / 5);
        let (mut ours, mut strangers): (Vec<_>, Vec<_>) =
            strays.into_iter().partition(|machine| machine.launch.is_some());
        if ours.len() > most {
            ours.truncate(most);
            report.stopped_at_blast_radius = true;
            tracing::error!(most, "found too many strays; the rest waits for the next comparison");
        }
        // None of them is ended: what they cost is a line of the ledger each.
        strangers.truncate(most);
        ours.extend(strangers);
        self.enter_strays(&ours, &owners, now, report).await
    }

    /// Into the ledger first, so that the intent is durable; the pass after the sweep does the rest.
    async fn enter_strays(
        &self,
        strays: &[&ListedMachine],
        owners: &BTreeMap<MachineId, Owner>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        for some in strays.chunks(STRAYS_AT_ONCE) {
            for entered in join_all(some.iter().map(|stray| {
                let since = match owners.get(&stray.id) {
                    Some(Owner::Ended(at)) => *at,
                    Some(Owner::Lives) | None => stray.launched_at,
                };
                self.enter_stray(stray, since, now)
            }))
            .await
            {
                report.ledger.extend(entered?);
            }
        }
        Ok(())
    }

    async fn enter_stray(
        &self,
        stray: &ListedMachine,
        costs_since: Time,
        now: Time,
    ) -> Result<Option<Stored<Orphan>>, PassError> {
        let entry = Change::create(Orphan {
            make: stray.make.clone(),
            costs_since: Some(costs_since),
            ..Orphan::found(stray.id.clone(), stray.launch.clone(), now)
        });
        let committed = match self.context.table.commit(&[entry.clone().into()]).await {
            Ok(committed) => committed,
            // It is there already, and the listing of the ledger was late.
            Err(CommitError::Conflict) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match &stray.launch {
            Some(launch) => tracing::warn!(
                machine.id = %stray.id, launch.id = %launch, "found a machine without a record"
            ),
            None => tracing::warn!(
                machine.id = %stray.id,
                "found a machine that carries the stack's tag and that no launch made: it is not ended"
            ),
        }
        Ok(Some(entry.stored(&committed)))
    }

    /// The listing of records may be late; the machine's own item and row decide.
    async fn owners(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, Owner>, ReadError> {
        if machines.is_empty() {
            return Ok(BTreeMap::new());
        }
        let named = self.context.table.owners_of(machines).await?;
        let names: Vec<InstanceName> = named.values().cloned().collect();
        let known = self.known_among(&names).await?;
        let owner = |(machine, name)| Some((machine, *known.get(&name)?));
        Ok(named.into_iter().filter_map(owner).collect())
    }

    /// A record that cannot be read is another release's, which goes on with its machine.
    async fn known_among(
        &self,
        names: &[InstanceName],
    ) -> Result<BTreeMap<InstanceName, Owner>, ReadError> {
        let table = self.context.table;
        match table.instances(names).await {
            Ok(rows) => {
                return Ok(rows.iter().map(|row| (row.name.clone(), Owner::new(row))).collect());
            }
            Err(ReadError::Unreadable { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut all = BTreeMap::new();
        for name in names {
            let owner = match table.instance(name).await {
                Ok(row) => row.map(|row| Owner::new(&row)),
                Err(ReadError::Unreadable { .. }) => Some(Owner::Lives),
                Err(error) => return Err(error),
            };
            all.extend(owner.map(|owner| (name.clone(), owner)));
        }
        Ok(all)
    }
}

/// What is known of the record that a machine is bound to.
#[derive(Clone, Copy)]
enum Owner {
    /// It looks after the machine.
    Lives,
    /// It has ended, and its line of usage has the machine's time until then.
    Ended(Time),
}

impl Owner {
    fn new(row: &Instance) -> Self {
        if row.state().is_live() { Self::Lives } else { Self::Ended(usage::end_of(row).0) }
    }
}

/// Who is asked for first: those that never were, then those whose last time is longest ago.
fn turn(job: &Job) -> (Option<Time>, Time, JobKey) {
    (job.asked_at, job.queued_at(), job.key())
}

/// Whether a pool that keeps runners idle has too few.
fn is_short_of_idle(pool: &Pool, free: &[Stored<Instance>]) -> bool {
    let kept = free.iter().filter(|one| one.is_kept_idle_by(pool)).count();
    kept < pool.idle_wanted() as usize
}

fn note<E: Error + 'static>(problems: &mut Vec<String>, part: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::error!(part, error = with_causes(&error), "part of the sweep failed");
        problems.push(format!("{part}: {}", with_causes(&error)));
    }
}

/// The row's own message will come back by itself.
fn has_live_chain(instance: &Instance, now: Time, slack: Seconds) -> bool {
    instance.wake_nonce().is_some() && instance.due_at().is_some_and(|due| now < due + slack)
}
