//! The receiver of notices.

use muster_domain::time::Time;

use super::Unavailable;
use crate::notices::Message;

/// The receiver of notices.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Receiver {
    /// Another text for another address, and nothing of the address itself, which is a secret. None
    /// while there is no address.
    async fn address(&self, now: Time) -> Result<Option<String>, Unavailable>;
    /// Sends the first notices of a message, as many as the receiver accepts at once, within some
    /// seconds. Returns how many of them need not be sent again.
    async fn post(&self, message: &Message) -> Result<usize, Unavailable>;
}
