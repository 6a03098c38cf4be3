//! One launch pass per pool at a time.

use super::Capacity;
use crate::testkit::{With as _, at, pool, timings};
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
