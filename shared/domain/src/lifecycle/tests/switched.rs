//! Deletes that an operator has paused.

use super::running::silent_console;
use super::{check, nothing, sees, sees_runner};
use crate::instance::{DeleteReason, Instance, Waiting};
use crate::observation::{Machine, Observation, RunnerSeen};
use crate::testkit::{
    LIFETIME, RUNNER, Story, With, active, at, booting, completed, exited, forced, idle,
    installing, plain, retrying,
};

fn off(seen: Observation) -> Observation {
    Observation { deletes_off: true, ..seen }
}

fn marked(reason: DeleteReason) -> Instance {
    idle().unclaimed().marked(reason, 900).due(1000).with(|i| {
        i.update_mark(|mark| mark.not_busy_since = Some(at(820)));
    })
}

#[test]
fn nothing_is_marked_and_a_mark_is_taken_back() {
    let quiet = || off(sees_runner(RunnerSeen::NotBusy(RUNNER)));
    let outdated = Observation { outdated: true, ..off(nothing()) };
    check(vec![
        ("no mark for idling", idle().unclaimed(), off(nothing()), 1000, "rest until 1060"),
        ("no mark for an old template", idle().unclaimed(), outdated, 200, "rest until 260"),
        ("no mark after a job", completed().unclaimed(), off(nothing()), 1000, "rest until 1060"),
        ("no lifetime ends anything", active(), off(nothing()), LIFETIME, "rest until 43260"),
        (
            "a mark is taken back: the runner may get a job again",
            marked(DeleteReason::Idle),
            quiet(),
            1000,
            "mark cleared",
        ),
        (
            "until then the runner idles on",
            idle().unclaimed().due(1060),
            off(nothing()),
            1000,
            "rest until 1060",
        ),
    ]);
}

#[test]
fn a_row_on_its_way_out_waits() {
    let held = "rest until 1060, waits SwitchedOff";
    let stopping = || idle().ordered(plain(1000)).through_gate();
    let waits = |instance: Instance| {
        instance.with(|i| i.update_mark(|mark| mark.waiting = Some(Waiting::SwitchedOff)))
    };
    let known = || waits(stopping());
    check(vec![
        ("nothing is deregistered", stopping(), off(nothing()), 1000, held),
        ("nothing is terminated", stopping().deregistered(), off(nothing()), 1000, held),
        ("again nothing", stopping().deregistered().deleting(800), off(nothing()), 1000, held),
        ("a minute later", known(), off(nothing()), 1000, "rest until 1060"),
        (
            "evidence is gathered all the same",
            completed().ordered(plain(1000)),
            off(nothing()),
            1000,
            "look at runner",
        ),
        ("switched on again", known(), nothing(), 1000, "removing until 1120, deregister"),
        (
            "switched on again while it was terminated",
            waits(stopping().deregistered().deleting(800)),
            nothing(),
            1000,
            "waits for nothing, due 1120, terminate",
        ),
    ]);
}

#[test]
fn force_passes_and_so_does_what_serves_no_job() {
    check(vec![
        (
            "force deregisters",
            idle().ordered(forced(1000)),
            off(nothing()),
            1000,
            "removing until 1120, deregister",
        ),
        (
            "force terminates",
            idle().ordered(forced(1000)).deregistered(),
            off(nothing()),
            1000,
            "to deleting, due 1120, terminate",
        ),
        (
            "what never asked for a configuration",
            booting(),
            off(silent_console()),
            1000,
            "to pending_delete, claim ended, marked boot_timeout, due 1000",
        ),
        (
            "what did not start in time: its job must not wait",
            installing(),
            off(silent_console()),
            600,
            "claim ended, marked boot_timeout",
        ),
        (
            "a runner that ended",
            exited(),
            off(sees(Machine::Running)),
            230,
            "to pending_delete, claim ended, marked runner_ended, due 230",
        ),
        (
            "a dead machine",
            active(),
            off(sees(Machine::Gone)),
            1000,
            "to deleted, claim ended, marked machine_gone, never due",
        ),
        (
            "a dead machine on its way out",
            idle().ordered(plain(1000)),
            off(sees(Machine::Gone)),
            1000,
            "to deleted, never due",
        ),
        (
            "a slot without a machine",
            retrying().unclaimed(),
            off(nothing()),
            11,
            "to pending_delete, marked not_needed, due 11",
        ),
    ]);
}
