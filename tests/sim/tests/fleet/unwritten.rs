//! What the sweep reads from GitHub and EC2 while the table refuses its writes. Reads have quotas, and
//! a sweep that cannot record an answer would ask for it again each minute.

use std::collections::BTreeMap;
use std::rc::Rc;

use muster_control::app_watch::AppWatch;
use muster_control::context::Context;
use muster_domain::ids::{AppName, Entity, InstallationId};
use muster_domain::inquiry::{Inquiries, ListPosition, Turn};
use muster_domain::job::labels::Labels;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{Learned, Prices};
use muster_sim::agenda::MINUTE;
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::github::Job;
use muster_sim::invocations::{self, Call};
use muster_sim::schedule;

use crate::bench::{Bench, waiting};

/// How long the table refuses writes.
const REFUSES: u32 = 20;
/// What is due at the end of that, at the latest.
const AFTERWARDS: u32 = 12;
/// Three pages of repositories, and as many of deliveries.
const REPOSITORIES: u32 = 25;

/// Who makes which calls, and at most how many of them in twenty minutes without a write.
const READERS: [(&str, &str, u64); 11] = [
    // Each of these is due once, and is not known to be overdue for a sweep or two.
    ("redelivery (5 pages each); the check of the App", "list-deliveries", 2 * 5 + 2),
    ("the check of the App", "get-app", 2),
    ("the check of the App", "list-installations", 2),
    ("the check of the App", "get-hook", 2),
    ("prices", "DescribeSpotPriceHistory", 2),
    ("prices", "GetProducts", 6),
    // All others move their cursor first.
    ("silent jobs", "get-job", 0),
    ("the runs of silent jobs", "get-run", 0),
    ("refused entities", "list-runners", 0),
    ("repositories with unreadable events, or whose turn it is", "list-runs", 0),
    ("the comparison with EC2", "DescribeInstances", 0),
];

/// Where the round over the repositories is, and at most how many pages of them are listed.
const ROUNDS: [(&str, fn(Time) -> Turn, u64); 3] = [
    ("the next round begins in five minutes", |now| listed(0, None, now - Seconds(300)), 2),
    ("a further page is next", |now| listed(0, Some(2), now), 0),
    ("repositories of a page are left", |now| listed(5, None, now), 0),
];

fn listed(left: u32, next: Option<u32>, now: Time) -> Turn {
    let name = |number| format!("acme/r{number}").parse().expect("a repository");
    let installation = InstallationId(7);
    let next = next.map(|page| ListPosition { installation, page });
    let mut turn = Turn::default();
    turn.listed((0..left).map(name).collect(), Some(installation), next, &[AppName::MAIN], now);
    turn
}

/// Two pools, whose prices are due in a few minutes; and all that a sweep asks GitHub about.
fn stack(turn: fn(Time) -> Turn) -> Bench {
    let small = schedule::pool("small", &["linux"], 0, "spot", None);
    let other = schedule::pool("other", &["arm64"], 0, "spot", Some("globex"));
    let bench = Bench::of(vec![small, other]);
    bench.change(|world| {
        world.github.install("globex");
        world.github.page_size = 10;
    });
    deliver(&bench, 0);
    sweep(&bench);
    let now = bench.door.now();
    let learned = now - Seconds(3_600 - 300);
    let mut prices = Prices::default();
    prices.note_used(&["m7i.large".into(), "m7a.large".into()].into(), learned);
    for kind in prices.types.clone().into_keys() {
        prices.learn(Learned::Spot(kind.clone(), BTreeMap::new()), learned);
        prices.learn(Learned::List(kind, None), learned - Seconds(23 * 3_600));
    }
    prices.learn(Learned::Disk(None), learned - Seconds(23 * 3_600));
    let stored = bench.change(|world| world.tables.prices.clone()).expect("prices");
    bench.put(&[stored.change(prices).into()]);
    bench.drive(Pause::new(&bench.door.sim, MINUTE));
    add_work(&bench, turn);
    bench
}

/// Attempts to deliver an event of each repository, all of which arrived.
fn deliver(bench: &Bench, first: u32) {
    bench.change(|world| {
        for number in first..first + REPOSITORIES {
            let labels = Labels::new(["linux"]);
            let name = format!("acme/r{}", number % REPOSITORIES);
            let mut job = Job::planned(number, &name, true, labels, None);
            job.unheard = true;
            world.github.jobs.push(job);
            world.queue_job(number);
            let truth = world.github.truth_of(number).expect("queued").clone();
            world.github.truth.deliver(number.into(), truth, world.now);
            world.github.truth.attempted(number.into(), Some(202), world.now);
        }
    });
}

