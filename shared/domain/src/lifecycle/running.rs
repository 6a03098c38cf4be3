//! The state `running`: a machine is bound. Most passes end here, with no work until a time in the
//! record.

use super::gate::{self, GateDecision};
use super::{
    Death, Effect, Need, Policy, Step, act, death, is_early, perform, reach, rest, rest_until,
    silence, stop,
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
    // An earlier denial must be confirmed or refuted, so any pass checks the machine.
    let confirms = instance.absence.is_some();
    if (seen.machine_hint || confirms) && seen.machine == Look::Unknown {
        return Step::Look(Need::Machine);
    }
    if let Some(step) = machine_ended(instance, seen, policy, now) {
        return step;
    }
    if now >= policy.end_of_life(instance) {
        return exceeded_lifetime(instance, now);
    }
    if let Some(exit) = &instance.runner.exit {
        return runner_ended(instance, exit, seen, policy, now);
    }
    if instance.mark().is_some() {
        return marked(instance, seen, policy, now);
    }
    if let Some(step) = interrupted(instance, seen, now) {
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

/// Returns the step if EC2's report on the machine ends the instance.
fn machine_ended(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Option<Step> {
    let gone = match death(instance, seen, policy.timings, now) {
        Death::Certain(why) => Some(why),
        Death::Unconfirmed(next, again_at) => return Some(denied(*next, again_at, now)),
        Death::No if seen.machine == Look::Seen(Machine::Stopped) => None,
        Death::No => return None,
    };
    if ended_without_reason(instance, seen) && seen.console == Look::Unknown {
        return Some(Step::Look(Need::Console));
    }
    let mut next = with_console(instance, seen);
    if let Some(why) = seen.machine_reason.as_ref().filter(|why| !why.is_own_shutdown()) {
        next.ended_by_ec2(why, now);
    }
    let Some(why) = gone else {
        next.to_pending_delete(DeleteReason::MachineStopped, now);
        return Some(act(next));
    };
    next.to_pending_delete(DeleteReason::MachineGone, now);
    // Nothing is left to stop, so one commit ends the record.
    Some(stop::gone(&next, now, why, policy))
}

/// Handles EC2's denial of the machine. Confirming it may take long, so its claimed job gets a new
/// machine meanwhile.
fn denied(mut next: Instance, again_at: Time, now: Time) -> Step {
    if next.absence.is_none() || next.claim().is_none() || next.runner.has_taken_job() {
        return rest_until(next, again_at);
    }
    next.clear_claim(now, "EC2 does not know its machine");
    next.set_due(again_at);
    perform(next, Effect::WakePool)
}

/// Handles a Spot interruption in two minutes. A running job may still finish in time. A runner
/// without a job must not start one: it is marked, so that its hook refuses and GitHub is asked to
/// remove it, and its claimed job gets a new machine immediately.
fn interrupted(instance: &Instance, seen: &Observation, now: Time) -> Option<Step> {
    let is_news = seen.spot_notice && instance.spot_notice_at.is_none();
    let is_free = !instance.runner.has_taken_job() && instance.runner.state <= RunnerState::Idle;
    if !is_news && (instance.spot_notice_at.is_none() || !is_free) {
        return None;
    }
    let mut next = instance.clone();
    // By EC2's clock, which may be ahead of ours.
    next.spot_notice(seen.spot_notice_at.map_or(now, |at| at.min(now)));
    if !is_free {
        return Some(act(next));
    }
    next.set_mark(DeleteReason::SpotNotice, now);
    next.clear_claim(now, "EC2 reclaims the machine");
    next.set_due(now);
    Some(perform(next, Effect::WakePool))
}

/// Ends a machine that exceeds its maximum lifetime, with or without a job. This is the only timer
/// that may end a running job; the audit entry is written when that happens.
fn exceeded_lifetime(instance: &Instance, now: Time) -> Step {
    let mut next = instance.clone();
    // An idle mark may already be set; the lifetime overrides it.
    next.clear_mark(now, "max lifetime reached");
    next.to_pending_delete(DeleteReason::MaxLifetime, now);
    act(next)
}

/// Handles the end of the runner. Normally the machine shuts itself down and EC2 reports that; if
/// it does not, Muster terminates it.
fn runner_ended(
    instance: &Instance,
    exit: &Exit,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> Step {
    if instance.claim().is_some() && !instance.runner.has_taken_job() {
        return release_claim(instance, seen, policy, now, "the runner ended without a job");
    }
    // A machine kept for inspection shuts down at the end of that period.
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

/// Returns whether the machine ended before its runner came up and neither it nor EC2 gave a
/// reason.
fn ended_without_reason(instance: &Instance, seen: &Observation) -> bool {
    let is_shown = seen.machine != Look::Seen(Machine::Absent);
    let explains = seen.machine_reason.as_ref().is_some_and(|why| !why.is_own_shutdown());
    let is_told = instance.spot_notice_at.is_some() || explains;
    instance.runner.state <= RunnerState::Installing && is_shown && !is_told
}

/// Returns the record with the console output, which is stored in the commit that sets the mark. It
/// is requested only once per machine.
fn with_console(instance: &Instance, seen: &Observation) -> Instance {
    let mut next = instance.clone();
    if let Look::Seen(output) = &seen.console {
        next.keep_console(output);
    }
    next
}

/// Handles a machine whose agent has not reported its start.
fn booting(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let boots_by = instance.launched_at() + policy.timings.boot_deadline_seconds;
    let deadline = instance.build_deadline().unwrap_or(boots_by);
    if now < deadline {
        return rest_until(instance.clone(), deadline);
    }
    if instance.baked().is_some() {
        let mut next = instance.clone();
        next.to_pending_delete(DeleteReason::BuildEnded, now);
        return act(next);
    }
    if seen.console == Look::Unknown {
        return Step::Look(Need::Console);
    }
    let mut next = with_console(instance, seen);
    if instance.runner.n == 0 {
        // It never requested a configuration, and the mark prevents one: no job can reach it.
        next.to_pending_delete(DeleteReason::BootTimeout, now);
    } else {
        next.set_mark(DeleteReason::BootTimeout, now);
        // Gathering evidence may take half an hour, and its job must not wait for that.
        next.clear_claim(now, "the runner did not start in time");
        next.set_due(now);
    }
    act(next)
}

/// Handles a runner whose agent waits for a job.
fn idle(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    if instance.claim().is_some() {
        return idle_with_queued_job(instance, seen, policy, now);
    }
    let reason = if let Some(limit) = instance.trial_deadline(policy.timings) {
        // The image's build usually ends it earlier.
        if now < limit {
            return rest_until(instance.clone(), limit);
        }
        DeleteReason::BuildEnded
    } else if seen.outdated {
        DeleteReason::Outdated
    } else if now >= policy.retires_at(instance) {
        DeleteReason::Retired
    } else {
        match keep_idle(instance, seen, policy, now) {
            Ok(step) => return step,
            Err(reason) => reason,
        }
    };
    let mut next = instance.clone();
    next.set_mark(reason, now);
    next.set_due(now);
    act(next)
}

/// Returns the step of an idle runner that is neither surplus nor unreachable.
///
/// # Errors
///
/// The reason to delete it.
fn keep_idle(
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
    if policy.most_idle == 0 {
        return Err(DeleteReason::Idle);
    }
    match &seen.surplus {
        Look::Unknown => return Ok(Step::Look(Need::Surplus)),
        // Do not delete a runner on a guess.
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

/// Handles a runner that idles while its claimed job stays queued: GitHub does not, or cannot, give
/// it that job, so the job gets a different runner.
fn idle_with_queued_job(
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
            release_claim(instance, seen, policy, now, "idled while its job stayed queued")
        }
    }
}

/// Ends the claim and requests a launch pass for the job, if it still needs a runner.
fn release_claim(
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
            // A runner that took a different job was not passed over.
            next.passed_over = !instance.runner.has_taken_job();
            next.clear_claim(now, why);
        }
        Look::Seen(false) => next.clear_claim(now, "the job no longer needs a runner"),
    }
    next.set_due(now);
    perform(next, Effect::WakePool)
}

/// Handles a runner whose job runs or has ended.
fn active(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let lifetime = policy.end_of_life(instance);
    if let Some(step) = silence::write_off(instance, now) {
        return step;
    }
    if instance.runner.is_busy() {
        return busy(instance, seen, policy, now);
    }
    // The job has ended and the machine has not reported its own end. GitHub's `completed` alone
    // proves nothing, so the kill gate decides.
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

/// Handles a running job. The hook does not identify it, so without GitHub's event the claimed job
/// may be a different one that waits for an occupied runner.
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
    release_claim(instance, seen, policy, now, "its runner is busy with another job")
}

/// Gathers evidence for a marked instance. Any contrary evidence clears the mark, above all a job
/// start.
fn marked(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    if is_early(instance, now) {
        return rest(instance);
    }
    if instance.claim().is_some() && !instance.runner.has_taken_job() {
        // Gathering evidence may take long: its job gets a different runner.
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
            // End this pass: its observation would also count against the next mark.
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
