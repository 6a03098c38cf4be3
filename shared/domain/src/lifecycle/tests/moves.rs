//! Every transition in the table has a public call that makes it, and no public call makes any
//! other.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ec2::ErrorClass;
use crate::instance::{DeleteReason, Instance, State, StopCause, TRANSITIONS};
use crate::testkit::{
    CLAIMED, RUNNER, Story, With, active, at, booting, creating, error, fault, forced, idle,
    last_attempt, machine, plain, refusal, report, retrying, start, timings,
};

type Call = (&'static str, fn(&mut Instance));

/// The calls with a fixed target state: they panic if the table has no such transition, or if it is
/// not theirs.
const MOVES: [Call; 6] = [
    ("relaunch", |i| i.relaunch(i.launch.clone(), at(900), &timings())),
    ("to_pending_delete", |i| i.to_pending_delete(DeleteReason::Idle, at(900))),
    ("to_deleting", |i| i.to_deleting(at(900), "safe", &timings())),
    ("terminate_failed", |i| i.terminate_failed(fault("Throttled"), at(900), &timings())),
    ("back_to_stop", |i| i.back_to_stop(at(900))),
    ("to_deleted", |i| i.to_deleted(at(900), "gone")),
];

/// The calls that are valid at any time: they leave the state unchanged if there is no transition
/// to make.
const REPORTS: [Call; 23] = [
    ("launch_failed", |i| i.launch_failed(&refusal(ErrorClass::Capacity), at(900), &timings())),
    ("order_delete", |i| i.order_delete(&plain(900), at(900))),
    ("order_delete, forced", |i| i.order_delete(&forced(900), at(900))),
    ("mark", |i| i.set_mark(DeleteReason::Idle, at(900))),
    ("unmark", |i| i.clear_mark(at(900), "busy")),
    ("update_mark", |i| i.update_mark(|mark| mark.gate_passed = true)),
    ("spot_notice", |i| i.spot_notice(at(900))),
    ("seen_busy", |i| i.seen_busy(at(900), "busy")),
    ("ask_configuration", |i| _ = i.ask_configuration(at(900))),
    ("configured", |i| i.configured(RUNNER, at(900))),
    ("not_configured", |i| i.not_configured(at(900))),
    ("runner_started", |i| _ = i.runner_started(&i.runner_name(), at(900), &timings())),
    ("job_started", |i| _ = start(i, report(), at(900))),
    ("job_completed", |i| _ = i.job_completed(&i.runner_name(), at(900), &timings())),
    ("runner_ended", |i| i.runner_ended(Some(0), None, at(900), &timings())),
    ("runner_stopped", |i| i.runner_stopped(StopCause::Interruption, 0, at(900), &timings())),
    ("interrupted", |i| _ = i.interrupted(&i.runner_name(), at(900))),
    ("github_started", |i| _ = i.github_started(CLAIMED, at(900))),
    ("github_completed", |i| _ = i.github_completed(CLAIMED, false, at(900), &timings())),
    ("set_claim", |i| i.set_claim(CLAIMED, at(900))),
    ("clear_claim", |i| i.clear_claim(at(900), "cancelled")),
    ("set_due", |i| i.set_due(at(900))),
    ("set_wake", |i| i.set_wake(Some(7))),
];

/// At least one record in every state, and both kinds of delete.
fn records() -> Vec<Instance> {
    let stopping = || idle().ordered(plain(700));
    let forced = || idle().ordered(forced(700));
    vec![
        retrying(),
        creating(),
        last_attempt(),
        creating().ordered(plain(60)),
        booting(),
        idle(),
        active(),
        error(),
        stopping(),
        forced(),
        stopping().deleting(800),
        forced().deleting(800),
        stopping().deleting(800).with(|i| i.to_deleted(at(850), "gone")),
    ]
}

/// Returns the state after a call. `None` if it panics.
fn after(record: &Instance, call: fn(&mut Instance)) -> Option<State> {
    let mut next = record.clone();
    let quiet = AssertUnwindSafe(|| call(&mut next));
    catch_unwind(quiet).is_ok().then(|| next.state())
}

fn bind(instance: &mut Instance) {
    instance.bind(machine(9), at(900), &timings());
}

#[test]
fn the_calls_make_the_moves_of_the_table_and_no_other() {
    let calls = MOVES.iter().chain(&REPORTS).map(|(_, call)| *call);
    let calls: Vec<fn(&mut Instance)> = calls.chain([bind as fn(&mut Instance)]).collect();
    let mut made = BTreeSet::new();
    for record in records() {
        let from = record.state();
        made.extend(calls.iter().filter_map(|call| Some((from, after(&record, *call)?))));
    }
    made.retain(|(from, to)| from != to);
    let table: BTreeSet<(State, State)> =
        TRANSITIONS.iter().filter_map(|line| Some((line.from?, line.to))).collect();
    assert_eq!(made, table);
}

#[test]
fn nothing_is_terminated_that_is_not_on_its_way_out() {
    let into = |to: State| TRANSITIONS.iter().filter(move |line| line.to == to);
    let ways = [State::PendingDelete, State::PendingForceDelete];
    assert!(into(State::Deleting).all(|line| line.from.is_some_and(|from| ways.contains(&from))));
    assert!(into(State::Deleted).all(|line| line.from == Some(State::Deleting)));
}

#[test]
fn a_move_that_the_table_lacks_panics() {
    for record in records() {
        for (name, call) in MOVES {
            let leads_back = matches!(name, "terminate_failed" | "back_to_stop");
            let to = match name {
                "relaunch" => State::Creating,
                "to_pending_delete" => State::PendingDelete,
                "to_deleting" => State::Deleting,
                "terminate_failed" | "back_to_stop" if record.is_forced() => {
                    State::PendingForceDelete
                }
                "terminate_failed" | "back_to_stop" => State::PendingDelete,
                "to_deleted" => State::Deleted,
                other => panic!("where does {other} lead?"),
            };
            let is_its_own = !leads_back || record.state() == State::Deleting;
            let legal = is_its_own && record.state().may_become(to);
            let expected = legal.then_some(to);
            assert_eq!(after(&record, call), expected, "{name} in {}", record.state());
        }
    }
}

#[test]
fn a_report_never_panics() {
    for record in records() {
        for (name, call) in REPORTS {
            assert!(after(&record, call).is_some(), "{name} in {}", record.state());
        }
    }
}

#[test]
fn a_record_begins_in_pending_create() {
    let row = creating();
    let lines: Vec<&str> = row.events.iter().map(|event| &*event.what).collect();
    assert_eq!(lines, ["pending_create: planned for job 1/1", "creating: launch committed"]);
    assert!(TRANSITIONS.iter().any(|line| line.from.is_none() && line.to == State::PendingCreate));
}

#[test]
fn every_state_is_among_the_records() {
    let states: BTreeSet<State> = records().iter().map(Instance::state).collect();
    assert_eq!(states.len(), State::ALL.len());
}
