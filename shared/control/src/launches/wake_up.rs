//! Handles a wake-up of the launch queue: runs its pool's launch pass. A failed wake-up returns
//! soon.

use futures_util::future::join;
use muster_domain::causes::with_causes;
use muster_domain::hash::{fnv1a, fnv1a_on};
use muster_domain::message::WakePool;
use muster_domain::time::{Seconds, Time};

use crate::context::{Context, Wired};
use crate::launches::pass::{
    LaunchPass, LaunchReport, LaunchStopped, WakeUpReads, comes_again, last_call, send_wakes,
};
use crate::metrics::{self, Measure};
use crate::ports::{Compute, Queue, Received, Table};

/// The outcome of a wake-up.
#[derive(Clone, Debug, PartialEq)]
pub struct WakeReport {
    /// Whether the message is done; otherwise it returns.
    pub acked: bool,
    /// The launch pass's report, even if an error stopped it. Absent if the set of pools could not
    /// be read.
    pub passed: Option<LaunchReport>,
    /// The pass's metrics, and the wake-up itself if it keeps failing.
    pub measures: Vec<Measure>,
}

/// An invocation for the launch queue, which delivers one message at a time.
pub struct WakeUp<'a, W: Wired> {
    /// The ports, and the settings from the stack's parameters.
    pub context: Context<'a, W>,
    /// Identifies this invocation among overlapping ones.
    pub invocation: &'a str,
    /// When Lambda stops the invocation.
    pub deadline: Time,
    /// Returns the current time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Queue: Queue, Compute: Compute>> WakeUp<'_, W> {
    /// Handles a wake-up. Reads the launch pass's first records concurrently with the set of pools.
    pub async fn run(&self, received: &Received<WakePool>) -> WakeReport {
        let (wake, receives) = (&received.message, received.receives);
        let now = (self.clock)();
        let last_call = last_call(now, self.deadline);
        let Context { table, settings, .. } = self.context;
        let (settings, looked) =
            join(settings.current_pools(table), WakeUpReads::read(table, wake, now)).await;
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
            tracing::warn!(pool.name = %wake.pool, error = with_causes(&error), "failed to request a new launch pass; the sweep will");
        }
        measures.extend(passed.measures());
        WakeReport { acked: self.leave(received, wait).await, passed: Some(passed), measures }
    }

    /// Hides the wake-up for `wait`, or completes it. Returns whether it is done.
    async fn leave(&self, received: &Received<WakePool>, wait: Option<Seconds>) -> bool {
        let Some(wait) = wait else { return true };
        if let Err(error) = self.context.queue.hide_wake(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it returns after the queue's visibility timeout"
            );
        }
        false
    }
}

/// Returns the metric of a wake-up that keeps failing. Waiting for a different pass is not a
/// failure.
fn failing(is_failed: bool, receives: u32) -> Vec<Measure> {
    let count = usize::from(is_failed && metrics::keeps_failing(receives));
    Measure::failing(count).into_iter().collect()
}

/// Returns a seed that differs between passes, from the request ID and the message: launch IDs must
/// never repeat.
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
