//! What stands in the way of a reap pass, and when it comes again.

use std::rc::Rc;

use futures_util::future::join_all;
use muster_control::context::Context;
use muster_control::reaps::batch::{Batch, BatchReport, ReceivedReap};
use muster_domain::instance::{Instance, State};
use muster_domain::message::ReapMessage;
use muster_domain::time::Seconds;
use muster_sim::agenda::{Millis, Which};
use muster_sim::fault::Fault;

use crate::bench::Bench;

/// A runner that nothing keeps any more: its pass asks GitHub and EC2, and ends it.
fn due(bench: &Bench) -> Instance {
    let mut row = bench.idle(1).remove(0);
    bench.order(&mut row);
    bench.store(std::slice::from_ref(&row));
    row
}

/// The next receive of the row's message, which is hidden from then on.
fn receive(bench: &Bench) -> ReceivedReap {
    let mut received = bench.change(|world| {
        let now = world.now;
        world.queues.of(Which::Reap).receive(1, now)
    });
    as_received(&received.pop().expect("a message"))
}

fn as_received(received: &muster_sim::queue::Received) -> ReceivedReap {
    let muster_sim::queue::Body::Reap(message) = &*received.body else { panic!("{received:?}") };
    let (id, receipt) = (received.id.to_string(), received.receipt());
    ReceivedReap::new(message.clone(), &id, received.receives, receipt)
}

fn send(bench: &Bench, row: &Instance) {
    let message = ReapMessage::Reap { name: row.name.clone(), nonce: 1 };
    bench.change(|world| world.enqueue(Which::Reap, muster_sim::queue::Body::Reap(message)));
    bench.drive(muster_sim::executor::Pause::new(&bench.door.sim, 1_000));
}

/// An invocation for one message; `before` each of its calls, which it numbers.
fn run(bench: &Bench, received: &ReceivedReap, before: impl FnMut(usize)) -> BatchReport {
    run_all(bench, std::slice::from_ref(received), before)
}

fn run_all(bench: &Bench, batch: &[ReceivedReap], before: impl FnMut(usize)) -> BatchReport {
    let door = &bench.door;
    let settings = &Rc::clone(&door.sim).settings;
    let invocation = Batch { context: Context::new(door, door, door, door, settings) };
    let deadline = door.now() + Seconds(60);
    let clock = || door.now();
    bench.drive_with(invocation.run(batch, deadline, &clock), before)
}

fn state(bench: &Bench, row: &Instance) -> State {
    bench.change(|world| world.tables.instances[&row.name].state())
}

/// EC2 refuses the call for the one machine that somebody protects, and ends the others.
#[test]
fn each_pass_of_a_batch_has_the_answer_of_its_own_machine() {
    let bench = Bench::new();
    let mut rows = bench.idle(5);
    rows.iter_mut().for_each(|row| bench.order(row));
    bench.store(&rows);
    let protected = rows[2].machine().expect("a machine");
    bench.change(|world| {
        let number = world.ec2.number(protected).expect("of this world");
        world.ec2.at_mut(number).behaviour.blocked_until = Millis::MAX;
    });
    rows.iter().for_each(|row| send(&bench, row));
    let batch: Vec<_> = rows.iter().map(|_| receive(&bench)).collect();
    run_all(&bench, &batch, |_| ());
    let states: Vec<State> = rows.iter().map(|row| state(&bench, row)).collect();
    let ended = State::Deleted;
    assert_eq!(states, [ended, ended, State::PendingDelete, ended, ended]);
}

const ALWAYS: u32 = 1_000_000;

/// All ends of a pool's machines count down one item. Whoever meets another one there has lost
/// nothing: least of all what GitHub and EC2 have just answered, which are asked again after two
/// minutes.
#[test]
fn a_conflict_at_any_call_costs_a_reap_pass_one_round() {
    let mut met = 0;
    for call in 0.. {
        let bench = Bench::new();
        let row = due(&bench);
        send(&bench, &row);
        let received = receive(&bench);
        let before = bench.change(|world| world.calls.conflicts);
        let mut calls = 0;
        let report = run(&bench, &received, |number| {
            calls = number;
            let rate = if number == call { ALWAYS } else { 0 };
            bench.change(|world| world.fault_rates.set(Fault::CommitCollided, rate));
        });
        assert_eq!((report.acked, state(&bench, &row)), (vec![true], State::Deleted), "{call}");
        met += bench.change(|world| world.calls.conflicts) - before;
        if call > calls {
            break;
        }
    }
    assert!(met >= 4, "a pass commits at least four times, and met {met} conflicts");
}

/// SQS delivers a message at least once, so two invocations may hold one: each comes by while
/// the other asks GitHub. Wherever they meet, one of them goes on with GitHub's answer.
/// Source: docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
#[test]
fn two_copies_of_a_message_do_not_ask_by_turns() {
    for apart in 0..30 {
        let bench = Bench::new();
        let row = due(&bench);
        send(&bench, &row);
        send(&bench, &row);
        let began = bench.change(|world| world.now);
        while state(&bench, &row) != State::Deleted {
            let took = bench.change(|world| world.now) - began;
            assert!(took < 30_000, "{apart} ms apart, it goes on for {took} ms");
            run_apart(&bench, apart);
        }
    }
}

/// An invocation for each message that is seen next, each begun so long after the one before.
fn run_apart(bench: &Bench, apart: Millis) {
    let sim = &bench.door.sim;
    let next = bench.change(|world| world.queues.of(Which::Reap).next_visible());
    let now = bench.change(|world| world.now);
    let wait = next.expect("a message") - now;
    bench.drive(muster_sim::executor::Pause::new(sim, wait.max(0) + 1_000));
    let received = bench.change(|world| {
        let now = world.now;
        world.queues.of(Which::Reap).receive(2, now)
    });
    let work = received.iter().zip(0..).map(|(received, place)| async move {
        muster_sim::executor::Pause::new(sim, place * apart).await;
        let one = as_received(received);
        let door = &bench.door;
        let batch = Batch { context: Context::new(door, door, door, door, &sim.settings) };
        let deadline = door.now() + Seconds(60);
        if batch.run(&[one], deadline, &|| door.now()).await.acked == [true] {
            bench.change(|world| world.acknowledge(Which::Reap, received));
        }
    });
    bench.drive(join_all(work));
}

/// The queue's own time-out is six minutes.
#[test]
fn a_reap_pass_that_fails_comes_again_soon_and_later_each_time() {
    for fault in [Fault::ReadFailed, Fault::CommitRefused, Fault::CommitCollided] {
        let bench = Bench::new();
        let row = due(&bench);
        send(&bench, &row);
        bench.change(|world| world.fault_rates.set(fault, ALWAYS));
        let mut waits = Vec::new();
        for _ in 0..8 {
            let received = receive(&bench);
            assert_eq!(run(&bench, &received, |_| ()).acked, [false], "{fault:?}");
            waits.push(seconds_until_seen(&bench));
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 360], "{fault:?}");
        bench.change(|world| world.fault_rates.set(fault, 0));
        let received = receive(&bench);
        assert_eq!(run(&bench, &received, |_| ()).acked, [true], "{fault:?}");
        assert_eq!(state(&bench, &row), State::Deleted, "{fault:?}");
    }
}

/// Lets time pass until the message is seen again.
fn seconds_until_seen(bench: &Bench) -> Millis {
    let visible_at = bench.change(|world| world.queues.of(Which::Reap).next_visible());
    let wait = visible_at.expect("a message") - bench.change(|world| world.now);
    bench.drive(muster_sim::executor::Pause::new(&bench.door.sim, wait));
    (wait + 999) / 1_000
}
