//! A machine is bound. Most passes end here: nothing to do until a time in the record.

use super::gate::{self, GateDecision};
use super::{
    Death, Effect, Need, Policy, Step, act, death, is_early, perform, reach, rest, rest_until,
    silence,
};
use crate::instance::{DeleteReason, Exit, Instance, RunnerState, Waiting};
use crate::observation::{Look, Machine, Observation};
use crate::time::Time;

pub(super) fn running(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    // A first denial is to be confirmed, or not; whoever comes by looks.
    let confirms = instance.absence.is_some();
    if (seen.machine_hint || confirms) && seen.machine == Look::Unknown {
        return Step::Look(Need::Machine);
    }
    if let Some(step) = machine_ended(instance, seen, policy, now) {
        return step;
    }
    if now >= policy.end_of_life(instance) {
        return outlived(instance, now);
    }
    if let Some(exit) = &instance.runner.exit {
        return runner_ended(instance, exit, seen, policy, now);
    }
    if instance.mark().is_some() {
        return marked(instance, seen, policy, now);
    }
    if let Some(step) = taken_back(instance, seen, now) {
        return step;
    }
    match instance.runner.state {
        RunnerState::Pending | RunnerState::Installing => booting(instance, seen, policy, now),
        RunnerState::Idle => idle(instance, seen, policy, now),
        RunnerState::Active | RunnerState::Failed | RunnerState::Terminated => {
            active(instance, seen, policy, now)
        }
    }
}

