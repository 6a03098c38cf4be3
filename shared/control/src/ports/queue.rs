//! The queues.

use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::Seconds;

use super::Unavailable;

/// A message could not be sent or hidden.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("queue unavailable")]
pub struct QueueError(#[source] pub Unavailable);

/// The queues.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Queue {
    /// Sends job events to the jobs queue.
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError>;
    /// Sends to the launch queue what nobody receives before `delay` (at most 15 minutes) has
    /// passed.
    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError>;
    /// Sends to the reap queue.
    async fn send_reap(&self, messages: &[ReapMessage]) -> Result<(), QueueError>;
    /// Hides a message of the reap queue, which the caller then reports as failed, for `wait` (at
    /// most 12 hours from its receipt).
    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// The same for a message of the jobs queue.
    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
    /// The same for a message of the launch queue.
    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError>;
}
