//! Which idle runner ends, and when.

use super::{Listed, ScaleDownDecision, Standing, decide, standing};
use crate::instance::{DeleteReason, Instance};
use crate::job::labels::Labels;
use crate::pool::Pool;
use crate::testkit::{Story, With, at, booting, idle, job, pool, slot, timings};

/// A pool of the organization where the fixtures are registered.
fn warm() -> Pool {
    pool().with(|pool| pool.entity = Some("acme".parse().expect("valid")))
}

/// Idle since second `n`.
fn runner(n: u32) -> Instance {
    idle().unclaimed().with(|i| {
        i.name = slot(n).name;
        i.runner.since = at(n);
    })
}

fn stays(seconds: u32) -> ScaleDownDecision {
    ScaleDownDecision::StayUntil(at(seconds))
}

#[test]
fn the_oldest_half_of_the_surplus_ends_and_not_within_the_time_after_a_launch() {
    let rows = [
        // idle, older, marked, demand, launched at, min idle → at second 1000
        ("nothing is above the min idle", (3, 0, 0, 0), None, 3, stays(1300)),
        ("fewer than the min idle", (1, 0, 0, 0), None, 3, stays(1300)),
        ("the oldest of one too many", (4, 0, 0, 0), None, 3, ScaleDownDecision::End),
        ("the second of one too many", (4, 1, 0, 0), None, 3, stays(1300)),
        ("half of seven is four", (10, 3, 0, 0), None, 3, ScaleDownDecision::End),
        ("the fifth of seven waits a minute", (10, 4, 0, 0), None, 3, stays(1050)),
        ("the min idle's own have time", (10, 7, 0, 0), None, 3, stays(1300)),
        ("a minute's half is marked already", (6, 0, 4, 0), None, 3, stays(1050)),
        ("one of the half is left", (7, 0, 3, 0), None, 3, ScaleDownDecision::End),
        ("… and only one", (7, 1, 3, 0), None, 3, stays(1050)),
        ("queued jobs count as the min idle does", (4, 0, 0, 1), None, 3, stays(1300)),
        ("… and no further", (5, 0, 0, 1), None, 3, ScaleDownDecision::End),
        ("just launched", (4, 0, 0, 0), Some(900), 3, stays(1500)),
        ("launched long enough ago", (4, 0, 0, 0), Some(400), 3, ScaleDownDecision::End),
        ("a second too early", (4, 0, 0, 0), Some(401), 3, stays(1001)),
    ];
    for (name, (idle, older, ending, demand), launched, min_idle, expected) in rows {
        let scaled_up_at = launched.map(at);
        let standing = Standing { kept: true, idle, older, ending, demand, scaled_up_at };
        assert_eq!(decide(&standing, min_idle, &timings(), at(1000)), expected, "{name}");
        let unwanted = Standing { kept: false, ..standing };
        assert_eq!(
            decide(&unwanted, min_idle, &timings(), at(1000)),
            ScaleDownDecision::End,
            "{name}"
        );
    }
}

/// Twelve too many, one pass a runner and second: after each minute half of them, never more.
#[test]
fn a_surplus_shrinks_by_half_in_its_time() {
    let mut left: Vec<Instance> = (0..14).map(runner).collect();
    let mut marked: Vec<Instance> = Vec::new();
    let mut counts = Vec::new();
    for second in 0..600 {
        let now = at(1000 + second);
        for name in left.iter().map(|one| one.name.clone()).collect::<Vec<_>>() {
            let index = left.iter().position(|one| one.name == name).expect("there");
            let listed = Listed { free: left.clone(), marked: marked.clone(), ..Listed::default() };
            let standing = standing(&left[index], &warm(), &listed, &timings(), now);
            if decide(&standing, 2, &timings(), now) == ScaleDownDecision::End {
                marked.push(left.remove(index).marked(DeleteReason::Idle, 1000 + second));
            }
        }
        if second % 51 == 0 {
            counts.push(left.len());
        }
    }
    assert_eq!(counts, [8, 5, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    // The youngest two are left.
    assert_eq!(left.iter().map(|one| one.runner.since).collect::<Vec<_>>(), [at(12), at(13)]);
}

#[test]
fn only_runners_that_could_take_the_same_job_are_counted() {
    let own = runner(50);
    let listed = |free: Vec<Instance>| {
        standing(&own, &warm(), &Listed { free, ..Listed::default() }, &timings(), at(1000))
    };
    let alone = Standing { kept: true, idle: 1, ..Standing::default() };
    assert_eq!(listed(vec![]), alone);
    // Itself, however late the listing is.
    assert_eq!(listed(vec![own.clone()]), alone);
    assert_eq!(listed(vec![runner(60)]), Standing { idle: 2, ..alone });
    assert_eq!(listed(vec![runner(40), runner(60)]), Standing { idle: 3, older: 1, ..alone });
    let others = [
        ("unregistered", booting().unclaimed()),
        ("claimed", idle().with(|i| i.name = slot(3).name)),
        ("marked", runner(3).marked(DeleteReason::Idle, 900)),
        ("elsewhere", runner(3).with(|i| i.entity = "other".parse().expect("valid"))),
        ("outdated", runner(3).with(|i| i.template_version = Some("2".into()))),
        ("passed over", runner(3).with(|i| i.passed_over = true)),
    ];
    for (name, other) in others {
        assert_eq!(listed(vec![other]), alone, "{name}");
    }
    let nobodys = runner(50).with(|i| i.passed_over = true);
    let found = standing(&nobodys, &warm(), &Listed::default(), &timings(), at(1000));
    assert!(!found.kept);
}

#[test]
fn marks_of_the_last_minute_and_jobs_that_it_could_serve_are_counted() {
    let own = runner(50);
    let marked = vec![
        runner(1).marked(DeleteReason::Idle, 951),
        runner(2).marked(DeleteReason::Idle, 950),
        runner(3).marked(DeleteReason::BootTimeout, 999),
    ];
    let windows = job(2).with(|job| job.last_event.labels = Labels::new(["windows"]));
    let listed = Listed { marked, demand: vec![job(1), windows], ..Listed::default() };
    let found = standing(&own, &warm(), &listed, &timings(), at(1000));
    assert_eq!(
        found,
        Standing { kept: true, idle: 1, ending: 1, demand: 1, ..Standing::default() }
    );
}
