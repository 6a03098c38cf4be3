//! All machines of a stack, and none of anybody else.

use super::*;

pub(super) async fn silence_about_a_list_is_not_an_empty_list<W: Ec2World>(world: &W) {
    one(world).await;
    world.fail(Call::Describe, Failure::Undone).await;
    let answer = world.ec2().list(None).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    let answer = world.ec2().find_launched(&id("one")).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
}

pub(super) async fn somebody_elses_machine_is_never_absent<W: Ec2World>(world: &W) {
    let machine = world.somebody_elses().await;
    let answer = world.ec2().machine(&machine).await;
    let state = answer.as_ref().map(|seen| seen.state);
    assert!(!matches!(state, Ok(Machine::Absent | Machine::Gone)), "{answer:?}");
}

pub(super) async fn the_list_holds_ours_and_nobody_elses<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 3).await;
    world.somebody_elses().await;
    assert_eq!(listed_ids(world).await, machines.into_iter().collect());
}

pub(super) async fn the_list_holds_pending_and_stopped_machines<W: Ec2World>(world: &W) {
    let stopped = launched(world, "l-1", 1).await.remove(0);
    world.settle().await;
    world.stop(&stopped).await;
    let pending = launched(world, "l-2", 1).await.remove(0);
    let found = listed(world).await;
    let state = |wanted| found.iter().find(|one| one.id == wanted).map(|one| one.state);
    assert_eq!((found.len(), state(stopped)), (2, Some(Machine::Stopped)));
    assert_eq!(state(pending), Some(Machine::Pending));
}

pub(super) async fn the_list_leaves_out_what_is_ending<W: Ec2World>(world: &W) {
    let machines = launched(world, "l-1", 2).await;
    end(world, &machines[0]).await;
    assert_eq!(listed_ids(world).await, [machines[1].clone()].into());
    world.settle().await;
    assert_eq!(listed_ids(world).await, [machines[1].clone()].into());
}

pub(super) async fn the_list_tells_launch_and_time<W: Ec2World>(world: &W) {
    let first = launched(world, "l-1", 1).await.remove(0);
    let found = listed(world).await;
    assert_eq!(found[0].launch, Some(id("l-1")));
    assert_eq!((&found[0].id, found.len()), (&first, 1));
    world.settle().await;
    let later = listed(world).await;
    assert_eq!(
        later[0].launched_at, found[0].launched_at,
        "the time of the launch, not of the state"
    );
}

pub(super) async fn the_list_comes_in_pages_and_each_machine_once<W: Ec2World>(world: &W) {
    let count = world.more_than_a_page();
    let machines = launched(world, "l-1", count).await;
    let first = world.ec2().list(None).await.expect("a page");
    assert!(first.next.is_some(), "one page holds {}", first.items.len());
    let found = listed(world).await;
    assert_eq!(found.len(), count as usize);
    let found: BTreeSet<MachineId> = found.into_iter().map(|machine| machine.id).collect();
    assert_eq!(found, machines.into_iter().collect());
}
