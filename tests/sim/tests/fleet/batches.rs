//! What an invocation is done with, and what comes again.

use muster_control::context::Context;
use muster_control::jobs::batch::{JobsBatch, JobsReport};
use muster_control::launches::wake_up::{WakeReport, WakeUp};
use muster_control::metrics::Metric;
use muster_control::ports::Received;
use muster_control::settings_cache::SettingsCache;
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_sim::agenda::Which;
use muster_sim::fault::Fault;
use muster_sim::schedule;

use super::bench::{Bench, waiting};

type Event = Received<Option<JobsMessage>>;

fn received<M>(message: M) -> Received<M> {
    Received { message, id: "1".to_owned(), receipt: "1/1".to_owned(), receives: 1 }
}

fn queued(bench: &Bench, n: u64) -> Event {
    let event = Box::new(waiting(n, bench.door.now()).last_event);
    received(Some(JobsMessage::JobEvent { event, delivery: n.to_string() }))
}

fn run(bench: &Bench, messages: &[Event]) -> Vec<bool> {
    report(bench, messages).acked
}

fn report(bench: &Bench, messages: &[Event]) -> JobsReport {
    let door = &bench.door;
    let settings = &door.sim.settings;
    let batch = JobsBatch {
        context: Context::new(door, door, &(), &(), settings),
        cache: &SettingsCache::default(),
        clock: &|| door.now(),
    };
    bench.drive(batch.run(messages))
}

fn wake(bench: &Bench, received: &Received<WakePool>) -> WakeReport {
    wake_with(bench, received, |_| ())
}

/// `before` each call of the invocation, which it numbers.
fn wake_with(
    bench: &Bench,
    received: &Received<WakePool>,
    before: impl FnMut(usize),
) -> WakeReport {
    let door = &bench.door;
    let pass = WakeUp {
        context: Context::new(door, door, door, &(), &door.sim.settings),
        invocation: "test",
        deadline: door.now() + Seconds(60),
        clock: &|| door.now(),
    };
    bench.drive_with(pass.run(received), before)
}

fn wakes(bench: &Bench) -> usize {
    bench.change(|world| world.queues.of(Which::Launch).len())
}

/// Whatever fails: an event is done with when it is stored and its pool is woken, and not before. A
/// wake-up that is sent along with a commit that fails is in vain.
#[test]
fn an_event_comes_again_until_it_is_stored_and_its_pool_is_woken() {
    for (fault, sent, sent_again) in
        [(Fault::ReadFailed, 0, 1), (Fault::CommitRefused, 1, 1), (Fault::SendFailed, 0, 2)]
    {
        let bench = Bench::new();
        let event = queued(&bench, 1);
        bench.change(|world| world.fault_rates.set(fault, 1_000_000));
        assert_eq!(run(&bench, std::slice::from_ref(&event)), [false], "{fault:?}");
        assert_eq!(wakes(&bench), sent, "{fault:?}");
        bench.change(|world| world.fault_rates.set(fault, 0));
        assert_eq!(run(&bench, &[event]), [true], "{fault:?}");
        assert_eq!(wakes(&bench), sent + sent_again, "{fault:?}");
    }
}

#[test]
fn an_event_that_the_table_refuses_comes_again_alone() {
    let bench = Bench::new();
    let (first, second) = (queued(&bench, 1), queued(&bench, 2));
    let key = waiting(1, bench.door.now()).key();
    bench.change(|world| world.refused_item = Some(key));
    assert_eq!(run(&bench, &[first, second]), [false, true]);
}

/// What this version cannot read may be for the next one.
#[test]
fn a_message_that_cannot_be_read_is_left() {
    let bench = Bench::new();
    let unreadable = Received { message: None, ..queued(&bench, 1) };
    assert_eq!(run(&bench, &[unreadable, queued(&bench, 2)]), [false, true]);
}

/// Columns: whether the message can be read, whether the table accepts it, its receives; whether it counts as failing.
#[test]
fn a_message_that_no_retry_helps_counts_as_failing_at_once() {
    for (is_readable, is_stored, receives, is_failing) in [
        (true, true, 1, false),
        (true, true, 9, false),
        (true, false, 1, false),
        (true, false, 9, true),
        (false, true, 1, true),
        (false, true, 9, true),
    ] {
        let bench = Bench::new();
        let event = queued(&bench, 1);
        let message = event.message.clone().filter(|_| is_readable);
        let rate = if is_stored { 0 } else { 1_000_000 };
        bench.change(|world| world.fault_rates.set(Fault::CommitRefused, rate));
        let report = report(&bench, &[Received { message, receives, ..event }]);
        let failing = report.measures.iter().filter(|one| one.metric == Metric::MessagesFailing);
        let count = failing.count();
        assert_eq!(count, usize::from(is_failing), "{is_readable}, {is_stored}, {receives}");
    }
}

