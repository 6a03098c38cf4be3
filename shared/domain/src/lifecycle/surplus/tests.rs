//! Which idle runner is surplus.

use super::is_surplus;
use crate::instance::{DeleteReason, Instance};
use crate::job::labels::Labels;
use crate::pool::Pool;
use crate::testkit::{Story, With, at, booting, idle, job, pool, slot};

/// A pool of the fixtures' organization that keeps two idle runners.
fn warm() -> Pool {
    pool().with(|pool| {
        pool.entity = Some("acme".parse().expect("valid"));
        (pool.min_idle, pool.max) = (2, 20);
    })
}

/// Idle since second `n`.
fn runner(n: u32) -> Instance {
    idle().unclaimed().with(|i| {
        i.name = slot(n).name;
        i.runner.since = at(n);
    })
}

#[test]
fn the_youngest_stay_for_the_min_idle_and_for_the_jobs() {
    let windows = job(9).with(|job| job.last_event.labels = Labels::new(["windows"]));
    let all: Vec<Instance> = (1..=6).map(runner).collect();
    for (name, free, demand, surplus) in [
        ("none too many", 2, vec![], 0),
        ("fewer than the min idle", 1, vec![], 0),
        ("one too many", 3, vec![], 1),
        ("four too many", 6, vec![], 4),
        ("a job waits for one of them", 6, vec![job(1)], 3),
        ("more jobs than runners", 3, (1..=9).map(job).collect(), 0),
        ("a job that they cannot run", 6, vec![windows], 4),
    ] {
        let ends = |one: &&Instance| is_surplus(one, &warm(), &all[..free], &demand);
        let ending: Vec<&Instance> = all[..free].iter().filter(ends).collect();
        assert_eq!(ending, all[..surplus].iter().collect::<Vec<_>>(), "{name}");
    }
}

/// The result does not depend on the listing's delay: instances that it still shows ended before
/// this runner's check.
#[test]
fn each_spares_the_same_runners() {
    let mut all: Vec<Instance> = (1..=6).map(runner).collect();
    let late = all.clone();
    all.retain(|one| !is_surplus(one, &warm(), &late, &[]));
    assert_eq!(all, [runner(5), runner(6)]);
    let left =
        |shown: &[Instance]| all.iter().filter(|one| is_surplus(one, &warm(), shown, &[])).count();
    assert_eq!((left(&late), left(&all)), (0, 0));
}

#[test]
fn only_runners_that_could_take_the_same_job_are_counted() {
    let own = runner(50);
    let with = |other: Instance| is_surplus(&own, &warm(), &[runner(61), own.clone(), other], &[]);
    assert!(with(runner(60)));
    // The pool file may name the organization in another letter case than it did then.
    assert!(with(runner(60).with(|i| i.entity = "ACME".parse().expect("valid"))));
    let others = [
        ("older", runner(40)),
        ("unregistered", booting().unclaimed().with(|i| i.runner.since = at(60))),
        ("claimed", idle().with(|i| i.runner.since = at(60))),
        ("marked", runner(60).marked(DeleteReason::Idle, 900)),
        ("elsewhere", runner(60).with(|i| i.entity = "other".parse().expect("valid"))),
        ("outdated", runner(60).with(|i| i.template_version = Some("2".into()))),
        ("passed over", runner(60).with(|i| i.passed_over = true)),
    ];
    for (name, other) in others {
        assert!(!with(other), "{name}");
    }
    let nobodys = runner(50).with(|i| i.passed_over = true);
    assert!(is_surplus(&nobodys, &warm(), &[], &[]), "one that the pool does not want");
}
