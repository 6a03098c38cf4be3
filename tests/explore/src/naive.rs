//! Rules as a first version has them, or as a peer had them when it hurt. Each replaces one of the
//! real ones; nothing in the `domain` crate changes. The exploration must catch every one.

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::{InstanceName, MachineId};
use muster_domain::instance::{Instance, Order, ReportError, Start, StartReport, State};
use muster_domain::job::claim::{self, Started};
use muster_domain::job::{Job, JobEvent};
use muster_domain::launch::plan::{self, Answered, Outcome};
use muster_domain::launch::{Launch, LaunchError};
use muster_domain::lifecycle::{self, Effect, Policy, Step};
use muster_domain::observation::{Look, Machine, Observation, RunnerSeen, Termination};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

use crate::rules::{CanServe, Rules};

/// "The events come in order, so the last one is right."
#[must_use]
pub fn last_event_wins() -> Rules {
    fn fold(job: Option<Job>, event: JobEvent, now: Time) -> Job {
        let status = event.status;
        let mut next = muster_domain::job::fold(job, event, now);
        next.generation += u64::from(next.last_event.status != status);
        next.last_event.status = status;
        next
    }
    Rules { fold, ..Rules::real() }
}

/// "A stolen runner is paid back with the thief's": whoever the stolen one is by now.
#[must_use]
pub fn claims_are_swapped_blindly() -> Rules {
    fn settle(mut all: Started, _: CanServe<'_>, now: Time) -> Started {
        let thief = all.taker.name.clone();
        if all.taker.claim() != Some(all.job.key()) {
            all.taker.set_claim(all.job.key(), now);
        }
        claim::set_job_claim(&mut all.job, Some(thief));
        if let (Some(left), Some(spared)) = (&mut all.left, &mut all.spared) {
            spared.set_claim(left.key(), now);
            claim::set_job_claim(left, Some(spared.name.clone()));
        }
        all
    }
    Rules { settle_started: settle, ..Rules::real() }
}

/// "A lost machine is replaced when somebody notices": its job keeps its claim.
#[must_use]
pub fn claims_are_kept() -> Rules {
    fn release(_: &Job, _: &InstanceName) -> Option<Job> {
        None
    }
    Rules { release, ..Rules::real() }
}

/// "EC2 answered the replay, so that is all there is."
#[must_use]
pub fn replay_is_believed() -> Rules {
    Rules {
        apply: |launch, slots, answered, owned, now, timings| {
            let first = Launch { calls: 1, ..launch.clone() };
            plan::apply(&first, slots, answered, owned, now, timings)
        },
        ..Rules::real()
    }
}

/// "No answer means that nothing was launched."
#[must_use]
pub fn silence_is_failure() -> Rules {
    fn apply(
        launch: &Launch,
        slots: Vec<Instance>,
        answered: &Answered,
        owned: &dyn Fn(&MachineId) -> bool,
        now: Time,
        timings: &Timings,
    ) -> Outcome {
        let answer = answered.answer.clone();
        let answer = answer.map_err(|error| LaunchError { class: ErrorClass::Capacity, ..error });
        let answered = Answered { answer, ..answered.clone() };
        plan::apply(launch, slots, &answered, owned, now, timings)
    }
    Rules { apply, ..Rules::real() }
}

/// "EC2 names a machine once": nobody asks whether it has an owner.
#[must_use]
pub fn machines_are_bound_twice() -> Rules {
    Rules {
        apply: |launch, slots, answered, _, now, timings| {
            plan::apply(launch, slots, answered, |_| false, now, timings)
        },
        machines_are_unique: false,
        ..Rules::real()
    }
}

/// "Nobody else writes this record."
#[must_use]
pub fn writes_are_blind() -> Rules {
    Rules { generations_are_checked: false, ..Rules::real() }
}

/// "The plan has counted already."
#[must_use]
pub fn maximum_is_planned_only() -> Rules {
    Rules { counter_is_checked: false, ..Rules::real() }
}

/// "Launch first, then write down what came of it."
#[must_use]
pub fn launch_comes_first() -> Rules {
    Rules { intent_comes_first: false, ..Rules::real() }
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
        as_was(row, lifecycle::decide(&blind, seen, policy, now))
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
        as_was(row, lifecycle::decide(&fresh, seen, &patient, now))
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
        as_was(row, lifecycle::decide(&over, seen, policy, now))
    })
}

/// A step that changes nothing leaves the row as it is, not as the naive rule saw it.
fn as_was(row: &Instance, step: Step) -> Step {
    let same = |next: &Instance| next.generation() == row.generation();
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
