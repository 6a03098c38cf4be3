//! Whose jobs GitHub is asked for when it limits somebody.

use std::collections::BTreeMap;

use muster_domain::job::Job;
use muster_domain::stored::Change;
use muster_domain::time::Time;
use muster_sim::schedule;

use crate::bench::{Bench, waiting};

const HOUR: i64 = 3_600_000;

/// A job that has waited for hours, and of which nothing was heard since.
fn silent(bench: &Bench, n: u64, owner: &str, hours: i64) -> Job {
    let then = Time::from_millis(bench.door.now().as_millis() - hours * HOUR);
    let mut job = waiting(n, then);
    job.seen_at = then;
    job.last_event.repository = format!("{owner}/web").into();
    job.last_event.installation = bench.change(|world| Some(world.github.installation_of(owner)));
    job
}

fn stack() -> Bench {
    let pool = schedule::pool("small", &["linux"], 0, "spot", None);
    let bench = Bench::of(vec![pool]).compared();
    bench.change(|world| world.github.install("limited"));
    bench
}

/// How many jobs of each owner were asked for.
fn asked(bench: &Bench) -> BTreeMap<String, usize> {
    bench.change(|world| {
        let mut asked = BTreeMap::new();
        for job in world.tables.jobs.values().filter(|job| job.asked_at.is_some()) {
            let owner = job.last_event.repository.split('/').next().unwrap_or_default();
            *asked.entry(owner.to_ascii_lowercase()).or_default() += 1;
        }
        asked
    })
}

/// More of the limited owner's jobs than one sweep asks for, and all of them older. GitHub's names have
/// no case.
#[test]
fn a_rate_limit_ends_no_other_owners_questions() {
    let bench = stack();
    for n in 1..=25 {
        let owner = if n % 2 == 0 { "limited" } else { "Limited" };
        bench.put(&[Change::create(silent(&bench, n, owner, 5)).into()]);
    }
    for n in 26..=28 {
        bench.put(&[Change::create(silent(&bench, n, "acme", 3)).into()]);
    }
    // Older than all: the first question that is answered comes before the limit.
    bench.put(&[Change::create(silent(&bench, 29, "acme", 6)).into()]);
    bench.change(|world| {
        world.github.script.limits = Some(("limited".to_owned(), world.now + HOUR));
    });
    let (first, _) = bench.tick();
    assert_eq!(asked(&bench), [("acme".to_owned(), 1)].into(), "the others have no turn yet");
    // A token, then a job and its run, and one question that meets the limit.
    assert!(first.github <= 5, "{first:?}");
    let (second, _) = bench.tick();
    assert_eq!(asked(&bench), [("acme".to_owned(), 4)].into());
    assert!(second.github <= 7, "the limited owner is not asked: {second:?}");
    let (third, _) = bench.tick();
    assert_eq!(third.github, 0, "nobody else is left");
    bench.change(|world| world.now += HOUR);
    bench.tick();
    assert_eq!(asked(&bench).get("limited"), Some(&20), "nobody was forgotten");
}

#[test]
fn a_rate_limit_met_on_the_way_leaves_its_owner_out() {
    let bench = stack();
    for n in 1..=4 {
        bench.put(&[Change::create(silent(&bench, n, "limited", 5)).into()]);
        bench.put(&[Change::create(silent(&bench, 10 + n, "acme", 3)).into()]);
    }
    bench.change(|world| {
        world.github.script.limits = Some(("limited".to_owned(), world.now + HOUR));
    });
    let (cost, _) = bench.tick();
    assert_eq!(asked(&bench), [("acme".to_owned(), 4)].into());
    // One question meets the limit; each of the others' jobs and its run is asked for.
    assert!(cost.github <= 1 + 1 + 8, "{cost:?}");
}

/// The answer would only be the limit again, and would count as the repository's failure.
#[test]
fn no_repository_of_a_limited_owner_is_queried_for_unreadable_events() {
    let bench = stack();
    bench.put(&[Change::create(silent(&bench, 1, "limited", 5)).into()]);
    bench.change(|world| {
        world.github.script.limits = Some(("limited".to_owned(), world.now + HOUR));
    });
    bench.tick();
    let stored = bench.change(|world| world.tables.inquiries.clone()).expect("compared");
    let mut next = stored.record().clone();
    next.tell(&"limited/web".parse().expect("a repository"), None, bench.door.now());
    bench.put(&[stored.change(next).into()]);
    let due = || {
        let now = bench.door.now();
        bench.change(|world| world.tables.inquiries.as_ref().map(|all| all.due(now).len()))
    };
    let (limited, _) = bench.tick();
    assert_eq!((limited.github, due()), (0, Some(1)));
    bench.change(|world| world.now += HOUR);
    bench.tick();
    assert_eq!(due(), Some(0), "it has its turn after the limit");
}
