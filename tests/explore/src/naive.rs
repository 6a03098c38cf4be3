//! Rules as a first version has them, or as a peer had them when it hurt. Each shows in what the
//! real passes read, write or hear; nothing in `domain` or `control` changes. The exploration must
//! catch every one.

use muster_control::ports::Write;
use muster_domain::instance::{Instance, ReportError, Start, StartReport, State};
use muster_domain::observation::{Deregistration, Machine, RunnerSeen, Termination};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

use crate::passes::Answer;
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
    writes(|row, mut writes| {
        let is_ordered_again = |write: &Write| match write {
            Write::Instance(change) => row.order().is_some() && row.order() != change.order(),
            _ => false,
        };
        writes.retain(|write| !is_ordered_again(write));
        Some(writes)
    })
}

/// "EC2 does not know the machine, so it is gone."
#[must_use]
pub fn absent_is_gone() -> Rules {
    hears(|answer| match answer {
        Answer::Machine(Ok(seen)) if seen.state == Machine::Absent => {
            Answer::Machine(Ok(Machine::Gone.into()))
        }
        other => other,
    })
}

/// "Terminate failed because the machine is gone already."
#[must_use]
pub fn failed_terminate_is_success() -> Rules {
    hears(|answer| match answer {
        Answer::Terminated(_) => Answer::Terminated(Termination::Accepted(Machine::Gone)),
        other => other,
    })
}

/// "GitHub says not busy, so it is not": the hook's report is not looked at.
#[must_use]
pub fn github_alone_is_asked() -> Rules {
    let reads = |row: &Instance, _| {
        let mut blind = row.clone();
        blind.runner.started = None;
        blind.runner.github_job = None;
        Some(blind)
    };
    let writes = |row: &Instance, writes| {
        Some(rewritten(writes, |next| {
            next.runner.started.clone_from(&row.runner.started);
            next.runner.github_job = row.runner.github_job;
        }))
    };
    Rules { reads, writes, ..Rules::real() }
}

/// "No answer from GitHub: then there is no runner."
#[must_use]
pub fn silence_is_absence() -> Rules {
    hears(|answer| match answer {
        Answer::Runner(Err(_)) => Answer::Runner(Ok(RunnerSeen::Absent)),
        Answer::Deregistered(Err(_)) => Answer::Deregistered(Ok(Deregistration::NotFound)),
        other => other,
    })
}

/// "Terminate is asked once": nobody comes back to a row that is being deleted.
#[must_use]
pub fn terminate_is_asked_once() -> Rules {
    writes(|row, writes| {
        let again = row.state() == State::Deleting
            && writes.iter().any(|write| {
                matches!(write, Write::Instance(change) if change.state() == State::Deleting)
            });
        (!again).then_some(writes)
    })
}

/// "GitHub's answer comes at once": the record does not say that it is asked to remove the
/// registration.
#[must_use]
pub fn removal_is_not_on_record() -> Rules {
    writes(|_, writes| {
        Some(rewritten(writes, |next| next.update_drain(|drain| drain.removing_until = None)))
    })
}

/// "Whoever forces knows why": nothing is written down.
#[must_use]
pub fn nothing_is_audited() -> Rules {
    writes(|_, mut writes| {
        writes.retain(|write| !matches!(write, Write::Audit(_)));
        Some(writes)
    })
}

/// "A forced delete waits for EC2 like any other."
#[must_use]
pub fn force_never_gives_up() -> Rules {
    let timings = |timings| Timings { force_give_up_seconds: Seconds(1_000_000), ..timings };
    let reads = |row: &Instance, _| {
        let mut fresh = row.clone();
        fresh.attempts = 0;
        Some(fresh)
    };
    Rules { timings, reads, ..Rules::real() }
}

/// "A row that rests needs no time": it waits for a message.
#[must_use]
pub fn waits_for_messages() -> Rules {
    writes(|_, writes| {
        Some(rewritten(writes, |next| {
            if next.drain().is_some()
                && let (true, Some(due)) = (next.state().is_live(), next.due_at())
            {
                next.set_due(due + Seconds(1_000_000));
            }
        }))
    })
}

/// "A job that is over leaves an idle machine": GitHub's `completed` ends the machine at once.
#[must_use]
pub fn completed_is_the_end() -> Rules {
    let reads = |row: &Instance, now| {
        let mut over = row.clone();
        row.runner.github_completed_at?;
        over.runner.started.as_mut()?.completed_at = Some(now);
        Some(over)
    };
    let writes = |row: &Instance, writes| {
        Some(rewritten(writes, |next| next.runner.started.clone_from(&row.runner.started)))
    };
    Rules { reads, writes, ..Rules::real() }
}

/// These writes with the instance changed.
fn rewritten(writes: Vec<Write>, change: impl Fn(&mut Instance)) -> Vec<Write> {
    let rewritten = |write| match write {
        Write::Instance(old) => {
            let mut next = old.next().clone();
            change(&mut next);
            let replaced = old.replaces().expect("a row that was there");
            Stored::read(old.next().clone(), replaced).change(next).into()
        }
        other => other,
    };
    writes.into_iter().map(rewritten).collect()
}

fn hears(hears: fn(Answer) -> Answer) -> Rules {
    Rules { hears, ..Rules::real() }
}

fn writes(writes: fn(&Instance, Vec<Write>) -> Option<Vec<Write>>) -> Rules {
    Rules { writes, ..Rules::real() }
}
