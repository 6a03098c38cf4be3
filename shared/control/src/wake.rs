//! Messages that wake the reaper.

use muster_domain::instance::Instance;
use muster_domain::message::ReapMessage;
use muster_domain::time::Time;

/// Wakes the reaper for an instance.
pub(crate) fn reap_message(instance: &Instance, now: Time) -> ReapMessage {
    ReapMessage::Reap { name: instance.name.clone(), nonce: nonce(instance.generation(), now) }
}

/// Different for every sending about the same row.
#[must_use]
pub fn nonce(generation: u64, now: Time) -> u64 {
    generation.wrapping_mul(1_000_003) ^ now.as_millis().unsigned_abs()
}
