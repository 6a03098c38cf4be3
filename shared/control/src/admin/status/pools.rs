//! The status of a pool.

use std::cell::RefCell;

use futures_util::future::{try_join, try_join4};
use muster_api::answers::{EndingStatus, Note, NoteKind, PoolStatus, RefusedEnds, Severity};
use muster_domain::ec2::CooldownScope;
use muster_domain::instance::{Groups, Instance, Waiting};
use muster_domain::job::Job;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown::{Cooldown, next_try};
use muster_domain::launch::record::trouble::{Trouble, TroubleScope, last_machines};
use muster_domain::launch::verdict::{Block, Brake, Conditions, Wanted, verdict};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Headroom;
use muster_domain::pool::warm::Warm;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::{Seconds, Time};

use super::{StackReader, noted};
use crate::context::Wired;
use crate::launches::conditions::live_instances;
use crate::ports::{Instances as _, Jobs as _, Launches as _, ReadError, Table};

/// Number of a pool's waiting jobs, with and without a claim, that are read to find the longest
/// wait. They are sorted by when GitHub queued them; a job that was approved late started to wait
/// later.
const FIRST: u32 = 5;
/// Duration after which an end is late, as for the alarm.
const LATE: Seconds = Seconds(900);
/// Duration after which a refused termination is reported: most succeed at the first attempt.
const REFUSED: Seconds = Seconds(45);
/// Number of ending instances that are read, oldest first: some may wait for a job's end.
const LATE_LOOKED_AT: u32 = 20;

/// The facts of one pool in the tables.
pub(super) struct Counted<'a> {
    pool: &'a Pool,
    live: u32,
    warm: Option<String>,
    groups: Groups,
    late_end: Option<EndingStatus>,
    refused_ends: Option<RefusedEnds>,
    waiting_jobs: usize,
    oldest: Option<Time>,
    /// The first of its waiting jobs without a claim.
    demand: Vec<Stored<Job>>,
}

/// The records that all pools share.
pub(super) struct Around<'a> {
    pub(super) switches: &'a Switches,
    pub(super) cooldowns: Option<&'a Cooldowns>,
    pub(super) headroom: &'a Headroom,
    pub(super) now: Time,
}

impl<W: Wired<Table: Table>> StackReader<'_, W> {
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
        let warm = capacity.as_ref().and_then(|all| Warm::current(&all.warm, pool, now));
        let warm = warm.map(|warm| warm.sentence(now));
        let live = capacity.map_or(0, |capacity| capacity.live);
        let oldest = first.iter().map(|job| job.waits_since()).min();
        let waiting_jobs = waiting_jobs.max(first.len());
        let (late_end, refused_ends) = (late_end(&ends, now), refused_of(&ends));
        let demand = first.into_iter().filter(|job| job.claim.is_none() && job.is_demand());
        let demand = demand.collect();
        Ok(Counted {
            pool,
            live,
            warm,
            groups,
            late_end,
            refused_ends,
            waiting_jobs,
            oldest,
            demand,
        })
    }

    /// Returns the pool with what keeps it from launching. Its machines are read only where they
    /// decide that: as in a launch pass.
    pub(super) async fn shown(
        &self,
        counted: Counted<'_>,
        around: &Around<'_>,
    ) -> Result<PoolStatus, ReadError> {
        let Around { switches, cooldowns, headroom, now } = around;
        let Counted { pool, live, ref demand, .. } = counted;
        let cooldowns = cooldowns.cloned().unwrap_or_default();
        let conditions = Conditions::new((*switches).clone(), cooldowns, live, (*headroom).clone());
        let machines = match conditions.needs_instances(pool, demand) {
            true => live_instances(self.context.table, pool).await?,
            false => Vec::new(),
        };
        let free: [Stored<Instance>; 0] = [];
        let timings = &self.context.settings.timings;
        let conditions = conditions.judged_by(pool, demand, &free, &machines, *now, timings);
        let note = counted.note(&conditions, *now);
        let Counted { warm, groups, late_end, refused_ends, waiting_jobs, oldest, .. } = counted;
        Ok(PoolStatus {
            name: pool.name.clone(),
            labels: pool.labels.clone(),
            entity: pool.entity.clone(),
            priority: pool.priority,
            enabled: pool.enabled,
            max: pool.max,
            min_idle: pool.idle_wanted(),
            warm,
            live,
            groups,
            late_end,
            refused_ends,
            waiting_jobs,
            oldest_waiting_job_seconds: oldest.map(|at| now.since(at)),
            launches_off: switches.launches_off(&pool.name, *now).cloned(),
            removed_at: pool.removed_at,
            note,
        })
    }
}

