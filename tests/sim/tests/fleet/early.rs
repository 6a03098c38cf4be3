//! Wake-ups that are sent at the same time as the commit of their jobs, and commits that are decided with
//! cached settings: whatever happens in between, the job is served within two seconds of the last write.

use std::cell::Cell;
use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::batch::JobsBatch;
use muster_control::ports::Received;
use muster_control::settings_cache::SettingsCache;
use muster_domain::ids::JobKey;
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::time::{Seconds, Time};
use muster_sim::agenda::{Millis, SECOND, Which};
use muster_sim::executor::Pause;
use muster_sim::fault::Fault;
use muster_sim::invocations::{self, Call};
use muster_sim::queue::Body;
use muster_sim::schedule;

use super::bench::{Bench, waiting};

const ALWAYS: u32 = 1_000_000;

fn key(n: u64) -> JobKey {
    waiting(n, Time::default()).key()
}

fn message(bench: &Bench, n: u64) -> JobsMessage {
    let event = Box::new(waiting(n, bench.door.now()).last_event);
    JobsMessage::JobEvent { event, delivery: n.to_string() }
}

/// Sends an event as the webhook does.
fn deliver(bench: &Bench, n: u64) {
    let body = Body::Jobs(message(bench, n));
    bench.change(|world| world.enqueue(Which::Jobs, body));
}

/// A set of one pool.
fn set(version: u64, name: &str) -> PoolSet {
    let pools = vec![schedule::pool(name, &["linux"], 99, "spot", None)];
    let set = PoolSet::from_parameters(pools, Limits::default(), Balance::default());
    PoolSet { version, app_owner: "acme".parse().ok(), ..set }
}

/// A pool file is applied.
fn apply(bench: &Bench, name: &str) {
    let stored = bench.change(|world| world.tables.pools.clone());
    let version = stored.as_ref().map_or(0, |set| set.version) + 1;
    bench.put(&[Change::from_read(stored.as_ref(), set(version, name)).into()]);
}

/// Runs scale-up for the messages of this time. Returns the number of launch passes.
fn run_queues(bench: &Bench, time: Millis) -> usize {
    let (mut passes, end) = (0, bench.change(|world| world.now) + time);
    while bench.change(|world| world.now) < end {
        for (which, most) in [(Which::Jobs, 10), (Which::Launch, 1)] {
            let now = bench.change(|world| world.now);
            let batch = bench.change(|world| world.queues.of(which).receive(most, now));
            if batch.is_empty() {
                continue;
            }
            passes += usize::from(which == Which::Launch);
            let call = match which {
                Which::Jobs => Call::ScaleUp(Rc::new(batch)),
                _ => Call::Launch(Rc::new(batch)),
            };
            bench.drive(invocations::run(Rc::clone(&bench.door.sim), call, 0, false));
        }
        bench.drive(Pause::new(&bench.door.sim, 100));
    }
    passes
}

/// Returns whether the job has a claim, and the pool in its record.
fn served(bench: &Bench, n: u64) -> (bool, Option<String>) {
    bench.change(|world| {
        let job = world.tables.jobs.get(&key(n));
        let pool = job.and_then(|job| job.pool.as_ref()).map(ToString::to_string);
        (job.is_some_and(|job| job.claim.is_some()), pool)
    })
}

#[test]
fn a_wake_up_that_overtakes_its_job_comes_again() {
    for (late, serves) in [(0, true), (900, true), (1_900, true), (20 * SECOND, false)] {
        let bench = Bench::new();
        let pool = "small".parse().expect("a pool");
        for wake in WakePool::for_jobs(&pool, &[key(1)]) {
            let wake = Body::Jobs(JobsMessage::WakePool(wake));
            bench.change(|world| world.enqueue(Which::Launch, wake));
        }
        let mut passes = run_queues(&bench, late);
        bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
        passes += run_queues(&bench, 2 * SECOND);
        assert_eq!(served(&bench, 1).0, serves, "on record after {late} ms");
        assert!(passes <= 3, "{passes} passes");
        assert_eq!(bench.change(|world| world.queues.of(Which::Launch).len()), 0);
    }
}

