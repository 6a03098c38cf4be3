//! Redelivery of failed webhook deliveries, with as many attempts as a busy App has.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::join;
use muster_domain::ids::AppName;
use muster_domain::job::labels::Labels;
use muster_sim::agenda::{MINUTE, Millis};
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::github::{Job, Status};
use muster_sim::invocations::{self, Call};
use muster_sim::world::World;

use crate::bench::Bench;

const EVENTS: u32 = 20_000;
const FAILED: u32 = 6_000;
/// The webhook failed within the last three hours.
const AGO: Millis = 180 * MINUTE;

/// What happened to one of the events when it was first delivered, and by hand later.
#[derive(Clone, Copy, Default)]
struct Sent {
    failed: bool,
    by_hand: Option<u16>,
}

/// One way in which deliveries fail.
struct Case {
    name: &'static str,
    /// What happened to the event of this number, of so many.
    sent: fn(u32) -> Sent,
    /// What happens before each sweep; the sweep's number.
    before: fn(&mut World, u32),
    /// How many redeliveries may be repeated.
    repeated: usize,
}

impl Case {
    const fn of(name: &'static str, sent: fn(u32) -> Sent) -> Self {
        Self { name, sent, before: |_, _| (), repeated: 0 }
    }
}

const fn failed(failed: bool) -> Sent {
    Sent { failed, by_hand: None }
}

fn newest(number: u32) -> Sent {
    failed(number >= EVENTS - FAILED)
}

fn oldest(number: u32) -> Sent {
    failed(number < FAILED)
}

fn mixed(number: u32) -> Sent {
    failed(number % 10 < 3)
}

const CASES: [Case; 11] = [
    Case::of("the newest failed", newest),
    Case::of("the oldest failed", oldest),
    Case::of("every third failed", mixed),
    Case::of("somebody redelivered some by hand, and some of these failed again", |number| {
        let by_hand = match number % 50 {
            0 => Some(202),
            1 => Some(503),
            _ => None,
        };
        Sent { by_hand, ..mixed(number) }
    }),
    Case {
        before: |world, sweep| {
            if sweep < 90 {
                send(world, 30, |number| number.is_multiple_of(4));
            }
        },
        ..Case::of("more events come, and some of them fail", mixed)
    },
    Case {
        before: |world, sweep| {
            world.github.script.fail_next = if sweep < 20 { u32::MAX } else { 0 };
        },
        ..Case::of("the secret stays wrong for a while", mixed)
    },
    Case {
        before: |world, sweep| {
            world.fault_rates.set(Fault::RateLimited, if sweep < 100 { 2_000 } else { 0 });
        },
        ..Case::of("GitHub's rate limit", mixed)
    },
    Case {
        before: |world, _| world.fault_rates.set(Fault::GithubFails, 5_000),
        ..Case::of("GitHub fails at times", mixed)
    },
    Case {
        before: |world, sweep| {
            world.fault_rates.set(Fault::CursorExpired, if sweep < 20 { 20_000 } else { 0 });
        },
        ..Case::of("a cursor expires", oldest)
    },
    Case {
        before: |world, sweep| {
            let is_away = (10..40).contains(&sweep);
            world.fault_rates.set(Fault::Unauthorized, if is_away { 1_000_000 } else { 0 });
        },
        ..Case::of("the App's key is wrong for half an hour", mixed)
    },
    Case { repeated: 25 * 6, ..Case::of("the function stops in the middle", mixed) },
];

/// GitHub sends that many events now.
fn send(world: &mut World, count: u32, fails: fn(u32) -> bool) {
    let first = u32::try_from(world.github.truth.deliveries().count()).expect("few");
    let now = world.now;
    for number in first..first + count {
        attempt(world, number, failed(fails(number)), now);
    }
}

/// GitHub sends an event: one of three says that a job is queued.
fn attempt(world: &mut World, number: u32, sent: Sent, at: Millis) {
    let mut job = world.github.truth_of(0).expect("a job").clone();
    job.status = [Status::Queued, Status::InProgress, Status::Completed][number as usize % 3];
    let truth = &mut world.github.truth;
    truth.deliver(number.into(), job, at);
    truth.attempted(number.into(), Some(if sent.failed { 503 } else { 202 }), at);
}

/// A stack whose sweep has run, and then not for three hours, in which the events were sent.
fn stack(case: &Case) -> Bench {
    let bench = Bench::new();
    bench.tick();
    bench.change(|world| {
        world.github.script.drop_next = 1;
        let labels = Labels::new(["nobody"]);
        world.github.jobs.push(Job::planned(0, "acme/web", true, labels, None));
        world.queue_job(0);
        let begun = world.now;
        for number in 0..EVENTS {
            let at = begun + AGO * Millis::from(number) / Millis::from(EVENTS);
            attempt(world, number, (case.sent)(number), at);
        }
        world.now = begun + AGO;
        for number in 0..EVENTS {
            if let Some(code) = (case.sent)(number).by_hand {
                world.github.truth.attempted(number.into(), Some(code), world.now);
            }
        }
    });
    bench
}

