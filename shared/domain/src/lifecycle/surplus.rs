//! Detection of surplus idle runners.
//!
//! In a pool without `min_idle`, every runner was launched for a job, and a runner without a claim
//! ends after its idle limit. In a pool with `min_idle`, a runner past that limit ends only if
//! enough younger runners remain for `min_idle` and for the waiting jobs. Events of `warm_on` raise
//! `min_idle` for some time: pass the pool as [`Pool::while_warm`] returns it. All passes of a pool see
//! one listing, so they spare the same runners.

use crate::claim::can_serve;
use crate::instance::{Instance, RunnerState};
use crate::job::Job;
use crate::pool::Pool;

/// Returns whether an idle runner is surplus, given the pool's listings: `free` are its instances
/// without a claim that could take a job, `demand` its jobs without a claim.
#[must_use]
pub fn is_surplus(instance: &Instance, pool: &Pool, free: &[Instance], demand: &[Job]) -> bool {
    // A runner that the pool does not keep idle on purpose ends as in any other pool.
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
