//! A pool's counter, its lease and its wake count: one small record per pool.

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::PoolName;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// The record of a pool's present use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    /// Version of the record's form.
    pub schema: u16,
    /// The pool.
    pub pool: PoolName,
    /// Live instances. Changed only in the transaction that makes or ends one.
    pub live: u32,
    /// How often somebody asked for a launch pass. A holder that finds it changed runs once more.
    pub wakes: u64,
    /// The launch pass that holds the pool, as a random-enough word.
    pub holder: Option<String>,
    /// Until when.
    pub lease_until: Option<Time>,
    /// The pool's configuration as the last pass knew it.
    pub configured: Option<Configured>,
    /// When the delayed wake-up arrives that was sent last. One is enough: its pass sends the next.
    pub wake_at: Option<Time>,
}

/// Which configuration of a pool, and when a launch pass first saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configured {
    /// The launch template with its version, and the generation of the pool.
    pub version: String,
    /// Since when.
    pub since: Time,
}

impl Capacity {
    /// The longest wait that a message keeps: SQS holds a new one back for 15 minutes at most.
    const MAX_DELAY: Seconds = Seconds(899);

    /// The record of a pool that has none yet.
    #[must_use]
    pub const fn empty(pool: PoolName) -> Self {
        Self {
            schema: SCHEMA,
            pool,
            live: 0,
            wakes: 0,
            holder: None,
            lease_until: None,
            configured: None,
            wake_at: None,
        }
    }

    /// The configuration that a pass knows of the pool; when it is another one, first seen now.
    /// Part of the same write as [`Self::woken`].
    #[must_use]
    pub fn configured(mut self, version: String, now: Time) -> Self {
        if self.configured.as_ref().is_none_or(|known| known.version != version) {
            self.configured = Some(Configured { version, since: now });
        }
        self
    }

    /// Whether the last pass knew another configuration than this one.
    #[must_use]
    pub fn differs_from(&self, version: &str) -> bool {
        self.configured.as_ref().is_some_and(|known| known.version != version)
    }

    /// Whether the configuration is so new that EC2 may not know all that it names.
    #[must_use]
    pub fn is_settling(&self, now: Time, timings: &Timings) -> bool {
        let since = self.configured.as_ref().map(|known| known.since);
        since.is_some_and(|since| !now.is_past(since, timings.settling_seconds))
    }

    /// Asks for a launch pass, and takes the lease when it is free.
    #[must_use]
    pub fn woken(&self, holder: &str, now: Time, timings: &Timings) -> Self {
        let mut next = self.clone();
        next.wakes += 1;
        if !self.is_leased(now) {
            next.holder = Some(holder.to_owned());
            next.lease_until = Some(now + timings.pool_lease_seconds);
        }
        next
    }

    /// Whether a pass has the lease.
    #[must_use]
    pub fn is_leased(&self, now: Time) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Whether `holder` has the lease.
    #[must_use]
    pub fn is_held_by(&self, holder: &str) -> bool {
        self.holder.as_deref() == Some(holder)
    }

    /// The lease given back.
    #[must_use]
    pub fn released(&self) -> Self {
        Self { holder: None, lease_until: None, ..self.clone() }
    }

    /// The delay of the wake-up that is to be sent for what waits until `at`, and that stands in
    /// this record from now on. None when another one comes no later, or when it is too far off for
    /// a message: then the sweep sends it. A time that is over came while the pass was at work.
    pub fn wake_later(&mut self, at: Time, now: Time) -> Option<Seconds> {
        let at = at.max(now);
        let on_its_way = self.wake_at.is_some_and(|known| now < known && known <= at);
        if on_its_way || at > now + Self::MAX_DELAY {
            return None;
        }
        self.wake_at = Some(at);
        // Not a moment too early: whole seconds, and the queue's clock is another one.
        Some(Seconds(at.since(now).0 + 1))
    }
}

#[cfg(test)]
mod tests;
