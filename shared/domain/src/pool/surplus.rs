//! Which idle runners are more than their pool wants.
//!
//! A pool without a min idle has no use for one: each of its runners was launched for a job, and
//! one without a claim ends after its idle limit. Where runners are kept on purpose, one that is
//! past that limit ends only if enough younger ones are left for the min idle and for the jobs that
//! wait. The passes of one pool look at the same listing, so each of them spares the same runners.

use crate::instance::{Instance, RunnerState};
use crate::job::Job;
use crate::job::claim::can_serve;
use crate::pool::Pool;

/// Whether an idle runner is surplus, as the pool's listings show: its instances without a claim
/// that could take a job, and its jobs without a claim.
#[must_use]
pub fn is_surplus(instance: &Instance, pool: &Pool, free: &[Instance], demand: &[Job]) -> bool {
    // One that the pool does not want idle ends as in any pool.
    if !instance.is_kept_idle_by(pool) {
        return true;
    }
    let age = |one: &Instance| (one.runner.since, one.name.clone());
    let is_younger = |one: &&Instance| {
        one.name != instance.name
            && one.is_kept_idle_by(pool)
            && one.runner.state == RunnerState::Idle
            && age(one) > age(instance)
    };
    let younger = free.iter().filter(is_younger).count();
    let jobs = demand.iter().filter(|job| can_serve(pool, instance, job)).count();
    younger >= jobs + pool.idle_wanted() as usize
}

#[cfg(test)]
mod tests;
