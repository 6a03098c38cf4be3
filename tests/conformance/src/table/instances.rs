//! Listings of instances.

use super::*;
use muster_control::ports::Instances;

/// When the lease of a slot planned at second `n` ends.
fn lease_end(n: u32) -> Time {
    at(n) + Timings::default().creating_lease_seconds
}

pub(super) async fn due_instances_are_those_whose_time_has_come<W: TableWorld>(world: &W) {
    put(world, &[&planned(1, None), &planned(2, None), &planned(3, None)]).await;
    let (found, _) = due(world, lease_end(2), 10).await;
    assert_eq!(each_once(found), [planned(1, None).name, planned(2, None).name].into());
    assert_eq!(due(world, lease_end(0), 10).await.0, []);
}

pub(super) async fn due_instances_come_in_pages_and_each_once<W: TableWorld>(world: &W) {
    for n in 0..23 {
        put(world, &[&planned(n, None)]).await;
    }
    let (found, pages) = due(world, lease_end(14), 4).await;
    assert_eq!(each_once(found).len(), 15);
    assert!(pages >= 4, "{pages} pages");
}

pub(super) async fn a_deleted_instance_is_never_due<W: TableWorld>(world: &W) {
    let instance = running(1, None);
    put(world, &[&instance]).await;
    commit(world, &[over(0, &deleted(&instance))]).await;
    assert_eq!(due(world, at(1_000_000), 10).await.0, []);
    let found = world.table().instance(&instance.name).await;
    assert_eq!(found, Ok(Some(stored(1, deleted(&instance)))), "the tombstone stays");
}

pub(super) async fn live_instances_are_those_of_the_pool<W: TableWorld>(world: &W) {
    let all = [running(1, None), running(2, Some(key(2))), failed(3, None), ending(4, 50)];
    put(world, &all.each_ref()).await;
    let (found, _) = live_of(world, &pool()).await;
    assert_eq!(each_once(found), all.map(|one| one.name).into());
    assert_eq!(live_of(world, &other_pool()).await, (vec![], 1));
}

pub(super) async fn live_instances_come_in_pages_and_each_once<W: TableWorld>(world: &W) {
    for n in 0..60 {
        put(world, &[&planned(n, None)]).await;
    }
    let (found, _) = live_of(world, &pool()).await;
    assert_eq!(each_once(found).len(), 60);
}

/// Whoever takes a part of a page goes on behind it.
pub(super) async fn a_listing_goes_on_behind_any_instance<W: TableWorld>(world: &W) {
    let all = [running(1, None), running(2, Some(key(2))), failed(3, None), ending(4, 50)];
    put(world, &all.each_ref()).await;
    let whole = world.table().live_instances(&pool(), None).await.expect("read").items;
    for (index, last) in whole.iter().enumerate() {
        let page = world.table().after_instance(last).expect("a page");
        let rest = world.table().live_instances(&pool(), Some(page)).await.expect("read");
        assert_eq!(names(&rest.items), names(&whole[index + 1..]), "after {index}");
    }
}

pub(super) async fn a_deleted_instance_is_not_live<W: TableWorld>(world: &W) {
    let (gone, stays) = (running(1, None), running(2, None));
    put(world, &[&gone, &stays]).await;
    commit(world, &[over(0, &deleted(&gone))]).await;
    assert_eq!(live_of(world, &pool()).await.0, std::slice::from_ref(&stays.name));
    assert_eq!(names(&world.table().free_instances(&pool()).await.expect("read")), [&stays.name]);
}

pub(super) async fn free_instances_have_no_claim<W: TableWorld>(world: &W) {
    let (free, taken, ends) = (running(1, None), running(2, Some(key(2))), ending(3, 50));
    put(world, &[&free, &taken, &ends]).await;
    assert_eq!(names(&world.table().free_instances(&pool()).await.expect("read")), [&free.name]);
    assert_eq!(world.table().free_instances(&other_pool()).await, Ok(vec![]));
}

pub(super) async fn free_instances_come_machines_first_and_oldest_first<W: TableWorld>(world: &W) {
    let (free, older, retry) = (running(5, None), running(4, None), failed(1, None));
    put(world, &[&free, &retry, &older]).await;
    let found = world.table().free_instances(&pool()).await.expect("read");
    assert_eq!(names(&found), [&older.name, &free.name, &retry.name]);
}

pub(super) async fn an_instance_moves_between_listings<W: TableWorld>(world: &W) {
    let free = running(1, None);
    put(world, &[&free]).await;
    let mut taken = free.clone();
    taken.set_claim(key(1), at(9));
    commit(world, &[over(0, &taken)]).await;
    assert_eq!(world.table().free_instances(&pool()).await, Ok(vec![]));
    let mut again = taken.clone();
    again.clear_claim(at(10), "a check");
    commit(world, &[over(1, &again)]).await;
    assert_eq!(world.table().free_instances(&pool()).await, Ok(vec![stored(2, again)]));
}

