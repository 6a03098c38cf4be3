//! A pool, as the table counts it.

use std::cell::RefCell;

use futures_util::future::{try_join, try_join4};
use muster_domain::ec2::CooldownScope;
use muster_domain::ids::PoolName;
use muster_domain::instance::{Groups, Instance, Waiting};
use muster_domain::launch::cooldown::{Cooldown, Cooldowns};
use muster_domain::launch::trouble::last_machines;
use muster_domain::pool::Pool;
use muster_domain::stored::Stored;
use muster_domain::switches::{SwitchedOff, Switches};
use muster_domain::time::{Seconds, Time};

use super::{Look, noted};
use crate::admin::answers::{EndingStatus, EntityStatus, Note, PoolStatus, RefusedEnds, Severity};
use crate::admin::wants::next_try;
use crate::context::Wired;
use crate::ports::{Instances as _, Jobs as _, Launches as _, ReadError, Table};

/// How many waiting jobs of a pool, with and without a claim each, are asked since when they wait.
/// They come in the order in which GitHub queued them; one that was approved late began to wait later.
const FIRST: u32 = 5;
/// An end that takes longer is looked at: as the alarm has it.
const LATE: Seconds = Seconds(900);
/// An end that EC2 refuses for longer is reported: most are accepted at the first attempt.
const REFUSED: Seconds = Seconds(45);
/// How many ends are read, the oldest first: some may wait for the end of a job.
const LATE_LOOKED_AT: u32 = 20;

/// What the tables say of a pool alone.
pub(super) struct Counted<'a> {
    pool: &'a Pool,
    live: u32,
    groups: Groups,
    late_end: Option<EndingStatus>,
    refused_ends: Option<RefusedEnds>,
    waiting_jobs: usize,
    oldest: Option<Time>,
}

/// What stands around all pools.
pub(super) struct Around<'a> {
    pub(super) switches: &'a Switches,
    pub(super) cooldowns: Option<&'a Cooldowns>,
    pub(super) entities: &'a [EntityStatus],
    pub(super) now: Time,
}

impl<W: Wired<Table: Table>> Look<'_, W> {
    pub(super) async fn counted<'a>(
        &self,
        pool: &'a Pool,
        damages: &RefCell<Vec<ReadError>>,
        now: Time,
    ) -> Result<Counted<'a>, ReadError> {
        let (table, name) = (self.context.table, &pool.name);
        let (capacity, groups, ends, (waiting_jobs, first)) = try_join4(
            noted(damages, table.capacity(name)),
            table.count_live_instances(name),
            table.late_ends(name, now - REFUSED, LATE_LOOKED_AT),
            try_join(table.count_waiting_jobs(name), table.waiting_jobs(name, FIRST)),
        )
        .await?;
        let live = capacity.map_or(0, |capacity| capacity.live);
        let oldest = first.iter().map(|job| job.waits_since()).min();
        let waiting_jobs = waiting_jobs.max(first.len());
        let (late_end, refused_ends) = (late_end(&ends, now), refused_of(&ends));
        Ok(Counted { pool, live, groups, late_end, refused_ends, waiting_jobs, oldest })
    }
}

/// Returns the machines of a pool that EC2 refuses to end.
pub(in crate::admin) async fn refused_ends<T: Table>(
    table: &T,
    pool: &PoolName,
    now: Time,
) -> Result<Option<RefusedEnds>, ReadError> {
    Ok(refused_of(&table.late_ends(pool, now - REFUSED, LATE_LOOKED_AT).await?))
}

fn refused_of(ends: &[Stored<Instance>]) -> Option<RefusedEnds> {
    let is_refused = |one: &&Stored<Instance>| {
        one.mark().is_some_and(|mark| mark.waiting == Some(Waiting::Provider))
    };
    let refused: Vec<&Stored<Instance>> = ends.iter().filter(is_refused).collect();
    let first = refused.first()?;
    let (instance, error) = (first.name.clone(), first.last_error.clone());
    Some(RefusedEnds { count: refused.len(), instance, error })
}

/// Returns the first instance whose end takes long. A job may take as long as it likes.
fn late_end(ends: &[Stored<Instance>], now: Time) -> Option<EndingStatus> {
    let shown = |one: &Stored<Instance>| {
        let mark = one.mark();
        let waiting_for = mark.and_then(|mark| mark.waiting.clone());
        let is_at_work = matches!(waiting_for, Some(Waiting::JobRunning | Waiting::Busy));
        let since = mark.map_or(one.since(), |mark| mark.at);
        let is_late = now.is_past(since, LATE) && !is_at_work;
        is_late.then(|| EndingStatus { instance: one.name.clone(), since, waiting_for })
    };
    ends.iter().find_map(shown)
}

impl Counted<'_> {
    pub(super) fn shown(self, around: &Around<'_>) -> PoolStatus {
        let Counted { pool, live, groups, late_end, refused_ends, waiting_jobs, oldest } = self;
        let mut status = PoolStatus {
            name: pool.name.clone(),
            labels: pool.labels.clone(),
            entity: pool.entity.clone(),
            priority: pool.priority,
            enabled: pool.enabled,
            max: pool.max,
            min_idle: pool.idle_wanted(),
            trouble: around.cooldowns.and_then(|known| known.trouble(pool)).cloned(),
            live,
            groups,
            late_end,
            refused_ends,
            waiting_jobs,
            oldest_waiting_job_seconds: oldest.map(|at| around.now.since(at)),
            launches_off: around.switches.launches_off(&pool.name, around.now).cloned(),
            removed_at: pool.removed_at,
            note: None,
        };
        status.note = note(&status, around);
        status
    }
}

/// What keeps the pool from launching; the first of these.
fn note(pool: &PoolStatus, around: &Around<'_>) -> Option<Note> {
    let now = around.now;
    let note = |severity, said: String| Some(Note { severity, said });
    if let Some(at) = pool.removed_at {
        return note(Severity::Note, format!("removed {}, drains", at.clock(now)));
    }
    if let Some(off @ SwitchedOff { by, .. }) = &pool.launches_off {
        return note(Severity::Warning, format!("launches switched off by {by}{}", off.end(now)));
    }
    if let Some(trouble) = &pool.trouble {
        let (last, until) = (last_machines(trouble.failures), trouble.until.clock(now));
        let said =
            format!("its {last} never ran a job ({}); next attempt at {until}", trouble.reason);
        return note(Severity::Error, said);
    }
    let refused = around.cooldowns.map(|known| known.reported(now)).unwrap_or_default();
    let is_own =
        |one: &&Cooldown| matches!(&one.closed, CooldownScope::Pool(own) if *own == pool.name);
    if let Some(one) = refused.iter().find(is_own) {
        return note(Severity::Error, format!("EC2: {}, {}", one.code, next_try(one.until, now)));
    }
    let entity = around.entities.iter().find(|one| Some(&one.entity) == pool.entity.as_ref());
    if let Some(held) = entity.and_then(|one| one.launches_held.as_ref()) {
        return note(Severity::Error, held.clone());
    }
    if !pool.enabled {
        return note(Severity::Note, "not enabled: takes no new job".to_owned());
    }
    if pool.live >= pool.max && pool.waiting_jobs > 0 {
        let said = match &pool.refused_ends {
            Some(ends) => format!("full: {}", ends.sentence()),
            None => "at its maximum (limits.max)".to_owned(),
        };
        return note(Severity::Warning, said);
    }
    None
}