#[test]
fn a_wake_up_comes_again_while_its_pool_is_held_and_when_its_pass_failed() {
    let bench = Bench::new();
    run(&bench, &[queued(&bench, 1)]);
    let (door, pool) = (&bench.door, "small".parse().expect("a pool"));
    let key = waiting(1, door.now()).key();
    let message = received(WakePool::for_jobs(&pool, &[key]).next().expect("one message"));

    bench.change(|world| world.fault_rates.set(Fault::ReadFailed, 1_000_000));
    assert!(!wake(&bench, &message).acked, "the pass failed");
    // The sweep sends another one: only what nobody can read ends among the dead letters.
    let often = Received { receives: 50, ..message.clone() };
    assert!(wake(&bench, &often).acked, "it was received fifty times");
    bench.change(|world| world.fault_rates.set(Fault::ReadFailed, 0));

    let held = Capacity::empty(pool.clone()).woken("another", door.now(), &Timings::default());
    bench.put(&[Change::create(held).into()]);
    let report = wake(&bench, &message);
    let held = report.passed.is_some_and(|passed| passed.held_by_other);
    assert_eq!((report.acked, held), (false, true), "another pass holds it");

    let stored = bench.change(|world| world.tables.capacities[&pool].clone());
    bench.put(&[stored.change(stored.released()).into()]);
    let report = wake(&bench, &message);
    assert_eq!((report.acked, report.passed.map(|passed| passed.launched)), (true, Some(1)));
}

/// Wherever a launch pass is stopped: the pool to which it has moved jobs hears of them.
#[test]
fn a_pass_that_fails_wakes_the_pools_of_the_jobs_that_it_moved() {
    let (mut moved, mut failed) = (0, 0);
    for broken in 0..40 {
        let pool = |name, max| schedule::pool(name, &["linux"], max, "spot", None);
        let bench = Bench::of(vec![pool("small", 0), pool("other", 10)]);
        bench.put(&[Change::create(waiting(1, bench.door.now())).into()]);
        let small = "small".parse().expect("a pool");
        let report = wake_with(&bench, &received(WakePool::whole(small)), |call| {
            let rate = if call == broken { 1_000_000 } else { 0 };
            bench.change(|world| world.fault_rates.set(Fault::CommitRefused, rate));
        });
        failed += usize::from(!report.acked);
        let pool =
            bench.change(|world| world.tables.jobs.values().next().expect("one").pool.clone());
        if pool.is_some_and(|pool| pool.as_str() == "other") {
            moved += 1;
            assert_eq!(wakes(&bench), 1, "call {broken}: {report:?}");
        }
    }
    assert!(moved > 30 && failed > 2, "moved {moved}, failed {failed}");
}

/// The stack may have two more machines, and the other pool has nine places.
#[test]
fn no_more_jobs_move_than_the_stack_may_launch_for() {
    let pool = |name, max| schedule::pool(name, &["linux"], max, "spot", None);
    let bench = Bench::of(vec![pool("small", 0), pool("other", 9)]).with_at_most(2);
    for n in 1..=4 {
        bench.put(&[Change::create(waiting(n, bench.door.now())).into()]);
    }
    let small = "small".parse().expect("a pool");
    assert!(wake(&bench, &received(WakePool::whole(small))).acked);
    assert_eq!((in_pool(&bench, "other"), in_pool(&bench, "small")), (2, 2));
}

fn in_pool(bench: &Bench, name: &str) -> usize {
    bench.change(|world| {
        let pools = world.tables.jobs.values().filter_map(|job| job.pool.clone());
        pools.filter(|pool| pool.as_str() == name).count()
    })
}

/// The next pool has two places. Columns: its own waiting jobs, and those that move; how many of these go to it, and how
/// many to the pool after it.
#[test]
fn jobs_move_to_the_places_that_a_pools_own_jobs_leave() {
    for (own, moving, next, last) in
        [(0, 1, 1, 0), (0, 3, 2, 1), (1, 1, 1, 0), (1, 3, 1, 2), (2, 1, 0, 1), (5, 2, 0, 2)]
    {
        let pool = |name, max| schedule::pool(name, &["linux"], max, "spot", None);
        let bench = Bench::of(vec![pool("small", 0), pool("next", 2), pool("last", 9)]);
        for n in 1..=own + moving {
            let mut job = waiting(n, bench.door.now());
            if n <= own {
                job.pool = Some("next".parse().expect("a pool"));
            }
            bench.put(&[Change::create(job).into()]);
        }
        let small = "small".parse().expect("a pool");
        assert!(wake(&bench, &received(WakePool::whole(small))).acked);
        let told = ["next", "last", "small"].map(|name| in_pool(&bench, name));
        let expected = [usize::try_from(own).expect("few") + next, last, 0];
        assert_eq!(told, expected, "{own} wait, {moving} move");
    }
}
