//! Listings of jobs and launches.

use super::*;
use muster_control::ports::{JobGroup, Jobs, Launches};

async fn queue<W: TableWorld>(world: &W, jobs: &[&Job]) {
    for job in jobs {
        commit(world, &[new(*job)]).await;
    }
}

async fn demand<W: TableWorld>(world: &W, limit: u32) -> Vec<u64> {
    numbers(&world.table().demand(&pool(), limit).await.expect("read"))
}

pub(super) async fn demand_comes_oldest_first<W: TableWorld>(world: &W) {
    queue(world, &[&queued(5), &queued(3), &queued(4)]).await;
    assert_eq!(demand(world, 10).await, [3, 4, 5]);
    assert_eq!(world.table().demand(&other_pool(), 10).await, Ok(vec![]));
}

pub(super) async fn demand_is_limited<W: TableWorld>(world: &W) {
    queue(world, &[&queued(5), &queued(3), &queued(4)]).await;
    assert_eq!(demand(world, 2).await, [3, 4]);
    assert_eq!(demand(world, 0).await, [] as [u64; 0]);
}

pub(super) async fn demand_has_no_claim_and_a_pool_and_waits<W: TableWorld>(world: &W) {
    let claimed = Job { claim: Some(planned(1, None).name), ..queued(2) };
    let unmatched = Job { pool: None, ..queued(6) };
    let expired = Job { expired: true, ..queued(7) };
    let runs = fold(Some(queued(8)), event(8, JobStatus::InProgress), at(70));
    let over = fold(Some(queued(9)), event(9, JobStatus::Completed), at(70));
    queue(world, &[&claimed, &unmatched, &expired, &runs, &over, &queued(5)]).await;
    assert_eq!(demand(world, 10).await, [5]);
}

pub(super) async fn demand_ends_when_a_runner_takes_the_job<W: TableWorld>(world: &W) {
    let before = queued(1);
    queue(world, &[&before]).await;
    let runs = fold(Some(before.clone()), event(1, JobStatus::InProgress), at(70));
    commit(world, &[over(0, &runs)]).await;
    assert_eq!(demand(world, 10).await, [] as [u64; 0]);
    assert_eq!(world.table().waiting_jobs(&pool(), 10).await, Ok(vec![]));
}

pub(super) async fn jobs_without_a_pool_are_listed_until_they_have_one<W: TableWorld>(world: &W) {
    let unmatched = |n| Job { pool: None, unmatched: Some("labels".into()), ..queued(n) };
    let expired = Job { expired: true, ..unmatched(7) };
    let ended = fold(Some(unmatched(9)), event(9, JobStatus::Completed), at(70));
    queue(world, &[&unmatched(5), &queued(4), &unmatched(3), &expired, &ended]).await;
    let listed = |limit| world.table().unmatched_jobs(limit);
    assert_eq!(numbers(&listed(10).await.expect("read")), [3, 5]);
    assert_eq!(numbers(&listed(1).await.expect("read")), [3]);
    assert_eq!(world.table().count_unmatched_jobs().await, Ok(2));
    let before = unmatched(3);
    let next = Job { pool: Some(pool()), unmatched: None, ..before };
    commit(world, &[over(0, &next)]).await;
    assert_eq!(numbers(&listed(10).await.expect("read")), [5]);
    assert_eq!(demand(world, 10).await, [3, 4]);
}

pub(super) async fn jobs_behind_an_approval_are_listed_by_their_silence<W: TableWorld>(world: &W) {
    let gated = |n| {
        queued(n).found_waiting(at(100)).found_waiting(at(200 - u32::try_from(n).expect("small")))
    };
    let first = fold(None, event(6, JobStatus::Waiting), at(6));
    queue(world, &[&gated(3), &queued(4), &gated(5), &first]).await;
    let listed = |limit| world.table().gated_jobs(limit);
    assert_eq!(numbers(&listed(10).await.expect("read")), [6, 5, 3], "the longest silence first");
    assert_eq!(numbers(&listed(1).await.expect("read")), [6]);
    assert_eq!(world.table().count_gated_jobs().await, Ok(3));
    assert_eq!(demand(world, 10).await, [4], "they need no machine");
    let before = gated(5);
    let next = fold(Some(before.clone()), event(5, JobStatus::Queued), at(300));
    commit(world, &[over(0, &next)]).await;
    assert_eq!(numbers(&listed(10).await.expect("read")), [6, 3]);
    assert_eq!(demand(world, 10).await, [4, 5]);
}

pub(super) async fn waiting_jobs_come_with_and_without_a_claim<W: TableWorld>(world: &W) {
    let claim = |n: u64| Job { claim: Some(planned(1, None).name), ..queued(n) };
    queue(world, &[&queued(5), &claim(2), &queued(3), &claim(1)]).await;
    let found = world.table().waiting_jobs(&pool(), 10).await.expect("read");
    assert_eq!(numbers(&found), [3, 5, 1, 2]);
    assert_eq!(world.table().count_waiting_jobs(&pool()).await, Ok(4));
}

/// Each group in its order, and from any of its jobs on.
pub(super) async fn groups_of_jobs_are_listed_from_any_job_on<W: TableWorld>(world: &W) {
    let claim = |n: u64| Job { claim: Some(planned(1, None).name), ..queued(n) };
    let unmatched = |n| Job { pool: None, unmatched: Some("labels".into()), ..queued(n) };
    let gated = |n| fold(None, event(n, JobStatus::Waiting), at(u32::try_from(n).expect("small")));
    queue(world, &[&queued(5), &claim(2), &queued(3), &claim(1), &unmatched(7), &gated(9)]).await;
    queue(world, &[&queued(4), &unmatched(6), &gated(8)]).await;
    for (group, expected) in [
        (JobGroup::Free(pool()), &[3, 4, 5][..]),
        (JobGroup::Claimed(pool()), &[1, 2]),
        (JobGroup::Unmatched, &[6, 7]),
        (JobGroup::Gated, &[8, 9]),
        (JobGroup::Free(other_pool()), &[]),
    ] {
        let whole = world.table().jobs_of(&group, None).await.expect("read").items;
        assert_eq!(numbers(&whole), expected, "{group:?}");
        for (index, last) in whole.iter().enumerate() {
            let page = world.table().after_job(&group, last).expect("a page");
            let rest = world.table().jobs_of(&group, Some(page)).await.expect("read").items;
            assert_eq!(numbers(&rest), expected[index + 1..], "{group:?} after {index}");
        }
    }
}

pub(super) async fn waiting_jobs_are_those_of_the_pool<W: TableWorld>(world: &W) {
    queue(world, &[&queued(1)]).await;
    assert_eq!(world.table().waiting_jobs(&other_pool(), 10).await, Ok(vec![]));
    assert_eq!(world.table().count_waiting_jobs(&other_pool()).await, Ok(0));
}

pub(super) async fn open_launches_are_listed_until_they_are_settled<W: TableWorld>(world: &W) {
    let (first, second) = (launch(1), launch(2));
    commit(world, &[new(&second), new(&first)]).await;
    let open = world.table().open_launches(&pool()).await;
    assert_eq!(open, Ok(vec![made(first.clone()), made(second.clone())]), "oldest first");
    commit(world, &[over(0, &first.settled())]).await;
    assert_eq!(world.table().open_launches(&pool()).await, Ok(vec![made(second)]));
    assert_eq!(world.table().open_launches(&other_pool()).await, Ok(vec![]));
}
