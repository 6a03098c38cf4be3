//! Claims: which runner is meant for which job, and how to adjust that when GitHub assigns jobs
//! differently.
//!
//! GitHub gives a job to any runner with matching labels, so a launched runner often takes a
//! different job from the one it was launched for. Tools that bind one runner to one job leak
//! runners or starve jobs in this case (cdk-github-runners #974, RunsOn #44). A claim is only an
//! expectation; these functions keep both sides of it consistent.

use crate::ids::InstanceName;
use crate::instance::{Instance, RunnerState};
use crate::job::Job;
use crate::pool::Pool;
use crate::time::Time;
use crate::timings::Timings;

/// The jobs and instances affected when GitHub reports that a runner took a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The job that was taken.
    pub job: Job,
    /// The runner that took it.
    pub taker: Instance,
    /// The job that the taker had claimed, if different.
    pub left: Option<Job>,
    /// The instance that had claimed the taken job, if different.
    pub spared: Option<Instance>,
}

impl Instance {
    /// Returns whether this instance's runner took the job, considering everything GitHub reported.
    /// A name alone proves nothing: it can be used in every other account, and at a repository of
    /// the same organization (github.com/github/docs/issues/17589). The ID of a registration is
    /// recorded before its machine gets the configuration, so an instance without an ID has run no
    /// job.
    #[must_use]
    pub fn took(&self, job: &Job) -> bool {
        let event = &job.last_event;
        job.ran_on().as_ref() == Some(&self.name)
            && self.entity.covers(&event.repository)
            && self.runner.id.is_some_and(|own| event.runner_id.is_none_or(|id| id == own))
    }
}

/// Settles the claims after `taker` took `job`.
///
/// If the spared instance can serve the job that was left, pairs the two. Otherwise that job
/// becomes demand again and the spared instance becomes free supply.
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

/// Returns whether GitHub could give the job to a machine of this pool that is registered where
/// this instance is.
#[must_use]
pub fn can_serve(pool: &Pool, instance: &Instance, job: &Job) -> bool {
    instance.pool == pool.name
        && pool.serves(job).is_ok()
        && pool.entity_for(job).is_some_and(|entity| entity.same_as(&instance.entity))
}

/// Removes a job's claim on an instance that was lost. Returns `None` if there is no such claim.
#[must_use]
pub fn release(job: &Job, instance: &InstanceName) -> Option<Job> {
    let holds = job.claim.as_ref() == Some(instance) && job.is_waiting();
    holds.then(|| {
        let mut job = job.clone();
        set_job_claim(&mut job, None);
        job
    })
}

/// Claims a job for an instance. If the instance is already idle, schedules a check for shortly
/// after GitHub should have assigned the job; otherwise its next check could be as late as its idle
/// limit.
pub fn assign(job: &mut Job, instance: &mut Instance, now: Time, timings: &Timings) {
    set_job_claim(job, Some(instance.name.clone()));
    instance.set_claim(job.key(), now);
    if instance.runner.state == RunnerState::Idle {
        instance.bring_due_forward(now + timings.claim_idle_seconds);
    }
}

/// Sets or clears a job's claim. All writes of the claim go through this function.
pub fn set_job_claim(job: &mut Job, claim: Option<InstanceName>) {
    if job.claim != claim {
        job.claim = claim;
    }
}

#[cfg(test)]
mod tests;
