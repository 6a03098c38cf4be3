//! The current set of pools, and the follow-up of an apply: jobs that their pool no longer serves,
//! and pools being removed.

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

use crate::context::{Context, Wired};
use crate::ports::{
    Instances as _, Jobs as _, Launches as _, Operations as _, Queue, ReadError, Table,
};
use crate::wake::reap_message;
use crate::woken::Woken;
use crate::writes::{self, PassError};
use crate::{Damage, Settings};

/// The subject of applied pool files in the audit trail.
pub(crate) const POOLS_SUBJECT: &str = "pools";
/// Number of audit lines read to find the version that was applied last.
const LINES_READ: u32 = 20;
/// Maximum number of a pool's jobs that are matched again at once; the rest follow in the next
/// sweep.
const MATCHED_AT_ONCE: u32 = 200;
/// Maximum number of unserved jobs that a sweep reads, oldest first. They may belong to a different
/// system and remain until it serves them.
pub(crate) const MAX_UNMATCHED: u32 = 500;
/// Maximum number of unserved jobs whose reason a sweep updates.
const MAX_RETOLD: usize = 50;
/// Time after which an unserved job counts for the alarm: a different system that it may belong to
/// has served it by then.
const UNSERVED_AFTER: Seconds = Seconds(1800);

impl Settings {
    /// Returns these settings with the pools as they were applied last, and the App's owner; without
    /// any pools, the built-in one holds. Read at every invocation: no pass decides on what it
    /// remembers, unless its commit checks that ([`crate::settings_cache`]). If the record cannot be
    /// read, the stored version of the same file takes its place. If that cannot be read either, there
    /// are no pools: see [`Self::unknown_pools`].
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn current<T: Table>(&self, table: &T) -> Result<Cow<'_, Self>, ReadError> {
        match table.pool_set().await {
            Err(error @ ReadError::Unreadable { .. }) => {
                Ok(Cow::Owned(self.bridged(error, table).await?))
            }
            set => Ok(self.with_set(set?.map(Stored::into_record))),
        }
    }

    /// Returns the settings while the record of the pools cannot be read.
    pub(crate) async fn bridged<T: Table>(
        &self,
        error: ReadError,
        table: &T,
    ) -> Result<Self, ReadError> {
        let last = last_applied(table).await?;
        let is_bridged = last.is_newest;
        let settings = match is_bridged {
            true => self.with_set(last.set).into_owned(),
            false => Self { pools: Vec::new(), ..self.clone() },
        };
        Ok(Self { damage: Some(Damage { error, is_bridged }), ..settings })
    }

    /// Like [`Self::current`], for passes that depend on the pools.
    ///
    /// # Errors
    /// When the tables do not answer, or the pools are unknown: the caller leaves its messages where
    /// they are.
    pub async fn current_pools<T: Table>(&self, table: &T) -> Result<Cow<'_, Self>, ReadError> {
        let settings = self.current(table).await?;
        match settings.unknown_pools() {
            Some(error) => Err(error.clone()),
            None => Ok(settings),
        }
    }

    /// Like [`Self::current`], for requests that show or repair: if the pools are unknown, returns
    /// those of the newest version that can be parsed.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn current_or_last<T: Table>(&self, table: &T) -> Result<Cow<'_, Self>, ReadError> {
        let settings = self.current(table).await?;
        if settings.unknown_pools().is_none() {
            return Ok(settings);
        }
        let last = last_applied(table).await?;
        let damage = settings.damage.clone();
        Ok(Cow::Owned(Self { damage, ..self.with_set(last.set).into_owned() }))
    }

    pub(crate) fn with_set(&self, stored: Option<PoolSet>) -> Cow<'_, Self> {
        let Some(set) = stored else { return Cow::Borrowed(self) };
        if set.version == 0 {
            let owned = |pool: &Pool| Pool { app_owner: set.app_owner.clone(), ..pool.clone() };
            let pools = self.pools.iter().map(owned).collect();
            return Cow::Owned(Self { pools, other_apps: set.other_apps, ..self.clone() });
        }
        let PoolSet { pools, limits, balance, other_apps, .. } = self.with_template(set);
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
            other_apps,
            damage: None,
        })
    }

    /// Returns the set with the stack's launch template, which pool files do not contain; every
    /// pool of these settings has it.
    pub(crate) fn with_template(&self, set: PoolSet) -> PoolSet {
        let Some(own) = self.pools.first() else { return set.with_template("", "", None) };
        let device = own.template_device.as_deref();
        set.with_template(&own.launch_template_id, &own.launch_template_version, device)
    }
}

/// The version of the pools that was applied last, if it can be parsed.
pub(crate) struct LastApplied {
    /// Its number; zero if no file was ever applied.
    pub(crate) version: u64,
    /// The newest version that can be read.
    pub(crate) set: Option<PoolSet>,
    /// Whether that is the version that was applied last.
    pub(crate) is_newest: bool,
}

