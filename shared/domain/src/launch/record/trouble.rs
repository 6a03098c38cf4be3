//! Failures that waste machines: a pool whose machines never run a job, an entity that GitHub
//! refuses or limits, a pool whose runners GitHub refuses for an entity. However many jobs wait,
//! Muster then launches one machine at a time to probe whether the failure lasts, less and less
//! often; one success reopens the scope immediately. A fix that Muster can detect ends the wait:
//! see [`Cooldowns::opened`].
//! Promise of the README: waste no money.

mod github;
mod record;

use serde::{Deserialize, Serialize};

pub use self::github::{RequestKind, blames_group, question_due};
use crate::app::is_before_github;
use crate::backoff;
use crate::ids::{Entity, InstanceName, PoolName};
use crate::instance::{Instance, RunnerState, State};
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// Consecutive failures after which the pool, not the machine, is to blame. Also the number of
/// machines launched at once after a fix that Muster can detect: a single machine that fails by
/// chance then delays no job.
const MAY_FAIL: u32 = 3;
/// The wait before the first probe; it doubles with each one.
const FIRST_WAIT: Seconds = Seconds(120);
/// The maximum wait between probes: how long jobs wait at most after a fix that Muster cannot
/// detect.
const MAX_WAIT: Seconds = Seconds(900);
/// Time without a further failure after which a few failures count as chance.
const FORGOTTEN_AFTER: Seconds = Seconds(3600);
/// Time that a runner must listen without a job to count as working.
const UP_AFTER: Seconds = Seconds(60);

/// The scope of a trouble.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleScope {
    /// The machines of a pool never run a job.
    Pool(PoolName),
    /// GitHub rejects the App's credentials or registrations for an entity.
    Entity(Entity),
    /// GitHub rejects the runners of a pool for an entity: their configuration is invalid there.
    PoolOfEntity(PoolName, Entity),
    /// GitHub's rate limit for an entity is reached.
    Limit(Entity),
}

impl TroubleScope {
    /// Returns the entity that GitHub refuses or limits.
    #[must_use]
    pub const fn entity(&self) -> Option<&Entity> {
        match self {
            Self::Pool(_) => None,
            Self::Entity(entity) | Self::PoolOfEntity(_, entity) | Self::Limit(entity) => {
                Some(entity)
            }
        }
    }

    /// Returns the pool, if it concerns a single pool.
    #[must_use]
    pub const fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::Pool(pool) | Self::PoolOfEntity(pool, _) => Some(pool),
            Self::Entity(_) | Self::Limit(_) => None,
        }
    }
}

/// The record of a trouble.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trouble {
    /// The scope.
    pub scope: TroubleScope,
    /// The pool's generation, if it concerns a pool.
    pub generation: u64,
    /// Whether only a machine can show that it ended: GitHub refuses registrations and no other
    /// known calls, or the machines themselves fail.
    pub by_machine: bool,
    /// When it started. For failing machines: when the first of them was launched.
    pub since: Time,
    /// When it was last reported.
    pub at: Time,
    /// Number of machines that never ran a job: those up to the first that caused waiting, then
    /// each failed probe. 1 if GitHub reported the failure.
    pub failures: u32,
    /// Number of probes launched.
    pub probes: u32,
    /// Whether a single machine is proof, because it cannot be chance: GitHub rejects the newest
    /// agent as too old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub certain: bool,
    /// When the last probe was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probed_at: Option<Time>,
    /// No machine is launched before this time.
    pub until: Time,
    /// When Muster detected a possible fix. Cleared by the next launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_at: Option<Time>,
    /// The last machine of the pool that never ran a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<InstanceName>,
    /// What happened to it, or GitHub's message.
    pub reason: String,
}

/// What a pool's live instances show about its trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleStatus {
    /// A machine has run a job or its runner listens: the trouble has ended.
    Over,
    /// The maximum number of machines that may be launched.
    Most(u32),
}

impl Trouble {
    fn from_machine(instance: &Instance, reason: String, now: Time) -> Self {
        let certain = instance.no_agent_serves();
        let first = now.max(instance.launched_at() + FIRST_WAIT);
        Self {
            scope: TroubleScope::Pool(instance.pool.clone()),
            generation: instance.pool_generation,
            by_machine: true,
            since: instance.launched_at(),
            at: now,
            failures: 1,
            probes: 0,
            certain,
            probed_at: None,
            until: if certain { first } else { now },
            fixed_at: None,
            last: Some(instance.name.clone()),
            reason,
        }
    }

    /// Returns the record after a machine that never ran a job, if that changes it. `known`: the
    /// pool's trouble so far.
    #[must_use]
    pub fn after(
        known: Option<&Self>,
        instance: &Instance,
        reason: String,
        now: Time,
    ) -> Option<Self> {
        let known = known.filter(|known| !known.is_forgotten(now));
        let Some(known) = known else { return Some(Self::from_machine(instance, reason, now)) };
        if known.last.as_ref() == Some(&instance.name) {
            return None;
        }
        let mut next = known.clone();
        let waited = known.makes_wait();
        // Machines launched concurrently count as one failure, and those launched before a fix do
        // not count.
        if waited && instance.launched_at() < known.probed_at.unwrap_or(known.until) {
            return None;
        }
        next.failures += 1;
        next.certain |= instance.no_agent_serves();
        (next.at, next.last, next.reason) = (now, Some(instance.name.clone()), reason);
        if !waited && next.makes_wait() {
            // Counted from its launch: a machine that does not boot in time has already used up the
            // wait.
            next.until = now.max(instance.launched_at() + FIRST_WAIT);
        }
        Some(next)
    }

