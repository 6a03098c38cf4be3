//! The kill gate, on a marked instance: each condition alone blocks, and any evidence of a job
//! clears the mark.

use super::{check, nothing, sees_runner};
use crate::ids::RunnerId;
use crate::instance::{DeleteReason, Instance};
use crate::observation::{Look, Observation, RunnerSeen};
use crate::provider::ProviderError;
use crate::testkit::{
    CLAIMED, RUNNER, Story, With, active, asking, at, completed, idle, installing, timings,
    unauthorized, unavailable,
};

const NOT_BUSY: RunnerSeen = RunnerSeen::NotBusy(RUNNER);
const BUSY: RunnerSeen = RunnerSeen::Busy(RUNNER);

fn marked(instance: Instance) -> Instance {
    instance.unclaimed().marked(DeleteReason::Idle, 700).due(700)
}

/// The first of two reads was at 700.
fn read_once(instance: Instance) -> Instance {
    marked(instance).with(|i| {
        i.update_mark(|mark| mark.not_busy_since = Some(at(700)));
        i.set_due(at(880));
    })
}

fn no_answer(trouble: ProviderError) -> Observation {
    Observation { runner: Look::Failed(trouble), ..nothing() }
}

#[test]
fn two_reads_far_enough_apart_pass() {
    let first = "rest until 880, not busy since 700, waits SecondRead";
    let passed = "to pending_delete, gate passed";
    check(vec![
        ("not its time yet", marked(idle()), nothing(), 699, "rest until 700"),
        ("GitHub is asked", marked(idle()), nothing(), 700, "look at runner"),
        ("the first read", marked(idle()), sees_runner(NOT_BUSY), 700, first),
        (
            "an agent that has reported boots no more",
            idle().unclaimed().marked(DeleteReason::Idle, 300).due(300),
            sees_runner(NOT_BUSY),
            300,
            "rest until 480, not busy since 300, waits SecondRead",
        ),
        (
            "absence is a read like any other",
            marked(idle()),
            sees_runner(RunnerSeen::Absent),
            700,
            first,
        ),
        (
            "too soon",
            read_once(idle()).due(800),
            sees_runner(NOT_BUSY),
            879,
            "rest until 880, waits SecondRead",
        ),
        ("the second read", read_once(idle()), sees_runner(NOT_BUSY), 880, passed),
        (
            "the second read, absent",
            read_once(idle()),
            sees_runner(RunnerSeen::Absent),
            880,
            passed,
        ),
        (
            "an agent that never reported",
            marked(installing()),
            sees_runner(NOT_BUSY),
            700,
            "rest until 880, not busy since 700, waits SecondRead",
        ),
    ]);
}

/// All conditions but one are met. `two_reads_far_enough_apart_pass` shows that without that one,
/// the gate is passed.
#[test]
fn each_condition_alone_blocks() {
    let taken = || read_once(idle()).with(|i| assert!(i.github_started(CLAIMED, at(750))));
    let by_hook = || {
        idle().with(|i| {
            let start = crate::testkit::start(i, crate::testkit::report(), at(690));
            assert_eq!(start, Ok(crate::instance::Start::Accepted));
        })
    };
    let calls_again = || {
        read_once(installing()).with(|i| {
            i.runner.id = None;
            i.runner.asking_since = Some(at(850));
        })
    };
    let cleared = "rest until 940, runner active, mark cleared";
    let cleared_active = "rest until 940, mark cleared";
    check(vec![
        (
            "before its boot deadline, and its agent not heard of",
            installing().unclaimed().marked(DeleteReason::Idle, 300).due(300),
            sees_runner(NOT_BUSY),
            599,
            "rest until 600, waits SecondRead",
        ),
        ("a start by its hook", read_once(by_hook()), sees_runner(NOT_BUSY), 880, cleared_active),
        ("a start by GitHub's event", taken(), sees_runner(NOT_BUSY), 880, cleared_active),
        ("a busy read", read_once(idle()), sees_runner(BUSY), 880, cleared),
        ("a busy first read", marked(idle()), sees_runner(BUSY), 880, cleared),
        (
            "a configuration call in flight",
            calls_again().due(880),
            sees_runner(NOT_BUSY),
            880,
            "rest until 910, waits Registering",
        ),
        (
            "a single read",
            marked(idle()),
            sees_runner(NOT_BUSY),
            880,
            "rest until 1060, not busy since 880, waits SecondRead",
        ),
        ("no read", read_once(idle()), nothing(), 880, "look at runner"),
    ]);
}

