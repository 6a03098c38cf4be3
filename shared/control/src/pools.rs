//! The set of pools as it is now, and what an apply leaves to be done: jobs of pools that do not
//! serve them any more, and pools that are being removed.

use std::borrow::Cow;

use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::message::{ReapMessage, WakePool};
use muster_domain::pool::select;
use muster_domain::pool::{Mismatch, Pool};
use muster_domain::pool_set::{MAX_VERSIONS, PoolSet};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::context::{Context, Wired};
use crate::ports::{
    Instances as _, Jobs as _, Launches as _, Operations as _, Queue, ReadError, Table,
};
use crate::wake::reap_message;
use crate::woken::Woken;
use crate::writes::{self, PassError};

/// The subject of applied pool files in the audit trail.
pub(crate) const POOLS_SUBJECT: &str = "pools";
/// How many of its newest lines are read to find the version that was applied last.
const LINES_READ: u32 = 20;
/// Most jobs of a pool that are matched anew at once; the rest follows in the next sweep.
const MATCHED_AT_ONCE: u32 = 200;
/// Most jobs without a pool that a sweep looks at, the oldest. They may be another system's, and
/// stay until it serves them.
pub(crate) const MAX_UNMATCHED: u32 = 500;
/// Most of them whose reason a sweep writes anew.
const MAX_RETOLD: usize = 50;
/// A job that no pool serves counts for the alarm when it has waited so long: another system, whose
/// it may be, has served it by then.
const UNSERVED_AFTER: Seconds = Seconds(1800);

impl Settings {
    /// These settings with the pools as they were applied last, and the App's owner; without any
    /// pools, the built-in one holds. Read at every invocation: no pass decides on what it remembers.
    ///
    /// # Errors
    /// When the set cannot be read. Then nothing is known of any pool, and the caller leaves its
    /// messages where they are.
    pub async fn current<T: Table>(&self, table: &T) -> Result<Cow<'_, Self>, ReadError> {
        Ok(self.with_set(table.pool_set().await?.map(Stored::into_record)))
    }

    /// The same for commands that show or repair: where the record cannot be read, these are the
    /// pools of the last version that can be, and `damage` is set.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn current_or_last<T: Table>(&self, table: &T) -> Result<Cow<'_, Self>, ReadError> {
        match self.current(table).await {
            Err(damage @ ReadError::Unreadable { .. }) => {
                let last = last_applied(table).await?;
                let settings = self.with_set(last.and_then(|(_, set)| set)).into_owned();
                Ok(Cow::Owned(Self { damage: Some(damage), ..settings }))
            }
            current => current,
        }
    }

    fn with_set(&self, stored: Option<PoolSet>) -> Cow<'_, Self> {
        let Some(set) = stored else { return Cow::Borrowed(self) };
        if set.version == 0 {
            let owned = |pool: &Pool| Pool { app_owner: set.app_owner.clone(), ..pool.clone() };
            let pools = self.pools.iter().map(owned).collect();
            return Cow::Owned(Self { pools, ..self.clone() });
        }
        let PoolSet { pools, limits, balance, .. } = self.with_template(set);
        Cow::Owned(Self {
            stack: self.stack.clone(),
            pools,
            limits: limits.below(self.max_machines),
            max_machines: self.max_machines,
            rights: self.rights.clone(),
            balance,
            timings: self.timings.clone(),
            measures: self.measures,
            longest_life: self.longest_life,
            webhook_url: self.webhook_url.clone(),
            damage: None,
        })
    }

    /// The set with the stack's launch template, which no pool file names: every pool of these
    /// settings has it.
    pub(crate) fn with_template(&self, set: PoolSet) -> PoolSet {
        let Some(own) = self.pools.first() else { return set.with_template("", "", None) };
        let device = own.template_device.as_deref();
        set.with_template(&own.launch_template_id, &own.launch_template_version, device)
    }
}

/// The number of the version that was applied last, and the newest version that can be read. The
/// audit trail has the number; without a line, no file was ever applied.
pub(crate) async fn last_applied<T: Table>(
    table: &T,
) -> Result<Option<(u64, Option<PoolSet>)>, ReadError> {
    let lines = table.audit(POOLS_SUBJECT, LINES_READ).await?;
    let Some(newest) = lines.iter().find_map(|line| applied_version(&line.why)) else {
        return Ok(None);
    };
    let oldest = (newest + 1).saturating_sub(MAX_VERSIONS).max(1);
    for version in (oldest..=newest).rev() {
        if let Some(set) = kept(table, version).await? {
            return Ok(Some((newest, Some(set))));
        }
    }
    Ok(Some((newest, None)))
}

