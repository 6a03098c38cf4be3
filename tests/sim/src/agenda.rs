//! What happens when, in virtual time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Milliseconds since the Unix epoch, in virtual time.
pub type Millis = i64;

/// The first moment of every schedule: 2026-11-21, midnight UTC.
pub const START: Millis = 1_795_219_200_000;

/// One second.
pub const SECOND: Millis = 1_000;
/// One minute.
pub const MINUTE: Millis = 60 * SECOND;
/// One hour.
pub const HOUR: Millis = 60 * MINUTE;

/// A task of the executor. Numbers are used again, so the age says which task was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    /// Its place.
    pub place: u32,
    /// How many tasks were at that place before.
    pub age: u32,
}

/// One of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// Job events.
    Jobs,
    /// Wake-ups of pools.
    Launch,
    /// Passes over instances.
    Reap,
}

/// What happens to a machine without our doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arrival {
    /// It runs, and boots.
    Running,
    /// It is gone for good.
    Terminated,
    /// It is stopped.
    Stopped,
    /// Spot takes it back.
    Reclaimed,
    /// It dies.
    Died,
    /// It hangs.
    Hung,
    /// Somebody stops it.
    Halted,
    /// GitHub forgets its idle runner.
    Forgotten,
}

/// Something on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task waited for this moment.
    Wake(TaskId),
    /// A task ends here, wherever it is.
    Kill(TaskId),
    /// An invocation or a machine starts; the number names what waits to be started.
    Start(u32),
    /// Lambda looks into a queue.
    Poll(Which),
    /// The schedule's minute.
    Tick,
    /// A workflow queues a job.
    Queue(u32),
    /// A workflow cancels a job.
    Cancel(u32),
    /// GitHub has a job wait for an approval.
    Gate(u32),
    /// Somebody approves a job.
    Approve(u32),
    /// Somebody rejects a job.
    Reject(u32),
    /// GitHub gives queued jobs to idle runners.
    Dispatch,
    /// GitHub gives up on a runner that fell silent in this job.
    LostRunner(u32),
    /// A peer asks for a re-run of this run again.
    RerunComesAgain(u64),
    /// GitHub notices that the process of an idle runner is gone.
    Noticed(u64),
    /// A runner has not taken the job that it was given.
    OfferLapses(u64),
    /// A webhook arrives.
    Webhook(u32),
    /// EC2 moves a machine on.
    Machine(u32, Arrival),
    /// A launch that the caller took for lost takes effect.
    LateLaunch(u32),
    /// EC2 is about to take a machine back.
    Notice(u32),
    /// A message reaches the reap queue from EC2.
    StateEvent(u32, u8, Millis),
    /// An operator orders something.
    Operator(u32),
    /// A fault window opens or closes.
    Window(u32),
    /// The rates of the faults change.
    Weather(u32),
    /// A record has expired, and the table removes it.
    Expire(u32),
}

/// The agenda. What is due at one moment happens in the order in which it was entered.
#[derive(Debug, Default)]
pub struct Agenda {
    due: BinaryHeap<Entry>,
    entered: u64,
}

/// The moment and the entry's own number, as one number: a comparison is one instruction or two.
#[derive(Debug)]
struct Entry {
    order: Reverse<u128>,
    event: Event,
}

impl Entry {
    const fn when(&self) -> Millis {
        (self.order.0 >> 64).cast_signed() as Millis
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl Agenda {
    /// Enters an event. Moments are after 1970.
    pub fn at(&mut self, when: Millis, event: Event) {
        self.entered += 1;
        let order = (u128::from(when.cast_unsigned()) << 64) | u128::from(self.entered);
        self.due.push(Entry { order: Reverse(order), event });
    }

    /// Takes the next event, if it is due by `until`.
    pub fn next(&mut self, until: Millis) -> Option<(Millis, Event)> {
        if self.due.peek()?.when() > until {
            return None;
        }
        self.due.pop().map(|entry| (entry.when(), entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_moments_come_first_and_one_moment_keeps_its_order() {
        let mut agenda = Agenda::default();
        for (when, number) in [(30, 0), (10, 1), (20, 2), (10, 3), (30, 4), (10, 5)] {
            agenda.at(when, Event::Queue(number));
        }
        let mut told = Vec::new();
        while let Some((when, Event::Queue(number))) = agenda.next(30) {
            told.push((when, number));
        }
        assert_eq!(told, [(10, 1), (10, 3), (10, 5), (20, 2), (30, 0), (30, 4)]);
    }

    #[test]
    fn what_is_due_later_stays_and_may_be_overtaken() {
        let mut agenda = Agenda::default();
        agenda.at(20, Event::Tick);
        assert_eq!(agenda.next(19), None);
        agenda.at(15, Event::Dispatch);
        assert_eq!(agenda.next(20), Some((15, Event::Dispatch)));
        assert_eq!(agenda.next(20), Some((20, Event::Tick)));
        assert_eq!(agenda.next(Millis::MAX), None);
    }
}