/// What comes up just before the table fails.
fn add_work(bench: &Bench, turn: fn(Time) -> Turn) {
    deliver(bench, REPOSITORIES);
    let now = bench.door.now();
    let long_ago = now - Seconds(3 * 3_600);
    for n in 901..=905 {
        let mut job = waiting(n, long_ago);
        job.seen_at = long_ago;
        bench.put(&[Change::create(job).into()]);
    }
    let refused = ErrorDetail {
        at: now,
        operation: "get-installation".to_owned(),
        code: "403".to_owned(),
        message: "simulated".to_owned(),
    };
    let refused = ProviderError::Unauthorized(refused);
    let globex = "globex".parse().expect("an entity");
    let stored = bench.change(|world| world.tables.cooldowns.clone());
    let known = stored.as_deref().cloned().unwrap_or_default();
    let next = known.after_answer(&globex, RequestKind::Other, Some(&refused), now);
    let next: Cooldowns = next.expect("a trouble");
    bench.put(&[Change::from_read(stored.as_ref(), next).into()]);
    bench.change(|world| world.github.script.refuses.insert("globex".to_owned()));
    let stored = bench.change(|world| world.tables.inquiries.clone());
    let mut all: Inquiries = stored.as_deref().cloned().unwrap_or_default();
    all.turn = turn(now);
    assert!(all.tell(&"acme/odd".parse().expect("a repository"), None, now));
    bench.put(&[Change::from_read(stored.as_ref(), all).into()]);
}

/// The minute's sweep, with the check of the App that follows it.
fn sweep(bench: &Bench) {
    bench.drive(invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false));
    let door = &bench.door;
    let watch = AppWatch { context: Context::new(door, door, door, door, &door.sim.settings) };
    let _: Result<_, _> = bench.drive(watch.check(door.now()));
    bench.drive(Pause::new(&bench.door.sim, MINUTE));
}

/// The calls of so many sweeps, by operation.
fn calls_of(bench: &Bench, sweeps: u32) -> BTreeMap<String, u64> {
    bench.change(|world| world.operations.clear());
    (0..sweeps).for_each(|_| sweep(bench));
    bench.change(|world| world.operations.clone())
}

#[test]
fn no_reader_repeats_its_calls_each_minute_while_nothing_can_be_written() {
    let mut wrong = Vec::new();
    for (round, turn, most_pages) in ROUNDS {
        let bench = stack(turn);
        bench.change(|world| world.fault_rates.set(Fault::CommitRefused, 1_000_000));
        let refused = calls_of(&bench, REFUSES);
        bench.change(|world| world.fault_rates.set(Fault::CommitRefused, 0));
        let written = calls_of(&bench, AFTERWARDS);
        let listing = ("the round over the repositories", "list-repositories", most_pages);
        let readers: Vec<_> = READERS.into_iter().chain([listing]).collect();
        for (reader, operation, most) in &readers {
            let count = refused.get(*operation).copied().unwrap_or(0);
            if count > *most {
                wrong.push(format!("{round}: {reader}: {count} times {operation}, not {most}"));
            }
            let is_due_later = *operation == "list-repositories" && most_pages == 0;
            if !written.contains_key(*operation) && !is_due_later {
                wrong.push(format!("{round}: {reader}: no {operation} once the table writes"));
            }
        }
        // A new reader needs a bound.
        let is_known = |one: &&String| readers.iter().any(|(_, operation, _)| operation == one);
        let unknown = refused.keys().filter(|one| !is_known(one));
        wrong.extend(unknown.map(|one| format!("{round}: {one} has no bound")));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The record of a job there is damaged, so that nothing can be imported. Another repository is due after it.
#[test]
fn a_repository_whose_jobs_cannot_be_imported_waits_and_delays_no_other() {
    let bench = Bench::of(vec![schedule::pool("small", &["linux"], 0, "spot", None)]).compared();
    bench.change(|world| {
        let mut job = Job::planned(0, "acme/odd", true, Labels::new(["linux"]), None);
        job.unheard = true;
        world.tables.broken.insert(format!("job#{}", job.key));
        world.github.jobs.push(job);
        world.queue_job(0);
    });
    let now = bench.door.now();
    let stored = bench.change(|world| world.tables.inquiries.clone());
    let mut all: Inquiries = stored.as_deref().cloned().unwrap_or_default();
    let named = |name: &str| -> Entity { name.parse().expect("a repository") };
    let (odd, other) = (named("acme/odd"), named("acme/other"));
    assert!(all.tell(&odd, None, now - Seconds(2)) && all.tell(&other, None, now - Seconds(1)));
    bench.put(&[Change::from_read(stored.as_ref(), all).into()]);
    // Its own queries are in minutes 0, 1, 3 and 7.
    let calls = calls_of(&bench, 8);
    let queries = calls.get("list-runs").copied().unwrap_or(0);
    assert!((3..=5).contains(&queries), "{calls:?}");
    let all = bench.change(|world| world.tables.inquiries.clone()).expect("a record");
    assert!(all.repositories[&other].answered_at.is_some(), "{:?}", all.record());
}
