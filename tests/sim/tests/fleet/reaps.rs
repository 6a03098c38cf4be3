//! What stands in the way of a reap pass, and when it comes again.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use muster_control::context::Context;
use muster_control::ports::Launches as _;
use muster_control::reaps::batch::{Batch, BatchReport, ReceivedReap};
use muster_domain::ec2::{Bucket, CooldownScope, Market};
use muster_domain::instance::{Instance, Slot, State};
use muster_domain::message::{JobsMessage, ReapMessage};
use muster_domain::stored::Change;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;
use muster_sim::agenda::{Millis, Which};
use muster_sim::fault::Fault;
use muster_sim::schedule;

use crate::bench::{Bench, waiting};
use crate::writers::close;

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

/// Returns the next receive of the row's message, as if it had been received this often, with this nonce.
fn received_again(bench: &Bench, row: &Instance, nonce: u64, receives: u32) -> ReceivedReap {
    send(bench, row);
    let ReceivedReap { receipt, .. } = receive(bench);
    let message = ReapMessage::Reap { name: row.name.clone(), nonce };
    ReceivedReap::new(message, "a", receives, receipt)
}

/// Columns: the nonce on record, the nonce and receives of the message, the seconds since the row was due; whether the
/// message stays, hidden, and the nonce that is recorded then.
#[test]
fn one_message_of_a_row_stays_hidden() {
    type Row = (Option<u64>, u64, u32, u32, bool, Option<u64>);
    let rows: [Row; 7] = [
        (None, 1, 1, 1, true, Some(1)),
        (Some(1), 1, 1, 1, true, Some(1)),
        (Some(2), 1, 1, 1, false, Some(2)),
        (Some(2), 1, 1, 58, false, Some(2)),
        (Some(2), 1, 1, 61, true, Some(1)),
        (Some(1), 1, 49, 1, true, Some(1)),
        (Some(1), 1, 50, 1, false, None),
    ];
    for (recorded, nonce, receives, late, stays, next) in rows {
        let what = format!("{recorded:?}, {nonce} received {receives} times, {late} s late");
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        bench.order(&mut row);
        row.set_wake(recorded);
        row.set_due(bench.door.now() - Seconds(late));
        bench.store(std::slice::from_ref(&row));
        let machine = row.machine().expect("a machine");
        bench.change(|world| {
            let number = world.ec2.number(machine).expect("of this world");
            world.ec2.at_mut(number).behaviour.blocked_until = Millis::MAX;
        });
        let received = received_again(&bench, &row, nonce, receives);
        assert_eq!(run(&bench, &received, |_| ()).acked, [!stays], "{what}");
        assert_eq!(state(&bench, &row), State::PendingDelete, "{what}");
        let stored = bench.change(|world| world.tables.instances[&row.name].record().clone());
        assert_eq!(stored.wake_nonce(), next, "{what}");
        let due = stored.due_at().expect("its next attempt");
        if stays {
            let waits = seconds_until_seen(&bench);
            let until_due = due.since(bench.door.now()).0;
            assert!(until_due <= 1, "{what}: {waits} s, due in {until_due} s");
        }
    }
}

/// Columns: whether the row names the message, how often it was received, the seconds since the row was due; whether GitHub
/// or EC2 are called while the table accepts no write.
#[test]
fn a_pass_after_a_failure_spends_no_quota_while_nothing_can_be_written() {
    for (is_own, receives, late, is_spent) in [
        (true, 1, 2, true),
        (true, 1, 80, true),
        (true, 1, 100, false),
        (true, 2, 5, true),
        (true, 2, 15, false),
        (false, 2, 5, false),
        (false, 1, 5, true),
    ] {
        let bench = Bench::new();
        let mut row = bench.idle(1).remove(0);
        bench.make_due(&mut row);
        row.set_wake(is_own.then_some(1));
        row.set_due(bench.door.now() - Seconds(late - 1));
        bench.store(std::slice::from_ref(&row));
        let received = received_again(&bench, &row, 1, receives);
        bench.change(|world| world.fault_rates.set(Fault::CommitRefused, ALWAYS));
        let spent = |bench: &Bench| bench.change(|world| world.calls.github + world.calls.ec2());
        let before = spent(&bench);
        assert_eq!(run(&bench, &received, |_| ()).acked, [false]);
        assert_eq!(spent(&bench) > before, is_spent, "{is_own}, {receives}, {late} s late");
    }
}