/// Returns the machines that EC2 refuses to end.
fn refused_of(ends: &[Stored<Instance>]) -> Option<RefusedEnds> {
    let is_refused = |one: &&Stored<Instance>| {
        one.mark().is_some_and(|mark| mark.waiting == Some(Waiting::Provider))
    };
    let refused: Vec<&Stored<Instance>> = ends.iter().filter(is_refused).collect();
    let first = refused.first()?;
    let (instance, error) = (first.name.clone(), first.last_error.clone());
    Some(RefusedEnds { count: refused.len(), instance, error })
}

/// Returns the first instance whose end is late. Waiting for a job never makes it late.
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
    /// Returns what keeps the pool from launching: the verdict's first reason, for its first job or
    /// else for its min idle.
    fn note(&self, conditions: &Conditions, now: Time) -> Option<Note> {
        let pool = self.pool;
        let wanted = self.demand.first().map_or(Wanted::Idle, |job| Wanted::Job(job));
        // Without a job a full pool is as it should be, and so is one without an entity.
        let is_idle = matches!(wanted, Wanted::Idle);
        let is_reason =
            |block: &Block| !is_idle || !(block.is_for_room() || block.brake == Brake::Mismatch);
        let note = |kind, severity, message| Some(Note { kind, severity, message });
        if let Some(at) = pool.removed_at {
            let message = format!("removed {}; its machines finish their jobs", at.clock(now));
            return note(NoteKind::Removed, Severity::Note, message);
        }
        if !pool.enabled {
            let message = "not enabled: accepts no new jobs".to_owned();
            return note(NoteKind::Disabled, Severity::Note, message);
        }
        let block = verdict(pool, wanted, conditions, now).err().filter(is_reason)?;
        let off = conditions.switches.launches_off(&pool.name, now);
        let (kind, severity, message) = match (block.brake, off, &self.refused_ends) {
            (Brake::Mismatch, ..) => (NoteKind::Unserved, Severity::Warning, block.why),
            (Brake::Switch, Some(off), _) => {
                let message = format!("launches switched off by {}{}", off.by, off.end(now));
                (NoteKind::Paused, Severity::Warning, message)
            }
            (Brake::Switch, None, _) => (NoteKind::Paused, Severity::Warning, block.why),
            (Brake::Age | Brake::Taken, ..) => (NoteKind::JobAge, Severity::Note, block.why),
            (Brake::Maximum, _, Some(ends)) => {
                (NoteKind::Maximum, Severity::Warning, format!("full: {}", ends.sentence()))
            }
            (Brake::Maximum, _, None) => {
                let message = format!("at its maximum, {} of {} machines", self.live, pool.max);
                (NoteKind::Maximum, Severity::Warning, message)
            }
            (Brake::Limit, ..) => (NoteKind::Limit, Severity::Warning, block.why),
            (Brake::Trouble, ..) => return Some(trouble(pool, &block, conditions, now)),
            (Brake::Withheld, ..) => (NoteKind::Withheld, Severity::Warning, block.why),
            (Brake::Refusal, ..) => return Some(refusal(pool, &block, conditions, now)),
        };
        note(kind, severity, message)
    }
}

/// Returns the short form of the finding about this trouble.
fn trouble(pool: &Pool, block: &Block, conditions: &Conditions, now: Time) -> Note {
    let known = |one: &&Trouble| one.sentence() == block.why;
    let found = conditions.cooldowns.troubles_of(pool).find(known);
    let next = block.until.map(|until| format!("; next attempt at {}", until.clock(now)));
    let next = next.unwrap_or_default();
    let (kind, severity, what) = match found.map(|one| (one, &one.scope)) {
        Some((one, TroubleScope::Pool(_))) => {
            let what =
                format!("its {} never ran a job ({})", last_machines(one.failures), one.reason);
            (NoteKind::Failing, Severity::Error, what)
        }
        Some((_, TroubleScope::Limit(entity))) => {
            (NoteKind::Github, Severity::Warning, format!("GitHub's rate limit for {entity}"))
        }
        Some((one, TroubleScope::Entity(entity) | TroubleScope::PoolOfEntity(_, entity))) => {
            (NoteKind::Github, Severity::Error, format!("GitHub refuses {entity} ({})", one.reason))
        }
        None => (NoteKind::Github, Severity::Error, block.why.clone()),
    };
    Note { kind, severity, message: what + &next }
}

/// Returns what EC2 refuses, and when it is asked again.
fn refusal(pool: &Pool, block: &Block, conditions: &Conditions, now: Time) -> Note {
    let is_own =
        |one: &&Cooldown| matches!(&one.closed, CooldownScope::Pool(own) if *own == pool.name);
    let reported = conditions.cooldowns.reported(now);
    let (severity, what) = match reported.iter().find(is_own) {
        Some(one) => (Severity::Error, format!("EC2: {}", one.code)),
        None => (Severity::Warning, block.why.clone()),
    };
    let next = block.until.map(|until| format!("; {}", next_try(until, now)));
    Note { kind: NoteKind::Ec2, severity, message: what + &next.unwrap_or_default() }
}