/// A version that is kept; none if it is not, or cannot be read.
pub(crate) async fn kept<T: Table>(table: &T, version: u64) -> Result<Option<PoolSet>, ReadError> {
    match table.pool_versions(&[version]).await {
        Ok(mut sets) => Ok(sets.pop()),
        Err(ReadError::Unreadable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number in a line of the audit trail about an applied file: "version 7, applied (+linux)".
fn applied_version(why: &str) -> Option<u64> {
    why.strip_prefix("version ")?.split(',').next()?.parse().ok()
}

/// The jobs that no pool serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmatched {
    /// How many have waited for long.
    pub(crate) late: usize,
    /// A pool refuses one of them since the App belongs to somebody else, as far as is known.
    pub(crate) is_owner_doubted: bool,
}

/// The part of the sweep that looks after pools which were changed or removed.
pub(crate) struct Changed<'a, W: Wired> {
    /// The world, and the stack.
    pub(crate) context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue>> Changed<'_, W> {
    /// Matches jobs anew that their pool does not serve any more. `waiting` are the first of those
    /// that wait for it. A job that no pool serves stays where it is: a later file may serve
    /// it.
    pub(crate) async fn match_anew(
        &self,
        pool: &Pool,
        waiting: &[Stored<Job>],
        now: Time,
    ) -> Result<(), PassError> {
        let is_left = |job: &Job| job.is_demand() && pool.serves(job).is_err();
        if !waiting.iter().any(|job| is_left(job)) {
            return Ok(());
        }
        let demand = self.context.table.demand(&pool.name, MATCHED_AT_ONCE).await?;
        let mut wake = Woken::default();
        for job in demand.iter().filter(|job| is_left(job)) {
            let Some(next) = matched(job, self.context.settings, now) else { continue };
            tracing::info!(job.id = %job.key(), pool.name = %pool.name, to = ?next.pool, "matched a job of a removed pool anew");
            let to = next.pool.clone().filter(|name| *name != pool.name);
            let key = job.key();
            // Another writer knows better; the next sweep looks again.
            if writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?
            {
                to.into_iter().for_each(|to| wake.for_job(to, key));
            }
        }
        Ok(self.context.queue.send_wakes(&wake.messages(), Seconds(0)).await?)
    }

    /// Gives jobs that no pool served when they came to the pool that serves them now, and says of
    /// the others why none does now.
    pub(crate) async fn match_unmatched(
        &self,
        unmatched: Result<Vec<Stored<Job>>, ReadError>,
        now: Time,
    ) -> Result<Unmatched, PassError> {
        let (mut wake, mut left) = (Woken::default(), Unmatched::default());
        let mut retold = 0;
        for job in unmatched? {
            let chosen =
                select::choose(&self.context.settings.pools, self.context.settings.balance, &job);
            let pool = match chosen {
                Ok(pool) => pool,
                Err(why) => {
                    left.late += usize::from(now.is_past(job.waits_since(), UNSERVED_AFTER));
                    left.is_owner_doubted |= self.is_left_to_the_owner(&job);
                    let why = Some(why.to_string());
                    if job.unmatched != why && retold < MAX_RETOLD {
                        retold += 1;
                        let next = Job { unmatched: why, ..job.record().clone() };
                        let change = [job.change(next).into()];
                        writes::commit_unless_changed(self.context.table, &change).await?;
                    }
                    continue;
                }
            };
            let pool_name = Some(pool.name.clone());
            let next = Job { pool: pool_name, unmatched: None, ..job.record().clone() };
            tracing::info!(job.id = %job.key(), pool.name = %pool.name, "a pool serves the job now");
            // Another writer knows better; the next sweep looks again.
            if writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?
            {
                wake.for_job(pool.name.clone(), job.key());
            }
        }
        self.context.queue.send_wakes(&wake.messages(), Seconds(0)).await?;
        Ok(left)
    }

    /// Whether a pool would serve the job if its repository were the App owner's.
    fn is_left_to_the_owner(&self, job: &Job) -> bool {
        let pools = self.context.settings.pools.iter();
        pools.map(|pool| pool.serves(job)).any(|said| matches!(said, Err(Mismatch::Owner(_))))
    }

    /// Hurries the end of what a removed pool has left, and strikes it from the set when nothing
    /// is.
    pub(crate) async fn see_out(&self, pool: &Pool, now: Time) -> Result<(), PassError> {
        end_outdated(self.context.table, self.context.queue, pool, now).await?;
        if !self.context.table.open_launches(&pool.name).await?.is_empty() {
            let wake = WakePool::whole(pool.name.clone());
            return Ok(self.context.queue.send_wakes(&[wake], Seconds(0)).await?);
        }
        if !pool.may_go(now) || !self.is_empty(&pool.name).await? {
            return Ok(());
        }
        let Some(set) = self.context.table.pool_set().await? else { return Ok(()) };
        // It may have been listed again meanwhile.
        if !set.pool(&pool.name).is_some_and(|pool| pool.may_go(now)) {
            return Ok(());
        }
        let change = set.change(set.without(&pool.name));
        if writes::commit_unless_changed(self.context.table, &[change.into()]).await? {
            tracing::info!(pool.name = %pool.name, "removed a pool");
        }
        Ok(())
    }

    /// Whether no live instance and no waiting job is left. The counter is exact; listings come
    /// late, which the time that a removal takes at least makes up for.
    async fn is_empty(&self, pool: &PoolName) -> Result<bool, PassError> {
        let counted = self.context.table.capacity(pool).await?.map_or(0, |capacity| capacity.live);
        Ok(counted == 0
            && self.context.table.live_instances(pool, None).await?.items.is_empty()
            && self.context.table.waiting_jobs(pool, 1).await?.is_empty())
    }
}

/// Wakes the rows of runners that wait for a job and are not what their pool says now. A lost
/// message costs time only: every row has its own.
pub(crate) async fn end_outdated<T: Table, Q: Queue>(
    table: &T,
    queue: &Q,
    pool: &Pool,
    now: Time,
) -> Result<(), PassError> {
    let free = table.free_instances(&pool.name).await?;
    let outdated =
        |instance: &&Stored<Instance>| instance.is_outdated(pool) && instance.mark().is_none();
    let messages: Vec<ReapMessage> =
        free.iter().filter(outdated).map(|instance| reap_message(instance, now)).collect();
    Ok(queue.send_reap(&messages).await?)
}

/// The job with the pool that serves it now, if there is one.
fn matched(job: &Job, settings: &Settings, now: Time) -> Option<Job> {
    let pool = select::choose(&settings.pools, settings.balance, job).ok()?;
    Some(job.moved_to(&pool.name, "the pool file was changed", now))
}
