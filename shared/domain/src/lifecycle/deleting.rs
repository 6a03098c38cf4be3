//! The state `deleting`: EC2 was asked to terminate the machine, or is about to be asked again.

use super::{
    Death, Effect, Need, Policy, Record, Step, act, death, is_early, perform, rest, rest_until,
};
use crate::SCHEMA;
use crate::audit::{Audit, AuditKind};
use crate::instance::{Instance, Waiting};
use crate::observation::{Look, Machine, Observation, Termination};
use crate::orphan::Orphan;
use crate::provider::ErrorDetail;
use crate::time::Time;

/// Number of EC2 errors after which a forced delete moves the machine to the orphan ledger.
const FORCED_ATTEMPTS: u32 = 3;

pub(super) fn deleting(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    match &seen.termination {
        Some(Termination::Accepted(Machine::Gone)) => {
            return deleted(instance, now, "EC2 terminates the machine");
        }
        Some(Termination::Failed(_, fault)) => return failed(instance, fault, policy, now),
        Some(Termination::Accepted(_) | Termination::NotFound(_)) | None => {}
    }
    let needs_check = seen.machine_hint || seen.termination.is_some();
    if needs_check && seen.machine == Look::Unknown {
        return Step::Look(Need::Machine);
    }
    match death(instance, seen, policy.timings, now) {
        Death::Certain(why) => return deleted(instance, now, why),
        Death::Unconfirmed(mut next, again_at) => {
            // Force does not wait until the absence is certain: the orphan ledger does.
            if let (Some(Termination::NotFound(fault)), true) =
                (&seen.termination, force_is_over(instance, policy, now))
            {
                return failed(instance, fault, policy, now);
            }
            next.update_mark(|mark| mark.waiting = Some(Waiting::Absent));
            return rest_until(*next, again_at);
        }
        Death::No => {}
    }
    match &seen.termination {
        // EC2 both denies knowing the machine and shows it, or the check failed.
        Some(Termination::NotFound(fault)) => failed(instance, fault, policy, now),
        // Accepted, but EC2 still shows it alive: wait for the lease to expire, then call again.
        Some(Termination::Accepted(_) | Termination::Failed(..)) => rest(instance),
        None if is_early(instance, now) => rest(instance),
        None => retry(instance, policy, now),
    }
}

/// Calls TerminateInstances again because the lease expired: the pass that had it was stopped.
/// Repeating the call is harmless.
fn retry(instance: &Instance, policy: &Policy<'_>, now: Time) -> Step {
    let Some(machine) = instance.machine().cloned() else {
        return deleted(instance, now, "no machine");
    };
    let mut next = instance.clone();
    if is_held_by_job(instance, policy, now) {
        next.back_to_stop(now);
        return act(next);
    }
    next.set_due(now + policy.timings.deleting_lease_seconds);
    next.update_mark(|mark| mark.waiting = None);
    next.tell(now, "terminating again: the earlier attempt got no response".to_owned());
    perform(next, Effect::Terminate(machine))
}

/// Returns whether a job was discovered after the end was decided. If the registration is already
/// removed, the job cannot be saved.
fn is_held_by_job(instance: &Instance, policy: &Policy<'_>, now: Time) -> bool {
    instance.runner.is_busy()
        && !policy.ends_jobs(instance, now)
        && !instance.mark().is_some_and(|mark| mark.deregistered)
}

/// Returns whether a forced delete is so old that it stops waiting for EC2.
pub(super) fn force_is_over(instance: &Instance, policy: &Policy<'_>, now: Time) -> bool {
    let is_old = |at: Time| now >= at + policy.timings.force_give_up_seconds;
    instance.order().is_some_and(|order| order.force && is_old(order.at))
}

/// Handles an EC2 error. A plain delete retries forever; a forced one moves the machine to the
/// orphan ledger, from where the sweep keeps terminating it.
fn failed(instance: &Instance, fault: &ErrorDetail, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    next.terminate_failed(fault.clone(), now, policy.timings);
    let gives_up = force_is_over(instance, policy, now)
        || (instance.order().is_some_and(|order| order.force) && next.attempts >= FORCED_ATTEMPTS);
    let (true, Some(machine), Some(order)) = (gives_up, instance.machine(), instance.order())
    else {
        return act(next);
    };
    let why =
        format!("moved to the orphan ledger after {} EC2 errors: {}", next.attempts, fault.message);
    next.to_deleting(now, "forced", policy.timings);
    next.to_deleted(now, &why);
    let orphan = Orphan {
        schema: SCHEMA,
        machine: machine.clone(),
        instance: Some(instance.name.clone()),
        launch: Some(instance.launch.clone()),
        make: instance.make.clone(),
        costs_since: Some(now),
        since: now,
        attempts: next.attempts,
        last_error: Some(fault.clone()),
        absence: None,
        looked_at: None,
    };
    let audit = Audit::new(&instance.name, AuditKind::GivenUp, &order.by, &why, now);
    Step::Act {
        next: Box::new(next),
        records: vec![Record::Orphan(orphan), Record::Audit(audit)],
        effect: None,
    }
}

fn deleted(instance: &Instance, now: Time, why: &str) -> Step {
    let mut next = instance.clone();
    next.to_deleted(now, why);
    act(next)
}
