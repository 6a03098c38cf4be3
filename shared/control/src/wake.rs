//! Messages that wake the reaper.

use muster_domain::instance::Instance;
use muster_domain::message::ReapMessage;
use muster_domain::stored::{Stored, Version};
use muster_domain::time::Time;

/// Wakes the reaper for an instance.
pub(crate) fn reap_message(instance: &Stored<Instance>, now: Time) -> ReapMessage {
    ReapMessage::Reap { name: instance.name.clone(), nonce: nonce(instance.version(), now) }
}

/// Different for every sending about the same row.
#[must_use]
pub fn nonce(version: Version, now: Time) -> u64 {
    version.0.wrapping_mul(1_000_003) ^ now.as_millis().unsigned_abs()
}
