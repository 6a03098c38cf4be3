//! The port to the receiver of notifications.

use muster_domain::time::Time;

use super::Unavailable;
use crate::notices::Message;

/// The receiver of notifications: Slack, Teams or a webhook.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Receiver {
    /// Returns a text that changes with the address without revealing it, because the address is a
    /// secret; absent if no address is configured.
    async fn address(&self, now: Time) -> Result<Option<String>, Unavailable>;
    /// Sends the first notices of a message, as many as the receiver accepts at once, within a few
    /// seconds. Returns how many of them need not be sent again.
    async fn post(&self, message: &Message) -> Result<usize, Unavailable>;
}
