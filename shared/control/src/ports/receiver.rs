//! Who is told notices.

use muster_domain::time::Time;

use super::Unavailable;
use crate::notices::Message;

/// Who is told notices.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Receiver {
    /// Another text for another address, and nothing of the address itself, which is a secret. None
    /// while there is no address.
    async fn address(&self, now: Time) -> Result<Option<String>, Unavailable>;
    /// Tells it. It gives up after some seconds.
    async fn post(&self, message: &Message) -> Result<(), Unavailable>;
}
