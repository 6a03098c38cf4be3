//! Claims: which runner is meant for which job, and what becomes of that when GitHub decides
//! otherwise.
//!
//! GitHub gives a job to any runner with matching labels, so a launched runner often takes a job
//! other than the one it was launched for. Every peer that binds one to one leaks or starves there
//! (cdk-github-runners #974, RunsOn #44). A claim is an expectation that these functions keep
//! level.

use crate::ids::InstanceName;
use crate::instance::{Instance, RunnerState};
use crate::job::Job;
use crate::pool::Pool;
use crate::time::Time;
use crate::timings::Timings;

/// Everybody touched when GitHub says that a runner took a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The job that was taken.
    pub job: Job,
    /// The runner that took it.
    pub taker: Instance,
    /// The job that the taker claimed, if it is another one.
    pub left: Option<Job>,
    /// The instance that the taken job claimed, if it is another one.
    pub spared: Option<Instance>,
}

/// Settles the claims after `taker` took `job`. When the spared instance can serve the job that was
/// left, the two are paired; else that job is demand again and the spared instance is free supply.
#[must_use]
pub fn settle_started(
    mut all: Started,
    can_serve: impl Fn(&Instance, &Job) -> bool,
    now: Time,
) -> Started {
    let key = all.job.key();
    if all.taker.claim() != Some(key) {
        all.taker.set_claim(key, now);
    }
    set_job_claim(&mut all.job, Some(all.taker.name.clone()));

    let pair = match (&all.left, &all.spared) {
        (Some(left), Some(spared)) => {
            spared.claim() == Some(key)
                && left.claim.as_ref() == Some(&all.taker.name)
                && left.is_waiting()
                && spared.may_take_a_job()
                && can_serve(spared, left)
        }
        _ => false,
    };
    if let Some(spared) = &mut all.spared
        && spared.claim() == Some(key)
    {
        spared.clear_claim(now, &format!("{} took it", all.taker.name));
        if let (true, Some(left)) = (pair, &all.left) {
            spared.set_claim(left.key(), now);
        }
    }
    if let Some(left) = &mut all.left
        && left.claim.as_ref() == Some(&all.taker.name)
    {
        let claim = if pair { all.spared.as_ref().map(|spared| spared.name.clone()) } else { None };
        set_job_claim(left, claim);
    }
    all
}

/// Whether a machine of this pool, registered where this instance is, could be given the job.
#[must_use]
pub fn can_serve(pool: &Pool, instance: &Instance, job: &Job) -> bool {
    instance.pool == pool.name
        && pool.serves(job).is_ok()
        && pool.entity_for(job).as_ref() == Some(&instance.entity)
}

/// Ends a job's claim on an instance that is lost, if it has one. None when there is nothing to
/// change.
#[must_use]
pub fn release(job: &Job, instance: &InstanceName) -> Option<Job> {
    let holds = job.claim.as_ref() == Some(instance) && job.is_waiting();
    holds.then(|| {
        let mut job = job.clone();
        set_job_claim(&mut job, None);
        job
    })
}

/// Claims a job for an instance. One that idles already is looked at again as soon as GitHub has
/// had its time to give it that job: its row may rest until its idle limit.
pub fn assign(job: &mut Job, instance: &mut Instance, now: Time, timings: &Timings) {
    set_job_claim(job, Some(instance.name.clone()));
    instance.set_claim(job.key(), now);
    if instance.runner.state == RunnerState::Idle {
        instance.bring_due_forward(now + timings.claim_idle_seconds);
    }
}

/// The one place where a job's claim is written.
pub fn set_job_claim(job: &mut Job, claim: Option<InstanceName>) {
    if job.claim != claim {
        job.claim = claim;
    }
}

#[cfg(test)]
mod tests;