/// What GitHub redelivered since then arrives.
fn arrive(bench: &Bench, seen: &mut usize) {
    bench.change(|world| {
        let sent = world.github.redelivered[*seen..].to_vec();
        *seen += sent.len();
        for number in sent {
            if world.github.script.fail_next == 0 {
                world.delivered(number, true);
            }
        }
    });
}

fn sweep(bench: &Bench) {
    bench.drive(invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false));
}

/// Sweeps for two hours: how often each event was redelivered, and how many by each sweep.
fn two_hours(case: &Case) -> (Bench, Vec<usize>) {
    let bench = stack(case);
    let (mut seen, mut by_sweep, mut cut) = (0, Vec::new(), 0);
    for number in 0..120 {
        bench.change(|world| (case.before)(world, number));
        let before = seen;
        if case.repeated > 0 && number % 20 == 5 {
            let sweep = invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false);
            cut += usize::from(bench.drive_in_part(sweep, 60).is_none());
        } else {
            sweep(&bench);
        }
        arrive(&bench, &mut seen);
        by_sweep.push(seen - before);
        bench.drive(Pause::new(&bench.door.sim, MINUTE));
    }
    // Once all is redelivered, a sweep ends sooner.
    assert!(case.repeated == 0 || cut >= 2, "{}: {cut} sweeps were cut off", case.name);
    (bench, by_sweep)
}

#[test]
fn every_event_that_failed_arrives_within_two_hours_and_none_is_redelivered_twice() {
    for case in &CASES {
        let (bench, by_sweep) = two_hours(case);
        let name = case.name;
        bench.change(|world| {
            assert_eq!(world.github.truth.undelivered().map(|one| one.number), None, "{name}");
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for number in &world.github.redelivered {
                *counts.entry(*number).or_default() += 1;
            }
            // While the webhook refuses everything, a few are tried each minute, and these again.
            let tried =
                if world.tally.redelivered > 0 && name.contains("secret") { 300 } else { 0 };
            let repeated: usize = counts.values().map(|count| count - 1).sum();
            assert!(repeated <= case.repeated + tried, "{name}: {repeated} twice");
            assert!(by_sweep.iter().all(|count| *count <= 120), "{name}: {by_sweep:?}");
        });
    }
}

/// GitHub may be unable to redeliver some of them.
#[test]
fn a_webhook_that_is_down_is_not_always_tried_with_the_same_events() {
    let case = CASES.iter().find(|case| case.name.contains("secret")).expect("it is down");
    let bench = stack(case);
    let mut before = 0;
    for number in 0..18 {
        bench.change(|world| (case.before)(world, number));
        sweep(&bench);
        // The first sweep finds out that it is down.
        if number == 2 {
            before = bench.change(|world| world.github.redelivered.len());
        }
        bench.drive(Pause::new(&bench.door.sim, MINUTE));
    }
    let tried = bench.change(|world| world.github.redelivered[before..].to_vec());
    let events: BTreeSet<u32> = tried.iter().copied().collect();
    assert_eq!(tried.len(), 15 * 5, "five by each sweep");
    assert!(events.len() > 25, "{} different events", events.len());
}

#[test]
fn queued_events_are_redelivered_before_the_others() {
    let (bench, _) = two_hours(&CASES[2]);
    bench.change(|world| {
        let is_queued = |number: &u32| number % 3 == 0;
        let all = &world.github.redelivered;
        let last = all.iter().rposition(is_queued).expect("some");
        let queued = all.iter().filter(|number| is_queued(number)).count();
        // The first page is read once; some others of it go before.
        assert!(last < queued + 100, "the last of {queued} queued ones was number {last}");
    });
}

/// GitHub says when its limit ends. It is used up once the sweep has begun to redeliver.
#[test]
fn a_rate_limit_is_waited_for() {
    // From the first page on, or once the pass has claimed its deliveries.
    for is_at_once in [true, false] {
        let bench = stack(&CASES[2]);
        let record = || {
            bench.change(|world| {
                world.tables.redeliveries.get(&AppName::MAIN).map(|one| one.record().clone())
            })
        };
        let before = record();
        let sweep = invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false);
        bench.drive_with(sweep, |_| {
            let is_limited = is_at_once || record() != before;
            let rate = if is_limited { 1_000_000 } else { 0 };
            bench.change(|world| world.fault_rates.set(Fault::RateLimited, rate));
        });
        assert_eq!(bench.change(|world| world.github.redelivered.len()), 0);
        let now = bench.door.now();
        let is_due = record().is_none_or(|record| record.is_due(now));
        assert!(!is_due, "the next sweep calls too early, at once: {is_at_once}");
    }
}

#[test]
fn two_sweeps_at_the_same_time_redeliver_nothing_twice() {
    let bench = stack(&CASES[2]);
    let run = || invocations::run(Rc::clone(&bench.door.sim), Call::Sweep, 0, false);
    bench.drive(join(run(), run()));
    bench.change(|world| {
        let mut all = world.github.redelivered.clone();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), count), (120, 120));
    });
}
