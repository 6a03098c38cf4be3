//! A wake-up of the launch queue: runs the launch pass of its pool. One that fails comes again soon.

use futures_util::future::join;
use muster_domain::hash::{fnv1a, fnv1a_on};
use muster_domain::message::WakePool;
use muster_domain::time::{Seconds, Time};

use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::jobs::batch::Received;
use crate::launches::pass::{
    LaunchPass, LaunchReport, LaunchStopped, Looked, comes_again, last_call, send_wakes,
};
use crate::metrics::{self, Measure};
use crate::ports::{Compute, Queue, Table};

/// The outcome of a wake-up.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeReport {
    /// Done with it; otherwise it comes back.
    pub acked: bool,
    /// What the launch pass did, also one that was stopped by an error. None without the set of
    /// pools.
    pub passed: Option<LaunchReport>,
    /// The metrics of the pass, and the wake-up itself if it keeps failing.
    pub measures: Vec<Measure>,
}

/// An invocation for the launch queue, which hands over one message at a time.
pub struct WakeUp<'a, W: Wired> {
    /// The world: tables, queues and EC2. The stack as its parameters say.
    pub context: Context<'a, W>,
    /// Names the invocation among all that may overlap.
    pub invocation: &'a str,
    /// When Lambda stops it.
    pub deadline: Time,
    /// The time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute>> WakeUp<'_, W> {
    /// Handles a wake-up. What the launch pass reads first is read at the same moment as the set of
    /// pools.
    pub async fn run(&self, received: &Received<WakePool>) -> WakeReport {
        let (wake, receives) = (&received.message, received.receives);
        let now = (self.clock)();
        let last_call = last_call(now, self.deadline);
        let Context { table, settings, .. } = self.context;
        let (settings, looked) =
            join(settings.current(table), Looked::read(table, wake, now)).await;
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "cannot read the set of pools");
                let wait = comes_again(&Err(error), receives);
                let measures = failing(true, receives);
                let acked = self.leave(received, wait).await;
                return WakeReport { acked, passed: None, measures };
            }
        };
        let pass = LaunchPass {
            context: self.context.with(&settings),
            holder: self.invocation,
            seed: seed(self.invocation, &received.id),
            last_call,
            clock: self.clock,
        };
        let passed = match looked {
            Ok(looked) => pass.run(looked, wake, receives).await,
            Err(error) => Err(error.into()),
        };
        let wait = comes_again(&passed, receives);
        let mut measures = failing(passed.is_err(), receives);
        let passed = passed.unwrap_or_else(|LaunchStopped { report, error }| {
            tracing::error!(pool.name = %wake.pool, error = with_causes(&error), "launch pass failed");
            *report
        });
        tracing::info!(pool.name = %wake.pool, report = ?passed, "launch pass ended");
        if let Err(error) = send_wakes(self.context.queue, &wake.pool, &passed).await {
            tracing::warn!(pool.name = %wake.pool, error = with_causes(&error), "failed to ask for another launch pass; the sweep will");
        }
        measures.extend(passed.measures());
        WakeReport { acked: self.leave(received, wait).await, passed: Some(passed), measures }
    }

    /// The wake-up comes again after `wait`, or is done with. Which of the two.
    async fn leave(&self, received: &Received<WakePool>, wait: Option<Seconds>) -> bool {
        let Some(wait) = wait else { return true };
        if let Err(error) = self.context.queue.hide_wake(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it comes again after the queue's time-out"
            );
        }
        false
    }
}

/// The wake-up as a metric if it keeps failing. One that waits for another pass does not fail.
fn failing(is_failed: bool, receives: u32) -> Vec<Measure> {
    let count = usize::from(is_failed && metrics::keeps_failing(receives));
    Measure::failing(count).into_iter().collect()
}

/// A number that differs between passes, from the request id and the message: launch ids must never
/// repeat.
fn seed(invocation: &str, message: &str) -> u64 {
    fnv1a_on(fnv1a(invocation.as_bytes()), message.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::seed;

    #[test]
    fn passes_have_seeds_of_their_own() {
        assert_eq!(seed("8f5e-1", "a"), seed("8f5e-1", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-2", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-1", "b"));
    }
}
