//! The graceful stop: deregister, then terminate, and do neither before the evidence is complete.
//!
//! The order of the checks follows actions-runner-controller, made durable: every mark is in the
//! record, so a crash never repeats a wait or loses a response.

use super::deleting::force_is_over;
use super::gate::{self, GateDecision, trouble_wait};
use super::{
    Death, Effect, Need, Policy, Step, act, death, is_early, perform, rest, rest_until, silence,
};
use crate::audit::{Audit, AuditKind};
use crate::ids::RunnerId;
use crate::instance::{DeleteReason, Instance, Waiting};
use crate::launch::LaunchState;
use crate::lifecycle::Record;
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen};
use crate::provider::ProviderError;
use crate::time::Time;

pub(super) fn stop(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if needs_machine(instance, seen, now) {
        return Step::Look(Need::Machine);
    }
    match death(instance, seen, policy.timings, now) {
        Death::Certain(why) => return gone(instance, now, why, policy),
        // An old forced delete calls EC2 once more, and then leaves the machine to the orphan ledger.
        Death::Unconfirmed(next, again_at) if !force_is_over(instance, policy, now) => {
            return wait(*next, Waiting::Absent, again_at);
        }
        Death::Unconfirmed(..) | Death::No => {}
    }
    if is_early(instance, now) && !is_answered(instance, seen, policy, now) {
        return rest(instance);
    }
    if instance.machine().is_none() {
        return without_machine(instance, seen, policy, now);
    }
    if is_stopped(instance, seen) {
        return terminate(instance, policy, now, "the machine was stopped, and with it its runner");
    }
    let deregistered = is_deregistered(instance);
    // A known job gets an audit entry, even if GitHub's wrong `busy` flag has already cost its
    // runner the registration.
    if policy.ends_jobs(instance, now) && (!deregistered || instance.runner.is_busy()) {
        return kill(instance, seen, policy, now);
    }
    if deregistered {
        return terminate(instance, policy, now, "the runner can take no job");
    }
    deregister(instance, seen, policy, now)
}

