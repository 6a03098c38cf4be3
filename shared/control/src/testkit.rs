//! What the tests of this crate share.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use domain::ids::MachineId;
use domain::instance::Fault;
use domain::time::{Seconds, Time};

pub(crate) fn at(second: u32) -> Time {
    Time::from_millis(1_800_000_000_000) + Seconds(second)
}

pub(crate) fn machine(number: u32) -> MachineId {
    format!("i-{number:017x}").parse().expect("a machine's id")
}

pub(crate) fn machines(numbers: &[u32]) -> BTreeSet<MachineId> {
    numbers.iter().map(|number| machine(*number)).collect()
}

pub(crate) fn fault() -> Fault {
    Fault {
        at: at(0),
        operation: "TerminateInstances".to_owned(),
        code: "Some".to_owned(),
        message: "some".to_owned(),
    }
}

/// Runs what never waits, or waits for what this thread itself brings about.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
    panic!("nothing moves any more");
}
