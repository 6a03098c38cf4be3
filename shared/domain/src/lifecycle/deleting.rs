//! EC2 was asked to terminate, or is about to be asked again.

use super::{
    Death, Effect, Need, Policy, Record, Step, act, death, is_early, perform, rest, rest_until,
};
use crate::SCHEMA;
use crate::audit::{Audit, AuditKind};
use crate::instance::{ErrorDetail, Instance, Waiting};
use crate::observation::{Look, Machine, Observation, Termination};
use crate::orphan::Orphan;
use crate::time::Time;

/// How many errors of EC2 a forced delete takes before it gives the machine to the orphan ledger.
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
    let asks = seen.machine_hint || seen.termination.is_some();
    if asks && seen.machine == Look::Unknown {
        return Step::Look(Need::Machine);
    }
    match death(instance, seen, policy.timings, now) {
        Death::Certain(why) => return deleted(instance, now, why),
        Death::Unconfirmed(mut next, again_at) => {
            next.update_mark(|mark| mark.waiting = Some(Waiting::Absent));
            return rest_until(*next, again_at);
        }
        Death::No => {}
    }
    match &seen.termination {
        // EC2 denies knowing the machine and shows it all the same, or could not be asked.
        Some(Termination::NotFound(fault)) => failed(instance, fault, policy, now),
        // Accepted, and EC2 still shows it alive: the lease passes, and then it is asked again.
        Some(Termination::Accepted(_) | Termination::Failed(..)) => rest(instance),
        None if is_early(instance, now) => rest(instance),
        None => again(instance, policy, now),
    }
}

/// The lease ran out: the pass that held it was stopped. Asking twice is harmless.
fn again(instance: &Instance, policy: &Policy<'_>, now: Time) -> Step {
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
    next.tell(now, "terminate again: the earlier attempt left no answer".to_owned());
    perform(next, Effect::Terminate(machine))
}

/// A job that nobody knew of when the end was decided. Not one whose registration is gone: nothing
/// saves that.
fn is_held_by_job(instance: &Instance, policy: &Policy<'_>, now: Time) -> bool {
    instance.runner.is_busy()
        && !policy.ends_jobs(instance, now)
        && !instance.mark().is_some_and(|mark| mark.deregistered)
}

/// An error of EC2. A plain delete tries for ever; a forced one gives the machine to the ledger,
/// which the sweep goes on killing.
fn failed(instance: &Instance, fault: &ErrorDetail, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    next.terminate_failed(fault.clone(), now, policy.timings);
    let gives_up = instance.order().is_some_and(|order| {
        order.force
            && (next.attempts >= FORCED_ATTEMPTS
                || now >= order.at + policy.timings.force_give_up_seconds)
    });
    let (true, Some(machine), Some(order)) = (gives_up, instance.machine(), instance.order())
    else {
        return act(next);
    };
    let why = format!("given up after {} errors of EC2: {}", next.attempts, fault.message);
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
