//! Fleets, and the token that makes them once.

use muster_domain::ec2::Market;
use muster_domain::launch::LaunchRequest;

use super::*;

pub(super) async fn a_fleet_launches_what_is_asked<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    assert_eq!(set(&machines).len(), 3);
    assert_eq!(world.living().await, 3);
}

pub(super) async fn a_token_launches_once<W: Ec2World>(world: &W) {
    launched(world, "l-1", 2).await;
    for _ in 0..3 {
        call(world, "l-1", 2).await.expect("answered");
    }
    assert_eq!(world.living().await, 2);
}

pub(super) async fn a_replay_is_answered_with_the_first_machines<W: Ec2World>(world: &W) {
    let first = launched(world, "l-1", 2).await;
    let again = launched(world, "l-1", 2).await;
    assert_eq!(set(&first), set(&again));
}

pub(super) async fn a_replay_may_be_answered_without_machines<W: Ec2World>(world: &W) {
    world.answer_replays_barely().await;
    let first = launched(world, "l-1", 2).await;
    let again = call(world, "l-1", 2).await.expect("answered");
    assert!(again.machines.is_empty());
    let found = found(world, "l-1").await;
    assert_eq!(set(&found), set(&first));
    assert_eq!(world.living().await, 2);
}

pub(super) async fn a_token_with_another_request_is_refused<W: Ec2World>(world: &W) {
    launched(world, "l-1", 1).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Idempotency);
    let mut other = request(world.stack(), "l-1", 1);
    other.overrides.rotate_left(1);
    let answer = world.ec2().launch(&id("l-1"), &other).await;
    assert_eq!(class(answer), ErrorClass::Idempotency);
    assert_eq!(world.living().await, 1);
}

pub(super) async fn another_token_is_another_fleet<W: Ec2World>(world: &W) {
    let (first, second) = (launched(world, "l-1", 1).await, launched(world, "l-2", 1).await);
    assert_ne!(first, second);
    assert_eq!(world.living().await, 2);
}

pub(super) async fn a_fleet_may_be_partial<W: Ec2World>(world: &W) {
    world.run_short(true).await;
    let answer = call(world, "l-1", 4).await.expect("answered");
    assert!(answer.machines.len() < 4, "{answer:?}");
    assert!(!answer.errors.is_empty(), "{answer:?}");
    assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Capacity), "{answer:?}");
    assert_eq!(world.living().await, answer.machines.len());
}

pub(super) async fn a_partial_answer_is_replayed_as_it_was<W: Ec2World>(world: &W) {
    world.run_short(true).await;
    let first = call(world, "l-1", 4).await.expect("answered");
    world.mend().await;
    let again = call(world, "l-1", 4).await.expect("answered");
    assert_eq!(first.machines, again.machines);
    assert_eq!(world.living().await, first.machines.len());
}

pub(super) async fn no_capacity_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.run_short(false).await;
    // Both forms were seen: an error of the whole call, and an answer of errors alone.
    match call(world, "l-1", 2).await {
        Err(error) => assert_eq!(error.class, ErrorClass::Capacity),
        Ok(answer) => {
            assert!(answer.machines.is_empty());
            assert!(!answer.errors.is_empty());
            assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Capacity));
        }
    }
    assert_eq!(world.living().await, 0);
}

pub(super) async fn a_new_token_launches_once_there_is_capacity<W: Ec2World>(world: &W) {
    world.run_short(false).await;
    let _ = call(world, "l-1", 2).await;
    world.mend().await;
    launched(world, "l-2", 2).await;
}

pub(super) async fn an_unheard_launch_has_happened<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Unheard).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Ambiguous);
    assert_eq!(world.living().await, 2);
}

pub(super) async fn an_unheard_launch_is_replayed_whole<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Unheard).await;
    call(world, "l-1", 2).await.expect_err("no answer");
    world.mend().await;
    launched(world, "l-1", 2).await;
    assert_eq!(world.living().await, 2);
}