/// Columns: what EC2 refuses; whether that is still recorded when a machine of pool `small` has ended, and which pools are
/// woken.
#[test]
fn a_machines_end_reopens_the_quotas_that_may_have_counted_it() {
    let quota = |market, kind: &str| {
        let bucket = Bucket::from_instance_type(kind).expect("a bucket");
        CooldownScope::Quota { market, bucket }
    };
    let of_pool = |pool: &str| {
        let bucket = Bucket::Pool(pool.parse().expect("a pool"));
        CooldownScope::Quota { market: Market::Spot, bucket }
    };
    let rows: [(CooldownScope, bool, &[&str]); 7] = [
        (quota(Market::Spot, "m7i.large"), false, &["either", "other", "small"]),
        (quota(Market::OnDemand, "m7i.large"), true, &[]),
        (quota(Market::Spot, "g5.xlarge"), true, &[]),
        (of_pool("small"), false, &["small"]),
        (of_pool("other"), true, &[]),
        (CooldownScope::Pool("small".parse().expect("a pool")), true, &[]),
        (CooldownScope::Calls, true, &[]),
    ];
    for (closed, is_kept, woken) in rows {
        let pool = |name, market| schedule::pool(name, &["linux"], 9, market, None);
        let mut gpu = pool("gpu", "spot");
        gpu.instance_types = vec!["g5.xlarge".into()];
        let bench = Bench::of(vec![
            pool("small", "spot"),
            pool("other", "spot"),
            pool("demand", "on-demand"),
            pool("either", "spot-then-on-demand"),
            gpu,
        ]);
        let row = due(&bench);
        close(&bench, closed.clone());
        send(&bench, &row);
        let received = receive(&bench);
        assert_eq!(run(&bench, &received, |_| ()).acked, [true], "{closed:?}");
        assert_eq!(state(&bench, &row), State::Deleted, "{closed:?}");
        let left = bench.drive(bench.door.cooldowns()).expect("read").expect("stored");
        assert_eq!(left.list.iter().any(|one| one.closed == closed), is_kept, "{closed:?}");
        let pools = woken_pools(&bench);
        assert_eq!(pools, woken.iter().map(ToString::to_string).collect(), "{closed:?}");
    }
}

/// Receives the wake-ups of pools.
pub(crate) fn woken_pools(bench: &Bench) -> BTreeSet<String> {
    bench.drive(muster_sim::executor::Pause::new(&bench.door.sim, 1_000));
    let wakes = bench.change(|world| {
        let now = world.now;
        world.queues.of(Which::Launch).receive(10, now)
    });
    let pool = |one: &muster_sim::queue::Received| match &*one.body {
        muster_sim::queue::Body::Jobs(JobsMessage::WakePool(wake)) => wake.pool.to_string(),
        other => panic!("{other:?}"),
    };
    wakes.iter().map(pool).collect()
}

/// Columns: whether the row's own message is in the queue, and the seconds since the row was due; whether the sweep sends
/// one.
#[test]
fn a_sweep_sends_what_is_due_and_returns_by_no_other_message() {
    for (has_message, late, is_sent) in [
        (false, -2, false),
        (false, 0, true),
        (false, 30, true),
        (true, 30, false),
        (true, 59, false),
        (true, 60, true),
        (true, 3_600, true),
    ] {
        let bench = Bench::new().compared();
        let mut row = bench.idle(1).remove(0);
        row.set_wake(has_message.then_some(1));
        row.set_due(Time::from_millis(bench.door.now().as_millis() - 1_000 * late));
        bench.store(std::slice::from_ref(&row));
        let report = bench.drive(bench.sweep());
        assert_eq!(report.sent, usize::from(is_sent), "{has_message}, {late} s late");
    }
}

/// Columns: the seconds since a job was queued; whether the sweep expires it, and wakes its pool.
#[test]
fn a_job_expires_after_two_days() {
    for (age, expired, woken) in [(60, 0, 1), (172_790, 0, 1), (172_800, 1, 0), (180_000, 1, 0)] {
        let bench = Bench::new().compared();
        bench.put(&[Change::create(waiting(1, bench.door.now() - Seconds(age))).into()]);
        let report = bench.drive(bench.sweep());
        assert_eq!((report.expired, report.woken), (expired, woken), "{age} s");
        let is_late = report.oldest_queued_job >= age;
        assert_eq!(is_late, expired == 0, "{age} s: {}", report.oldest_queued_job);
        let again = bench.drive(bench.sweep());
        assert_eq!(again.expired, 0, "{age} s");
    }
}

/// Columns: the seconds since the launch or the binding; whether a machine without a record is entered in the ledger, and
/// whether a pass is started for a record whose machine EC2 does not list.
#[test]
fn a_comparison_leaves_young_machines_and_records_alone() {
    for (age, is_stray, is_lost) in
        [(590, false, false), (610, false, true), (890, false, true), (910, true, true)]
    {
        let bench = Bench::new();
        let Instance { name, pool, entity, installation, launch, .. } = bench.booting();
        let slot = Slot { name, pool, entity, installation, launch, claim: None };
        let mut row = Instance::planned(slot, bench.door.now(), &Timings::default());
        let machine = "i-0123456789abcdef0".parse().expect("a machine");
        row.bind(machine, bench.door.now(), &Timings::default());
        row.set_due(bench.door.now() + Seconds(9_000));
        bench.store(std::slice::from_ref(&row));
        bench.change(|world| world.now += age * 1_000);
        let report = bench.drive(bench.sweep());
        assert_eq!(report.ledger.len(), usize::from(is_stray), "{age} s: {:?}", report.ledger);
        let sent = bench.change(|world| world.queues.of(Which::Reap).len());
        assert_eq!((report.sent, sent), (0, usize::from(is_lost)), "{age} s");
    }
}
