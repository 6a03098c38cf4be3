//! The kill gate: the evidence required before a machine is deregistered or terminated, unless it
//! is dead, too old, closed to jobs by its own hook, or under a forced order.
//!
//! GitHub's `busy` flag is unreliable: it is false for 25 to 60 seconds after a start and minutes
//! into a job, and the DELETE answers 204 regardless (terraform-aws-github-runner #5085, #5228). So
//! a single read proves nothing; the actual protection of a job is the runner's own hook, which is
//! refused once the mark is set.

use super::{Need, Policy};
use crate::backoff;
use crate::instance::{Instance, RunnerState, Waiting};
use crate::observation::{Look, Observation, RunnerSeen};
use crate::provider::ProviderError;
use crate::time::Time;

pub(super) enum GateDecision {
    /// Check this first.
    Look(Need),
    /// Not yet: commit this record and come back at this time.
    Wait(Box<Instance>, Time),
    /// A job runs, or may be running.
    Busy(&'static str),
    /// All evidence is gathered. The record contains what the checks found.
    Passed(Box<Instance>),
}

pub(super) fn gate(
    instance: &Instance,
    seen: &Observation,
    policy: &Policy<'_>,
    now: Time,
) -> GateDecision {
    if instance.runner.is_busy() {
        return GateDecision::Busy("a job was reported as started and not as ended");
    }
    // Waiting could only fail the next job that GitHub assigns to it. If GitHub has already
    // assigned one, its DELETE answers 422.
    if instance.is_shut() {
        return GateDecision::Passed(Box::new(instance.clone()));
    }
    // Until its agent reports, its first job may arrive at any moment. After that, two reads are
    // conclusive: a job that GitHub assigns makes its hook call us, or its runner busy, before the
    // second read.
    let deadline = instance.launched_at() + policy.timings.boot_deadline_seconds;
    if instance.runner.state < RunnerState::Idle && now < deadline {
        return waiting(instance, Waiting::SecondRead, deadline);
    }
    if let Some(asked) = instance.runner.asking_since
        && now < asked + policy.timings.register_lease_seconds
    {
        let until = asked + policy.timings.register_lease_seconds;
        return waiting(instance, Waiting::Registering, until);
    }
    if instance.runner.is_without_configuration() {
        return GateDecision::Passed(Box::new(instance.clone()));
    }
    match &seen.runner {
        Look::Unknown => GateDecision::Look(Need::Runner),
        Look::Failed(trouble) => trouble_wait(instance, trouble, policy, now),
        Look::Seen(RunnerSeen::Busy(_)) => {
            GateDecision::Busy("GitHub reports that the runner is busy")
        }
        Look::Seen(
            quiet @ (RunnerSeen::Absent | RunnerSeen::NotBusy(_) | RunnerSeen::Offline(_)),
        ) => not_busy(instance, *quiet, policy, now),
    }
}

/// Handles a "not busy" read. The second one, far enough from the first, passes.
fn not_busy(instance: &Instance, seen: RunnerSeen, policy: &Policy<'_>, now: Time) -> GateDecision {
    let mut next = instance.clone();
    learn_registration(&mut next, seen, now);
    if next.runner.is_without_configuration() {
        return GateDecision::Passed(Box::new(next));
    }
    let apart = policy.timings.busy_reads_apart_seconds;
    match instance.mark().and_then(|mark| mark.not_busy_since) {
        Some(first) if now >= first + apart => GateDecision::Passed(Box::new(next)),
        Some(first) => waiting(&next, Waiting::SecondRead, first + apart),
        None => {
            next.update_mark(|mark| {
                mark.not_busy_since = Some(now);
                mark.silences = 0;
            });
            waiting(&next, Waiting::SecondRead, now + apart)
        }
    }
}

/// Records the registration that a configuration request with a lost response left behind; it can
/// be found only by its name.
pub(super) fn learn_registration(next: &mut Instance, seen: RunnerSeen, now: Time) {
    if next.runner.id.is_some() || next.runner.n == 0 {
        return;
    }
    match seen {
        RunnerSeen::NotBusy(id) | RunnerSeen::Offline(id) | RunnerSeen::Busy(id) => {
            next.configured(id, now);
        }
        RunnerSeen::Absent if next.runner.asking_since.is_some() => next.not_configured(now),
        RunnerSeen::Absent => {}
    }
}

fn waiting(instance: &Instance, why: Waiting, until: Time) -> GateDecision {
    let mut next = instance.clone();
    if next.mark().is_some_and(|mark| mark.waiting.as_ref() != Some(&why)) {
        next.update_mark(|mark| mark.waiting = Some(why));
    }
    GateDecision::Wait(Box::new(next), until)
}

/// Schedules a retry after GitHub did not answer: a missing answer never counts as absence.
pub(super) fn trouble_wait(
    instance: &Instance,
    trouble: &ProviderError,
    policy: &Policy<'_>,
    now: Time,
) -> GateDecision {
    let mut next = instance.clone();
    let (why, until) = match trouble {
        ProviderError::RateLimited(until) => {
            // A reset time in the past or far in the future must not cause a busy loop or a halt.
            let cap = now + policy.timings.retry_cap_seconds + policy.timings.retry_cap_seconds;
            (Waiting::RateLimited, (*until).clamp(now + policy.timings.retry_step_seconds, cap))
        }
        ProviderError::Unauthorized(fault) => {
            next.last_error = Some(fault.clone());
            (Waiting::Unauthorized, now + policy.timings.unauthorized_retry_seconds)
        }
        ProviderError::Unavailable(fault) => {
            next.last_error = Some(fault.clone());
            let silences = instance.mark().map_or(0, |mark| mark.silences) + 1;
            next.update_mark(|mark| mark.silences = silences);
            let wait = backoff::delete_wait(silences, policy.timings);
            (Waiting::GithubUnavailable, now + wait)
        }
    };
    waiting(&next, why, until)
}
