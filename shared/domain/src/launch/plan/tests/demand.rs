//! Free runners are used before launching machines, the oldest job comes first, and the pool's
//! maximum is never exceeded.

use super::{
    claims, free_booting, free_idle, free_installing, free_slot, launched, over_maximum, plan,
    read, view,
};
use crate::job::labels::Labels;
use crate::testkit::{With, at, job, pool, timings};

#[test]
fn free_runners_are_taken_before_machines_are_launched() {
    let (pool, timings) = (pool(), timings());
    let plan = plan(view(&pool, &timings, vec![job(1), job(2)]).with(|view| {
        view.supply = read([free_idle(7)]);
        view.conditions.live = 1;
    }));
    assert_eq!(claims(&plan), ["job 1 to default-l-7"]);
    assert_eq!(launched(&plan), [[2]]);
}

#[test]
fn the_oldest_job_gets_the_runner_that_is_nearest() {
    let (pool, timings) = (pool(), timings());
    let jobs = vec![job(30), job(10), job(40), job(20)];
    let plan = plan(view(&pool, &timings, jobs).with(|view| {
        view.supply = read([free_slot(1), free_booting(2), free_idle(3), free_installing(4)]);
    }));
    assert_eq!(
        claims(&plan),
        [
            "job 10 to default-l-3",
            "job 20 to default-l-4",
            "job 30 to default-l-2",
            "job 40 to default-l-1"
        ]
    );
    assert_eq!((launched(&plan).len(), over_maximum(&plan)), (0, 0));
}

#[test]
fn of_equals_the_older_runner_and_then_the_name_decides() {
    let (pool, timings) = (pool(), timings());
    let older = free_idle(9).with(|i| i.created_at = at(0) - crate::time::Seconds(1));
    let plan = plan(view(&pool, &timings, vec![job(1), job(2), job(3)]).with(|view| {
        view.supply = read([free_idle(5), free_idle(4), older]);
    }));
    assert_eq!(
        claims(&plan),
        ["job 1 to default-l-9", "job 2 to default-l-4", "job 3 to default-l-5"]
    );
}

#[test]
fn a_runner_is_not_given_what_it_cannot_take() {
    let (own, timings) = (pool(), timings());
    let elsewhere = free_idle(1).with(|i| i.entity = "other".parse().expect("valid"));
    let other_pool = free_idle(2).with(|i| i.pool = "other".parse().expect("valid"));
    let windows = job(1).with(|job| job.last_event.labels = Labels::new(["windows"]));
    let plan = plan(view(&own, &timings, vec![windows, job(2)]).with(|view| {
        view.supply = read([elsewhere, other_pool, free_idle(3)]);
    }));
    // A younger job overtakes one that the runner cannot take.
    assert_eq!(claims(&plan), ["job 2 to default-l-3"]);
}

#[test]
fn no_more_machines_than_the_pool_allows_and_the_oldest_jobs_get_them() {
    let timings = timings();
    let rows = [
        // Columns: max, live, jobs launched for, number of waiting jobs.
        (10, 0, vec![1, 2, 3, 4], 0),
        (4, 0, vec![1, 2, 3, 4], 0),
        (4, 1, vec![1, 2, 3], 1),
        (4, 3, vec![1], 3),
        (4, 4, vec![], 4),
        (4, 9, vec![], 4),
        (0, 0, vec![], 4),
    ];
    for (max, live, expected, over) in rows {
        let pool = pool().with(|pool| pool.max = max);
        let jobs = vec![job(4), job(2), job(3), job(1)];
        let plan = plan(view(&pool, &timings, jobs).with(|view| view.conditions.live = live));
        assert_eq!(launched(&plan).concat(), expected, "{live} of {max}");
        assert_eq!(over_maximum(&plan), over, "{live} of {max}");
    }
}

#[test]
fn a_job_with_a_free_runner_does_not_count_against_the_maximum() {
    let (pool, timings) = (pool().with(|pool| pool.max = 3), timings());
    let plan = plan(view(&pool, &timings, vec![job(1), job(2), job(3)]).with(|view| {
        view.conditions.live = 2;
        view.supply = read([free_idle(8)]);
    }));
    assert_eq!(claims(&plan), ["job 1 to default-l-8"]);
    assert_eq!((launched(&plan), over_maximum(&plan)), (vec![vec![2]], 1));
}
