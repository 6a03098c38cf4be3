//! The min idle: what is missing of it is launched after the jobs, and never above a maximum.

use std::collections::BTreeMap;

use super::super::Plan;
use super::{claims, free_booting, free_idle, free_slot, launched, plan, read, view};
use crate::job::Job;
use crate::launch::cooldown::LaunchBlock;
use crate::pool::Pool;
use crate::pool::limits::{Headroom, Limits, Scope};
use crate::testkit::{With, at, job, pool, timings};
use crate::time::Seconds;

fn keeps(min_idle: u32) -> Pool {
    pool().with(|pool| {
        pool.entity = Some("acme".parse().expect("valid"));
        pool.min_idle = min_idle;
    })
}

/// How many machines are launched for nobody, request by request.
fn idle(plan: &Plan) -> Vec<usize> {
    let launches = plan.launches.iter().filter(|launch| !launch.idle.is_empty());
    launches
        .map(|launch| {
            assert!(launch.idle.iter().all(|one| one.claim().is_none()));
            assert_eq!(launch.launch.slots.len(), launch.idle.len());
            assert_eq!(launch.launch.request.capacity as usize, launch.idle.len());
            launch.idle.len()
        })
        .collect()
}

#[test]
fn what_is_missing_of_the_min_idle_is_launched() {
    let timings = timings();
    let rows = [
        // min idle, max, live, free runners, launched
        ("all of it", 3, 10, 0, vec![], vec![3]),
        ("the rest", 3, 10, 2, vec![free_idle(1), free_booting(2)], vec![1]),
        ("a slot that EC2 is asked for counts", 1, 10, 1, vec![free_slot(1)], vec![]),
        ("no more than the maximum", 3, 4, 2, vec![], vec![2]),
        ("none at the maximum", 3, 4, 4, vec![], vec![]),
        ("more than one request takes", 60, 100, 0, vec![], vec![49, 11]),
        ("none is wanted", 0, 10, 0, vec![], vec![]),
    ];
    for (name, min_idle, max, live, supply, expected) in rows {
        let pool = keeps(min_idle).with(|pool| pool.max = max);
        let plan = plan(view(&pool, &timings, vec![]).with(|view| {
            view.live = live;
            view.supply = read(supply);
        }));
        assert_eq!(idle(&plan), expected, "{name}");
    }
}

