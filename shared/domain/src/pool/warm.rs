//! `warm_on`: events of a repository that raise a pool's idle runners for some time.
//!
//! An event is a forecast: jobs will follow. It launches at most `idle` runners, once; those that jobs
//! take are not replaced, because the jobs were what the runners were launched for. Runners that no
//! job takes are kept until the time is over, and then end like any other idle runner.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Pool;
use crate::ids::{AppName, Entity};
use crate::time::{Seconds, Time};

/// The events that can warm a pool, by GitHub's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmEvent {
    /// Commits were pushed to a branch.
    Push,
    /// A pull request was opened, reopened, updated or marked as ready for review.
    PullRequest,
    /// A check run was created or requested again.
    CheckRun,
}

impl WarmEvent {
    /// All events, with GitHub's names.
    pub const ALL: &'static [(&'static str, Self)] =
        &[("push", Self::Push), ("pull_request", Self::PullRequest), ("check_run", Self::CheckRun)];

    /// Returns GitHub's name of the event.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::PullRequest => "pull_request",
            Self::CheckRun => "check_run",
        }
    }
}

/// A rule of a pool: which events warm it, how much and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmRule {
    /// The event.
    pub event: WarmEvent,
    /// Repositories, written as in [`Pool::repositories`]. If empty: all that the pool serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<String>,
    /// Branches: a name, or the start of names and `*`. If empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// Number of idle runners.
    pub idle: u32,
    /// How long they are kept, from the latest event on.
    pub for_seconds: Seconds,
}

impl WarmRule {
    /// The time if the file names none.
    pub const FOR: Seconds = Seconds(900);

    fn matches(&self, event: &RepositoryEvent) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => event.branch.starts_with(start),
            None => *pattern == *event.branch,
        };
        self.event == event.kind
            && (self.repositories.is_empty()
                || self.repositories.iter().any(|one| names(one, &event.repository)))
            && (self.branches.is_empty() || self.branches.iter().any(fits))
    }
}

/// Returns whether a pattern of a pool file (`owner/repo`, `owner/*` or `*`) names the repository. A
/// pattern names repositories of one App.
/// GitHub's names are case-insensitive.
pub(crate) fn names(pattern: &str, repository: &str) -> bool {
    let (Some((own, pattern)), Some((app, repository))) =
        (AppName::split(pattern), AppName::split(repository))
    else {
        return false;
    };
    match (pattern.strip_suffix("/*"), repository.split_once('/')) {
        _ if own != app => false,
        _ if pattern == Pool::ANY_REPOSITORY => true,
        (Some(owner), Some((of, _))) => owner.eq_ignore_ascii_case(of),
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(repository),
    }
}

/// An event of a repository that may warm pools, normalised by the webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositoryEvent {
    /// The event.
    pub kind: WarmEvent,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Whether the repository is private.
    pub private: bool,
    /// Whether a user owns the repository, rather than an organization.
    pub user_owned: bool,
    /// The branch that was pushed, the base of the pull request, or the branch of the check run.
    pub branch: Arc<str>,
    /// When the webhook received it.
    pub at: Time,
}

impl RepositoryEvent {
    /// Returns where runners for the repository's jobs are registered, unless the pool names an
    /// entity.
    fn home(&self) -> Option<Entity> {
        let (owner, _) = self.repository.split_once('/')?;
        if self.user_owned { &self.repository } else { owner }.parse().ok()
    }
}

/// Writes what happened: `a push to main of acme/app`.
impl fmt::Display for RepositoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { branch, repository, .. } = self;
        match self.kind {
            WarmEvent::Push => write!(f, "a push to {branch} of {repository}"),
            WarmEvent::PullRequest => write!(f, "a pull request to {branch} of {repository}"),
            WarmEvent::CheckRun => write!(f, "a check run on {branch} of {repository}"),
        }
    }
}

/// The effect of a rule's latest event on a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Warm {
    /// Number of idle runners to keep. Identifies the entry: rules with the same number share one.
    pub idle: u32,
    /// How many of them are not launched yet.
    pub missing: u32,
    /// Until when they are kept.
    pub until: Time,
    /// Where they are registered.
    pub entity: Entity,
    /// The latest event that changed this entry.
    pub event: RepositoryEvent,
}

impl Warm {
    /// An event that extends an entry by less than this part of its time changes nothing: a hundred
    /// pushes in a minute must not be a hundred writes, and the events of one commit are one
    /// forecast.
    const PART: u32 = 10;

    /// Returns whether the entry applies to the pool now. Removing the rules ends it.
    fn is_live(&self, pool: &Pool, now: Time) -> bool {
        now < self.until
            && pool.enabled
            && !pool.is_removed()
            && pool.warm_on.iter().any(|rule| rule.idle == self.idle)
            && pool.entity.as_ref().is_none_or(|entity| entity.same_as(&self.entity))
    }