pub(super) async fn an_undone_launch_has_not_happened_and_can_be_repeated<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Undone).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Ambiguous);
    assert_eq!(world.living().await, 0);
    world.mend().await;
    launched(world, "l-1", 2).await;
}

pub(super) async fn a_throttled_launch_has_not_happened<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Throttled).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Throttle);
    assert_eq!(world.living().await, 0);
}

pub(super) async fn a_wrong_request_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::Misconfigured).await;
    assert_eq!(class(call(world, "l-1", 2).await), ErrorClass::Configuration);
    assert_eq!(world.living().await, 0);
}

pub(super) async fn a_used_up_quota_is_said_to_be_that<W: Ec2World>(world: &W) {
    world.fail(Call::Launch, Failure::OverQuota).await;
    match call(world, "l-1", 2).await {
        Err(error) => assert_eq!(error.class, ErrorClass::Quota),
        Ok(answer) => {
            assert!(answer.machines.is_empty());
            assert!(answer.errors.iter().all(|error| error.class == ErrorClass::Quota));
            assert!(!answer.errors.is_empty());
        }
    }
    assert_eq!(world.living().await, 0);
}

pub(super) async fn an_account_without_the_spot_role_has_spot_nowhere_and_on_demand_everywhere<
    W: Ec2World,
>(
    world: &W,
) {
    world.lack_the_spot_role().await;
    let spot = call(world, "l-1", 2).await.expect("an answer of errors");
    assert!(spot.machines.is_empty());
    let asked = request(world.stack(), "l-1", 2).overrides;
    let refused: Vec<_> = spot.errors.iter().filter_map(|error| error.place.clone()).collect();
    assert_eq!(refused, asked, "each place is refused by itself");
    for error in &spot.errors {
        assert_eq!(error.class, ErrorClass::Capacity);
        assert_eq!(error.code, "AuthFailure.ServiceLinkedRoleCreationNotPermitted");
    }
    let bought = LaunchRequest { market: Market::OnDemand, ..request(world.stack(), "l-2", 2) };
    let answer = world.ec2().launch(&id("l-2"), &bought).await.expect("launched");
    assert_eq!((answer.machines.len(), world.living().await), (2, 2));
}

pub(super) async fn machines_are_found_by_the_tag_of_their_launch<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    launched(world, "l-2", 2).await;
    let found = found(world, "l-1").await;
    assert_eq!((found.len(), set(&found)), (3, set(&machines)));
}

/// The answer to a launch may leave out the zone, and nothing else; what it says stays true.
pub(super) async fn a_machine_is_the_same_in_every_answer<W: Ec2World>(world: &W) {
    let answer = call(world, "l-1", 2).await.expect("launched");
    let found = world.ec2().find_launched(&id("l-1")).await.expect("an answer");
    for listed in listed(world).await {
        let whole = listed.make;
        assert!(whole.kind.is_some() && whole.zone.is_some(), "{whole:?}");
        assert_eq!(whole.market, Some(request(world.stack(), "l-1", 2).market));
        assert_eq!(found[&listed.id], whole);
        assert_eq!(world.ec2().machine(&listed.id).await.expect("an answer").make, whole);
        let first = &answer.machines[&listed.id];
        assert!(first.kind.is_some() && first.market.is_some(), "{first:?}");
        assert_eq!(first.or(&whole), whole);
    }
}

pub(super) async fn another_launch_finds_nothing<W: Ec2World>(world: &W) {
    launched(world, "l-1", 1).await;
    for other in ["l-2", "l-10", "l"] {
        assert_eq!(found(world, other).await, [], "{other}");
    }
}

pub(super) async fn ending_machines_are_not_found_by_tag<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 2).await;
    end(world, &machines[0]).await;
    assert_eq!(found(world, "l-1").await, machines[1..]);
    world.settle().await;
    assert_eq!(found(world, "l-1").await, machines[1..]);
}
