//! The port to the SQS queues.

use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::Seconds;

use super::Unavailable;

/// A message could not be sent or hidden.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue unavailable")]
pub struct QueueError(#[source] pub Unavailable);

/// The SQS queues.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Queue {
    /// Sends job events to the jobs queue.
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError>;
    /// Sends wake-ups to the launch queue, delivered after `delay` (at most 15 minutes).
    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError>;
    /// Sends messages to the reap queue.
    async fn send_reap(&self, messages: &[ReapMessage]) -> Result<(), QueueError>;
    /// Hides a message of the reap queue, which the caller then reports as failed, for `wait` (at
    /// most 12 hours from its receipt).
    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// Like [`Self::hide`], for the jobs queue.
    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// Like [`Self::hide`], for the launch queue.
    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
}

/// A message from a queue.
#[derive(Clone, Debug)]
pub struct Received<M> {
    /// The content.
    pub message: M,
    /// The message ID, the same at every receive.
    pub id: String,
    /// The receipt handle, for hiding it.
    pub receipt: String,
    /// How often it was received, including this time.
    pub receives: u32,
}

/// Returns the delay after which a failed message returns: most failures end within seconds, and
/// the queue's own timeout is minutes.
#[must_use]
pub fn again_after(receives: u32) -> Seconds {
    Seconds(receives.saturating_mul(5).clamp(5, 30))
}
