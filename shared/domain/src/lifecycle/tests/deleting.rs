//! The state `deleting`: leases, the sequence of waits, absence, and forced deletes that move to
//! the ledger.

use super::{check, ends, hint, nothing, sees, told};
use crate::audit::AuditKind;
use crate::ec2::ErrorClass;
use crate::instance::{DeleteOrder, Instance, State};
use crate::lifecycle::{Record, Step, decide};
use crate::observation::{Look, Machine, Observation, Termination};
use crate::testkit::{
    CLAIMED, LIFETIME, Story, With, absent, at, creating, fault, forced, idle, machine, plain,
    policy, timings, unavailable,
};

/// Terminated at 700 under a lease until 820.
fn deleting() -> Instance {
    idle().ordered(plain(700)).deregistered().deleting(700)
}

fn deleting_by_force() -> Instance {
    idle().ordered(forced(700)).deregistered().deleting(700)
}

fn failed() -> Termination {
    Termination::Failed(ErrorClass::Throttle, fault("RequestLimitExceeded"))
}

fn unknown() -> Termination {
    Termination::NotFound(fault("InvalidInstanceID.NotFound"))
}

fn then_sees(termination: Termination, machine: Machine) -> Observation {
    Observation { machine: Look::Seen(machine), ..ends(termination) }
}

#[test]
fn a_lease_covers_the_call_and_then_it_is_made_again() {
    let bare = creating().ordered(plain(60)).deleting(700);
    check(vec![
        ("leased", deleting(), nothing(), 819, "rest until 820"),
        ("lease over", deleting(), nothing(), 820, "due 940, terminate"),
        ("a hint is looked into", deleting(), hint(), 750, "look at machine"),
        ("and confirms the end", deleting(), sees(Machine::Gone), 750, "to deleted, never due"),
        ("no machine", bare, nothing(), 820, "to deleted, never due"),
    ]);
}

#[test]
fn a_job_that_became_known_too_late_is_waited_for_all_the_same() {
    let heard =
        |instance: Instance| instance.with(|i| assert!(i.github_started(CLAIMED, at(710)), "news"));
    let bypassed = || idle().ordered(forced(700)).deleting(700);
    let killing =
        idle().ordered(DeleteOrder { kill_running_job: true, ..forced(700) }).deleting(700);
    let again = "due 940, terminate";
    check(vec![
        ("under the lease", heard(bypassed()), nothing(), 819, "rest until 820"),
        ("lease over", heard(bypassed()), nothing(), 820, "to pending_force_delete"),
        (
            "plain",
            heard(idle().ordered(plain(700)).deleting(700)),
            nothing(),
            820,
            "to pending_delete",
        ),
        ("nothing can save it", heard(deleting()), nothing(), 820, again),
        ("ordered to kill", heard(killing), nothing(), 820, again),
        ("past its lifetime", heard(bypassed()), nothing(), LIFETIME, "due 43320, terminate"),
    ]);
}

#[test]
fn only_ec2s_word_confirms_the_end() {
    let end = "to deleted, never due";
    let accepted = Termination::Accepted;
    let known = || deleting().with(|i| i.absence = Some(absent(at(580))));
    let missed = Observation { machine: Look::Failed(unavailable()), ..ends(unknown()) };
    check(vec![
        ("shutting down", deleting(), ends(accepted(Machine::Gone)), 700, end),
        ("accepted, no more", deleting(), ends(accepted(Machine::Running)), 700, "look at machine"),
        (
            "accepted, then gone",
            deleting(),
            then_sees(accepted(Machine::Running), Machine::Gone),
            700,
            end,
        ),
        (
            "accepted, and it lives: the lease passes first",
            deleting(),
            then_sees(accepted(Machine::Running), Machine::Running),
            700,
            "rest until 820",
        ),
        ("not found: looked at", deleting(), ends(unknown()), 700, "look at machine"),
        (
            "not found, absent once",
            deleting(),
            then_sees(unknown(), Machine::Absent),
            700,
            "rest until 820, absent, waits Absent",
        ),
        ("not found, absent twice", known(), then_sees(unknown(), Machine::Absent), 700, end),
        (
            "not found, absent again too soon",
            known(),
            then_sees(unknown(), Machine::Absent),
            699,
            "rest until 700, waits Absent",
        ),
        (
            "not found, and it lives",
            deleting(),
            then_sees(unknown(), Machine::Running),
            700,
            "to pending_delete, attempts 1, error InvalidInstanceID.NotFound, waits Provider, due 701",
        ),
        (
            "not found, and nobody can look",
            deleting(),
            missed,
            700,
            "to pending_delete, attempts 1, error InvalidInstanceID.NotFound, waits Provider, due 701",
        ),
    ]);
}

/// The orphan ledger waits until an absence is certain. A forced delete does so only for ten minutes: in bad weather each
/// gap between two checks would begin the wait again.
#[test]
fn a_forced_delete_leaves_an_uncertain_absence_to_the_ledger() {
    let denied = || then_sees(unknown(), Machine::Absent);
    let stopping = |order| idle().ordered(order).deregistered().due(1300);
    let given_up = "to deleted, attempts 1, error InvalidInstanceID.NotFound, never due, orphan, audit GivenUp by ada";
    check(vec![
        ("plain", deleting(), denied(), 1300, "rest until 1420, absent, waits Absent"),
        ("young", deleting_by_force(), denied(), 1299, "rest until 1419, absent, waits Absent"),
        ("old", deleting_by_force(), denied(), 1300, given_up),
        (
            "no error of EC2's",
            deleting_by_force(),
            sees(Machine::Absent),
            1300,
            "rest until 1420, absent, waits Absent",
        ),
        (
            "before the call: plain",
            stopping(plain(700)),
            sees(Machine::Absent),
            1300,
            "rest until 1420, absent, waits Absent",
        ),
        (
            "before the call: young",
            stopping(forced(701)),
            sees(Machine::Absent),
            1300,
            "rest until 1420, absent, waits Absent",
        ),
        (
            "before the call: old",
            stopping(forced(700)),
            sees(Machine::Absent),
            1300,
            "to deleting, due 1420, terminate",
        ),
    ]);
}

