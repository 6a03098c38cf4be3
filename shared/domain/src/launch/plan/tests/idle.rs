//! `min_idle`: missing runners are launched after those for jobs, and never above a maximum.

use std::collections::BTreeMap;

use super::super::{Plan, canary};
use super::{
    claims, free_booting, free_idle, free_slot, launched, left, over_maximum, plan, read, view,
};
use crate::instance::Instance;
use crate::job::Job;
use crate::launch::record::Cooldowns;
use crate::launch::record::trouble::RequestKind;
use crate::launch::verdict::Brake;
use crate::pool::Pool;
use crate::pool::limits::{Headroom, Limits, Scope};
use crate::pool::warm::{RepositoryEvent, Warm, WarmEvent, WarmRule};
use crate::provider::ProviderError;
use crate::switches::{Switch, SwitchedOff, Switches};
use crate::testkit::{With, at, fault, job, pool, timings};
use crate::time::Seconds;

fn keeps(min_idle: u32) -> Pool {
    pool().with(|pool| {
        pool.entity = Some("acme".parse().expect("valid"));
        pool.min_idle = min_idle;
    })
}

/// The number of idle machines in each request.
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
        // Columns: name, min idle, max, live, free runners, launched.
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
            view.conditions.live = live;
            view.supply = read(supply);
        }));
        assert_eq!(idle(&plan), expected, "{name}");
    }
}

