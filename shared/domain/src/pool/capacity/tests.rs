//! One launch pass a pool.

use super::Capacity;
use crate::testkit::{Story, With, at, booting, idle, pool, timings};
use crate::time::Seconds;

fn empty() -> Capacity {
    Capacity::empty(pool().name)
}

#[test]
fn a_free_lease_goes_to_whoever_asks() {
    let held = empty().woken("first", at(0), &timings());
    assert!(held.is_held_by("first") && !held.is_held_by("second"));
    assert_eq!((held.lease_until, held.wakes), (Some(at(90)), 1));
    assert!(!empty().is_held_by("first"));
}

#[test]
fn a_held_lease_stays_and_its_holder_learns_of_the_wake() {
    let held = empty().woken("first", at(0), &timings());
    let woken = held.woken("second", at(89), &timings());
    assert!(woken.is_held_by("first"));
    assert_eq!((woken.lease_until, woken.wakes), (Some(at(90)), 2));
    let own = held.woken("first", at(89), &timings());
    assert_eq!((own.lease_until, own.wakes), (Some(at(90)), 2));
}

#[test]
fn a_lease_that_ran_out_or_was_given_back_is_free() {
    let held = empty().woken("first", at(0), &timings());
    let taken = held.woken("second", at(90), &timings());
    assert!(taken.is_held_by("second"));
    assert_eq!(taken.lease_until, Some(at(180)));
    let back = held.released();
    assert_eq!((back.holder.as_deref(), back.lease_until), (None, None));
    assert_eq!(back.wakes, 1);
    assert!(back.woken("second", at(1), &timings()).is_held_by("second"));
}

#[test]
fn the_count_is_none_of_the_leases_business() {
    let full = empty().with(|capacity| capacity.live = 7);
    let held = full.woken("first", at(0), &timings());
    assert_eq!((held.live, held.released().live), (7, 7));
}

#[test]
fn failures_of_the_min_idle_hold_it_longer_each_time_until_a_runner_listens() {
    let once = empty().idle_failed("no".to_owned(), at(100), &timings());
    let hold = once.idle_hold.clone().expect("held");
    assert_eq!((hold.until, hold.failures), (at(115), 1));
    let twice = once.idle_failed("no".to_owned(), at(200), &timings());
    assert_eq!(twice.idle_hold.as_ref().map(|hold| hold.until), Some(at(230)));
    // Neither the lease nor its end lift it.
    let held = twice.woken("first", at(200), &timings());
    assert_eq!((&held.idle_hold, &held.released().idle_hold), (&twice.idle_hold, &twice.idle_hold));

    let listens = |second| idle().unclaimed().with(|i| i.runner.since = at(second));
    let rows = [
        ("since the failure", vec![listens(201)], true),
        ("at the failure", vec![listens(200)], false),
        ("before it", vec![listens(150)], false),
        ("boots", vec![booting().unclaimed()], false),
        ("has a job to take", vec![idle().with(|i| i.runner.since = at(201))], false),
        ("none", vec![], false),
    ];
    for (name, free, healed) in rows {
        assert_eq!(twice.is_idle_healed(&free, &timings()), healed, "{name}");
    }
    assert!(!empty().is_idle_healed(&[listens(900)], &timings()));
    assert_eq!(twice.idle_healed().idle_hold, None);
}

#[test]
fn a_record_of_the_version_before_is_read() {
    let json = r#"{"schema":2,"generation":4,"pool":"default","live":3,"wakes":7,
        "holder":null,"lease_until":null}"#;
    let read: Capacity = serde_json::from_str(json).expect("valid");
    assert_eq!((read.live, read.scaled_up_at, read.idle_hold), (3, None, None));
}

#[test]
fn one_delayed_wake_up_is_on_its_way_at_a_time() {
    let mut pool = empty();
    assert_eq!(pool.wake_later(at(15), at(0)), Some(Seconds(16)));
    assert_eq!(pool.wake_at, Some(at(15)));
    assert_eq!(pool.wake_later(at(15), at(5)), None, "it comes by itself");
    assert_eq!(pool.wake_later(at(60), at(5)), None, "its pass sends the next");
    assert_eq!(pool.wake_later(at(10), at(5)), Some(Seconds(6)), "it comes too late for that");
    assert_eq!(pool.wake_later(at(60), at(10)), Some(Seconds(51)), "it has come");
    assert_eq!(pool.wake_later(at(30), at(31)), Some(Seconds(1)), "it came meanwhile");
}

#[test]
fn a_wait_that_no_message_keeps_is_the_sweeps() {
    let mut pool = empty();
    assert_eq!(pool.wake_later(at(900), at(0)), None);
    assert_eq!((pool.wake_at, pool.wake_later(at(899), at(0))), (None, Some(Seconds(900))));
}
