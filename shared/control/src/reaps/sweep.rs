//! The sweep: every minute, sends each due row to the reap queue, wakes pools with demand, compares
//! EC2 with the tables, and publishes metrics. Its cost is proportional to the number of due rows.

mod gauges;
mod look;
pub(super) mod owners;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use futures_util::future::{join_all, join3};
use muster_domain::backoff::is_overdue;
use muster_domain::causes::with_causes;
use muster_domain::ids::{JobKey, LaunchId, MachineId, PoolName};
use muster_domain::instance::{Instance, State};
use muster_domain::job::{APPROVAL_EXPIRY, Job};
use muster_domain::launch::record::Cooldowns;
use muster_domain::message::{ReapMessage, WakePool};
use muster_domain::observation::Machine;
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::warm::Warm;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::{Seconds, Time};

use self::gauges::{Fleet, Gauges};
use self::look::{PoolReads, SweepReads};
use self::owners::OwnerState;
pub use self::report::SweepReport;
use crate::context::{Context, Wired};
use crate::jobs::recover;
use crate::pools::Changed;
use crate::ports::{
    CommitError, Compute, Instances as _, ListedMachine, Operations as _, Page, Queue, ReadError,
    Table, Usage as _,
};
use crate::wake::reap_message;
use crate::writes::{self, PassError};

/// Rows per page of the due index.
const PAGE: u32 = 200;
/// Maximum rows that one sweep sends; the rest is due in the next one.
const MAX_DUE: usize = 5_000;
/// Maximum waiting jobs per pool that a sweep reads, with and without a claim. A job on hold is
/// sorted by its due time, after younger jobs; its age is measured nevertheless. A page of the
/// index has hundreds.
const MAX_WAITING: u32 = 5_000;
/// Maximum jobs per pool that one sweep expires; the next sweeps expire the rest.
const MAX_EXPIRED: usize = 100;
/// Time without an event after which GitHub is queried for a waiting job, and interval of later
/// queries. GitHub may have ended the job long ago.
const SILENCE: Seconds = Seconds(3600);
/// Maximum jobs to query after one sweep.
const MAX_SILENT: usize = 20;
/// Maximum jobs waiting for approval that a sweep reads, those without an event for longest.
const MAX_GATED: u32 = 100;
/// Number of pools read concurrently. Each concurrent read has its own connection.
const POOLS_AT_ONCE: usize = 8;
/// Number of stray machines recorded concurrently. Each write has its own connection.
const STRAYS_AT_ONCE: usize = 10;
/// Maximum number of workflow runs with interrupted jobs that a sweep reads. It exceeds what one
/// account may have checked ([`crate::reruns`]), so that its runs do not delay those of others.
const MAX_RERUNS: u32 = 1_000;
/// Cursor of the last comparison of EC2 with the tables.
const RECONCILED: &str = "reconciled";
/// Maximum orphans that one comparison may terminate, or a fifth of the machines it saw if that is
/// more. A wrong tag must not cost a fleet.
const BLAST_RADIUS: usize = 5;