#[test]
fn a_runner_that_a_job_takes_is_replaced_and_jobs_come_first() {
    let (own, timings) = (keeps(2), timings());
    let planned = plan(view(&own, &timings, vec![job(1)]).with(|view| {
        view.conditions.live = 2;
        view.supply = read([free_idle(8), free_idle(9)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8"]);
    assert_eq!((launched(&planned).concat(), idle(&planned)), (vec![], vec![1]));
    // Capacity for one machine: the second job gets it.
    let tight = keeps(1).with(|pool| pool.max = 2);
    let planned = plan(view(&tight, &timings, vec![job(1), job(2)]).with(|view| {
        view.conditions.live = 1;
        view.supply = read([free_idle(8)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8"]);
    assert_eq!((launched(&planned), idle(&planned)), (vec![vec![2]], vec![]));
}

/// The case of GARM: `min_idle` equals the pool's maximum.
#[test]
fn jobs_are_served_where_the_min_idle_is_the_maximum() {
    let (own, timings) = (keeps(2).with(|pool| pool.max = 2), timings());
    let planned = plan(view(&own, &timings, vec![job(1), job(2), job(3)]).with(|view| {
        view.conditions.live = 2;
        view.supply = read([free_idle(8), free_idle(9)]);
    }));
    assert_eq!(claims(&planned), ["job 1 to default-l-8", "job 2 to default-l-9"]);
    assert_eq!((over_maximum(&planned), idle(&planned)), (1, vec![]));
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
            view.conditions.live = 1;
            view.supply = read([one]);
        }));
        assert_eq!(idle(&plan), [1]);
    }
}

#[test]
fn a_pool_in_trouble_launches_what_finds_out_and_no_more() {
    let (own, timings) = (keeps(3), timings());
    // GitHub registers no runners there. The first probe is allowed after two minutes.
    let refused = ProviderError::Unauthorized(fault("403"));
    let acme = own.entity.clone().expect("an owner");
    let planned = |since, jobs: Vec<Job>| {
        let known = Cooldowns::default();
        let known = known.after_answer(&acme, RequestKind::Registration, Some(&refused), at(since));
        let plan = plan(view(&own, &timings, jobs).with(|view| {
            view.conditions.cooldowns = known.expect("a trouble");
            let none: [Job; 0] = [];
            view.conditions = std::mem::take(&mut view.conditions).judged_by(
                &own,
                &none,
                &[] as &[Instance],
                &[] as &[Instance],
                view.now,
                &timings,
            );
        }));
        assert!(plan.blocks().all(|block| block.brake == Brake::Trouble));
        let waits: Vec<u64> = left(&plan).into_iter().map(|(job, _)| job).collect();
        (launched(&plan).concat(), idle(&plan), waits, plan.idle_block.is_some())
    };
    assert_eq!(planned(900, vec![]), (vec![], vec![], vec![], true));
    assert_eq!(planned(880, vec![]), (vec![], vec![1], vec![], true));
    // Jobs come first.
    assert_eq!(planned(880, vec![job(1), job(2)]), (vec![1], vec![], vec![2], true));
    assert_eq!(planned(900, vec![job(1), job(2)]), (vec![], vec![], vec![1, 2], true));
}

#[test]
fn limits_of_stack_and_entity_bound_jobs_and_min_idle_together() {
    let timings = timings();
    let acme = || Scope::Entity("acme".parse().expect("valid"));
    let rows = [
        // Columns: stack limit, entity limit, counted there, jobs launched for, idle.
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
            view.conditions.headroom = Headroom::new(limits.clone(), counted);
        }));
        assert_eq!((launched(&plan).concat(), idle(&plan)), (jobs.clone(), expected), "{limits:?}");
        assert_eq!(over_maximum(&plan), 2 - jobs.len());
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
    let (own, timings) = (pool().with(|pool| pool.repositories = vec!["*".into()]), timings());
    let api = job(2).with(|job| job.last_event.repository = "other/api".into());
    let limits = Limits { stack: None, entities: [("acme".parse().expect("valid"), 0)].into() };
    let plan = plan(view(&own, &timings, vec![job(1), api, job(3)]).with(|view| {
        view.conditions.headroom = Headroom::new(limits, BTreeMap::new());
    }));
    assert_eq!(launched(&plan), [[2]]);
    let full = "acme is at its maximum (0)";
    assert_eq!(left(&plan), [(1, full), (3, full)]);
}

#[test]
fn a_young_job_gets_a_free_runner_and_no_machine() {
    let (own, timings) = (pool().with(|pool| pool.job_age_seconds = Seconds(990)), timings());
    // It is second 1000.
    let jobs = vec![job(10), job(11), job(12)];
    let plan = plan(view(&own, &timings, jobs).with(|view| view.supply = vec![]));
    assert_eq!(launched(&plan), [[10]]);
    let young = "pool default launches no machine for a job before it has waited for 16 min";
    assert_eq!(left(&plan), [(11, young), (12, young)]);
    let plan = super::plan(view(&own, &timings, vec![job(11)]).with(|view| {
        view.supply = read([free_idle(8)]);
    }));
    assert_eq!(claims(&plan), ["job 11 to default-l-8"]);
}

#[test]
fn held_back_a_pool_gives_runners_and_launches_nothing() {
    let (own, timings) = (keeps(2), timings());
    let by = SwitchedOff {
        since: at(5),
        by: "ada".to_owned(),
        reason: "moving".to_owned(),
        until: None,
    };
    let off = Switches::with(&Switches::default(), &Switch::Launches, Some(by));
    let plan = plan(view(&own, &timings, vec![job(1), job(2)]).with(|view| {
        view.supply = read([free_idle(8)]);
        view.conditions.switches = off;
    }));
    assert_eq!(claims(&plan), ["job 1 to default-l-8"]);
    assert!(plan.launches.is_empty());
    let why = format!("launches are paused at {} by ada: moving", at(5));
    assert_eq!(left(&plan), [(2, why.as_str())]);
}

#[test]
fn a_job_that_the_pool_does_not_serve_any_more_is_left() {
    let (own, timings) = (pool(), timings());
    let public = job(1).with(|job| job.last_event.private = false);
    let plan = plan(view(&own, &timings, vec![public]));
    assert!(plan.launches.is_empty());
    let why = "pool default no longer serves it: the repository is public and the pool \
               refuses those";
    assert_eq!(left(&plan), [(1, why)]);
}

/// A canary is launched by the pass that finds its launch, and blocked by the conditions that block
/// `min_idle`. During a trouble, the probe is reserved for a job.
#[test]
fn a_canary_is_one_machine_beside_the_min_idle() {
    let (own, timings) = (keeps(0), timings());
    let planned = canary(view(&own, &timings, vec![])).expect("nothing holds it").expect("a name");
    assert_eq!((planned.launch.calls, planned.launch.lease_until), (0, at(1000)));
    assert_eq!((planned.idle.len(), planned.launch.request.capacity), (1, 1));
    assert_eq!(
        (planned.idle[0].claim(), &planned.idle[0].entity),
        (None, own.entity.as_ref().expect("one"))
    );
    let full = canary(view(&own, &timings, vec![]).with(|view| view.conditions.live = own.max));
    assert_eq!(full.expect_err("no room").brake, Brake::Maximum);
    let refused = ProviderError::Unauthorized(fault("403"));
    let troubled = view(&own, &timings, vec![]).with(|view| {
        let known = Cooldowns::default().after_answer(
            own.entity.as_ref().expect("one"),
            RequestKind::Registration,
            Some(&refused),
            at(880),
        );
        view.conditions.cooldowns = known.expect("a refusal");
        let none: [&Instance; 0] = [];
        let no_jobs: [&Job; 0] = [];
        view.conditions = std::mem::take(&mut view.conditions).judged_by(
            &own,
            &no_jobs,
            &none,
            &none,
            at(1000),
            &timings,
        );
    });
    assert!(!plan(troubled.clone().with(|view| view.demand = read([job(1)]))).launches.is_empty());
    assert_eq!(canary(troubled).expect_err("it finds nothing out").brake, Brake::Trouble);
}

#[test]
fn an_event_launches_its_runners_once() {
    let timings = timings();
    let pool = keeps(0).with(|pool| {
        pool.warm_on = vec![WarmRule {
            event: WarmEvent::Push,
            repositories: Vec::new(),
            branches: Vec::new(),
            idle: 3,
            for_seconds: Seconds(600),
        }];
    });
    let push = RepositoryEvent {
        kind: WarmEvent::Push,
        repository: "acme/web".into(),
        private: true,
        user_owned: false,
        branch: "main".into(),
        at: at(900),
    };
    let warm = Warm::after(&[], &pool, &push, at(900)).expect("warm");
    let used = Warm::launched(&warm, 3);
    let rows = [
        // Columns: name, entries, jobs, max, free runners, launched idle, missing afterwards, without the launches.
        ("all of them", &warm, 0, 10, vec![], vec![3], 3),
        ("the rest", &warm, 0, 10, vec![free_idle(1), free_booting(2)], vec![1], 1),
        ("none beside enough jobs", &warm, 3, 10, vec![], vec![], 0),
        ("what the jobs leave", &warm, 1, 10, vec![], vec![2], 2),
        ("a job takes one that is there", &warm, 1, 10, vec![free_idle(1)], vec![2], 2),
        ("no more than the maximum", &warm, 0, 2, vec![], vec![2], 3),
        ("none again", &used, 0, 10, vec![], vec![], 0),
        ("none for those that jobs took", &used, 1, 10, vec![free_idle(1)], vec![], 0),
    ];
    for (name, warm, demand, max, supply, expected, missing) in rows {
        let pool = pool.clone().with(|pool| pool.max = max);
        let plan = plan(view(&pool, &timings, (1..=demand).map(job).collect()).with(|view| {
            view.warm = warm;
            view.supply = read(supply);
        }));
        assert_eq!(idle(&plan), expected, "{name}");
        assert_eq!(plan.warm[0].missing, missing, "{name}");
    }
    let late =
        plan(view(&pool, &timings, vec![]).with(|view| (view.warm, view.now) = (&warm, at(1500))));
    assert_eq!((idle(&late), &late.warm), (vec![], &warm), "its time is over");
}
