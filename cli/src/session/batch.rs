//! Calls of several futures, sent together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use muster_sigv4::Call;
use serde_json::Value;

use super::Session;
use crate::doctor::{Fact, Unknown};
use crate::failure::Failure;
use crate::world::Cloud;

/// An answer, or why it is missing.
pub(super) type Answer = Result<Value, Failure>;

/// The calls of futures that run side by side. Each future owns the answers to its own calls; all calls that futures
/// wait for at the same time are sent together.
#[derive(Default)]
pub(super) struct CallBatch(RefCell<BatchState>);

#[derive(Default)]
struct BatchState {
    /// Number of calls that were sent before.
    sent: usize,
    calls: Vec<Call>,
    /// Answers by the number of their call.
    answers: BTreeMap<usize, Answer>,
}

impl CallBatch {
    /// Makes a call.
    pub(super) async fn ask(&self, call: Call) -> Answer {
        let number = {
            let mut state = self.0.borrow_mut();
            state.calls.push(call);
            state.sent + state.calls.len() - 1
        };
        poll_fn(|_| match self.0.borrow_mut().answers.remove(&number) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Makes a call and reads its answer.
    pub(super) async fn fact<T>(&self, call: Call, read: impl FnOnce(&Value) -> T) -> Fact<T> {
        self.ask(call).await.map(|answer| read(&answer)).map_err(Unknown::from)
    }

    fn taken(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.borrow_mut().calls)
    }

    /// Hands out the answers to `calls` calls.
    fn give(&self, calls: usize, answers: Vec<Answer>) {
        let mut state = self.0.borrow_mut();
        let missing =
            || Failure::Unreadable { what: "AWS", why: "an answer is missing".to_owned() };
        let answers = answers.into_iter().chain(std::iter::repeat_with(|| Err(missing())));
        let first = state.sent;
        state.answers.extend((first..first + calls).zip(answers));
        state.sent += calls;
    }
}

impl<W: Cloud> Session<'_, W> {
    /// Runs futures that make calls. Fails without valid credentials, because every call would fail.
    pub(super) async fn together<T>(
        &mut self,
        batch: &CallBatch,
        futures: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut futures = pin!(futures);
        loop {
            let polled = poll_fn(|context| Poll::Ready(futures.as_mut().poll(context))).await;
            if let Poll::Ready(done) = polled {
                return Ok(done);
            }
            let calls = batch.taken();
            debug_assert!(!calls.is_empty(), "a future waits for something else");
            let count = calls.len();
            let answers = self.world.aws(calls).await?;
            let of_credentials =
                |answer: &&Answer| matches!(answer, Err(Failure::NoCredentials { .. }));
            if let Some(Err(failure)) = answers.iter().find(of_credentials) {
                return Err(failure.clone());
            }
            batch.give(count, answers);
        }
    }
}