/// A sweep.
pub struct Sweep<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute>> Sweep<'_, W> {
    /// Reads everything, then runs all parts. A failed part does not keep the others from running.
    pub async fn sweep(&self, now: Time) -> SweepReport {
        let looked = SweepReads::read(self.context.table, self.context.settings, now).await;
        let gauges = Gauges::of(self.context.table, &looked, self.context.settings, now).await;
        let mut report = SweepReport { gauges, ..SweepReport::default() };
        let mut problems = Vec::new();
        let damage = self.context.settings.damage.as_ref();
        note(&mut problems, "pools", damage.map_or(Ok(()), |damage| Err(damage.error.clone())));
        note(&mut problems, "due rows", self.send_due(looked.due, now, &mut report).await);
        let mut wakes = Vec::new();
        for (pool, looked) in self.context.settings.pools.iter().zip(looked.pools) {
            let looked_after = self.look_after(pool, looked, &mut wakes, now, &mut report).await;
            note(&mut problems, "pool", looked_after);
        }
        let sent = self.context.queue.send_wakes(&wakes, Seconds(0)).await;
        note(&mut problems, "wake-ups", sent.map(|()| report.woken = wakes.len()));
        note(&mut problems, "gated jobs", self.look_at_gated(looked.gated, now, &mut report).await);
        let are_known = self.context.settings.unknown_pools().is_none();
        if are_known {
            let unserved = self.changed().match_unmatched(looked.unmatched, now).await;
            let unserved = unserved.map(|left| {
                (report.unserved, report.is_owner_doubted) = (left.late, left.is_owner_doubted);
            });
            note(&mut problems, "jobs without a pool", unserved);
        }
        let table = self.context.table;
        let known = writes::renewed(table, looked.cooldowns, Cooldowns::default, now).await;
        let known = known.map(|known| self.count_troubles(known, now, &mut report));
        note(&mut problems, "cool-downs", known);
        self.choose_silent(now, &mut report);
        match looked.reruns {
            Ok(open) => report.reruns = open.into_iter().filter(|one| one.is_due(now)).collect(),
            Err(error) => note(&mut problems, "interrupted jobs", Err(error)),
        }
        let ledger = looked.orphans.unwrap_or_else(|error| {
            note(&mut problems, "orphan ledger", Err(error));
            Vec::new()
        });
        match looked.switches {
            // Unknown switches: terminate nothing.
            Err(error) => note(&mut problems, "switches", Err(error)),
            Ok(switches) => {
                let switches = switches.map(Stored::into_record).unwrap_or_default();
                report.switched_off = switches.off_since(now).map_or(0, |since| now.since(since).0);
                let may_end = switches.deletes_off(now).is_none();
                report.orphans = ledger.iter().filter(|one| one.will_not_end() || !may_end).count();
                if may_end {
                    report.ledger = ledger;
                }
                // Records are listed by pool.
                if are_known {
                    let last = looked.reconciled;
                    let compared = self.reconcile(last, may_end, now, &mut report).await;
                    note(&mut problems, "comparison with EC2", compared);
                }
            }
        }
        report.problems.extend(problems);
        report
    }

    const fn changed(&self) -> Changed<'_, W> {
        Changed { context: self.context }
    }

    /// Counts the reasons why launches wait.
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

    /// Selects the jobs whose query is most overdue. Jobs of a rate-limited account are skipped and
    /// take no other job's turn.
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
                tracing::error!(
                    instance.id = key,
                    "skipped a record that this version cannot read"
                );
            }
            // No pass has run for them, although each sweep sent a message: the queue is not read, or
            // the passes fail.
            let overdue = due.items.iter().filter_map(|instance| instance.due_at());
            let overdue = overdue.filter(|due| is_overdue(*due, now)).map(|due| now.since(due).0);
            report.oldest_pending_delete = overdue.fold(report.oldest_pending_delete, Ord::max);
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

    /// Wakes a pool with demand, measures ages, and expires jobs.
    async fn look_after(
        &self,
        pool: &Pool,
        looked: PoolReads,
        wakes: &mut Vec<WakePool>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        // First, because an alarm watches this age, even if the jobs cannot be handled.
        let ending = looked.ending.map(|ending| {
            for instance in ending {
                let since = instance.mark().map_or(instance.since(), |mark| mark.at);
                report.oldest_pending_delete = report.oldest_pending_delete.max(now.since(since).0);
            }
        });
        let waiting = looked.waiting?;
        let mut demand = self.look_at_jobs(pool, &waiting, now, report).await?;
        demand |= is_short_of_idle(pool, &looked.free?, look::warm(&looked.capacity), now);
        // A launch that an interrupted pass left open is found through its slots, whose rows become
        // due.
        wakes.extend(demand.then(|| WakePool::whole(pool.name.clone())));
        self.changed().match_anew(pool, &waiting, now).await?;
        if pool.is_removed() {
            self.changed().see_out(pool, now).await?;
        }
        Ok(ending?)
    }

    /// Returns whether the pool has a due job that no pass was woken for.
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
                // A job is not late while its pool wants it to wait.
                let age = now.since(pool.launches_at(job));
                report.oldest_queued_job = report.oldest_queued_job.max(age.0);
            } else if expired < MAX_EXPIRED {
                self.expire(job).await?;
                expired += 1;
            }
        }
        report.expired += expired;
        Ok(demand)
    }

    /// Handles jobs that wait for an approval: they are never late, are queried like silent ones,
    /// and expire after GitHub's 30 days.
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

    /// Expires a job: GitHub cancels jobs that were not started for a day or two, and the event may
    /// have been lost.
    async fn expire(&self, job: &Stored<Job>) -> Result<(), PassError> {
        let next = Job { expired: true, ..job.record().clone() };
        tracing::error!(job.id = %job.key(), gated = job.is_gated(), "expired a job that waited for too long");
        // On a conflict the other writer has newer information; the next sweep checks again.
        writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?;
        Ok(())
    }

    /// Compares EC2's list of our machines with the tables: terminates machines without a live
    /// record, and starts a pass for records without a machine. Runs every third of the orphan age,
    /// in one sweep at a time. If terminations are off it lists machines nevertheless, for the cost
    /// metrics.
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
                    // An incomplete list would make machines look lost.
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

    /// Starts a pass for records whose machine EC2 does not list: the event of its end was lost.
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

    /// Ends machines that no live record owns and that are too old to get one.
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
        strays.retain(|machine| !matches!(owners.get(&machine.id), Some(OwnerState::Lives)));
        let most = BLAST_RADIUS.max(machines.len() / 5);
        let (mut ours, mut strangers): (Vec<_>, Vec<_>) =
            strays.into_iter().partition(|machine| machine.launch.is_some());
        if ours.len() > most {
            ours.truncate(most);
            report.stopped_at_blast_radius = true;
            tracing::error!(most, "found too many strays; the rest waits for the next comparison");
        }
        // These are never terminated; each only costs an entry in the ledger.
        strangers.truncate(most);
        ours.extend(strangers);
        self.enter_strays(&ours, &owners, now, report).await
    }

    /// Records strays in the ledger, which makes the intent durable; the pass after the sweep
    /// terminates them.
    async fn enter_strays(
        &self,
        strays: &[&ListedMachine],
        owners: &BTreeMap<MachineId, OwnerState>,
        now: Time,
        report: &mut SweepReport,
    ) -> Result<(), PassError> {
        for some in strays.chunks(STRAYS_AT_ONCE) {
            for entered in join_all(some.iter().map(|stray| {
                let since = match owners.get(&stray.id) {
                    Some(OwnerState::Ended(at)) => *at,
                    Some(OwnerState::Lives) | None => stray.launched_at,
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
            Err(CommitError::Conflict) => return self.enter_anew(entry.next(), now).await,
            Err(error) => return Err(error.into()),
        };
        match &stray.launch {
            Some(launch) => tracing::warn!(
                machine.id = %stray.id, launch.id = %launch, "found a machine without a record"
            ),
            None => tracing::warn!(
                machine.id = %stray.id,
                "found a machine with the stack's tag that no launch created; it is not terminated"
            ),
        }
        Ok(Some(entry.stored(&committed)))
    }

    /// Enters a stray that the ledger has already: its listing was late, or the entry cannot be read.
    async fn enter_anew(
        &self,
        entry: &Orphan,
        now: Time,
    ) -> Result<Option<Stored<Orphan>>, PassError> {
        let table = self.context.table;
        let read = table.orphan(&entry.machine).await;
        let is_unreadable = matches!(read, Err(ReadError::Unreadable { .. }));
        let entered = writes::renewed(table, read, || entry.clone(), now).await?;
        Ok(entered.filter(|_| is_unreadable))
    }
}

/// Sort key of silent jobs: those never queried first, then those queried longest ago.
fn turn(job: &Job) -> (Option<Time>, Time, JobKey) {
    (job.asked_at, job.queued_at(), job.key())
}

/// Whether a pool with `min_idle` or after an event has too few idle runners.
fn is_short_of_idle(pool: &Pool, free: &[Stored<Instance>], warm: &[Warm], now: Time) -> bool {
    let keeper = pool.while_warm(warm, now);
    let kept = free.iter().filter(|one| one.is_kept_idle_by(&keeper)).count();
    pool.idle_missing(warm, u32::try_from(kept).unwrap_or(u32::MAX), 0, now) > 0
}

fn note<E: Error + 'static>(problems: &mut Vec<String>, part: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::error!(part, error = with_causes(&error), "part of the sweep failed");
        problems.push(format!("{part}: {}", with_causes(&error)));
    }
}

/// Whether the row's own message is still in the queue and will return by itself.
fn has_live_chain(instance: &Instance, now: Time, slack: Seconds) -> bool {
    instance.wake_nonce().is_some() && instance.due_at().is_some_and(|due| now < due + slack)
}
