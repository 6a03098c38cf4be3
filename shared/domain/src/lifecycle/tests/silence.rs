//! A job that GitHub reports as ended while its machine reports no end.

use super::{answers, check, nothing, sees, sees_runner};
use crate::instance::{DeleteReason, Instance};
use crate::observation::{Deregistration, Machine, RunnerSeen};
use crate::testkit::{CLAIMED, RUNNER, Story, With, active, at, forced, plain, timings};

/// Its hook reported a start at 50, and GitHub reported the end at 200.
fn over() -> Instance {
    active().with(|i| assert!(i.github_completed(CLAIMED, false, at(200), &timings())))
}

fn written_off() -> Instance {
    over().with(|i| i.write_job_off(at(3800)))
}

#[test]
fn githubs_word_for_a_jobs_end_counts_after_an_hour_of_silence() {
    let late = || {
        active().with(|i| {
            assert!(i.github_completed(CLAIMED, false, at(20), &timings()));
        })
    };
    let told = || {
        over().with(|i| {
            let name = i.runner_name();
            i.job_completed(&name, at(3700), &timings()).expect("its own name");
        })
    };
    let off = "job written off, audit JobWrittenOff by muster";
    check(vec![
        ("GitHub alone", over().unclaimed(), nothing(), 3799, "rest until 3800"),
        ("for an hour", over().unclaimed(), nothing(), 3800, off),
        ("not before the start is as old", late().unclaimed(), nothing(), 3649, "rest until 3650"),
        ("the start is as old", late().unclaimed(), nothing(), 3650, off),
        ("the hook's end came", told().unclaimed(), nothing(), 3800, "rest until 4000"),
        ("GitHub has not said it", active().unclaimed(), nothing(), 9000, "rest until 43200"),
    ]);
}

#[test]
fn a_job_that_is_written_off_leaves_its_machine_to_the_kill_gate() {
    let gate = || written_off().marked(DeleteReason::JobCompleted, 3800).due(3800);
    let quiet = sees_runner(RunnerSeen::NotBusy(RUNNER));
    let again = || written_off().with(|i| i.seen_busy(at(3860), "GitHub says so"));
    check(vec![
        ("is marked", written_off(), nothing(), 3800, "marked job_completed, due 3800"),
        ("GitHub is asked", gate().unclaimed(), nothing(), 3800, "look at runner"),
        (
            "not busy once",
            gate().unclaimed(),
            quiet,
            3800,
            "rest until 3980, not busy since 3800, waits SecondRead",
        ),
        (
            "busy: nothing ends",
            gate().unclaimed(),
            sees_runner(RunnerSeen::Busy(RUNNER)),
            3800,
            "rest until 3860, mark cleared",
        ),
        ("and it is asked again", again(), nothing(), 4160, "marked job_completed, due 4160"),
    ]);
}

#[test]
fn a_delete_that_waits_for_the_job_takes_githubs_word_as_well() {
    let ordered = || over().with(|i| i.order_delete(&plain(300), at(300))).due(3800);
    let by_force = || over().with(|i| i.order_delete(&forced(300), at(300))).due(3800);
    let off = "job written off, audit JobWrittenOff by muster";
    let passed = || {
        ordered().with(|i| {
            i.write_job_off(at(3800));
            i.update_mark(|mark| mark.gate_passed = true);
        })
    };
    check(vec![
        ("plain", ordered(), sees(Machine::Running), 3800, off),
        ("forced", by_force(), sees(Machine::Running), 3800, off),
        (
            "GitHub keeps a busy runner",
            passed(),
            answers(Deregistration::Busy),
            3800,
            "rest until 3860, gate shut, waits Busy",
        ),
    ]);
}
