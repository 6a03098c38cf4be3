//! Fleets of hundreds that end at one moment.

use std::rc::Rc;

use muster_domain::instance::State;
use muster_domain::message::ReapMessage;
use muster_sim::agenda::{MINUTE, Millis, Which};
use muster_sim::executor::Executor;
use muster_sim::queue::Body;

use crate::bench::Bench;

/// How long it takes until the last of these machines is gone, and how many TerminateInstances.
fn end(count: u32, full_batches: bool) -> (Millis, u64) {
    let bench = Bench::new();
    let mut rows = bench.idle(count);
    rows.iter_mut().for_each(|row| bench.order(row));
    bench.store(&rows);
    let sim = Rc::try_unwrap(bench.door.sim).expect("the only one");
    let mut world = sim.world.into_inner();
    world.cloud_config.by_hand = false;
    world.cloud_config.slowest_call = 20;
    world.queues.full_batches = full_batches;
    world.ec2.real_buckets = true;
    for row in rows {
        let message = ReapMessage::Reap { name: row.name, nonce: 1 };
        world.enqueue(Which::Reap, Body::Reap(message));
    }
    let (began, before) = (world.now, world.calls.terminates);
    let mut executor = Executor::new(world, sim.settings);
    for passed in (0..MINUTE).step_by(100) {
        executor.run(began + passed);
        let world = executor.sim().world.borrow();
        assert!(world.violation.is_none(), "{:?}", world.violation);
        if world.tables.instances.values().all(|row| row.state() == State::Deleted) {
            return (passed, world.calls.terminates - before);
        }
    }
    panic!("after a minute some are left");
}

/// EC2 takes a hundred requests of TerminateInstances at once, and five a second after that.
#[test]
fn six_hundred_machines_end_in_seconds() {
    for full_batches in [true, false] {
        let (took, calls) = end(600, full_batches);
        assert!(took < 5_000 && calls < 50, "{calls} calls in {took} ms");
    }
}