pub(super) async fn slots_to_retry_wait_for_a_launch<W: TableWorld>(world: &W) {
    let (claimed, free) = (failed(2, Some(key(2))), failed(1, None));
    put(world, &[&claimed, &free, &running(3, None), &planned(4, None)]).await;
    let found = world.table().slots_to_retry(&pool()).await.expect("read");
    let found: BTreeSet<&InstanceName> = names(&found).into_iter().collect();
    assert_eq!(found, [&free.name, &claimed.name].into());
}

pub(super) async fn ending_instances_come_in_the_order_of_their_marks<W: TableWorld>(world: &W) {
    let (late, early, middle) = (ending(7, 900), ending(9, 800), ending(8, 850));
    put(world, &[&late, &early, &middle, &running(1, None)]).await;
    let found = world.table().ending_instances(&pool(), 10).await.expect("read");
    assert_eq!(names(&found), [&early.name, &middle.name, &late.name]);
}

pub(super) async fn free_instances_may_be_marked_idle<W: TableWorld>(world: &W) {
    let marked = |n, reason| {
        let mut one = running(n, None);
        one.set_mark(reason, at(900));
        one
    };
    let (idle, outdated) = (marked(7, DeleteReason::Idle), marked(8, DeleteReason::Outdated));
    put(world, &[&idle, &outdated, &ending(3, 50)]).await;
    let free = world.table().free_instances(&pool()).await.expect("read");
    assert_eq!(names(&free), [&idle.name], "it may be kept");
    let ended = world.table().ending_instances(&pool(), 9).await.expect("read");
    assert_eq!(ended.len(), 1);
}

pub(super) async fn ending_instances_are_limited<W: TableWorld>(world: &W) {
    let (late, early) = (ending(7, 900), ending(8, 800));
    put(world, &[&late, &early]).await;
    let found = world.table().ending_instances(&pool(), 1).await.expect("read");
    assert_eq!(names(&found), [&early.name]);
}

pub(super) async fn live_instances_are_counted_by_their_groups<W: TableWorld>(world: &W) {
    let mut busy = running(3, Some(key(3)));
    assert!(busy.github_started(key(3), at(60)));
    let (starting, retrying) = (planned(4, Some(key(4))), failed(6, Some(key(6))));
    put(world, &[&running(1, None), &running(2, None), &busy, &starting, &planned(5, None)]).await;
    put(world, &[&retrying, &failed(7, None), &ending(8, 900), &deleted(&running(9, None))]).await;
    let counted = world.table().count_live_instances(&pool()).await.expect("counted");
    let expected = Groups { ending: 1, free: 3, retrying: 2, starting: 1, taken: 1 };
    assert_eq!(counted, expected);
    let none = world.table().count_live_instances(&other_pool()).await;
    assert_eq!(none, Ok(Groups::default()));
}

pub(super) async fn late_ends_were_marked_by_then<W: TableWorld>(world: &W) {
    let (late, early, middle) = (ending(7, 900), ending(9, 800), ending(8, 850));
    put(world, &[&late, &early, &middle, &running(1, None)]).await;
    let late =
        async |by, limit| world.table().late_ends(&pool(), at(by), limit).await.expect("read");
    assert_eq!(names(&late(799, 9).await), [] as [&InstanceName; 0]);
    assert_eq!(names(&late(850, 9).await), [&early.name, &middle.name]);
    assert_eq!(names(&late(899, 1).await), [&early.name]);
}

pub(super) async fn ended_instances_come_last_first_and_are_limited<W: TableWorld>(world: &W) {
    let ended = |n: u32, second: u32| {
        let mut one = ending(n, 100);
        one.to_deleting(at(100), "a check", &Timings::default());
        one.to_deleted(at(second), "a check");
        one
    };
    let (first, last, middle) = (ended(7, 800), ended(8, 900), ended(9, 850));
    let live = running(1, None);
    put(world, &[&running(7, None), &running(8, None), &running(9, None), &live]).await;
    commit(world, &[over(0, &first), over(0, &last), over(0, &middle)]).await;
    let found = world.table().ended_instances(&pool(), 9).await.expect("read");
    assert_eq!(names(&found), [&last.name, &middle.name, &first.name]);
    let found = world.table().ended_instances(&pool(), 2).await.expect("read");
    assert_eq!(names(&found), [&last.name, &middle.name]);
    assert_eq!(world.table().ended_instances(&other_pool(), 9).await, Ok(vec![]));
    assert_eq!(live_of(world, &pool()).await.0, std::slice::from_ref(&live.name));
}
