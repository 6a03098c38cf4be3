//! What an invocation is done with, and what comes again.

use muster_control::jobs::batch::{JobsBatch, JobsReport, Received};
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::Change;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;
use muster_sim::agenda::Which;
use muster_sim::fault::Fault;

use super::bench::{Bench, waiting};

fn received(message: JobsMessage) -> Received {
    Received { message: Some(message), id: "1".to_owned(), receipt: "1/1".to_owned(), receives: 1 }
}

fn queued(bench: &Bench, n: u64) -> Received {
    let event = Box::new(waiting(n, bench.door.now()).last_event);
    received(JobsMessage::JobEvent { event, delivery: n.to_string() })
}

fn run(bench: &Bench, messages: &[Received]) -> JobsReport {
    let door = &bench.door;
    let batch = JobsBatch {
        table: door,
        queue: door,
        compute: door,
        settings: &door.sim.settings,
        invocation: "test",
        deadline: door.now() + Seconds(60),
        clock: &|| door.now(),
    };
    bench.drive(batch.run(messages))
}

fn wakes(bench: &Bench) -> usize {
    bench.change(|world| world.queues.of(Which::Launch).len())
}

/// Whatever fails: an event is done with when it is stored and its pool is woken, and not before.
#[test]
fn an_event_comes_again_until_it_is_stored_and_its_pool_is_woken() {
    for fault in [Fault::ReadFailed, Fault::CommitRefused, Fault::SendFailed] {
        let bench = Bench::new();
        let event = queued(&bench, 1);
        bench.change(|world| world.fault_rates.set(fault, 1_000_000));
        assert_eq!(run(&bench, std::slice::from_ref(&event)).acked, [false], "{fault:?}");
        assert_eq!(wakes(&bench), 0, "{fault:?}");
        bench.change(|world| world.fault_rates.set(fault, 0));
        assert_eq!(run(&bench, &[event]).acked, [true], "{fault:?}");
        assert_eq!(wakes(&bench), 1, "{fault:?}");
    }
}

#[test]
fn an_event_that_the_table_refuses_comes_again_alone() {
    let bench = Bench::new();
    let (first, second) = (queued(&bench, 1), queued(&bench, 2));
    let key = waiting(1, bench.door.now()).key();
    bench.change(|world| world.refused_item = Some(key));
    assert_eq!(run(&bench, &[first, second]).acked, [false, true]);
}

/// What this version cannot read may be for the next one.
#[test]
fn a_message_that_cannot_be_read_is_left_and_counted() {
    let bench = Bench::new();
    let unreadable = Received { message: None, ..queued(&bench, 1) };
    let report = run(&bench, &[unreadable, queued(&bench, 2)]);
    assert_eq!((report.acked, report.unreadable), (vec![false, true], 1));
}

#[test]
fn a_wake_up_comes_again_while_its_pool_is_held_and_when_its_pass_failed() {
    let bench = Bench::new();
    run(&bench, &[queued(&bench, 1)]);
    let (door, pool) = (&bench.door, "small".parse().expect("a pool"));
    let key = waiting(1, door.now()).key();
    let wake = WakePool::for_jobs(&pool, &[key]).next().expect("one message");
    let wake = [received(JobsMessage::WakePool(wake))];

    bench.change(|world| world.fault_rates.set(Fault::ReadFailed, 1_000_000));
    assert_eq!(run(&bench, &wake).acked, [false], "the pass failed");
    // The sweep sends another one: only what nobody can read ends among the dead letters.
    let often = [Received { receives: 50, ..wake[0].clone() }];
    assert_eq!(run(&bench, &often).acked, [true], "it was received fifty times");
    bench.change(|world| world.fault_rates.set(Fault::ReadFailed, 0));

    let held = Capacity::empty(pool.clone()).woken("another", door.now(), &Timings::default());
    bench.put(&[Change::create(held).into()]);
    let report = run(&bench, &wake);
    assert_eq!((report.acked, report.passes.len()), (vec![false], 1), "another pass holds it");

    let stored = bench.change(|world| world.tables.capacities[&pool].clone());
    bench.put(&[stored.change(stored.released()).into()]);
    let report = run(&bench, &wake);
    assert_eq!((report.acked, report.passes[0].1.launched), (vec![true], 1));
}
