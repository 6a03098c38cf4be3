//! The graceful stop: deregister, then terminate, and nothing before the evidence is in.
//!
//! The order of the questions is actions-runner-controller's, made durable: every mark stands in
//! the record, so a crash never repeats a wait or forgets an answer.

use super::gate::{self, GateDecision, trouble_wait};
use super::{
    Death, Effect, Need, Policy, Step, act, death, is_early, perform, rest, rest_until, silence,
};
use crate::audit::{Audit, AuditKind};
use crate::ids::RunnerId;
use crate::instance::{DeleteReason, Instance, Waiting};
use crate::launch::LaunchState;
use crate::lifecycle::Record;
use crate::observation::{Deregistration, Look, Machine, Observation, ProviderError, RunnerSeen};
use crate::time::Time;

pub(super) fn stop(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if asks_for_machine(instance, seen, now) {
        return Step::Look(Need::Machine);
    }
    match death(instance, seen, policy.timings, now) {
        Death::Certain(why) => return gone(instance, now, why, policy),
        Death::Unconfirmed(next, again_at) => {
            return wait(*next, Waiting::Absent, again_at);
        }
        Death::No => {}
    }
    if is_early(instance, now) && !is_answered(instance, seen, policy, now) {
        return rest(instance);
    }
    if instance.machine().is_none() {
        return without_machine(instance, seen, policy, now);
    }
    if is_stopped(instance, seen) {
        return go(instance, policy, now, "the machine was stopped, and with it its runner");
    }
    let deregistered = is_deregistered(instance);
    // A job on record is told in the audit trail, also if GitHub's lie has cost its runner the
    // registration.
    if policy.ends_jobs(instance, now) && (!deregistered || instance.runner.is_busy()) {
        return kill(instance, seen, policy, now);
    }
    if deregistered {
        return go(instance, policy, now, "the runner can take no job");
    }
    deregister(instance, seen, policy, now)
}

/// Another pass has found the call out and put the row off until its end, and here is the answer,
/// which no record has yet. Forgotten, it would be asked for again then, by both. Once it is on
/// record the row's time counts again: a pass that EC2 refuses comes to rest.
fn is_answered(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> bool {
    let call = instance.mark().and_then(|mark| mark.removing_until);
    matches!(seen.deregistration, Look::Seen(_))
        && call.is_some()
        && call == instance.due_at()
        && !is_deregistered(instance)
        && !policy.ends_jobs(instance, now)
}

/// The machine may have died: EC2 said something, or its runner is busy and only its death ends the
/// wait, or EC2 did not end it. That may be because it is gone: with a machine its tags go, and
/// with them our right to end it (`UnauthorizedOperation`; karpenter-provider-aws #2100).
fn asks_for_machine(instance: &Instance, seen: &Observation, now: Time) -> bool {
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

/// No job can reach it: its agent ended, GitHub has removed it, or it never had a configuration
/// and, since the mark, gets none.
fn is_deregistered(instance: &Instance) -> bool {
    instance.runner.exit.is_some()
        || instance.mark().is_some_and(|mark| mark.deregistered)
        || instance.runner.n == 0
}

/// A stopped machine runs nothing, whatever its record or GitHub says of a job, and nobody starts
/// it again.
fn is_stopped(instance: &Instance, seen: &Observation) -> bool {
    seen.machine == Look::Seen(Machine::Stopped)
        || instance.mark().is_some_and(|mark| mark.reason == DeleteReason::MachineStopped)
}

/// A known job is waited for. Its hook may still wait itself, to hear what became of a call that
/// GitHub has not answered: a registration that is there was not removed, and whether one that is
/// not shown is gone, the same call tells. None then.
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

/// The evidence, then GitHub's DELETE.
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
        Look::Failed(trouble) => unanswered(&asked_in_vain(instance, now), trouble, policy, now),
    }
}

/// The intent is on record first: a job's start that comes before it is let pass, and holds the
/// delete up. One call is out at a time, so that GitHub's refusal is the last word on all of them.
fn ask_to_remove(instance: &Instance, id: RunnerId, policy: &Policy<'_>, now: Time) -> Step {
    let call = instance.mark().and_then(|mark| mark.removing_until);
    if let Some(until) = call.filter(|until| now < *until) {
        return rest_until(instance.clone(), until);
    }
    remove(instance, id, policy, now)
}

/// Also at once, for an end that waits for no job: no start is let pass there anyway.
fn remove(instance: &Instance, id: RunnerId, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    let until = now + policy.timings.deleting_lease_seconds;
    next.update_mark(|mark| mark.removing_until = Some(until));
    perform(next, Effect::Deregister(id))
}

/// GitHub keeps a busy runner, so its job may start.
fn not_removed(instance: &Instance) -> Instance {
    let mut next = instance.clone();
    if next.mark().is_some_and(|mark| mark.removing_until.is_some()) {
        next.update_mark(|mark| mark.removing_until = None);
    }
    next
}

