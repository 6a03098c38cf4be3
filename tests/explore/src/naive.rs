//! Rules as a first version has them, or as a peer had them when it hurt. Each replaces one of the
//! real ones; nothing in the `domain` crate changes. The exploration must catch every one.

use muster_domain::instance::{Instance, Order, ReportError, Start, StartReport, State};
use muster_domain::lifecycle::{self, Effect, Policy, Step};
use muster_domain::observation::{Look, Machine, Observation, RunnerSeen, Termination};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

use crate::rules::Rules;

/// "Nobody else writes this record."
#[must_use]
pub fn writes_are_blind() -> Rules {
    Rules { versions_are_checked: false, ..Rules::real() }
}

/// "A job that has been given may start": the hook only reports.
#[must_use]
pub fn hook_is_not_asked() -> Rules {
    fn job_started(
        row: &mut Instance,
        name: &str,
        report: StartReport,
        now: Time,
    ) -> Result<Start, ReportError> {
        match row.job_started(name, report, now) {
            Ok(_) | Err(ReportError::Draining) => Ok(Start::Accepted),
            other => other,
        }
    }
    Rules { job_started, ..Rules::real() }
}

/// "GitHub has been asked, so it is decided": a job that GitHub keeps a runner for fails (422).
#[must_use]
pub fn asked_is_removed() -> Rules {
    fn job_started(
        row: &mut Instance,
        name: &str,
        report: StartReport,
        now: Time,
    ) -> Result<Start, ReportError> {
        match row.job_started(name, report, now) {
            Ok(Start::Undecided) => Err(ReportError::Draining),
            other => other,
        }
    }
    Rules { job_started, ..Rules::real() }
}

/// "It has been ordered already": a later order, with force, changes nothing.
#[must_use]
pub fn first_order_stands() -> Rules {
    fn order(row: &mut Instance, order: &Order, now: Time) {
        if row.order().is_none() {
            row.order_delete(order, now);
        }
    }
    Rules { order, ..Rules::real() }
}

/// "EC2 does not know the machine, so it is gone."
#[must_use]
pub fn absent_is_gone() -> Rules {
    decide(|row, seen, policy, now| {
        let mut seen = seen.clone();
        if seen.machine == Look::Seen(Machine::Absent) {
            seen.machine = Look::Seen(Machine::Gone);
        }
        lifecycle::decide(row, &seen, policy, now)
    })
}

/// "Terminate failed because the machine is gone already."
#[must_use]
pub fn failed_terminate_is_success() -> Rules {
    decide(|row, seen, policy, now| {
        let mut seen = seen.clone();
        if seen.termination.is_some() {
            seen.termination = Some(Termination::Accepted(Machine::Gone));
        }
        lifecycle::decide(row, &seen, policy, now)
    })
}

/// "GitHub says not busy, so it is not": the hook's report is not looked at.
#[must_use]
pub fn github_alone_is_asked() -> Rules {
    decide(|row, seen, policy, now| {
        let mut blind = row.clone();
        blind.runner.started = None;
        blind.runner.github_job = None;
        as_was(row, &blind, lifecycle::decide(&blind, seen, policy, now))
    })
}

/// "No answer from GitHub: then there is no runner."
#[must_use]
pub fn silence_is_absence() -> Rules {
    decide(|row, seen, policy, now| {
        let mut seen = seen.clone();
        if matches!(seen.runner, Look::Failed(_)) {
            seen.runner = Look::Seen(RunnerSeen::Absent);
        }
        if matches!(seen.deregistration, Look::Failed(_)) {
            seen.deregistration = Look::Seen(muster_domain::observation::Deregistration::NotFound);
        }
        lifecycle::decide(row, &seen, policy, now)
    })
}

/// "Terminate is asked once": a pass that was stopped in between is not made good.
#[must_use]
pub fn terminate_is_asked_once() -> Rules {
    decide(|row, seen, policy, now| {
        let step = lifecycle::decide(row, seen, policy, now);
        let again = row.state() == State::Deleting
            && matches!(&step, Step::Act { next, .. } if next.state() == State::Deleting);
        if again { Step::Rest(Box::new(row.clone())) } else { step }
    })
}

/// "GitHub's answer comes at once": the record does not say that it is asked to remove the
/// registration.
#[must_use]
pub fn removal_is_not_on_record() -> Rules {
    decide(|row, seen, policy, now| {
        let mut step = lifecycle::decide(row, seen, policy, now);
        if let Step::Act { next, effect: Some(Effect::Deregister(_)), .. } = &mut step {
            next.update_drain(|drain| drain.removing_until = None);
        }
        step
    })
}

/// "Whoever forces knows why": nothing is written down.
#[must_use]
pub fn nothing_is_audited() -> Rules {
    decide(|row, seen, policy, now| {
        let mut step = lifecycle::decide(row, seen, policy, now);
        if let Step::Act { records, .. } = &mut step {
            records.retain(|record| matches!(record, lifecycle::Record::Orphan(_)));
        }
        step
    })
}

/// "A forced delete waits for EC2 like any other."
#[must_use]
pub fn force_never_gives_up() -> Rules {
    decide(|row, seen, policy, now| {
        let mut fresh = row.clone();
        fresh.attempts = 0;
        let timings =
            Timings { force_give_up_seconds: Seconds(1_000_000), ..policy.timings.clone() };
        let patient = Policy { timings: &timings, ..policy.clone() };
        as_was(row, &fresh, lifecycle::decide(&fresh, seen, &patient, now))
    })
}

/// "A row that rests needs no time": it waits for a message.
#[must_use]
pub fn waits_for_messages() -> Rules {
    decide(|row, seen, policy, now| {
        let far = now + Seconds(1_000_000);
        match lifecycle::decide(row, seen, policy, now) {
            Step::Rest(mut next) if row.drain().is_some() && next.state() != State::Deleted => {
                next.set_due(far);
                Step::Rest(next)
            }
            step => step,
        }
    })
}

/// "A job that is over leaves an idle machine": GitHub's `completed` ends the machine at once.
#[must_use]
pub fn completed_is_the_end() -> Rules {
    decide(|row, seen, policy, now| {
        let mut over = row.clone();
        if row.runner.github_completed_at.is_some()
            && now < row.launched_at() + policy.max_lifetime
            && let Some(job) = &mut over.runner.started
        {
            job.completed_at = Some(now);
        }
        as_was(row, &over, lifecycle::decide(&over, seen, policy, now))
    })
}

/// A step that changes nothing leaves the row as it is, not as the naive rule saw it.
fn as_was(row: &Instance, seen_as: &Instance, step: Step) -> Step {
    let same = |next: &Instance| next == seen_as;
    match step {
        Step::Rest(next) if same(&next) => Step::Rest(Box::new(row.clone())),
        Step::Act { next, records, effect } if same(&next) => {
            Step::Act { next: Box::new(row.clone()), records, effect }
        }
        step => step,
    }
}

fn decide(decide: fn(&Instance, &Observation, &Policy<'_>, Time) -> Step) -> Rules {
    Rules { decide, ..Rules::real() }
}
