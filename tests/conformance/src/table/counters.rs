//! Counters of pools, and owners of machines.

use super::*;
use muster_control::ports::{Instances, Jobs, Launches};

pub(super) async fn a_counter_goes_down<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(3, Some("me")))]).await;
    commit(world, &[down()]).await;
    let left = world.table().capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((left.live, left.version()), (2, Version(1)));
    assert!(left.is_held_by("me"), "the lease is left alone");
}

pub(super) async fn a_counter_that_is_not_there_does_not_go_down<W: TableWorld>(world: &W) {
    conflicts(world, &[down()]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(None));
}

pub(super) async fn a_counter_does_not_go_below_zero<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, None))]).await;
    commit(world, &[down()]).await;
    conflicts(world, &[down(), new(&queued(1))]).await;
    assert_eq!(world.table().job(key(1)).await, Ok(None));
    assert_eq!(live(world).await, 0);
}

pub(super) async fn a_counter_goes_down_by_several_in_one_commit<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(3, None))]).await;
    commit(world, &[down(), down(), new(&queued(1))]).await;
    assert_eq!(live(world).await, 1);
}

pub(super) async fn a_counter_does_not_go_down_by_more_than_there_is<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, None))]).await;
    conflicts(world, &[down(), down()]).await;
    assert_eq!(live(world).await, 1);
}

pub(super) async fn a_counter_goes_up_for_the_holder_of_the_lease<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, Some("me")))]).await;
    commit(world, &[up(3, 5, "me"), new(&queued(1))]).await;
    let now = world.table().capacity(&pool()).await.expect("read").expect("there");
    assert_eq!((now.live, now.version()), (4, Version(1)));
}

pub(super) async fn a_limit_counts_from_nothing_up_to_its_maximum<W: TableWorld>(world: &W) {
    let stack = Scope::Stack;
    assert_eq!(counted(world, &stack).await, 0);
    conflicts(world, &[count_up(&stack, 4, 3)]).await;
    conflicts(world, &[count_up(&stack, 1, 0)]).await;
    commit(world, &[count_up(&stack, 2, 3), new(&queued(1))]).await;
    conflicts(world, &[count_up(&stack, 2, 3), new(&queued(2))]).await;
    assert_eq!(world.table().job(key(2)).await, Ok(None));
    commit(world, &[count_up(&stack, 1, 3)]).await;
    assert_eq!(counted(world, &stack).await, 3);
}

pub(super) async fn a_limit_counts_down_and_not_below_zero<W: TableWorld>(world: &W) {
    let acme = Scope::Entity("acme/web".parse().expect("valid"));
    conflicts(world, &[count_down(&acme)]).await;
    assert_eq!(counted(world, &acme).await, 0);
    commit(world, &[count_up(&acme, 3, 3)]).await;
    commit(world, &[count_down(&acme), count_down(&acme), new(&queued(1))]).await;
    conflicts(world, &[count_down(&acme), count_down(&acme)]).await;
    assert_eq!(counted(world, &acme).await, 1);
    // The stack's is another one.
    assert_eq!(counted(world, &Scope::Stack).await, 0);
}

pub(super) async fn limits_are_read_in_one_call_without_those_that_count_none<W: TableWorld>(
    world: &W,
) {
    let entity = |name: &str| Scope::Entity(name.parse().expect("valid"));
    let all = [Scope::Stack, entity("acme"), entity("acme/web"), entity("other")];
    let none = world.table().counts(&[]).await.expect("read");
    assert!(none.is_empty() && world.table().counts(&all).await.expect("read").is_empty());
    commit(world, &[count_up(&all[0], 3, 9), count_up(&all[2], 2, 9), count_up(&all[3], 1, 9)])
        .await;
    let counts = world.table().counts(&all[..3]).await;
    assert_eq!(counts, Ok([(all[0].clone(), 3), (all[2].clone(), 2)].into()));
}

pub(super) async fn a_counter_does_not_go_up_for_somebody_else<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, Some("me")))]).await;
    conflicts(world, &[up(1, 5, "you")]).await;
    assert_eq!(live(world).await, 1);
}

pub(super) async fn a_counter_does_not_go_up_without_a_lease<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, None))]).await;
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(live(world).await, 1);
}