/// Finds the version that was applied last: by the audit trail, whose listing may be late and leaves
/// out lines that cannot be read, and by the versions that are kept after that one.
pub(crate) async fn last_applied<T: Table>(table: &T) -> Result<LastApplied, ReadError> {
    let lines = table.audit(POOLS_SUBJECT, LINES_READ).await?;
    let mut newest = lines.iter().find_map(|line| applied_version(&line.why)).unwrap_or(0);
    while is_kept(table, newest + 1).await? {
        newest += 1;
    }
    let oldest = (newest + 1).saturating_sub(MAX_VERSIONS).max(1);
    for version in (oldest..=newest).rev() {
        if let Some(set) = kept(table, version).await? {
            let is_newest = version == newest;
            return Ok(LastApplied { version: newest, set: Some(set), is_newest });
        }
    }
    Ok(LastApplied { version: newest, set: None, is_newest: newest == 0 })
}

/// Whether a version is kept, also one that cannot be read.
async fn is_kept<T: Table>(table: &T, version: u64) -> Result<bool, ReadError> {
    match table.pool_versions(&[version]).await {
        Ok(sets) => Ok(!sets.is_empty()),
        Err(ReadError::Unreadable { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns a stored version, or none if it does not exist or cannot be parsed.
pub(crate) async fn kept<T: Table>(table: &T, version: u64) -> Result<Option<PoolSet>, ReadError> {
    match table.pool_versions(&[version]).await {
        Ok(mut sets) => Ok(sets.pop()),
        Err(ReadError::Unreadable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses the version in an audit line about an applied file: "version 7, applied (+linux)".
fn applied_version(why: &str) -> Option<u64> {
    why.strip_prefix("version ")?.split(',').next()?.parse().ok()
}

/// Results about the jobs that no pool serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unmatched {
    /// Number of jobs that have waited for a long time.
    pub(crate) late: usize,
    /// Whether a pool refuses one of them only because, as far as we know, the App has a different
    /// owner.
    pub(crate) is_owner_doubted: bool,
}

/// The sweep's follow-up of changed and removed pools.
pub(crate) struct Changed<'a, W: Wired> {
    /// The ports and the settings.
    pub(crate) context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue>> Changed<'_, W> {
    /// Matches jobs again that their pool no longer serves. `waiting` are the first of its waiting
    /// jobs. A job that no pool serves stays where it is: a later file may serve it.
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
            tracing::info!(job.id = %job.key(), pool.name = %pool.name, to = ?next.pool, "matched a job of a removed pool again");
            let to = next.pool.clone().filter(|name| *name != pool.name);
            let key = job.key();
            // A concurrent writer has newer information; the next sweep checks again.
            if writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?
            {
                to.into_iter().for_each(|to| wake.for_job(to, key));
            }
        }
        Ok(self.context.queue.send_wakes(&wake.messages(), Seconds(0)).await?)
    }

    /// Assigns jobs to pools that serve them now although none did when they arrived, and updates
    /// the reason of the others.
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
            // A concurrent writer has newer information; the next sweep checks again.
            if writes::commit_unless_changed(self.context.table, &[job.change(next).into()]).await?
            {
                wake.for_job(pool.name.clone(), job.key());
            }
        }
        self.context.queue.send_wakes(&wake.messages(), Seconds(0)).await?;
        Ok(left)
    }

    /// Whether a pool would serve the job if its repository belonged to the App's owner.
    fn is_left_to_the_owner(&self, job: &Job) -> bool {
        let pools = self.context.settings.pools.iter();
        pools.map(|pool| pool.serves(job)).any(|said| matches!(said, Err(Mismatch::Owner(_))))
    }

    /// Speeds up the end of a removed pool's instances, and deletes the pool from the set once none
    /// are left.
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
        // The pool may have been added again meanwhile.
        if !set.pool(&pool.name).is_some_and(|pool| pool.may_go(now)) {
            return Ok(());
        }
        let change = set.change(set.without(&pool.name));
        if writes::commit_unless_changed(self.context.table, &[change.into()]).await? {
            tracing::info!(pool.name = %pool.name, "removed a pool");
        }
        Ok(())
    }

    /// Whether no live instance and no waiting job is left. The counter is exact; listings may be
    /// stale, which the minimum duration of a removal compensates for.
    async fn is_empty(&self, pool: &PoolName) -> Result<bool, PassError> {
        let counted = self.context.table.capacity(pool).await?.map_or(0, |capacity| capacity.live);
        Ok(counted == 0
            && self.context.table.live_instances(pool, None).await?.items.is_empty()
            && self.context.table.waiting_jobs(pool, 1).await?.is_empty())
    }
}

/// Wakes the rows of waiting runners that no longer match their pool's configuration. A lost
/// message only delays this: every row has a due time.
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

/// Returns the job with the pool that serves it now, if there is one.
fn matched(job: &Job, settings: &Settings, now: Time) -> Option<Job> {
    let pool = select::choose(&settings.pools, settings.balance, job).ok()?;
    Some(job.moved_to(&pool.name, "the pool file was changed", now))
}
