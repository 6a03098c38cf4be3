//! The lease of a launch, and how a launch ends.

use super::{Allocation, Launch, LaunchRequest, LaunchState, Market};
use crate::testkit::{With, at, pool, slot, timings};

/// Committed at second 0.
fn open() -> Launch {
    let request = LaunchRequest {
        template_id: "lt-1".into(),
        template_version: "3".into(),
        overrides: Vec::new(),
        requirements: None,
        market: Market::Spot,
        allocation: Allocation::PriceCapacityOptimized,
        max_price: None,
        image: None,
        disk: None,
        omitted_device: None,
        placement: None,
        reserved_first: false,
        capacity: 2,
        tags: [].into(),
    };
    let slots = vec![slot(1).name, slot(2).name];
    Launch::open(slot(1).launch, pool().name, request, slots, at(0), &timings())
}

#[test]
fn a_new_launch_belongs_to_the_pass_that_commits_it() {
    let launch = open();
    assert_eq!((launch.state, launch.calls), (LaunchState::Open, 1));
    assert_eq!((launch.created_at, launch.lease_until), (at(0), at(120)));
    assert_eq!(launch.leased_again(at(119), &timings()), None);
}

#[test]
fn a_replay_takes_over_when_the_lease_is_over_and_sends_the_same_request() {
    let replay = open().leased_again(at(120), &timings()).expect("the lease is over");
    assert_eq!((replay.calls, replay.lease_until), (2, at(240)));
    let same = replay.with(|launch| {
        (launch.calls, launch.lease_until) = (1, at(120));
        (launch.called_at, launch.doubtful_at) = (Some(at(0)), None);
    });
    assert_eq!(same, open());
}

#[test]
fn what_is_left_to_others_is_called_by_the_first_that_finds_it_and_not_as_a_replay() {
    let left = open().uncalled();
    let called = left.leased_again(at(0), &timings()).expect("it has no lease");
    assert!(!called.is_replay());
    assert!(!called.may_be_under_way(at(0), &timings()));
    assert_eq!(called, open());
    let again = called.leased_again(at(120), &timings()).expect("the lease is over");
    assert!(again.is_replay());
}

#[test]
fn a_lease_given_back_is_free_at_the_time_it_names() {
    let released = open().released(at(30), false);
    assert_eq!(released.calls, 1);
    assert_eq!(released.leased_again(at(29), &timings()), None);
    assert!(released.leased_again(at(30), &timings()).is_some());
}

#[test]
fn every_call_without_a_certain_answer_may_still_be_under_way_for_its_lease() {
    let again = |launch: &Launch, second| {
        launch.leased_again(at(second), &timings()).expect("the lease is over")
    };
    let second = again(&open(), 120);
    assert!(second.may_be_under_way(at(119), &timings()));
    assert!(!second.may_be_under_way(at(120), &timings()), "the first call is two minutes old");
    // The second call was ambiguous as well, so its own two minutes count.
    let third = again(&second.released(at(135), false), 135);
    assert!(third.may_be_under_way(at(239), &timings()));
    assert!(!third.may_be_under_way(at(240), &timings()));
    // The third call was definitely refused, so the set of doubtful calls is unchanged.
    let fourth = again(&third.released(at(150), true), 150);
    assert_eq!(fourth.doubtful_at, Some(at(120)));
}

#[test]
fn a_settled_launch_is_never_replayed() {
    let settled = open().settled();
    assert_eq!(settled.state, LaunchState::Settled);
    assert_eq!(settled.leased_again(at(90_000), &timings()), None);
}

#[test]
fn an_ambiguous_launch_is_looked_for_five_minutes() {
    assert!(!open().is_given_up(at(299), &timings()));
    assert!(open().is_given_up(at(300), &timings()));
    // Counted from the commit, not from the last replay.
    let replay = open().leased_again(at(120), &timings()).expect("the lease is over");
    assert!(replay.is_given_up(at(300), &timings()));
}
