//! Messages that wake the reaper.

use muster_domain::instance::Instance;
use muster_domain::message::ReapMessage;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

/// Creates a message that wakes the reaper for an instance. Its nonce differs from the nonces of
/// other messages about it.
pub(crate) fn reap_message(instance: &Stored<Instance>, now: Time) -> ReapMessage {
    let nonce = instance.version().0.wrapping_mul(1_000_003) ^ now.as_millis().unsigned_abs();
    ReapMessage::Reap { name: instance.name.clone(), nonce }
}