/// The call is over, and what it has done is open: another one may be made.
fn asked_in_vain(instance: &Instance, now: Time) -> Instance {
    let mut next = instance.clone();
    if next.mark().is_some_and(|mark| mark.removing_until.is_some_and(|until| until > now)) {
        next.update_mark(|mark| mark.removing_until = Some(now));
    }
    next
}

/// The hook reports a job's end before the agent has told GitHub: ended now, the job would fail
/// after all. The agent's exit follows in seconds and ends the wait.
fn finishes_until(instance: &Instance, policy: &Policy<'_>) -> Option<Time> {
    let ended = instance.runner.started.as_ref().and_then(|job| job.completed_at)?;
    Some(ended + policy.timings.completed_grace_seconds)
}

/// A configuration call without an answer on record: GitHub is asked by name.
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

/// GitHub answered the DELETE. 404 after a registration means that it is gone: ephemeral runners
/// are removed by GitHub when their job ends.
fn answered(instance: &Instance, answer: Deregistration, policy: &Policy<'_>, now: Time) -> Step {
    let what = match answer {
        Deregistration::Busy => {
            return job_runs(&not_removed(instance), Waiting::Busy, policy, now);
        }
        Deregistration::Done => "deregistered from GitHub",
        Deregistration::NotFound => "GitHub has no registration any more",
    };
    let mut next = instance.clone();
    next.update_mark(|mark| {
        mark.deregistered = true;
        mark.waiting = None;
        mark.silences = 0;
    });
    next.tell(now, what.to_owned());
    if is_early(&next, now) {
        // It waited for this answer alone.
        next.set_due(now);
    }
    act(next)
}

/// GitHub did not answer. Force ignores EC2's errors and never GitHub's silence: the hooks of a
/// machine may be reported and not run, and then a job that nobody heard of would end.
/// `kill_running_job` does not wait.
fn unanswered(
    instance: &Instance,
    trouble: &ProviderError,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    match trouble_wait(instance, trouble, policy, now) {
        GateDecision::Wait(next, at) => bypassed_or(*next, at, policy, now),
        // Trouble is a reason to wait and nothing else.
        GateDecision::Look(_) | GateDecision::Busy(_) | GateDecision::Passed(_) => rest(instance),
    }
}

/// Waits, unless the order says not to wait for this.
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
        return go(&next, policy, now, "GitHub was bypassed by order");
    }
    rest_until(next, at)
}

/// A job runs. It is waited for, for ever; its machine's death or its end wakes us.
fn job_runs(instance: &Instance, why: Waiting, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    // A contrary sign: the evidence is gathered anew.
    next.update_mark(|mark| {
        mark.not_busy_since = None;
        mark.gate_passed = false;
    });
    wait(next, why, now + policy.timings.busy_poll_seconds)
}

/// The order, or the machine's age, ends a running job. GitHub is told once, as far as it listens,
/// and the audit trail once, however often EC2 fails. That it is told is on record before: whoever
/// changes the record while GitHub is asked cannot make this begin anew. A job that is heard of
/// after that has its line from whoever hears of it.
fn kill(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let told = instance.mark().is_some_and(|mark| mark.kill_told);
    let id = instance.runner.id.filter(|_| !told && !is_deregistered(instance));
    let mut next = instance.clone();
    if !told {
        next.update_mark(|mark| mark.kill_told = true);
    }
    let mut step = match (id, &seen.deregistration) {
        (Some(id), Look::Unknown) => remove(&next, id, policy, now),
        (Some(_), Look::Seen(_) | Look::Failed(_)) | (None, _) => {
            go(&next, policy, now, "a running job does not hold it up")
        }
    };
    let on_record = instance.runner.is_busy();
    let heard_now = seen.deregistration == Look::Seen(Deregistration::Busy) && !on_record;
    let is_news = heard_now || (on_record && !told);
    if let (Step::Act { records, .. }, true) = (&mut step, is_news) {
        let (by, why) = instance.killer();
        records.push(Record::Audit(Audit::new(&instance.name, AuditKind::JobKilled, by, why, now)));
    }
    step
}

/// No machine is bound. If the launch may still bring one, its answer is waited for: a machine that
/// nobody waits for would be a leak.
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

/// Safe to terminate.
fn go(instance: &Instance, policy: &Policy<'_>, now: Time, why: &str) -> Step {
    let Some(machine) = instance.machine().cloned() else {
        return rest(instance);
    };
    let mut next = instance.clone();
    next.to_deleting(now, why, policy.timings);
    perform(next, Effect::Terminate(machine))
}

/// Nothing is left to terminate.
fn gone(instance: &Instance, now: Time, why: &str, policy: &Policy<'_>) -> Step {
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