/// The wake-up is received three times at most. The event is redelivered.
#[test]
fn a_commit_that_fails_after_its_wake_up_costs_wasted_passes_and_nothing_else() {
    let bench = Bench::new();
    bench.change(|world| world.fault_rates.set(Fault::CommitRefused, ALWAYS));
    deliver(&bench, 1);
    let in_vain = run_queues(&bench, SECOND);
    assert_eq!(served(&bench, 1), (false, None));
    bench.change(|world| world.fault_rates.set(Fault::CommitRefused, 0));
    let mut passes = in_vain;
    while served(&bench, 1).1.is_none() {
        passes += run_queues(&bench, 200);
    }
    passes += run_queues(&bench, 2 * SECOND);
    assert_eq!(served(&bench, 1), (true, Some("small".to_owned())));
    assert!((1..=2).contains(&in_vain) && passes <= 4, "{in_vain} of {passes}");
    assert_eq!(bench.change(|world| world.calls.launches), 1);
}

/// The cached settings are out of date, which the commit detects, for one job and for ten.
#[test]
fn no_job_is_recorded_with_a_set_of_pools_that_was_replaced() {
    for jobs in [1, 10] {
        let bench = Bench::new();
        deliver(&bench, 100);
        run_queues(&bench, SECOND);
        assert_eq!(served(&bench, 100), (true, Some("small".to_owned())));
        apply(&bench, "large");
        let before = bench.change(|world| world.calls);
        (0..jobs).for_each(|n| deliver(&bench, n));
        run_queues(&bench, 2 * SECOND);
        for n in 0..jobs {
            assert_eq!(served(&bench, n), (true, Some("large".to_owned())), "{n} of {jobs}");
        }
        let after = bench.change(|world| world.calls);
        assert_eq!(after.conflicts - before.conflicts, 1, "{jobs} jobs");
    }
}

/// The set changes during an invocation, before each of its calls in turn.
#[test]
fn a_set_that_is_replaced_at_any_moment_serves_the_job() {
    for is_warm in [false, true] {
        for moment in 0..6 {
            let pool = |name| schedule::pool(name, &["linux"], 9, "spot", None);
            let bench = Bench::of(vec![pool("small"), pool("large")]);
            let (door, cache) = (&bench.door, SettingsCache::default());
            let batch = JobsBatch {
                context: Context::new(door, door, &(), &(), &door.sim.settings),
                cache: &cache,
                clock: &|| door.now(),
            };
            let of = |n| Received {
                message: Some(message(&bench, n)),
                id: n.to_string(),
                receipt: format!("{n}/1"),
                receives: 1,
            };
            if is_warm {
                bench.drive(batch.run(&[of(100)]));
            }
            let reached = Cell::new(false);
            let report = bench.drive_with(batch.run(&[of(1)]), |call| {
                if call == moment {
                    reached.set(true);
                    bench.change(|world| {
                        let version = world.tables.pools.as_ref().map_or(0, |set| set.version().0);
                        let set = Stored::read(set(1, "large"), Version(version + 1));
                        world.tables.pools = Some(set);
                    });
                }
            });
            assert_eq!(report.acked, [true]);
            run_queues(&bench, 2 * SECOND);
            let (is_claimed, pool) = served(&bench, 1);
            // A job that was recorded before is matched to the other pool by the next sweep.
            let is_removed = pool.as_deref() == Some("small");
            assert!(is_claimed || (is_removed && reached.get()), "{is_warm} {moment}: {pool:?}");
        }
    }
}

/// A commit that takes longer than the redelivery of its wake-up is followed by a second wake-up.
#[test]
fn a_slow_commit_is_followed_by_another_wake_up() {
    for (takes, wakes) in [(0, 1), (2, 2)] {
        let bench = Bench::new();
        let (door, asked) = (&bench.door, Cell::new(0));
        let clock = || {
            let passed = if asked.replace(asked.get() + 1) == 0 { 0 } else { takes };
            door.now() + Seconds(passed)
        };
        let batch = JobsBatch {
            context: Context::new(door, door, &(), &(), &door.sim.settings),
            cache: &SettingsCache::default(),
            clock: &clock,
        };
        let message = Some(message(&bench, 1));
        let (id, receipt) = ("1".to_owned(), "1/1".to_owned());
        let report = bench.drive(batch.run(&[Received { message, id, receipt, receives: 1 }]));
        assert_eq!(report.acked, [true]);
        let sent = bench.change(|world| world.queues.of(Which::Launch).len());
        assert_eq!(sent, wakes, "{takes} s");
    }
}
