//! Scale-down of a pool that keeps runners idle: what is above the min idle shrinks by half a
//! minute.
//!
//! A pool without a min idle has no surplus: each of its runners was launched for a job, and one
//! without a claim ends after its idle limit. Where runners are kept on purpose, one that is past
//! its idle limit ends only if it is one of the oldest half (at least one) of the surplus, and not
//! within the time after a launch of its pool in which more jobs may follow. The half is of what
//! there was that time ago: runners marked since then count.
//!
//! Nothing is remembered for this but the time of the last launch: the marks stand in the rows.

use crate::instance::{DeleteReason, Instance, RunnerState};
use crate::job::Job;
use crate::job::claim::can_serve;
use crate::pool::Pool;
use crate::time::Time;
use crate::timings::Timings;

/// Where an idle runner stands among those of its pool that could be given the same jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Standing {
    /// It is one that the pool wants idle. One that is not ends after its idle limit, as in any
    /// pool.
    pub kept: bool,
    /// Registered, idle and without a claim, itself included.
    pub idle: u32,
    /// How many of those have been idle for longer.
    pub older: u32,
    /// Marked as surplus in the last [`Timings::shrink_seconds`].
    pub ending: u32,
    /// Jobs without a claim that it could serve.
    pub demand: u32,
    /// When a machine of the pool was last launched.
    pub scaled_up_at: Option<Time>,
}

/// What becomes of an idle runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleDownDecision {
    /// It is surplus, and its turn to end has come.
    End,
    /// It stays; look again at this time.
    StayUntil(Time),
}

/// What the pool's listings show. They may be late.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Instances without a claim that could take a job.
    pub free: Vec<Instance>,
    /// Instances that are marked, for whatever reason.
    pub marked: Vec<Instance>,
    /// Jobs without a claim.
    pub demand: Vec<Job>,
    /// When a machine of the pool was last launched.
    pub scaled_up_at: Option<Time>,
}

/// The standing of `instance` among the listed ones. It counts itself in any case.
#[must_use]
pub fn standing(
    instance: &Instance,
    pool: &Pool,
    listed: &Listed,
    timings: &Timings,
    now: Time,
) -> Standing {
    let age = |one: &Instance| (one.runner.since, one.name.clone());
    let others: Vec<&Instance> = listed
        .free
        .iter()
        .filter(|one| one.name != instance.name && one.is_kept_idle_by(pool))
        .filter(|one| one.runner.state == RunnerState::Idle)
        .collect();
    let ends_as_surplus = |one: &&Instance| {
        one.name != instance.name
            && one.entity == instance.entity
            && one.drain().is_some_and(|drain| {
                drain.reason == DeleteReason::Idle && !now.is_past(drain.at, timings.shrink_seconds)
            })
    };
    Standing {
        kept: instance.is_kept_idle_by(pool),
        idle: count(others.len() + 1),
        older: count(others.iter().filter(|one| age(one) < age(instance)).count()),
        ending: count(listed.marked.iter().filter(ends_as_surplus).count()),
        demand: count(listed.demand.iter().filter(|job| can_serve(pool, instance, job)).count()),
        scaled_up_at: listed.scaled_up_at,
    }
}

/// Whether a runner that has been idle for longer than its limit ends.
#[must_use]
pub fn decide(
    standing: &Standing,
    min_idle: u32,
    timings: &Timings,
    now: Time,
) -> ScaleDownDecision {
    if !standing.kept {
        return ScaleDownDecision::End;
    }
    let surplus = standing.idle.saturating_sub(min_idle.saturating_add(standing.demand));
    if standing.older >= surplus {
        return ScaleDownDecision::StayUntil(now + timings.idle_limit_seconds);
    }
    let quiet_from = standing.scaled_up_at.map(|at| at + timings.scale_down_delay_seconds);
    if let Some(quiet_from) = quiet_from.filter(|from| now < *from) {
        return ScaleDownDecision::StayUntil(quiet_from);
    }
    let half = (surplus + standing.ending).div_ceil(2);
    if standing.older < half.saturating_sub(standing.ending) {
        return ScaleDownDecision::End;
    }
    ScaleDownDecision::StayUntil(now + timings.shrink_seconds)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
