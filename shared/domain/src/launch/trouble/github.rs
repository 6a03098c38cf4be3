//! What GitHub's answers make of the troubles with an entity.

use super::{FIRST_WAIT, Trouble, TroubleScope};
use crate::ids::Entity;
use crate::instance::ErrorDetail;
use crate::launch::cooldown::Cooldowns;
use crate::observation::ProviderError;
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// While GitHub refuses us, the longest wait before it is asked again whether it still does.
const LOOK_AGAIN: Seconds = Seconds(300);
/// The shortest one. Most refusals are short, and many wrong credentials in a row make GitHub refuse
/// right ones as well.
/// Source: docs.github.com/en/rest/authentication/authenticating-to-the-rest-api#failed-login-limit
const SOONEST: Seconds = Seconds(30);
/// GitHub's number of the default runner group, which every pool may use.
/// Source: docs.github.com/en/rest/actions/self-hosted-runner-groups
const DEFAULT_GROUP: u64 = 1;
/// Most of GitHub's sentence that is kept: the record holds many.
const MAX_REASON: usize = 300;

/// What GitHub was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To register a runner.
    Registration,
    /// Anything else.
    Other,
}

/// Whether a refused registration is about the pool's runner group and not about the entity.
///
/// GitHub has been seen to answer 404 for an unknown group and 403 for one that the App may not use
/// (notes of crate runner-manager-github 0.4.7; not documented). A 403 also means that the App lacks
/// a permission. With a group of its own, the pool is paused alone: if the App lacks the permission,
/// each such pool finds that out for itself.
#[must_use]
pub fn blames_group(pool: &Pool, error: &ErrorDetail) -> bool {
    error.code == "403" && pool.runner_group_id != DEFAULT_GROUP
}

/// How long until the next look: as long as the refusal has lasted, within bounds.
pub(super) fn wait(since: Time, now: Time) -> Seconds {
    now.since(since).clamp(SOONEST, LOOK_AGAIN)
}

/// When to ask again whether GitHub still refuses one of these: thirty seconds after the youngest
/// refusal, and then after as long as it has lasted, up to five minutes. `last`: when that was asked
/// last. None when it refuses none.
#[must_use]
pub fn question_due<'a>(
    troubles: impl IntoIterator<Item = &'a Trouble>,
    last: Option<Time>,
) -> Option<Time> {
    let entities = troubles.into_iter().filter(|one| matches!(one.scope, TroubleScope::Entity(_)));
    let youngest = entities.map(|one| one.since).max()?;
    let last = last.unwrap_or(youngest).max(youngest);
    Some(last + last.since(youngest).clamp(SOONEST, LOOK_AGAIN))
}

fn reason(fault: &ErrorDetail) -> String {
    let all = format!("{}: {}", fault.code, fault.message);
    all.chars().take(MAX_REASON).collect()
}

impl Trouble {
    fn of_github(scope: TroubleScope, by_machine: bool, reason: String, now: Time) -> Self {
        Self {
            scope,
            generation: 0,
            by_machine,
            since: now,
            at: now,
            failures: 1,
            probes: 0,
            certain: false,
            probed_at: None,
            until: now + FIRST_WAIT,
            fixed_at: None,
            last: None,
            reason,
        }
    }

    fn is_of(&self, entity: &Entity) -> bool {
        self.scope.entity().is_some_and(|own| own.same_as(entity))
    }
}

impl Cooldowns {
    /// The record after an answer of GitHub's about an entity, if that changes it.
    #[must_use]
    pub fn after_answer(
        &self,
        entity: &Entity,
        asked: Asked,
        trouble: Option<&ProviderError>,
        now: Time,
    ) -> Option<Self> {
        match trouble {
            // No answer says nothing about the credentials.
            Some(ProviderError::Unavailable(_)) => None,
            Some(ProviderError::RateLimited(until)) => self.limited(entity, *until, now),
            Some(ProviderError::Unauthorized(fault)) => self.refused(entity, asked, fault, now),
            None => self.without(|one| {
                one.is_of(entity)
                    && match &one.scope {
                        TroubleScope::Entity(_) => asked == Asked::Registration || !one.by_machine,
                        // A secondary limit is that of registrations alone: no other answer shows
                        // that it is over.
                        // Source:
                        // docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
                        TroubleScope::Limit(_) => asked == Asked::Registration || now >= one.until,
                        TroubleScope::Pool(_) | TroubleScope::PoolOfEntity(..) => false,
                    }
            }),
        }
    }

    /// The record after GitHub has registered a runner of the pool, if that changes it.
    #[must_use]
    pub fn after_registration(&self, pool: &Pool, entity: &Entity) -> Option<Self> {
        let answered = self.without_failing(entity);
        let opened = answered.as_ref().unwrap_or(self).without(|one| {
            one.is_of(entity) && one.scope.pool().is_none_or(|name| *name == pool.name)
        });
        opened.or(answered)
    }

    /// The record after GitHub has called a configuration of the pool wrong, if that changes it.
    #[must_use]
    pub fn after_refused_configuration(
        &self,
        pool: &Pool,
        entity: &Entity,
        fault: &ErrorDetail,
    ) -> Option<Self> {
        let scope = TroubleScope::PoolOfEntity(pool.name.clone(), entity.lower_case());
        let known = self.known(&scope).filter(|known| known.generation == pool.generation);
        let next = match known {
            Some(known) => Trouble { reason: reason(fault), ..known.clone() },
            None => Trouble {
                generation: pool.generation,
                ..Trouble::of_github(scope, true, reason(fault), fault.at)
            },
        };
        self.with_trouble(next)
    }

    fn refused(
        &self,
        entity: &Entity,
        asked: Asked,
        fault: &ErrorDetail,
        now: Time,
    ) -> Option<Self> {
        let scope = TroubleScope::Entity(entity.lower_case());
        let known = self.known(&scope);
        // 401 is about the credentials, whatever they are used for.
        let is_forbidden = asked == Asked::Registration && fault.code == "403";
        let by_machine = known.is_none_or(|known| known.by_machine) && is_forbidden;
        let next = match known {
            Some(known) => Trouble { by_machine, reason: reason(fault), ..known.clone() },
            None => Trouble::of_github(scope, by_machine, reason(fault), now),
        };
        self.with_trouble(next)
    }

    fn limited(&self, entity: &Entity, until: Time, now: Time) -> Option<Self> {
        let scope = TroubleScope::Limit(entity.lower_case());
        let known = self.known(&scope);
        let mut next = known.cloned().unwrap_or_else(|| {
            Trouble::of_github(scope, false, "the rate limit is reached".to_owned(), now)
        });
        next.until = known.map_or(until, |known| known.until.max(until));
        self.with_trouble(next)
    }
}

#[cfg(test)]
mod tests;
