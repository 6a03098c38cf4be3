//! `decide`, row by row: a record, observations and the second produce a step, described in a few
//! words.

mod deleting;
mod force;
mod gate;
mod limits;
mod moves;
mod passes;
mod pasts;
mod put_off;
mod running;
mod silence;
mod spot;
mod starting;
mod stop;
mod switched;
mod waits;
mod worlds;

use super::{Effect, Need, Record, Step, decide};
use crate::instance::{Instance, Runner};
use crate::launch::LaunchState;
use crate::observation::{Deregistration, Look, Machine, Observation, RunnerSeen, Termination};
use crate::testkit::{Story, at, idle, policy, second, timings};

/// Name, record, observations, second, and the step as text.
pub(super) type Row = (&'static str, Instance, Observation, u32, &'static str);

/// Reports all rows that differ, not only the first.
pub(super) fn check(rows: Vec<Row>) {
    let timings = timings();
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|(name, instance, seen, now, expected)| {
            let got = told(instance, &decide(instance, seen, &policy(&timings), at(*now)));
            (got != *expected).then(|| format!("{name}\n  expected {expected}\n  got      {got}"))
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Describes a step: everything that it changes, and no more.
pub(super) fn told(before: &Instance, step: &Step) -> String {
    match step {
        Step::Look(Need::Machine) => "look at machine".to_owned(),
        Step::Look(Need::Console) => "look at console".to_owned(),
        Step::Look(Need::Runner) => "look at runner".to_owned(),
        Step::Look(Need::Launch) => "look at launch".to_owned(),
        Step::Look(Need::ClaimedJob) => "look at claimed job".to_owned(),
        Step::Look(Need::Surplus) => "ask whether it is surplus".to_owned(),
        Step::Done => "done".to_owned(),
        Step::Rest(next) => {
            let due = next.due_at().map_or("no time".to_owned(), |due| second(due).to_string());
            [vec![format!("rest until {due}")], changes(before, next)].concat().join(", ")
        }
        Step::Act { next, records, effect } => {
            let mut words = changes(before, next);
            if next.due_at() != before.due_at() {
                words.push(
                    next.due_at()
                        .map_or("never due".to_owned(), |due| format!("due {}", second(due))),
                );
            }
            words.extend(effect.iter().map(|effect| effect_word(before, effect)));
            words.extend(records.iter().map(record_word));
            words.join(", ")
        }
    }
}

fn changes(before: &Instance, next: &Instance) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = |changed: bool, word: String| {
        if changed {
            words.push(word);
        }
    };
    word(before.state() != next.state(), format!("to {}", next.state()));
    word(before.claim() != next.claim(), "claim ended".to_owned());
    word(before.passed_over != next.passed_over, "passed over".to_owned());
    word(before.attempts != next.attempts, format!("attempts {}", next.attempts));
    let code = next.last_error.as_ref().map_or("", |fault| fault.code.as_str());
    word(before.last_error != next.last_error, format!("error {code}"));
    word(before.console != next.console, "console kept".to_owned());
    let ended = next.ended_at.map_or(0, second);
    word(before.ended_at != next.ended_at, format!("ended at {ended}"));
    word(before.make != next.make, "is known".to_owned());
    word(before.spot_notice_at != next.spot_notice_at, "spot notice".to_owned());
    let since = |instance: &Instance| instance.absence.map(|absence| absence.since);
    let denied = if next.absence.is_some() { "absent" } else { "known again" };
    word(since(before) != since(next), denied.to_owned());
    let (old, new) = (&before.runner, &next.runner);
    word(old.state != new.state, format!("runner {}", new.state.as_str()));
    word(old.id != new.id, format!("registration {}", new.id.map_or(0, |id| id.0)));
    word(old.asking_since.is_some() && new.asking_since.is_none(), "call settled".to_owned());
    let written_off = |one: &Runner| one.started.as_ref().and_then(|job| job.written_off_at);
    word(written_off(old) != written_off(new), "job written off".to_owned());
    words.extend(mark_changes(before, next));
    words
}

fn mark_changes(before: &Instance, next: &Instance) -> Vec<String> {
    let Some(new) = next.mark() else {
        return before.mark().map(|_| "mark cleared".to_owned()).into_iter().collect();
    };
    let mut words = Vec::new();
    let known = before.mark().filter(|old| old.reason == new.reason);
    if known.is_none() {
        words.push(format!("marked {}", new.reason.as_str()));
    }
    let unmarked = idle().marked(new.reason.clone(), 0);
    let old = known.or(unmarked.mark()).expect("just marked");
    if old.not_busy_since != new.not_busy_since {
        words.push(match new.not_busy_since {
            Some(since) => format!("not busy since {}", second(since)),
            None => "reads forgotten".to_owned(),
        });
    }
    if old.gate_passed != new.gate_passed {
        words.push(if new.gate_passed { "gate passed" } else { "gate shut" }.to_owned());
    }
    if old.removing_until != new.removing_until {
        words.push(match new.removing_until {
            Some(until) => format!("removing until {}", second(until)),
            None => "not removed".to_owned(),
        });
    }
    if old.deregistered != new.deregistered {
        words.push("deregistered".to_owned());
    }
    if old.kill_told != new.kill_told {
        words.push("kill told".to_owned());
    }
    if old.silences != new.silences {
        words.push(format!("silences {}", new.silences));
    }
    if old.waiting != new.waiting {
        words.push(match &new.waiting {
            Some(waiting) => format!("waits {waiting:?}"),
            None => "waits for nothing".to_owned(),
        });
    }
    words
}

fn effect_word(before: &Instance, effect: &Effect) -> String {
    match effect {
        Effect::WakePool => "wake pool".to_owned(),
        Effect::Deregister(id) => {
            assert_eq!(before.runner.id, Some(*id), "not its own registration");
            "deregister".to_owned()
        }
        Effect::Terminate(machine) => {
            assert_eq!(before.machine(), Some(machine), "not its own machine");
            "terminate".to_owned()
        }
    }
}

fn record_word(record: &Record) -> String {
    match record {
        Record::Audit(audit) => format!("audit {:?} by {}", audit.kind, audit.by),
        Record::Orphan(_) => "orphan".to_owned(),
    }
}

/// Nothing was checked.
pub(super) fn nothing() -> Observation {
    Observation::default()
}

/// The machine changed.
pub(super) fn hint() -> Observation {
    Observation { machine_hint: true, ..nothing() }
}

pub(super) fn sees(machine: Machine) -> Observation {
    Observation { machine: Look::Seen(machine), ..nothing() }
}

pub(super) fn sees_runner(runner: RunnerSeen) -> Observation {
    Observation { runner: Look::Seen(runner), ..nothing() }
}

pub(super) fn sees_launch(state: LaunchState, lease_until: u32) -> Observation {
    Observation { launch: Look::Seen(Some((state, at(lease_until)))), ..nothing() }
}

pub(super) fn job_waits(waits: bool) -> Observation {
    Observation { claimed_job_waits: Look::Seen(waits), ..nothing() }
}

/// GitHub's response to the DELETE.
pub(super) fn answers(answer: Deregistration) -> Observation {
    Observation { deregistration: Look::Seen(answer), ..nothing() }
}

/// EC2's response to TerminateInstances.
pub(super) fn ends(termination: Termination) -> Observation {
    Observation { termination: Some(termination), ..nothing() }
}