#[test]
fn a_job_that_ended_does_not_block() {
    let over = || completed().marked(DeleteReason::JobCompleted, 700).due(700);
    let by_github = || {
        active().with(|i| {
            assert!(i.github_started(CLAIMED, at(51)));
            let name = i.runner_name();
            assert_eq!(i.job_completed(&name, at(100), &timings()), Ok(()));
            assert!(i.github_completed(CLAIMED, false, at(101), &timings()));
        })
    };
    check(vec![
        ("by the hook", over(), nothing(), 700, "look at runner"),
        (
            "by hook and GitHub",
            by_github().marked(DeleteReason::JobCompleted, 700).due(700),
            nothing(),
            700,
            "look at runner",
        ),
    ]);
}

#[test]
fn a_marked_row_lets_its_job_go_first() {
    let claims = || idle().marked(DeleteReason::Ordered, 700).due(700);
    check(vec![("its job would be refused", claims(), nothing(), 700, "claim ended, wake pool")]);
}

#[test]
fn silence_is_no_read() {
    let silent = |n| marked(idle()).with(|i| i.update_mark(|mark| mark.silences = n));
    check(vec![
        (
            "401",
            marked(idle()),
            no_answer(unauthorized()),
            700,
            "rest until 1000, error 401, waits Unauthorized",
        ),
        (
            "502",
            marked(idle()),
            no_answer(unavailable()),
            700,
            "rest until 701, error 502, silences 1, waits GithubUnavailable",
        ),
        (
            "502 for the fourth time",
            silent(3),
            no_answer(unavailable()),
            700,
            "rest until 708, error 502, silences 4, waits GithubUnavailable",
        ),
        (
            "502 for ever",
            silent(30),
            no_answer(unavailable()),
            700,
            "rest until 1000, error 502, silences 31, waits GithubUnavailable",
        ),
        (
            "rate limit",
            marked(idle()),
            no_answer(ProviderError::RateLimited(at(1200))),
            700,
            "rest until 1200, waits RateLimited",
        ),
        (
            "a limit that has ended is no loop",
            marked(idle()),
            no_answer(ProviderError::RateLimited(at(600))),
            700,
            "rest until 701, waits RateLimited",
        ),
        (
            "a limit that never ends is no halt",
            marked(idle()),
            no_answer(ProviderError::RateLimited(at(99_999))),
            700,
            "rest until 1300, waits RateLimited",
        ),
        (
            "an answer ends the row of silences",
            silent(3),
            sees_runner(NOT_BUSY),
            700,
            "rest until 880, not busy since 700, silences 0, waits SecondRead",
        ),
    ]);
}

#[test]
fn a_lost_configuration_call_is_looked_up_by_name() {
    let asked = || marked(asking());
    let found = RunnerSeen::NotBusy(RunnerId(901));
    let nameless = || asked().with(|i| i.not_configured(at(700)));
    check(vec![
        ("GitHub is asked", asked(), nothing(), 700, "look at runner"),
        (
            "it got through",
            asked(),
            sees_runner(found),
            700,
            "rest until 880, runner installing, registration 901, call settled, \
             not busy since 700, waits SecondRead",
        ),
        (
            "it never happened: no job can reach the machine",
            asked(),
            sees_runner(RunnerSeen::Absent),
            700,
            "to pending_delete, call settled, gate passed",
        ),
        (
            "known not to have happened",
            nameless(),
            nothing(),
            700,
            "to pending_delete, gate passed",
        ),
        (
            "within its lease",
            asked().with(|i| i.runner.asking_since = Some(at(650))),
            nothing(),
            700,
            "rest until 710, waits Registering",
        ),
    ]);
}