/// EC2's word on the machine, if it ends the instance.
fn machine_ended(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Option<Step> {
    let reason = match death(instance, seen, policy.timings, now) {
        Death::Certain(_) => DeleteReason::MachineGone,
        Death::Unconfirmed(next, again_at) => return Some(denied(*next, again_at, now)),
        Death::No if seen.machine == Look::Seen(Machine::Stopped) => DeleteReason::MachineStopped,
        Death::No => return None,
    };
    if is_mute(instance, seen) && seen.console == Look::Unknown {
        return Some(Step::Look(Need::Console));
    }
    let mut next = with_console(instance, seen);
    if let Some(why) = seen.machine_reason.as_ref().filter(|why| !why.is_own_shutdown()) {
        next.ended_by_ec2(why, now);
    }
    next.to_pending_delete(reason, now);
    Some(act(next))
}

/// EC2 denies the machine, which may take long to become certain: the job that is meant for it gets
/// another one meanwhile.
fn denied(mut next: Instance, again_at: Time, now: Time) -> Step {
    if next.absence.is_none() || next.claim().is_none() || next.runner.has_taken_job() {
        return rest_until(next, again_at);
    }
    next.clear_claim(now, "EC2 does not know its machine");
    next.set_due(again_at);
    perform(next, Effect::WakePool)
}

/// EC2 takes the machine back in two minutes. A job that runs may still end in time. A runner
/// without one must start none: it is marked, so that its hook refuses and GitHub is asked to
/// remove it, and its job gets another machine at once.
fn taken_back(instance: &Instance, seen: &Observation, now: Time) -> Option<Step> {
    let is_news = seen.spot_notice && instance.spot_notice_at.is_none();
    let is_free = !instance.runner.has_taken_job() && instance.runner.state <= RunnerState::Idle;
    if !is_news && (instance.spot_notice_at.is_none() || !is_free) {
        return None;
    }
    let mut next = instance.clone();
    next.spot_notice(now);
    if !is_free {
        return Some(act(next));
    }
    next.set_mark(DeleteReason::SpotNotice, now);
    next.clear_claim(now, "EC2 takes the machine back");
    next.set_due(now);
    Some(perform(next, Effect::WakePool))
}

/// Older than its pool allows: ends, job or not. The one timer that may end a running job; the
/// audit line is written when that is done.
fn outlived(instance: &Instance, now: Time) -> Step {
    let mut next = instance.clone();
    // An idle mark may stand already; the lifetime overrules it.
    next.clear_mark(now, "max lifetime reached");
    next.to_pending_delete(DeleteReason::MaxLifetime, now);
    act(next)
}

/// The happy path's last wait: the machine shuts itself down, and EC2 says so. Only when it does
/// not, we do it.
fn runner_ended(
    instance: &Instance,
    exit: &Exit,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if instance.claim().is_some() && !instance.runner.has_taken_job() {
        return give_claim_back(instance, seen, policy, now, "the runner ended without a job");
    }
    // Kept for a look, it shuts down at the end of that time.
    let ends = instance.kept_until.map_or(exit.at, |until| until.max(exit.at));
    let overdue = ends + policy.timings.shutdown_grace_seconds;
    if now < overdue {
        return rest_until(instance.clone(), overdue);
    }
    if seen.machine == Look::Unknown {
        return Step::Look(Need::Machine);
    }
    let mut next = instance.clone();
    next.to_pending_delete(DeleteReason::RunnerEnded, now);
    act(next)
}

/// It ends before its runner is there, and neither it nor EC2 says why.
fn is_mute(instance: &Instance, seen: &Observation) -> bool {
    let is_shown = seen.machine != Look::Seen(Machine::Absent);
    let explains = seen.machine_reason.as_ref().is_some_and(|why| !why.is_own_shutdown());
    let is_told = instance.spot_notice_at.is_some() || explains;
    instance.runner.state <= RunnerState::Installing && is_shown && !is_told
}

/// What its console says is kept in the commit that marks it: its machine is asked once.
fn with_console(instance: &Instance, seen: &Observation) -> Instance {
    let mut next = instance.clone();
    if let Look::Seen(output) = &seen.console {
        next.keep_console(output);
    }
    next
}

/// The agent has not reported its start.
fn booting(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let deadline = instance.launched_at() + policy.timings.boot_deadline_seconds;
    if now < deadline {
        return rest_until(instance.clone(), deadline);
    }
    if seen.console == Look::Unknown {
        return Step::Look(Need::Console);
    }
    let mut next = with_console(instance, seen);
    if instance.runner.n == 0 {
        // It never asked for a configuration, and from the mark on it gets none: no job can reach
        // it.
        next.to_pending_delete(DeleteReason::BootTimeout, now);
    } else {
        next.set_mark(DeleteReason::BootTimeout, now);
        // The evidence may take half an hour, and its job must not wait for it.
        next.clear_claim(now, "the runner did not start in time");
        next.set_due(now);
    }
    act(next)
}

/// The agent waits for a job.
fn idle(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    if instance.claim().is_some() {
        return idle_beside_job(instance, seen, policy, now);
    }
    let reason = if seen.outdated {
        DeleteReason::Outdated
    } else if now >= policy.retires_at(instance) {
        DeleteReason::Retired
    } else {
        match stays(instance, seen, policy, now) {
            Ok(step) => return step,
            Err(reason) => reason,
        }
    };
    let mut next = instance.clone();
    next.set_mark(reason, now);
    next.set_due(now);
    act(next)
}

/// What an idle runner does while it is neither surplus nor out of reach.
///
/// # Errors
///
/// Why it ends.
fn stays(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Result<Step, DeleteReason> {
    let until = |at: Time| Ok(rest_until(instance.clone(), at.min(policy.retires_at(instance))));
    let limit = instance.runner.since + policy.timings.idle_limit_seconds;
    if now < limit {
        return until(limit);
    }
    if policy.min_idle == 0 {
        return Err(DeleteReason::Idle);
    }
    match &seen.surplus {
        Look::Unknown => return Ok(Step::Look(Need::Surplus)),
        // Nothing is ended on a guess.
        Look::Failed(_) => return until(now + policy.timings.busy_poll_seconds),
        Look::Seen(true) => return Err(DeleteReason::Idle),
        Look::Seen(false) => {}
    }
    match reach::reach(seen) {
        Look::Unknown => Ok(Step::Look(Need::Runner)),
        Look::Seen(false) => Err(DeleteReason::Unreachable),
        Look::Seen(true) | Look::Failed(_) => until(now + policy.timings.idle_limit_seconds),
    }
}

/// Idle although its job is queued: GitHub does not give it that job, or cannot, so the job gets
/// another runner.
fn idle_beside_job(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    let since =
        instance.claimed_at.map_or(instance.runner.since, |at| at.max(instance.runner.since));
    let limit = since + policy.timings.claim_idle_seconds;
    if now < limit {
        return rest_until(instance.clone(), limit);
    }
    match reach::reach(seen) {
        Look::Unknown => Step::Look(Need::Runner),
        Look::Seen(false) => {
            let mut next = instance.clone();
            next.set_mark(DeleteReason::Unreachable, now);
            next.clear_claim(now, "its agent is not connected");
            next.set_due(now);
            perform(next, Effect::WakePool)
        }
        Look::Seen(true) | Look::Failed(_) => {
            give_claim_back(instance, seen, policy, now, "sat idle beside the queued job")
        }
    }
}

/// Ends the claim and has the launch pass find the job another runner, if it still needs one.
fn give_claim_back(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
    why: &str,
) -> Step {
    let mut next = instance.clone();
    match seen.claimed_job_waits {
        Look::Unknown => return Step::Look(Need::ClaimedJob),
        Look::Failed(_) => return rest_until(next, now + policy.timings.busy_poll_seconds),
        Look::Seen(true) => {
            // A runner that took another job was not passed over.
            next.passed_over = !instance.runner.has_taken_job();
            next.clear_claim(now, why);
        }
        Look::Seen(false) => next.clear_claim(now, "the job needs no runner any more"),
    }
    next.set_due(now);
    perform(next, Effect::WakePool)
}

/// A job runs, or has run.
fn active(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let lifetime = policy.end_of_life(instance);
    if let Some(step) = silence::write_off(instance, now) {
        return step;
    }
    if instance.runner.is_busy() {
        return busy(instance, seen, policy, now);
    }
    // The job is over and the machine has not reported its end. GitHub's `completed` alone proves
    // nothing, so the kill gate is asked.
    let hook = instance.runner.started.as_ref().and_then(|job| job.completed_at);
    let since = instance.runner.since;
    let over = hook.max(instance.runner.github_completed_at).map_or(since, |over| over.max(since));
    let limit = over + policy.timings.completed_grace_seconds;
    if now < limit {
        return rest_until(instance.clone(), limit.min(lifetime));
    }
    let mut next = instance.clone();
    next.set_mark(DeleteReason::JobCompleted, now);
    next.set_due(now);
    act(next)
}

/// A job runs. The hook does not say which, so without GitHub's event the claimed job may be
/// another one that waits for a runner that is taken.
fn busy(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let lifetime = policy.end_of_life(instance);
    let over =
        instance.runner.called_over().map_or(lifetime, |(_, believed)| believed.min(lifetime));
    if instance.claim().is_none() || instance.runner.github_job.is_some() {
        return rest_until(instance.clone(), over);
    }
    let limit = instance.runner.since + policy.timings.claim_idle_seconds;
    if now < limit {
        return rest_until(instance.clone(), limit.min(over));
    }
    give_claim_back(instance, seen, policy, now, "its runner is busy with another job")
}

/// Marked: evidence is gathered. Any contrary sign clears the mark, a job that starts before all.
fn marked(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    if is_early(instance, now) {
        return rest(instance);
    }
    if instance.claim().is_some() && !instance.runner.has_taken_job() {
        // The evidence may take long: its job gets another runner.
        let mut next = instance.clone();
        next.clear_claim(now, "marked for delete");
        return perform(next, Effect::WakePool);
    }
    if reach::is_back(instance, seen) {
        let mut next = instance.clone();
        next.clear_mark(now, "its agent is connected");
        return act(next);
    }
    match gate::gate(instance, seen, policy, now) {
        GateDecision::Look(need) => Step::Look(need),
        GateDecision::Wait(next, at) => rest_until(*next, at),
        GateDecision::Busy(why) => {
            let mut next = instance.clone();
            next.seen_busy(now, why);
            // The same look would be held against the next mark: this pass is over.
            rest_until(next, now + policy.timings.busy_poll_seconds)
        }
        GateDecision::Passed(next) => {
            let mut next = *next;
            let reason = next.mark().map_or(DeleteReason::Idle, |mark| mark.reason.clone());
            next.update_mark(|mark| {
                mark.gate_passed = true;
                mark.waiting = None::<Waiting>;
            });
            next.to_pending_delete(reason, now);
            act(next)
        }
    }
}
