//! What each call of slots, marks and orders leaves in the record.

use crate::ec2::ErrorClass;
use crate::instance::{
    DeleteMark, DeleteOrder, DeleteReason, Instance, LAUNCH_ATTEMPTS, State, Waiting,
};
use crate::testkit::{
    CLAIMED, Story, With, active, at, booting, creating, error, exited, fault, forced, idle,
    machine, plain, refusal, retrying, slot, timings,
};

fn panics(instance: Instance, call: impl FnOnce(&mut Instance)) -> bool {
    let call = std::panic::AssertUnwindSafe(|| drop(instance.with(call)));
    std::panic::catch_unwind(call).is_err()
}

fn last_event(instance: &Instance) -> &str {
    instance.events.last().map_or("", |event| &*event.what)
}

#[test]
fn a_machine_is_bound_once_in_whatever_state_the_slot_is() {
    let bound = creating().with(|i| {
        i.attempts = 3;
        i.bind(machine(4), at(7), &timings());
    });
    assert_eq!((bound.state(), bound.machine()), (State::Running, Some(&machine(4))));
    assert_eq!((bound.bound_at, bound.attempts, bound.due_at()), (Some(at(7)), 0, Some(at(600))));
    for waiting in [creating().ordered(plain(60)), creating().ordered(forced(60)), error()] {
        let state = waiting.state();
        let late = waiting.with(|i| i.bind(machine(4), at(300), &timings()));
        assert_eq!((late.state(), late.machine()), (state, Some(&machine(4))));
        assert_eq!(late.due_at(), Some(at(300)), "looked at at once");
    }
    assert!(panics(bound, |i| i.bind(machine(5), at(8), &timings())));
    let deleted = creating().ordered(plain(60)).deleting(70).with(|i| i.to_deleted(at(71), "gone"));
    assert!(panics(deleted, |i| i.bind(machine(5), at(80), &timings())));
}

#[test]
fn what_a_machine_was_bought_for_is_known_when_it_comes() {
    let bought = creating().with(|i| i.bind(machine(4), at(7), &timings()));
    assert!(bought.with(|i| i.clear_claim(at(8), "the job was cancelled")).bought_for_job);
    let free = creating().with(|i| i.clear_claim(at(5), "the job was cancelled"));
    let kept_idle = free.with(|i| i.bind(machine(4), at(7), &timings()));
    assert!(!kept_idle.with(|i| i.set_claim(CLAIMED, at(8))).bought_for_job);
}

#[test]
fn a_slot_is_free_while_its_launch_may_bring_a_machine() {
    let own = slot(1).launch;
    let other = "default-other".parse().expect("valid");
    assert!(creating().is_free_slot_of(&own));
    assert!(creating().ordered(plain(60)).is_free_slot_of(&own));
    assert!(!creating().is_free_slot_of(&other));
    assert!(!booting().is_free_slot_of(&own), "it has a machine");
    assert!(!retrying().is_free_slot_of(&own), "its launch brought none");
}

#[test]
fn a_failed_launch_is_tried_five_times_with_longer_waits() {
    let mut slot = creating();
    let mut waits = Vec::new();
    let mut now = 10;
    while slot.state() == State::Creating {
        slot.launch_failed(&refusal(ErrorClass::Capacity), at(now), &timings());
        let due = slot.due_at().expect("it is looked at again");
        if slot.state() == State::PendingCreate {
            let wait = due.since(at(now)).0;
            waits.push(wait);
            assert!(!slot.is_retry_due(at(now + wait - 1), &timings()));
            now += wait;
            assert!(slot.is_retry_due(at(now), &timings()));
            // A request for a launch moves the due time but not the retry.
            let asked = slot.clone().due(now + 500);
            assert!(asked.is_retry_due(at(now), &timings()));
            slot.relaunch("default-again".parse().expect("valid"), at(now), &timings());
            assert_eq!(
                (slot.launch.as_str(), slot.due_at()),
                ("default-again", Some(at(now + 120)))
            );
        }
    }
    assert_eq!((slot.state(), slot.attempts), (State::Error, LAUNCH_ATTEMPTS));
    assert_eq!((waits, slot.due_at()), (vec![15, 30, 60, 120], Some(at(now))));
    let told = slot.last_error.as_ref().map(|fault| fault.code.as_str());
    assert_eq!(told, Some("Capacity"));
    assert!(!slot.is_retry_due(at(90_000), &timings()));
}