    /// Returns until when the runners are kept and for which event:
    /// `kept warm until 10:15:00 for a push to main of acme/app`.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        format!("kept warm until {} for {}", self.until.clock(now), self.event)
    }

    /// Returns the entries after an event of `pool`. `None` if it changes nothing: no rule matches,
    /// the pool does not serve the repository, the event is old, or extends an entry only by little.
    #[must_use]
    pub fn after(
        all: &[Self],
        pool: &Pool,
        event: &RepositoryEvent,
        now: Time,
    ) -> Option<Vec<Self>> {
        let entity = pool.warmed_at(event)?;
        let mut next: Vec<Self> =
            all.iter().filter(|one| one.is_live(pool, now)).cloned().collect();
        // Without an entity, a pool could otherwise keep runners for every repository.
        if next.iter().any(|one| !one.entity.same_as(&entity)) {
            return None;
        }
        let mut changes = false;
        for rule in pool.warm_on.iter().filter(|rule| rule.matches(event)) {
            let until = event.at + rule.for_seconds;
            let step = Seconds(rule.for_seconds.0 / Self::PART);
            let known = next.iter().position(|one| one.idle == rule.idle);
            let is_small = known.is_some_and(|known| until < next[known].until + step);
            if until <= now || is_small {
                continue;
            }
            changes = true;
            let one = Self {
                idle: rule.idle,
                missing: rule.idle,
                until,
                entity: entity.clone(),
                event: event.clone(),
            };
            match known {
                Some(known) => next[known] = one,
                None => next.push(one),
            }
        }
        changes.then_some(next)
    }

    /// Returns the entry that keeps most runners now, of those the one that lasts longest.
    #[must_use]
    pub fn current<'a>(all: &'a [Self], pool: &Pool, now: Time) -> Option<&'a Self> {
        let live = all.iter().filter(|one| one.is_live(pool, now));
        live.max_by_key(|one| (one.idle, one.until))
    }

    /// Returns the entries after a launch pass that counted `kept` idle runners, gave `served` jobs a
    /// runner or a machine, and launched no idle runner yet. Jobs use up what an event forecast.
    #[must_use]
    pub fn counted(all: &[Self], kept: u32, served: u32) -> Vec<Self> {
        let after = |one: &Self| Self { missing: one.missing_after(kept, served), ..one.clone() };
        all.iter().map(after).collect()
    }

    fn missing_after(&self, kept: u32, served: u32) -> u32 {
        self.missing.min(self.idle.saturating_sub(kept.saturating_add(served)))
    }

    /// Returns the entries after `launched` idle runners were launched.
    #[must_use]
    pub fn launched(all: &[Self], launched: u32) -> Vec<Self> {
        let missing = |one: &Self| one.missing.saturating_sub(launched);
        all.iter().map(|one| Self { missing: missing(one), ..one.clone() }).collect()
    }
}

impl Pool {
    /// Maximum number of rules.
    pub const MAX_WARM_RULES: usize = 10;

    /// Returns the pool as it is while events keep it warm: its `min_idle` is raised, and a pool
    /// without an entity has the one where the events' jobs register. Everything that counts or keeps
    /// idle runners uses this; [`Self::idle_wanted`] of the result is their number.
    #[must_use]
    pub fn while_warm(&self, all: &[Warm], now: Time) -> Cow<'_, Self> {
        let Some(warm) = Warm::current(all, self, now) else { return Cow::Borrowed(self) };
        Cow::Owned(Self {
            min_idle: self.min_idle.max(warm.idle),
            entity: Some(self.entity.clone().unwrap_or_else(|| warm.entity.clone())),
            ..self.clone()
        })
    }

    /// Returns how many idle runners to launch if the pool has `kept` of them, and this pass gave
    /// `served` jobs a runner or a machine.
    #[must_use]
    pub fn idle_missing(&self, all: &[Warm], kept: u32, served: u32, now: Time) -> u32 {
        let live = all.iter().filter(|one| one.is_live(self, now));
        let warm = live.map(|one| one.missing_after(kept, served)).max().unwrap_or(0);
        let warm = warm.min(self.max.saturating_sub(kept));
        self.idle_wanted().saturating_sub(kept).max(warm)
    }

    /// Returns the largest number of idle runners that the pool may keep, now or after an event.
    #[must_use]
    pub fn most_idle(&self) -> u32 {
        let serves = self.enabled && !self.is_removed();
        let warm = self.warm_on.iter().map(|rule| rule.idle.min(self.max)).max();
        let warm = warm.filter(|_| serves).unwrap_or(0);
        self.idle_wanted().max(warm)
    }

    /// Returns whether an event of this pool's rules can change it.
    #[must_use]
    pub fn is_warmed_by(&self, event: &RepositoryEvent) -> bool {
        self.warm_on.iter().any(|rule| rule.matches(event)) && self.warmed_at(event).is_some()
    }

    /// Returns where runners for the event's jobs are registered. `None` if the pool does not serve
    /// the repository.
    fn warmed_at(&self, event: &RepositoryEvent) -> Option<Entity> {
        let repository = &*event.repository;
        let covers = |entity: &Entity| entity.covers(repository);
        let serves = self.enabled
            && !self.is_removed()
            && self.entity.as_ref().is_none_or(covers)
            && self.admits(repository, Some(event.private)).is_ok()
            && (!self.serves_app_owner() || self.app_owner.as_ref().is_some_and(covers));
        if serves { self.entity.clone().or_else(|| event.home()) } else { None }
    }
}

#[cfg(test)]
mod tests;
