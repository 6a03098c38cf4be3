//! Machines of a pool that served nothing, one after the other: an image that does not boot, a key
//! that may not be used, an agent that GitHub takes no more. However many jobs wait, one machine at
//! a time then finds out whether that is over. Promise of the README: waste no money.

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::ids::{InstanceName, PoolName};
use crate::instance::{Instance, RunnerState, State};
use crate::launch::cooldown::LaunchBlock;
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// So many in a row may be chance. From then on it is the pool.
const MAY_FAIL: u32 = 3;
/// The wait from the last launch to the first machine that finds out; it doubles with each one in
/// vain.
const FIRST_WAIT: Seconds = Seconds(120);
/// The longest such wait: what jobs wait at most once somebody has mended it.
const MAX_WAIT: Seconds = Seconds(900);
/// A few failures without another one for this long were chance.
const FORGOTTEN_AFTER: Seconds = Seconds(3600);
/// A runner that has listened for this long without a job has come up.
const UP_AFTER: Seconds = Seconds(60);

/// The machines of a pool that served nothing since one last did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trouble {
    /// The pool.
    pub pool: PoolName,
    /// The pool's generation: another one may be right.
    pub generation: u64,
    /// When the first of them was launched.
    pub since: Time,
    /// When the last one failed.
    pub at: Time,
    /// How many, up to the first that makes the others wait; then also each that found out.
    pub failures: u32,
    /// How many found out in vain.
    pub probes: u32,
    /// No machine before this time.
    pub until: Time,
    /// The last one.
    pub last: InstanceName,
    /// What became of it.
    pub reason: String,
}

/// What a pool in trouble may launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Another machine has served or listens: the trouble is over.
    Over,
    /// So many machines, and why no more.
    Most(u32, LaunchBlock),
}

impl Trouble {
    fn first(instance: &Instance, reason: String, now: Time) -> Self {
        Self {
            pool: instance.pool.clone(),
            generation: instance.pool_generation,
            since: instance.launched_at(),
            at: now,
            failures: 1,
            probes: 0,
            until: now,
            last: instance.name.clone(),
            reason,
        }
    }

    /// The record after a machine that served nothing, if that changes it. `known`: the trouble of
    /// its pool so far.
    #[must_use]
    pub fn after(
        known: Option<&Self>,
        instance: &Instance,
        reason: String,
        now: Time,
    ) -> Option<Self> {
        let known = known.filter(|known| known.generation >= instance.pool_generation);
        let known = known.filter(|known| {
            known.generation > instance.pool_generation || !known.is_forgotten(now)
        });
        let Some(known) = known else { return Some(Self::first(instance, reason, now)) };
        // What an older configuration launched says nothing of this one's.
        if known.generation > instance.pool_generation || known.last == instance.name {
            return None;
        }
        let mut next = known.clone();
        if known.makes_wait() {
            // Those that were out together are one failure.
            if instance.launched_at() < known.until {
                return None;
            }
            next.probes += 1;
        }
        next.failures += 1;
        (next.at, next.last, next.reason) = (now, instance.name.clone(), reason);
        if next.makes_wait() {
            // From its launch: a machine that does not boot in time has taken up most of the wait.
            let wait = backoff::grown(FIRST_WAIT, next.probes + 1, MAX_WAIT);
            next.until = now.max(instance.launched_at() + wait);
        }
        Some(next)
    }

    /// Whether so many failed that the pool waits.
    #[must_use]
    pub const fn makes_wait(&self) -> bool {
        self.failures >= MAY_FAIL
    }

    fn is_forgotten(&self, now: Time) -> bool {
        !self.makes_wait() && now.is_past(self.at, FORGOTTEN_AFTER)
    }

    /// Whether this machine shows that the trouble is over.
    #[must_use]
    pub fn is_ended_by(&self, instance: &Instance, now: Time) -> bool {
        let listens = instance.runner.state == RunnerState::Idle
            && instance.runner.exit.is_none()
            && now.is_past(instance.runner.since, UP_AFTER);
        instance.pool_generation == self.generation
            && instance.launched_at() >= self.since
            && (instance.runner.has_taken_job() || listens)
    }

    /// What may be launched beside these live instances of the pool.
    #[must_use]
    pub fn finding(&self, live: &[impl AsRef<Instance>], now: Time) -> Finding {
        let live = || live.iter().map(AsRef::as_ref);
        if live().any(|one| self.is_ended_by(one, now)) {
            return Finding::Over;
        }
        // A slot that waits for its next attempt may itself be the one that finds out.
        let finds_out = |one: &Instance| {
            one.launched_at() >= self.until
                && one.state() != State::PendingCreate
                && one.drain().is_none()
                && one.runner.exit.is_none()
        };
        let most = u32::from(now >= self.until && !live().any(finds_out));
        Finding::Most(most, self.block(now))
    }

    /// Why jobs of the pool wait, and when to look again.
    #[must_use]
    pub fn block(&self, now: Time) -> LaunchBlock {
        let Self { pool, since, failures, reason, at, .. } = self;
        let reason = format!(
            "the last {failures} machines of pool {pool} served nothing, launched since {since} (at {at}: {reason}); one at a time finds out whether that is over"
        );
        LaunchBlock { until: self.until.max(now + UP_AFTER), reason, closed: None }
    }

    /// Whether it is this pool's as it is configured now, and makes its jobs wait.
    #[must_use]
    pub fn holds(&self, pool: &Pool) -> bool {
        self.pool == pool.name && self.generation == pool.generation && self.makes_wait()
    }
}

#[cfg(test)]
mod tests;