pub(super) async fn a_counter_that_is_not_there_does_not_go_up<W: TableWorld>(world: &W) {
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(world.table().capacity(&pool()).await, Ok(None));
}

pub(super) async fn a_counter_goes_up_to_its_maximum_and_not_beyond<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(1, Some("me")))]).await;
    conflicts(world, &[up(5, 5, "me")]).await;
    conflicts(world, &[up(6, 5, "me")]).await;
    commit(world, &[up(4, 5, "me")]).await;
    conflicts(world, &[up(1, 5, "me")]).await;
    assert_eq!(live(world).await, 5);
}

pub(super) async fn a_counter_that_moved_is_a_conflict_for_a_whole_write<W: TableWorld>(world: &W) {
    let before = capacity(1, None);
    commit(world, &[new(&before)]).await;
    commit(world, &[down()]).await;
    let next = before.woken("me", at(1), &Timings::default());
    conflicts(world, &[over(0, &next)]).await;
    commit(world, &[over(1, &next)]).await;
}

pub(super) async fn a_conflict_leaves_the_counter_alone<W: TableWorld>(world: &W) {
    commit(world, &[new(&capacity(3, Some("me"))), new(&queued(1))]).await;
    conflicts(world, &[up(1, 9, "me"), new(&queued(1))]).await;
    conflicts(world, &[down(), new(&queued(1))]).await;
    assert_eq!(live(world).await, 3);
}

pub(super) async fn a_machine_has_one_owner<W: TableWorld>(world: &W) {
    let (first, second) = (running(1, None), running(2, None));
    commit(world, &[new(&first), bind(1, &first)]).await;
    conflicts(world, &[bind(1, &second)]).await;
    conflicts(world, &[bind(1, &first)]).await;
    assert_eq!(world.table().owner_of(&machine(1)).await, Ok(Some(first.name)));
}

pub(super) async fn an_instance_is_not_bound_when_its_machine_is_taken<W: TableWorld>(world: &W) {
    let (first, slot) = (running(1, None), planned(2, None));
    commit(world, &[new(&first), bind(1, &first), new(&slot)]).await;
    let mut bound = slot.clone();
    bound.bind(machine(1), at(9), &Timings::default());
    conflicts(world, &[bind(1, &slot), over(0, &bound)]).await;
    assert_eq!(world.table().instance(&slot.name).await, Ok(Some(made(slot))));
}

pub(super) async fn an_owner_is_found_after_its_end<W: TableWorld>(world: &W) {
    let instance = running(1, None);
    commit(world, &[new(&instance), bind(1, &instance)]).await;
    commit(world, &[over(0, &deleted(&instance))]).await;
    assert_eq!(world.table().owner_of(&machine(1)).await, Ok(Some(instance.name)));
}

pub(super) async fn many_owners_are_found_at_once<W: TableWorld>(world: &W) {
    let (first, second) = (running(1, None), running(2, None));
    commit(world, &[new(&first), bind(1, &first)]).await;
    commit(world, &[new(&second), bind(2, &second)]).await;
    // One has no owner, and one is named twice.
    let asked = [machine(2), machine(3), machine(1), machine(2)];
    let owners = world.table().owners_of(&asked).await.expect("owners");
    assert_eq!(owners, [(machine(1), first.name), (machine(2), second.name)].into());
    assert!(world.table().owners_of(&[]).await.expect("none").is_empty());
}

pub(super) async fn a_counter_does_not_go_up_past_a_wake_up_that_is_to_stop_it<W: TableWorld>(
    world: &W,
) {
    commit(world, &[new(&Capacity { wakes: 3, ..capacity(0, Some("a")) })]).await;
    let up = |wakes| Write::CapacityUp {
        pool: pool(),
        count: 2,
        max: 9,
        holder: "a".into(),
        wakes: Some(wakes),
    };
    assert_eq!(world.table().commit(&[up(2)]).await, Err(CommitError::Conflict));
    commit(world, &[up(3)]).await;
    let live = world.table().capacity(&pool()).await.map(|own| own.map(|own| own.live));
    assert_eq!(live, Ok(Some(2)));
}