#[test]
fn a_runner_that_a_job_takes_is_replaced_and_jobs_come_first() {
    let (own, timings) = (keeps(2), timings());
    let planned = plan(view(&own, &timings, vec![job(1)]).with(|view| {
        view.live = 2;
        view.supply = read([free_idle(8), free_idle(9)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8"]);
    assert_eq!((launched(&planned).concat(), idle(&planned)), (vec![], vec![1]));
    // Room for one: the second job gets it.
    let tight = keeps(1).with(|pool| pool.max = 2);
    let planned = plan(view(&tight, &timings, vec![job(1), job(2)]).with(|view| {
        view.live = 1;
        view.supply = read([free_idle(8)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8"]);
    assert_eq!((launched(&planned), idle(&planned)), (vec![vec![2]], vec![]));
}

/// GARM's case: the min idle is all that the pool may have.
#[test]
fn jobs_are_served_where_the_min_idle_is_the_maximum() {
    let (own, timings) = (keeps(2).with(|pool| pool.max = 2), timings());
    let planned = plan(view(&own, &timings, vec![job(1), job(2), job(3)]).with(|view| {
        view.live = 2;
        view.supply = read([free_idle(8), free_idle(9)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8", "job 2 to default-l-9"]);
    assert_eq!((planned.over_maximum, idle(&planned)), (1, vec![]));
}

#[test]
fn runners_that_the_pool_would_not_launch_today_do_not_count() {
    let (own, timings) = (keeps(1), timings());
    let odd = [
        free_idle(1).with(|i| i.template_version = Some("2".into())),
        free_idle(1).with(|i| i.entity = "elsewhere".parse().expect("valid")),
        free_idle(1).with(|i| i.passed_over = true),
    ];
    for one in odd {
        let plan = plan(view(&own, &timings, vec![]).with(|view| {
            view.live = 1;
            view.supply = read([one]);
        }));
        assert_eq!(idle(&plan), [1]);
    }
}

#[test]
fn a_pool_in_trouble_launches_what_finds_out_and_no_more() {
    let (own, timings) = (keeps(3), timings());
    let planned = |most, jobs: Vec<Job>| {
        let block = LaunchBlock { until: at(1100), reason: "no".to_owned(), closed: None };
        let plan = plan(view(&own, &timings, jobs).with(|view| view.trouble = Some((most, block))));
        let left: Vec<String> = plan.left.iter().map(|one| one.why.clone()).collect();
        (launched(&plan), idle(&plan), left.join(" "))
    };
    let no = String::new;
    assert_eq!(planned(0, vec![]), (vec![], vec![], no()));
    assert_eq!(planned(1, vec![]), (vec![], vec![1], no()));
    // Jobs come first.
    assert_eq!(planned(1, vec![job(1), job(2)]), (vec![vec![1]], vec![], "no".to_owned()));
    assert_eq!(planned(0, vec![job(1), job(2)]), (vec![], vec![], "no no".to_owned()));
}

#[test]
fn limits_of_stack_and_entity_bound_jobs_and_min_idle_together() {
    let timings = timings();
    let acme = || Scope::Entity("acme".parse().expect("valid"));
    let rows = [
        // stack, entity, counted there, jobs launched for, idle
        (None, None, 0, vec![1, 2], vec![3]),
        (Some(4), None, 0, vec![1, 2], vec![2]),
        (Some(4), None, 3, vec![1], vec![]),
        (Some(9), Some(2), 0, vec![1, 2], vec![]),
        (Some(9), Some(1), 1, vec![], vec![]),
    ];
    for (stack, entity, counted, jobs, expected) in rows {
        let own = keeps(3);
        let entities = entity.map(|max| ("acme".parse().expect("valid"), max));
        let limits = Limits { stack, entities: entities.into_iter().collect() };
        let counted = BTreeMap::from([(Scope::Stack, counted), (acme(), counted)]);
        let plan = plan(view(&own, &timings, vec![job(1), job(2)]).with(|view| {
            view.room = Headroom::new(limits.clone(), counted);
        }));
        assert_eq!((launched(&plan).concat(), idle(&plan)), (jobs.clone(), expected), "{limits:?}");
        assert_eq!(plan.over_maximum, 2 - jobs.len());
        let counted_in = [stack.map(|_| Scope::Stack), entity.map(|_| acme())];
        let counted_in: Vec<Scope> = counted_in.into_iter().flatten().collect();
        for launch in &plan.launches {
            let fresh = launch.fresh.iter().map(|(one, _)| one);
            assert!(fresh.chain(&launch.idle).all(|one| one.counted_in == counted_in));
        }
    }
}

#[test]
fn a_full_entity_does_not_hold_up_the_jobs_of_another() {
    let (own, timings) = (pool(), timings());
    let api = job(2).with(|job| job.last_event.repository = "other/api".into());
    let limits = Limits { stack: None, entities: [("acme".parse().expect("valid"), 0)].into() };
    let plan = plan(view(&own, &timings, vec![job(1), api, job(3)]).with(|view| {
        view.room = Headroom::new(limits, BTreeMap::new());
    }));
    assert_eq!(launched(&plan), [[2]]);
    let left: Vec<(u64, &str)> =
        plan.left.iter().map(|left| (left.job.key().job, left.why.as_str())).collect();
    assert_eq!(left, [(1, "acme is at its maximum"), (3, "acme is at its maximum")]);
}

#[test]
fn a_young_job_gets_a_free_runner_and_no_machine() {
    let (own, timings) = (pool().with(|pool| pool.job_age_seconds = Seconds(990)), timings());
    // Now is second 1000.
    let jobs = vec![job(10), job(11), job(12)];
    let plan = plan(view(&own, &timings, jobs).with(|view| view.supply = vec![]));
    assert_eq!(launched(&plan), [[10]]);
    assert_eq!((plan.over_maximum, plan.left.len()), (0, 0));
    let plan = super::plan(view(&own, &timings, vec![job(11)]).with(|view| {
        view.supply = read([free_idle(8)]);
    }));
    assert_eq!(claims(&plan), ["job 11 to default-l-8"]);
}

#[test]
fn held_back_a_pool_gives_runners_and_launches_nothing() {
    let (own, timings) = (keeps(2), timings());
    let plan = plan(view(&own, &timings, vec![job(1), job(2)]).with(|view| {
        view.supply = read([free_idle(8)]);
        view.held = Some("it is paused".to_owned());
    }));
    assert_eq!(claims(&plan), ["job 1 to default-l-8"]);
    assert!(plan.launches.is_empty());
    let left: Vec<(u64, &str)> =
        plan.left.iter().map(|left| (left.job.key().job, left.why.as_str())).collect();
    assert_eq!(left, [(2, "it is paused")]);
}

#[test]
fn a_job_that_the_pool_does_not_serve_any_more_is_left() {
    let (own, timings) = (pool(), timings());
    let public = job(1).with(|job| job.last_event.private = false);
    let plan = plan(view(&own, &timings, vec![public]));
    assert!(plan.launches.is_empty());
    assert_eq!(plan.left[0].why, "the repository is public and the pool refuses those");
}