    /// Returns the record after a probe was launched: the next probe, in whichever pass, waits
    /// longer.
    #[must_use]
    pub fn probed(&self, now: Time) -> Self {
        let probes = self.probes + 1;
        let until = now + backoff::grown(FIRST_WAIT, probes + 1, MAX_WAIT);
        Self { probes, probed_at: Some(now), until, fixed_at: None, ..self.clone() }
    }

    /// Returns the record after a possible fix. Machines launched earlier no longer count. The
    /// waits keep growing from their current length, so a change that fixed nothing wastes few
    /// machines.
    fn fixed(&self, now: Time) -> Self {
        match self.by_machine {
            true => Self { until: now, probed_at: None, fixed_at: Some(now), ..self.clone() },
            // GitHub is queried as soon as after a new refusal.
            false => Self { since: now, ..self.clone() },
        }
    }

    /// Returns whether launches wait for it. A few machines that never ran a job may be chance.
    #[must_use]
    pub const fn makes_wait(&self) -> bool {
        !matches!(self.scope, TroubleScope::Pool(_)) || self.failures >= MAY_FAIL || self.certain
    }

    fn is_forgotten(&self, now: Time) -> bool {
        !self.makes_wait() && now.is_past(self.at, FORGOTTEN_AFTER)
    }

    /// Returns whether this machine shows that its pool's trouble has ended.
    #[must_use]
    pub fn is_ended_by(&self, instance: &Instance, now: Time) -> bool {
        let listens = instance.runner.state == RunnerState::Idle
            && instance.runner.exit.is_none()
            && now.is_past(instance.runner.since, UP_AFTER);
        instance.launched_at() >= self.since && (instance.runner.has_taken_job() || listens)
    }

    /// Returns what may be launched now. `live`: the pool's live instances, if it concerns a pool.
    #[must_use]
    pub fn finding(&self, live: &[impl AsRef<Instance>], now: Time) -> TroubleStatus {
        let live = || live.iter().map(AsRef::as_ref);
        let is_pools = matches!(self.scope, TroubleScope::Pool(_));
        if is_pools && live().any(|one| self.is_ended_by(one, now)) {
            return TroubleStatus::Over;
        }
        // A slot that waits for its next attempt may itself be the next probe.
        let finds_out = |one: &Instance| {
            self.probed_at.is_some_and(|at| one.launched_at() >= at)
                && one.state() != State::PendingCreate
                && one.mark().is_none()
                && one.runner.exit.is_none()
        };
        let is_out = is_pools && live().any(finds_out);
        let most = if self.fixed_at.is_some() { MAY_FAIL } else { 1 };
        TroubleStatus::Most(if self.by_machine && now >= self.until && !is_out { most } else { 0 })
    }

    /// Returns when to check again.
    #[must_use]
    pub fn look_again(&self, now: Time) -> Time {
        match &self.scope {
            TroubleScope::Limit(_) => self.until,
            // The sweep queries GitHub, and jobs are not woken by the result.
            _ if !self.by_machine => now + github::wait(self.since, now),
            _ => self.until.max(now + UP_AFTER),
        }
    }

    /// Explains why jobs wait, in a sentence without a full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { since, failures, reason, at, until, .. } = self;
        match &self.scope {
            TroubleScope::Pool(pool) => format!(
                "the {} of pool {pool}, launched since {since}, ran no job (the last at {at}: {reason}); \
                 Muster launches one machine at a time until one runs a job: the next at {until}, \
                 or now with `muster resume {pool}`",
                last_machines(*failures)
            ),
            TroubleScope::Entity(entity) if self.is_before_github() => {
                format!("GitHub could not be called for {entity} since {since} ({reason})")
            }
            TroubleScope::Entity(entity) if self.by_machine => format!(
                "GitHub has refused to register runners for {entity} since {since} ({reason}); \
                 Muster launches one machine at a time until one registers: the next at {until}, or \
                 now with `muster resume launches`"
            ),
            TroubleScope::Entity(entity) => {
                format!(
                    "GitHub has rejected the App's credentials for {entity} since {since} ({reason})"
                )
            }
            TroubleScope::PoolOfEntity(pool, entity) => format!(
                "GitHub has refused to register runners of pool {pool} for {entity} since {since} ({reason}); \
                 Muster launches one machine at a time until one registers: the next at {until}, or \
                 now with `muster resume {pool}`"
            ),
            TroubleScope::Limit(entity) => {
                format!("GitHub's rate limit for {entity} lasts until {until}")
            }
        }
    }

    /// Returns whether launches of the pool wait for it, for all entities or for some.
    #[must_use]
    pub fn holds(&self, pool: &Pool) -> bool {
        self.scope.pool().is_none_or(|name| *name == pool.name) && self.makes_wait()
    }

    /// Returns whether the cause is the App's key in our account: GitHub was not called.
    #[must_use]
    pub fn is_before_github(&self) -> bool {
        self.reason.split_once(": ").is_some_and(|(code, _)| is_before_github(code))
    }

    /// Returns whether GitHub refuses, so that an operator must fix the cause. A limit ends by
    /// itself.
    #[must_use]
    pub const fn is_refusal_of_github(&self) -> bool {
        matches!(self.scope, TroubleScope::Entity(_) | TroubleScope::PoolOfEntity(..))
    }
}

/// Formats a number of machines.
#[must_use]
pub fn last_machines(machines: u32) -> String {
    if machines == 1 { "last machine".to_owned() } else { format!("last {machines} machines") }
}

#[cfg(test)]
mod tests;
