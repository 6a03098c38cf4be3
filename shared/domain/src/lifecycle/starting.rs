//! The states before a machine is bound. The pool's launch pass does the work; these passes only
//! make sure that no slot is forgotten.

use super::{Effect, Need, Policy, Step, act, is_early, perform, rest, rest_until};
use crate::ec2::{ErrorClass, LaunchError};
use crate::instance::{DeleteReason, Instance};
use crate::launch::LaunchState;
use crate::observation::{Look, Observation};
use crate::time::Time;

/// Handles a slot that waits for its next attempt. EC2 has no machine for it, so it ends if no job
/// needs it or if its pool no longer launches machines: the job may find a different pool.
pub(super) fn pending_create(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if instance.claim().is_none() || seen.pool_removed {
        let mut next = instance.clone();
        next.clear_claim(now, "the pool is being removed");
        next.to_pending_delete(DeleteReason::NotNeeded, now);
        return act(next);
    }
    if is_early(instance, now) {
        return rest(instance);
    }
    wake_pool(instance, policy, now)
}

/// Handles a slot of an open launch. While the launch is leased, the slot belongs to the launch
/// pass.
pub(super) fn creating(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if is_early(instance, now) {
        return rest(instance);
    }
    match &seen.launch {
        Look::Unknown => Step::Look(Need::Launch),
        Look::Failed(_) => rest_until(instance.clone(), now + policy.timings.launch_retry_seconds),
        Look::Seen(Some((LaunchState::Open, lease))) if now < *lease => {
            rest_until(instance.clone(), *lease)
        }
        Look::Seen(Some((LaunchState::Open, _))) => wake_pool(instance, policy, now),
        Look::Seen(None | Some((LaunchState::Settled, _))) => {
            // The pass that settled the launch was stopped before it reached this slot.
            let mut next = instance.clone();
            let error = LaunchError::new(
                ErrorClass::Capacity,
                "NotLaunched",
                "the launch ended without a machine for this slot",
            );
            next.launch_failed(&error, now, policy.timings);
            act(next)
        }
    }
}

/// Deletes an instance whose launch failed permanently.
pub(super) fn error(instance: &Instance, now: Time) -> Step {
    let mut next = instance.clone();
    next.to_pending_delete(DeleteReason::LaunchFailed, now);
    act(next)
}

/// Requests a launch pass, and schedules a check in case it does not run.
fn wake_pool(instance: &Instance, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    next.set_due(now + policy.timings.launch_retry_seconds);
    perform(next, Effect::WakePool)
}