/// GARM's sequence: 0, 1, 2, 4 … 300 seconds, then 300 forever.
#[test]
fn a_plain_delete_climbs_the_ladder_and_never_gives_up() {
    let timings = timings();
    let mut instance = deleting();
    let mut now = 700;
    let mut waits = Vec::new();
    for attempt in 1..=40 {
        let step = decide(&instance, &ends(failed()), &policy(&timings), at(now));
        let Step::Act { next, records, effect: None } = step else { panic!("attempt {attempt}") };
        assert_eq!((next.state(), next.attempts), (State::PendingDelete, attempt));
        assert!(records.is_empty(), "{records:?}");
        let due = next.due_at().expect("it is tried again");
        let wait = u32::try_from((due.as_millis() - at(now).as_millis()) / 1000).expect("later");
        waits.push(wait);
        let early = decide(&next, &nothing(), &policy(&timings), at(now + wait - 1));
        assert_eq!(told(&next, &early), format!("rest until {}", now + wait));
        now += wait;
        let again = decide(&next, &sees(Machine::Running), &policy(&timings), at(now));
        assert!(told(&next, &again).ends_with("terminate"), "{again:?}");
        instance = next.deleting(now);
    }
    assert_eq!(waits[..11], [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert!(waits[11..].iter().all(|wait| *wait == 300));
}

#[test]
fn a_forced_delete_tries_three_times_or_ten_minutes() {
    let tried = |n| deleting_by_force().with(|i| i.attempts = n);
    let retry =
        "to pending_force_delete, attempts 1, error RequestLimitExceeded, waits Provider, due 701";
    let again =
        "to pending_force_delete, attempts 2, error RequestLimitExceeded, waits Provider, due 701";
    check(vec![
        ("the first error", deleting_by_force(), ends(failed()), 700, retry),
        ("the second: no longer wait", tried(1), ends(failed()), 700, again),
        (
            "the third",
            tried(2),
            ends(failed()),
            700,
            "to deleted, attempts 3, error RequestLimitExceeded, never due, orphan, audit GivenUp by ada",
        ),
        (
            "the first, ten minutes after the order",
            deleting_by_force(),
            ends(failed()),
            1300,
            "to deleted, attempts 1, error RequestLimitExceeded, never due, orphan, audit GivenUp by ada",
        ),
        (
            "the first, a second earlier",
            deleting_by_force(),
            ends(failed()),
            1299,
            "to pending_force_delete, attempts 1, error RequestLimitExceeded, waits Provider, due 1300",
        ),
    ]);
}

#[test]
fn what_force_gives_up_is_on_record() {
    let timings = timings();
    let instance = deleting_by_force().with(|i| i.attempts = 2);
    let step = decide(&instance, &ends(failed()), &policy(&timings), at(700));
    let Step::Act { records, .. } = step else { panic!("{step:?}") };
    let [Record::Orphan(orphan), Record::Audit(audit)] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!((&orphan.machine, orphan.instance.as_ref()), (&machine(1), Some(&instance.name)));
    assert_eq!((orphan.since, orphan.attempts), (at(700), 3));
    assert_eq!(orphan.last_error, Some(fault("RequestLimitExceeded")));
    assert_eq!((audit.kind, audit.by.as_str()), (AuditKind::GivenUp, "ada"));
    assert_eq!((audit.at, audit.subject.as_str()), (at(700), instance.name.as_str()));
}

#[test]
fn the_end_is_the_end() {
    let end = || deleting().with(|i| i.to_deleted(at(800), "gone"));
    check(vec![
        ("due or not", end(), nothing(), 9000, "done"),
        ("whatever is seen", end(), sees(Machine::Running), 9000, "done"),
        ("whatever EC2 answered", end(), ends(failed()), 9000, "done"),
    ]);
    let after = end().ordered(forced(9000));
    assert_eq!(after, end());
}

/// A machine that is gone loses its tags, and with them our permission to terminate it: EC2's
/// refusal does not prove that it exists.
#[test]
fn after_a_refusal_of_ec2s_the_machine_is_looked_at_first() {
    let denied = fault("UnauthorizedOperation");
    let tried = || deleting().with(|i| i.terminate_failed(denied.clone(), at(700), &timings()));
    let missed = Observation { machine: Look::Failed(unavailable()), ..nothing() };
    let end = "to deleted, waits for nothing, never due";
    check(vec![
        ("not before its time", tried(), nothing(), 700, "rest until 701"),
        ("then", tried(), nothing(), 701, "look at machine"),
        ("it is gone", tried(), sees(Machine::Gone), 701, end),
        (
            "EC2 denies it",
            tried(),
            sees(Machine::Absent),
            701,
            "rest until 821, absent, waits Absent",
        ),
        (
            "it is there",
            tried(),
            sees(Machine::Running),
            701,
            "to deleting, waits for nothing, due 821, terminate",
        ),
        (
            "EC2 does not say",
            tried(),
            missed,
            701,
            "to deleting, waits for nothing, due 821, terminate",
        ),
    ]);
}
