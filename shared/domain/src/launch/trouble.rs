//! Failures that waste machines: a pool whose machines never run a job, an entity that GitHub
//! refuses or limits, the runners of a pool that it refuses for an entity. However many jobs wait,
//! one machine at a time then probes whether the failure lasts, less and less often, and one success
//! opens the scope at once. A fix that Muster can see ends the wait: see [`Cooldowns::opened`].
//! Promise of the README: waste no money.

mod github;
mod record;

use serde::{Deserialize, Serialize};

pub use self::github::{Asked, blames_group, question_due};
use crate::app::is_before_github;
use crate::backoff;
use crate::ids::{Entity, InstanceName, PoolName};
use crate::instance::{Instance, RunnerState, State};
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// Consecutive failures after which the pool, not the machine, is to blame. As many machines are
/// launched at once after a fix that Muster can see: one that fails by chance delays nothing.
const MAY_FAIL: u32 = 3;
/// The wait before the first probe; it doubles with each one.
const FIRST_WAIT: Seconds = Seconds(120);
/// The longest such wait: how long jobs wait at most after a fix that Muster cannot see.
const MAX_WAIT: Seconds = Seconds(900);
/// A few failures without another one for this long were chance.
const FORGOTTEN_AFTER: Seconds = Seconds(3600);
/// A runner that has listened for this long without a job has come up.
const UP_AFTER: Seconds = Seconds(60);

/// What a trouble is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleScope {
    /// The machines of a pool serve nothing.
    Pool(PoolName),
    /// GitHub refuses us an entity for runners.
    Entity(Entity),
    /// GitHub refuses the runners of a pool for an entity: their configuration is wrong there.
    PoolOfEntity(PoolName, Entity),
    /// GitHub's rate limit of an entity is reached.
    Limit(Entity),
}

impl TroubleScope {
    /// The entity that GitHub refuses or limits.
    #[must_use]
    pub const fn entity(&self) -> Option<&Entity> {
        match self {
            Self::Pool(_) => None,
            Self::Entity(entity) | Self::PoolOfEntity(_, entity) | Self::Limit(entity) => {
                Some(entity)
            }
        }
    }

    /// The pool that it is about, if it is about one alone.
    #[must_use]
    pub const fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::Pool(pool) | Self::PoolOfEntity(pool, _) => Some(pool),
            Self::Entity(_) | Self::Limit(_) => None,
        }
    }
}

/// The record of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trouble {
    /// What it is about.
    pub scope: TroubleScope,
    /// The generation of the pool, where it is about one.
    pub generation: u64,
    /// Only a machine finds out whether it is over: GitHub refuses registrations and, as far as we
    /// know, nothing else, or it is the machines themselves.
    pub by_machine: bool,
    /// Since when. Of machines: when the first of them was launched.
    pub since: Time,
    /// When it was last told.
    pub at: Time,
    /// How many machines served nothing, up to the first that makes the others wait; then also each
    /// that found out. One where GitHub has said it.
    pub failures: u32,
    /// How many machines were launched to find out.
    pub probes: u32,
    /// It cannot be chance, so one machine is enough: GitHub calls the newest agent too old.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub certain: bool,
    /// When the last of those was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probed_at: Option<Time>,
    /// No machine before this time.
    pub until: Time,
    /// When Muster saw what may be a fix, until the next machines are launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_at: Option<Time>,
    /// The last machine that served nothing, of a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<InstanceName>,
    /// What became of it, or what GitHub says.
    pub reason: String,
}

/// What the live instances of a pool say of its trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Another machine has served or listens: the trouble is over.
    Over,
    /// So many machines may be launched.
    Most(u32),
}

