//! Passes that run side by side, so that the machines they end go into one call.
//!
//! Each pass is written for one instance and knows of no other. One thread takes turns among some
//! of them; a pass that wants its machine ended waits, and does not count any more, so that the
//! next one begins. Once all wait, or the first has waited long enough, one TerminateInstances
//! carries all of their machines, and each goes on with the answer that is its own. No clock or
//! waker of ours is needed: somebody else's answer is what wakes the invocation, and then all are
//! asked whether they can go on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use muster_domain::ids::MachineId;
use muster_domain::observation::Termination;
use muster_domain::time::{Seconds, Time};

use crate::ports::{Compute, MAX_TERMINATED};
use crate::reaps::terminate;

/// Most passes under way that do not wait for a termination. With five invocations at once that is
/// half of what GitHub takes of concurrent requests (100, docs.github.com/rest, "secondary rate
/// limits").
const MAX_UNDER_WAY: usize = 10;
/// A machine whose pass is ready to end it waits this long for slower passes.
const PATIENCE: Seconds = Seconds(10);

/// A pass that waits, and where its answer will be.
type Asked = (MachineId, Rc<Cell<Option<Termination>>>);

/// The machines that the passes of an invocation want to end.
pub struct TerminateBatcher<'a, C> {
    compute: &'a C,
    now: &'a dyn Fn() -> Time,
    asked: RefCell<Vec<Asked>>,
    since: Cell<Option<Time>>,
    /// How many wait for the call that is under way.
    called: Cell<usize>,
    moved: Cell<bool>,
}

impl<'a, C: Compute> TerminateBatcher<'a, C> {
    /// Of an invocation.
    pub fn new(compute: &'a C, now: &'a dyn Fn() -> Time) -> Self {
        Self {
            compute,
            now,
            asked: RefCell::default(),
            since: Cell::default(),
            called: Cell::default(),
            moved: Cell::default(),
        }
    }

    /// Ends a machine, in one call with those of the other passes.
    pub async fn terminate(&self, machine: &MachineId) -> Termination {
        let answer = Rc::new(Cell::new(None));
        self.asked.borrow_mut().push((machine.clone(), Rc::clone(&answer)));
        self.since.set(self.since.get().or_else(|| Some((self.now)())));
        self.moved.set(true);
        poll_fn(|_| answer.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Set by whatever one pass does that another may wait for.
    pub(crate) const fn moved(&self) -> &Cell<bool> {
        &self.moved
    }

    /// Runs passes to their end. `next` makes the next one, as long as there is one to begin.
    pub async fn run<P: Future<Output = ()>>(&self, mut next: impl FnMut() -> Option<P>) {
        let mut under_way: Vec<Pin<Box<P>>> = Vec::new();
        let mut call: Option<Pin<Box<dyn Future<Output = ()> + '_>>> = None;
        let mut more = true;
        poll_fn(|cx| {
            loop {
                self.moved.set(false);
                while more && under_way.len() < MAX_UNDER_WAY + self.waiting() {
                    let pass = next();
                    more = pass.is_some();
                    under_way.extend(pass.map(Box::pin));
                }
                let before = under_way.len();
                under_way.retain_mut(|pass| pass.as_mut().poll(cx).is_pending());
                let all_wait = !more && under_way.len() == self.waiting();
                if call.is_none() && self.is_time_to_call(all_wait) {
                    call = Some(Box::pin(self.call()));
                }
                let answered = call.as_mut().is_some_and(|call| call.as_mut().poll(cx).is_ready());
                if answered {
                    call = None;
                }
                if under_way.is_empty() && !more {
                    return Poll::Ready(());
                }
                if !answered && !self.moved.get() && under_way.len() == before {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// How many passes wait for an answer.
    fn waiting(&self) -> usize {
        self.asked.borrow().len() + self.called.get()
    }

    fn is_time_to_call(&self, all_wait: bool) -> bool {
        let Some(since) = self.since.get() else { return false };
        all_wait
            || self.asked.borrow().len() >= MAX_TERMINATED
            || (self.now)().is_past(since, PATIENCE)
    }

    async fn call(&self) {
        let asked = self.asked.take();
        self.since.set(None);
        self.called.set(asked.len());
        let machines: BTreeSet<MachineId> = asked.iter().map(|(id, _)| id.clone()).collect();
        let answers = terminate::all(self.compute, machines, (self.now)()).await;
        for (machine, answer) in asked {
            answer.set(answers.get(&machine).cloned());
        }
        self.called.set(0);
    }
}

#[cfg(test)]
mod tests;