#[test]
fn a_launch_that_failed_is_news_to_a_creating_slot_alone() {
    for other in [retrying(), booting(), creating().ordered(plain(60)), error()] {
        let same = other.clone().with(|i| {
            i.launch_failed(&refusal(ErrorClass::Quota), at(900), &timings());
        });
        assert_eq!(same, other);
    }
}

#[test]
fn the_first_mark_stands_until_it_is_cleared() {
    let marked = idle().marked(DeleteReason::Idle, 700);
    let fresh = DeleteMark {
        at: at(700),
        reason: DeleteReason::Idle,
        not_busy_since: None,
        gate_passed: false,
        removing_until: None,
        deregistered: false,
        waiting: None,
        silences: 0,
        kill_told: false,
    };
    assert_eq!(marked.mark(), Some(&fresh));
    assert_eq!(marked.clone().marked(DeleteReason::Ordered, 800), marked);
    let cleared = marked.with(|i| i.clear_mark(at(800), "a job runs"));
    assert_eq!((cleared.mark(), last_event(&cleared)), (None, "delete mark cleared: a job runs"));
    let untouched = idle().with(|i| i.clear_mark(at(800), "nothing"));
    assert_eq!(untouched, idle());
    let unmarked = idle().with(|i| i.update_mark(|mark| mark.gate_passed = true));
    assert_eq!(unmarked, idle());
}

#[test]
fn a_spot_notice_is_told_once() {
    let told = idle().with(|i| i.spot_notice(at(60)));
    assert_eq!(told.spot_notice_at, Some(at(60)));
    assert_eq!(last_event(&told), "EC2 announced a Spot interruption");
    assert_eq!(told.clone().with(|i| i.spot_notice(at(70))), told);
}

#[test]
fn an_order_moves_every_live_state_on_its_way_out() {
    use State::{Deleting, PendingDelete, PendingForceDelete};
    let stopping = || idle().ordered(plain(700));
    let rows = [
        ("waits for a retry", retrying(), PendingDelete),
        ("creating", creating(), PendingDelete),
        ("running", idle(), PendingDelete),
        ("failed for good", error(), PendingDelete),
        ("being deleted", idle().stopping(DeleteReason::Idle, 700), PendingDelete),
        ("on its forced way out", idle().ordered(forced(700)), PendingForceDelete),
        ("deleting: the call is out already", stopping().deleting(800), Deleting),
    ];
    for (name, instance, expected) in rows {
        let plainly = instance.clone().ordered(plain(900));
        assert_eq!(plainly.state(), expected, "{name}");
        assert_eq!((plainly.claim(), plainly.due_at()), (None, Some(at(900))), "{name}");
        assert!(plainly.mark().is_some() && plainly.order().is_some(), "{name}");
        let by_force = instance.ordered(forced(900));
        assert_eq!(
            (by_force.state(), by_force.due_at()),
            (PendingForceDelete, Some(at(900))),
            "{name}"
        );
        assert!(by_force.is_forced(), "{name}");
    }
    let deleted = stopping().deleting(800).with(|i| i.to_deleted(at(850), "gone"));
    assert_eq!(deleted.clone().ordered(forced(900)), deleted);
}

