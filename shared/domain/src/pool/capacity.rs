//! A pool's instance counter, launch lease and wake count: one small record per pool.

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::PoolName;
use crate::pool::Pool;
use crate::pool::warm::{RepositoryEvent, Warm};
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// The record of a pool's current use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capacity {
    /// The record's schema version.
    pub schema: u16,
    /// The pool.
    pub pool: PoolName,
    /// Number of live instances. Changed only in the transaction that creates or ends one.
    pub live: u32,
    /// Number of launch passes requested so far. A lease holder that finds this changed runs once
    /// more.
    pub wakes: u64,
    /// The ID of the launch pass that has the lease.
    pub holder: Option<String>,
    /// When the lease expires.
    pub lease_until: Option<Time>,
    /// The pool's configuration as the last pass saw it.
    pub configured: Option<Configured>,
    /// When the latest delayed wake-up arrives. One at a time is enough: its pass sends the next.
    pub wake_at: Option<Time>,
    /// What recent events of `warm_on` require, one entry per number of runners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warm: Vec<Warm>,
}

/// A version of a pool's configuration, and when a launch pass first saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configured {
    /// The configuration's version, from [`Pool::version`](crate::pool::Pool::version).
    pub version: String,
    /// When it was first seen.
    pub since: Time,
}

impl Capacity {
    /// The longest delay that a message supports: SQS delays a message for at most 15 minutes.
    const MAX_DELAY: Seconds = Seconds(899);

    /// Creates the initial record of a pool.
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
            warm: Vec::new(),
        }
    }

    /// Records the configuration that a pass uses. If it is new, its first-seen time is now. Part
    /// of the write that commits [`Self::woken`].
    #[must_use]
    pub fn configured(mut self, version: String, now: Time) -> Self {
        if self.configured.as_ref().is_none_or(|known| known.version != version) {
            self.configured = Some(Configured { version, since: now });
        }
        self
    }

    /// Returns whether the last pass used a different configuration version.
    #[must_use]
    pub fn differs_from(&self, version: &str) -> bool {
        self.configured.as_ref().is_some_and(|known| known.version != version)
    }

    /// Returns whether the configuration is so new that EC2 may not see everything it names yet.
    #[must_use]
    pub fn is_settling(&self, now: Time, timings: &Timings) -> bool {
        let since = self.configured.as_ref().map(|known| known.since);
        since.is_some_and(|since| !now.is_past(since, timings.settling_seconds))
    }

    /// Requests a launch pass, and takes the lease if it is free.
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

    /// Returns the record after an event that may warm the pool. `None` if nothing changes.
    #[must_use]
    pub fn warmed(&self, pool: &Pool, event: &RepositoryEvent, now: Time) -> Option<Self> {
        let warm = Warm::after(&self.warm, pool, event, now)?;
        Some(Self { warm, ..self.clone() })
    }

    /// Returns whether a pass has the lease.
    #[must_use]
    pub fn is_leased(&self, now: Time) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Returns whether `holder` has the lease.
    #[must_use]
    pub fn is_held_by(&self, holder: &str) -> bool {
        self.holder.as_deref() == Some(holder)
    }

    /// Returns the record with the lease released.
    #[must_use]
    pub fn released(&self) -> Self {
        Self { holder: None, lease_until: None, ..self.clone() }
    }

    /// Schedules a wake-up for `at` and returns its delay. Returns `None` if an earlier wake-up is
    /// already on its way, or if `at` is too far ahead for a message; then the sweep sends it. A
    /// time in the past was passed while this pass ran, and counts as now.
    pub fn wake_later(&mut self, at: Time, now: Time) -> Option<Seconds> {
        let at = at.max(now);
        let on_its_way = self.wake_at.is_some_and(|known| now < known && known <= at);
        if on_its_way || at > now + Self::MAX_DELAY {
            return None;
        }
        self.wake_at = Some(at);
        // Rounded up: delays are whole seconds, the queue has a separate clock, and an early
        // wake-up is useless.
        Some(Seconds(at.since(now).0 + 1))
    }
}

#[cfg(test)]
mod tests;