impl Trouble {
    fn of_machine(instance: &Instance, reason: String, now: Time) -> Self {
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

    /// The record after a machine that served nothing, if that changes it. `known`: the trouble of
    /// its pool so far.
    #[must_use]
    pub fn after(
        known: Option<&Self>,
        instance: &Instance,
        reason: String,
        now: Time,
    ) -> Option<Self> {
        let known = known.filter(|known| !known.is_forgotten(now));
        let Some(known) = known else { return Some(Self::of_machine(instance, reason, now)) };
        if known.last.as_ref() == Some(&instance.name) {
            return None;
        }
        let mut next = known.clone();
        let waited = known.makes_wait();
        // Those that were out together are one failure, and those of before a fix are none.
        if waited && instance.launched_at() < known.probed_at.unwrap_or(known.until) {
            return None;
        }
        next.failures += 1;
        next.certain |= instance.no_agent_serves();
        (next.at, next.last, next.reason) = (now, Some(instance.name.clone()), reason);
        if !waited && next.makes_wait() {
            // From its launch: a machine that does not boot in time has taken up the wait.
            next.until = now.max(instance.launched_at() + FIRST_WAIT);
        }
        Some(next)
    }

    /// The record when a probe is about to be launched: the next one waits for longer, whichever
    /// pass launches it.
    #[must_use]
    pub fn probed(&self, now: Time) -> Self {
        let probes = self.probes + 1;
        let until = now + backoff::grown(FIRST_WAIT, probes + 1, MAX_WAIT);
        Self { probes, probed_at: Some(now), until, fixed_at: None, ..self.clone() }
    }

    /// The record after what may be a fix. Machines that were launched before say nothing any more.
    /// The waits go on growing from where they were: a fix that was none costs few machines.
    fn fixed(&self, now: Time) -> Self {
        match self.by_machine {
            true => Self { until: now, probed_at: None, fixed_at: Some(now), ..self.clone() },
            // GitHub is asked as soon as after a new refusal.
            false => Self { since: now, ..self.clone() },
        }
    }

    /// Whether launches wait for it: a few machines that served nothing may be chance.
    #[must_use]
    pub const fn makes_wait(&self) -> bool {
        !matches!(self.scope, TroubleScope::Pool(_)) || self.failures >= MAY_FAIL || self.certain
    }

    fn is_forgotten(&self, now: Time) -> bool {
        !self.makes_wait() && now.is_past(self.at, FORGOTTEN_AFTER)
    }

    /// Whether this machine shows that the trouble of its pool is over.
    #[must_use]
    pub fn is_ended_by(&self, instance: &Instance, now: Time) -> bool {
        let listens = instance.runner.state == RunnerState::Idle
            && instance.runner.exit.is_none()
            && now.is_past(instance.runner.since, UP_AFTER);
        instance.launched_at() >= self.since && (instance.runner.has_taken_job() || listens)
    }

    /// What may be launched now. `live`: the live instances of the pool, where it is a pool's.
    #[must_use]
    pub fn finding(&self, live: &[impl AsRef<Instance>], now: Time) -> Finding {
        let live = || live.iter().map(AsRef::as_ref);
        let is_pools = matches!(self.scope, TroubleScope::Pool(_));
        if is_pools && live().any(|one| self.is_ended_by(one, now)) {
            return Finding::Over;
        }
        // A slot that waits for its next attempt may itself be the one that finds out.
        let finds_out = |one: &Instance| {
            self.probed_at.is_some_and(|at| one.launched_at() >= at)
                && one.state() != State::PendingCreate
                && one.mark().is_none()
                && one.runner.exit.is_none()
        };
        let is_out = is_pools && live().any(finds_out);
        let most = if self.fixed_at.is_some() { MAY_FAIL } else { 1 };
        Finding::Most(if self.by_machine && now >= self.until && !is_out { most } else { 0 })
    }

    /// When to look again.
    #[must_use]
    pub fn look_again(&self, now: Time) -> Time {
        match &self.scope {
            TroubleScope::Limit(_) => self.until,
            // The sweep asks GitHub, and nobody tells the jobs of the answer.
            _ if !self.by_machine => now + github::wait(self.since, now),
            _ => self.until.max(now + UP_AFTER),
        }
    }

    /// Why jobs wait for it: a sentence without its full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { since, failures, reason, at, until, .. } = self;
        match &self.scope {
            TroubleScope::Pool(pool) => format!(
                "the {} of pool {pool}, launched since {since}, never ran a job (at {at}: {reason}); \
                 launching one at a time until one does, the next from {until}, or at once with \
                 `muster resume {pool}`",
                last_machines(*failures)
            ),
            TroubleScope::Entity(entity) if self.is_before_github() => {
                format!("GitHub cannot be asked about {entity} since {since} ({reason})")
            }
            TroubleScope::Entity(entity) if self.by_machine => format!(
                "GitHub refuses to register runners for {entity} since {since} ({reason}); \
                 launching one machine at a time until it does, the next from {until}, or at once \
                 with `muster resume launches`"
            ),
            TroubleScope::Entity(entity) => {
                format!("GitHub refuses our credentials for {entity} since {since} ({reason})")
            }
            TroubleScope::PoolOfEntity(pool, entity) => format!(
                "GitHub refuses the runners of pool {pool} for {entity} since {since} ({reason}); \
                 launching one machine at a time until it accepts one, the next from {until}, or at \
                 once with `muster resume {pool}`"
            ),
            TroubleScope::Limit(entity) => {
                format!("GitHub's rate limit for {entity} lasts until {until}")
            }
        }
    }

    /// Whether launches of the pool wait for it: for all entities, or for its own.
    #[must_use]
    pub fn holds(&self, pool: &Pool) -> bool {
        self.scope.pool().is_none_or(|name| *name == pool.name) && self.makes_wait()
    }

    /// Whether the reason is our own secret: GitHub was not asked.
    #[must_use]
    pub fn is_before_github(&self) -> bool {
        self.reason.split_once(": ").is_some_and(|(code, _)| is_before_github(code))
    }

    /// Whether GitHub refuses, and somebody has to mend that. A limit ends by itself.
    #[must_use]
    pub const fn is_refusal_of_github(&self) -> bool {
        matches!(self.scope, TroubleScope::Entity(_) | TroubleScope::PoolOfEntity(..))
    }
}

/// So many machines, in words.
#[must_use]
pub fn last_machines(machines: u32) -> String {
    if machines == 1 { "last machine".to_owned() } else { format!("last {machines} machines") }
}

#[cfg(test)]
mod tests;