#[test]
fn orders_gain_flags_and_never_lose_one() {
    let kill = |at| DeleteOrder { kill_running_job: true, by: "eve".to_owned(), ..plain(at) };
    let bypass =
        |at| DeleteOrder { bypass_github_unauthorized: true, by: "bob".to_owned(), ..plain(at) };
    let by_eve = |at| DeleteOrder { by: "eve".to_owned(), ..forced(at) };
    // Columns: first and second order; force, bypass, kill; whose name and time the result has.
    let rows = [
        (plain(1), plain(2), (false, false, false), ("ada", 1)),
        (plain(1), by_eve(2), (true, false, false), ("eve", 2)),
        (by_eve(1), plain(2), (true, false, false), ("eve", 1)),
        (forced(1), by_eve(2), (true, false, false), ("ada", 1)),
        (forced(1), kill(2), (true, false, true), ("eve", 2)),
        (kill(1), bypass(2), (false, true, true), ("bob", 2)),
        (bypass(1), forced(2), (true, true, false), ("ada", 2)),
        (kill(1), plain(2), (false, false, true), ("eve", 1)),
    ];
    for (first, second, flags, (by, since)) in rows {
        let joined = idle().ordered(first.clone()).ordered(second.clone());
        let order = joined.order().expect("ordered").clone();
        let got = (order.force, order.bypass_github_unauthorized, order.kill_running_job);
        assert_eq!(got, flags, "{first:?} {second:?}");
        assert_eq!((order.by.as_str(), order.at), (by, at(since)), "{first:?} {second:?}");
        assert_eq!(joined.may_kill_job(), flags.2);
    }
    assert!(idle().stopping(DeleteReason::MaxLifetime, 700).may_kill_job());
    assert!(!idle().stopping(DeleteReason::Idle, 700).may_kill_job());
}

#[test]
fn the_way_out_ends_the_claim_and_keeps_the_first_reason() {
    let out = active().stopping(DeleteReason::MachineGone, 700);
    assert_eq!(
        (out.state(), out.claim(), out.due_at()),
        (State::PendingDelete, None, Some(at(700)))
    );
    assert_eq!(out.mark().map(|mark| &mark.reason), Some(&DeleteReason::MachineGone));
    let marked = active().marked(DeleteReason::Ordered, 600).stopping(DeleteReason::Idle, 700);
    assert_eq!(marked.mark().map(|mark| &mark.reason), Some(&DeleteReason::Ordered));
    let deleting = out.deleting(710);
    assert_eq!((deleting.state(), deleting.due_at()), (State::Deleting, Some(at(830))));
}

#[test]
fn a_failed_termination_waits_where_it_came_from() {
    let failed = |instance: Instance| {
        instance.deleting(700).with(|i| i.terminate_failed(fault("Throttled"), at(710), &timings()))
    };
    let plainly = failed(exited().ordered(plain(700)).with(|i| i.attempts = 4));
    assert_eq!((plainly.state(), plainly.attempts), (State::PendingDelete, 5));
    assert_eq!(plainly.due_at(), Some(at(726)));
    assert_eq!(plainly.mark().and_then(|mark| mark.waiting.clone()), Some(Waiting::Provider));
    assert_eq!(plainly.last_error, Some(fault("Throttled")));
    assert_eq!(last_event(&plainly), "pending_delete: attempt 5 failed: Throttled: no");
    let by_force = failed(exited().ordered(forced(700)).with(|i| i.attempts = 4));
    assert_eq!((by_force.state(), by_force.due_at()), (State::PendingForceDelete, Some(at(711))));
    assert_eq!(plainly.deleting(730).mark().and_then(|mark| mark.waiting.clone()), None);
}

#[test]
fn the_end_leaves_a_tombstone_that_is_never_due() {
    let end = idle().ordered(plain(700)).deleting(800).with(|i| {
        i.set_claim(crate::testkit::CLAIMED, at(805));
        i.set_wake(Some(3));
        i.to_deleted(at(810), "EC2 says so");
    });
    assert_eq!((end.state(), end.since()), (State::Deleted, at(810)));
    assert_eq!((end.due_at(), end.wake_nonce(), end.claim()), (None, None, None));
    assert_eq!(last_event(&end), "deleted: EC2 says so");
}