/// Returns whether this pass has the response to a removal call for which a concurrent pass
/// postponed the record. No record contains that response yet; without this check, both passes
/// would repeat the call later. Once the response is recorded, the record's due time applies again,
/// so a pass that EC2 refuses still comes to rest.
fn is_answered(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> bool {
    let call = instance.mark().and_then(|mark| mark.removing_until);
    matches!(seen.deregistration, Look::Seen(_))
        && call.is_some()
        && call == instance.due_at()
        && !is_deregistered(instance)
        && !policy.ends_jobs(instance, now)
}

/// Returns whether EC2 must be checked because the machine may be dead: EC2 reported a change, or
/// the runner is busy and only the machine's death would end the wait, or EC2 did not terminate it.
/// The last can happen because the machine is already gone: its tags vanish with it, and with them
/// our permission to terminate it (`UnauthorizedOperation`; karpenter-provider-aws #2100).
fn needs_machine(instance: &Instance, seen: &Observation, now: Time) -> bool {
    let may_be_dead = instance.mark().is_some_and(|mark| {
        matches!(
            mark.waiting,
            Some(Waiting::JobRunning | Waiting::Busy | Waiting::Absent | Waiting::Provider)
        )
    });
    instance.machine().is_some()
        && seen.machine == Look::Unknown
        && (seen.machine_hint || (may_be_dead && !is_early(instance, now)))
}

/// Returns whether no job can reach the runner: its agent ended, GitHub has removed it, or it never
/// had a configuration and the mark prevents one.
fn is_deregistered(instance: &Instance) -> bool {
    instance.runner.exit.is_some()
        || instance.mark().is_some_and(|mark| mark.deregistered)
        || instance.runner.n == 0
}

/// Returns whether the machine is stopped. It then runs no job, regardless of its record or GitHub,
/// and is never started again.
fn is_stopped(instance: &Instance, seen: &Observation) -> bool {
    seen.machine == Look::Seen(Machine::Stopped)
        || instance.mark().is_some_and(|mark| mark.reason == DeleteReason::MachineStopped)
}

/// Returns the step that waits for a known job. `None` if the response to a removal call must
/// decide first: the job's hook may itself be waiting for that response. A registration that still
/// exists was not removed; if GitHub does not show it, only repeating the call shows whether it is
/// gone.
fn known_job(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Option<Step> {
    if !instance.runner.is_busy() {
        return None;
    }
    if let Some(step) = silence::write_off(instance, now) {
        return Some(step);
    }
    let call = instance.mark().and_then(|mark| mark.removing_until);
    let Some(call) = call.filter(|_| instance.is_undecided()) else {
        return Some(job_runs(instance, Waiting::JobRunning, policy, now));
    };
    if seen.deregistration != Look::Unknown {
        return None;
    }
    if now < call {
        return Some(rest_until(instance.clone(), call));
    }
    match &seen.runner {
        Look::Unknown => Some(Step::Look(Need::Runner)),
        Look::Failed(trouble) => Some(unanswered(instance, trouble, policy, now)),
        Look::Seen(RunnerSeen::Absent) => None,
        Look::Seen(RunnerSeen::Busy(_) | RunnerSeen::NotBusy(_) | RunnerSeen::Offline(_)) => {
            Some(job_runs(&not_removed(instance), Waiting::JobRunning, policy, now))
        }
    }
}

/// Gathers the evidence, then sends GitHub's DELETE.
fn deregister(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let passed = instance.mark().is_some_and(|mark| mark.gate_passed);
    if let Some(step) = known_job(instance, seen, policy, now) {
        return step;
    }
    if let Some(until) = finishes_until(instance, policy).filter(|until| now < *until) {
        return wait(instance.clone(), Waiting::JobRunning, until);
    }
    if !passed && !instance.is_forced() {
        match gate::gate(instance, seen, policy, now) {
            GateDecision::Look(need) => return Step::Look(need),
            GateDecision::Wait(next, at) => return bypassed_or(*next, at, policy, now),
            GateDecision::Busy(_) => return job_runs(instance, Waiting::Busy, policy, now),
            GateDecision::Passed(mut next) => {
                next.update_mark(|mark| {
                    mark.gate_passed = true;
                    mark.waiting = None;
                });
                return act(*next);
            }
        }
    }
    let Some(id) = instance.runner.id else {
        return find_registration(instance, seen, policy, now);
    };
    match &seen.deregistration {
        Look::Unknown => ask_to_remove(instance, id, policy, now),
        Look::Seen(answer) => answered(instance, *answer, policy, now),
        Look::Failed(trouble) => unanswered(&with_call_ended(instance, now), trouble, policy, now),
    }
}

/// Records the intent, then calls GitHub. A job start that arrives earlier is accepted and delays
/// the delete. Only one call is in flight at a time, so that GitHub's refusal is final for all of
/// them.
fn ask_to_remove(instance: &Instance, id: RunnerId, policy: &Policy<'_>, now: Time) -> Step {
    let call = instance.mark().and_then(|mark| mark.removing_until);
    if let Some(until) = call.filter(|until| now < *until) {
        return rest_until(instance.clone(), until);
    }
    remove(instance, id, policy, now)
}

/// Sends the DELETE. A delete that does not wait for jobs calls this without the lease check: job
/// starts are refused there anyway.
fn remove(instance: &Instance, id: RunnerId, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    let until = now + policy.timings.deleting_lease_seconds;
    next.update_mark(|mark| mark.removing_until = Some(until));
    perform(next, Effect::Deregister(id))
}

/// Clears the removal call: GitHub keeps a busy runner, so its job may start.
fn not_removed(instance: &Instance) -> Instance {
    let mut next = instance.clone();
    if next.mark().is_some_and(|mark| mark.removing_until.is_some()) {
        next.update_mark(|mark| mark.removing_until = None);
    }
    next
}

/// Ends the lease of a removal call whose outcome is unknown, so that it can be repeated.
fn with_call_ended(instance: &Instance, now: Time) -> Instance {
    let mut next = instance.clone();
    if next.mark().is_some_and(|mark| mark.removing_until.is_some_and(|until| until > now)) {
        next.update_mark(|mark| mark.removing_until = Some(now));
    }
    next
}

/// Returns until when a job whose end the hook reported may still be finishing. The hook runs
/// before the agent reports the result to GitHub; terminating now would fail the job after all. The
/// agent's exit follows within seconds and ends the wait.
fn finishes_until(instance: &Instance, policy: &Policy<'_>) -> Option<Time> {
    let ended = instance.runner.started.as_ref().and_then(|job| job.completed_at)?;
    Some(ended + policy.timings.completed_grace_seconds)
}

/// Looks up, by name, the registration of a configuration request whose response is not recorded.
fn find_registration(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    let asked = instance.runner.asking_since;
    let lease = asked.map(|at| at + policy.timings.register_lease_seconds);
    if let Some(until) = lease.filter(|until| now < *until) {
        return wait(instance.clone(), Waiting::Registering, until);
    }
    match &seen.runner {
        Look::Unknown => Step::Look(Need::Runner),
        Look::Failed(trouble) => unanswered(instance, trouble, policy, now),
        Look::Seen(answer) => {
            let mut next = instance.clone();
            gate::learn_registration(&mut next, *answer, now);
            if next.runner.id.is_none() {
                next.update_mark(|mark| mark.deregistered = true);
            }
            act(next)
        }
    }
}

/// Handles GitHub's response to the DELETE. A 404 for a known registration means that it is gone:
/// GitHub removes ephemeral runners when their job ends.
fn answered(instance: &Instance, answer: Deregistration, policy: &Policy<'_>, now: Time) -> Step {
    let what = match answer {
        Deregistration::Busy => {
            return job_runs(&not_removed(instance), Waiting::Busy, policy, now);
        }
        Deregistration::Done => "deregistered from GitHub",
        Deregistration::NotFound => "GitHub no longer has a registration",
    };
    let mut next = instance.clone();
    next.update_mark(|mark| {
        mark.deregistered = true;
        mark.waiting = None;
        mark.silences = 0;
    });
    next.tell(now, what.to_owned());
    if is_early(&next, now) {
        // It was only waiting for this response.
        next.set_due(now);
    }
    act(next)
}

/// Handles a missing answer from GitHub. Force ignores EC2's errors but not GitHub's silence: a
/// machine's hooks may be installed without running, and then an unknown job could be killed.
/// `kill_running_job` does not wait.
fn unanswered(
    instance: &Instance,
    trouble: &ProviderError,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    match trouble_wait(instance, trouble, policy, now) {
        GateDecision::Wait(next, at) => bypassed_or(*next, at, policy, now),
        // Trouble only ever causes a wait.
        GateDecision::Look(_) | GateDecision::Busy(_) | GateDecision::Passed(_) => rest(instance),
    }
}

/// Waits, unless the order bypasses this reason to wait.
fn bypassed_or(next: Instance, at: Time, policy: &Policy<'_>, now: Time) -> Step {
    let waiting = next.mark().and_then(|mark| mark.waiting.as_ref());
    let bypassed = match (next.order(), waiting) {
        (Some(order), Some(Waiting::Unauthorized)) => order.bypass_github_unauthorized,
        (
            Some(_),
            Some(
                Waiting::Registering
                | Waiting::JobRunning
                | Waiting::Busy
                | Waiting::SecondRead
                | Waiting::RateLimited
                | Waiting::GithubUnavailable
                | Waiting::LaunchOpen
                | Waiting::Provider
                | Waiting::Absent
                | Waiting::SwitchedOff,
            )
            | None,
        )
        | (None, _) => false,
    };
    if bypassed {
        return terminate(&next, policy, now, "GitHub was bypassed by order");
    }
    rest_until(next, at)
}

/// Waits for a running job without a time limit; its end or its machine's death wakes the instance.
fn job_runs(instance: &Instance, why: Waiting, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    // Contrary evidence: start gathering again.
    next.update_mark(|mark| {
        mark.not_busy_since = None;
        mark.gate_passed = false;
    });
    wait(next, why, now + policy.timings.busy_poll_seconds)
}

/// Ends a running job because of an order or the machine's age.
///
/// GitHub is notified once, if reachable, and the audit log once, no matter how often EC2 fails.
/// The notification is recorded before it is sent, so a concurrent writer cannot make this start
/// over. A job discovered later is audited by the pass that discovers it.
fn kill(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let is_notified = instance.mark().is_some_and(|mark| mark.kill_told);
    let id = instance.runner.id.filter(|_| !is_notified && !is_deregistered(instance));
    let mut next = instance.clone();
    if !is_notified {
        next.update_mark(|mark| mark.kill_told = true);
    }
    let mut step = match (id, &seen.deregistration) {
        (Some(id), Look::Unknown) => remove(&next, id, policy, now),
        (Some(_), Look::Seen(_) | Look::Failed(_)) | (None, _) => {
            terminate(&next, policy, now, "it does not wait for a running job")
        }
    };
    let on_record = instance.runner.is_busy();
    let reported_now = seen.deregistration == Look::Seen(Deregistration::Busy) && !on_record;
    let is_news = reported_now || (on_record && !is_notified);
    if let (Step::Act { records, .. }, true) = (&mut step, is_news) {
        let (by, why) = instance.killer();
        records.push(Record::Audit(Audit::new(&instance.name, AuditKind::JobKilled, by, why, now)));
    }
    step
}

/// Handles an instance without a machine. If the launch may still produce one, waits for EC2's
/// response: otherwise that machine would leak.
fn without_machine(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    match &seen.launch {
        Look::Unknown => Step::Look(Need::Launch),
        Look::Failed(_) => {
            let at = now + policy.timings.launch_retry_seconds;
            wait(instance.clone(), Waiting::LaunchOpen, at)
        }
        Look::Seen(Some((LaunchState::Open, lease))) => {
            let mut next = instance.clone();
            next.update_mark(|mark| mark.waiting = Some(Waiting::LaunchOpen));
            if now < *lease {
                return rest_until(next, *lease);
            }
            next.set_due(now + policy.timings.launch_retry_seconds);
            perform(next, Effect::WakePool)
        }
        Look::Seen(None | Some((LaunchState::Settled, _))) => {
            gone(instance, now, "no machine was launched", policy)
        }
    }
}

/// Terminates the machine, now that it is safe.
fn terminate(instance: &Instance, policy: &Policy<'_>, now: Time, why: &str) -> Step {
    let Some(machine) = instance.machine().cloned() else {
        return rest(instance);
    };
    let mut next = instance.clone();
    next.to_deleting(now, why, policy.timings);
    perform(next, Effect::Terminate(machine))
}

/// Ends the record of an instance in `pending_delete` that has no machine to terminate.
pub(super) fn gone(instance: &Instance, now: Time, why: &str, policy: &Policy<'_>) -> Step {
    let mut next = instance.clone();
    next.to_deleting(now, why, policy.timings);
    next.to_deleted(now, why);
    act(next)
}

fn wait(mut next: Instance, why: Waiting, until: Time) -> Step {
    if next.mark().is_some_and(|mark| mark.waiting.as_ref() != Some(&why)) {
        next.update_mark(|mark| mark.waiting = Some(why));
    }
    rest_until(next, until)
}
