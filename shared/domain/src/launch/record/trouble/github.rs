//! Updates the troubles of an entity from GitHub's responses.

use super::{FIRST_WAIT, Trouble, TroubleScope};
use crate::ids::Entity;
use crate::launch::record::Cooldowns;
use crate::pool::Pool;
use crate::provider::{ErrorDetail, ProviderError};
use crate::time::{Seconds, Time};

/// Maximum wait between two checks whether GitHub still refuses.
const LOOK_AGAIN: Seconds = Seconds(300);
/// Minimum wait between two such checks. Most refusals are short, and many failed logins in a row
/// make GitHub reject valid credentials too.
/// Source: docs.github.com/en/rest/authentication/authenticating-to-the-rest-api#failed-login-limit
const SOONEST: Seconds = Seconds(30);
/// GitHub's ID of the default runner group, which every pool can use.
/// Source: docs.github.com/en/rest/actions/self-hosted-runner-groups
const DEFAULT_GROUP: u64 = 1;
/// Maximum stored length of GitHub's message: the record has many.
const MAX_REASON: usize = 300;

/// The kind of request to GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A runner registration.
    Registration,
    /// Any other request.
    Other,
}

/// Returns whether a refused registration is caused by the pool's runner group rather than the
/// entity.
///
/// GitHub has been observed to answer 404 for an unknown group and 403 for one that the App cannot
/// use (notes of crate runner-manager-github 0.4.7; not documented). A 403 also means that the App
/// lacks a permission. If the pool uses a group other than the default, only that pool is paused;
/// if the App lacks the permission, each such pool discovers that separately.
#[must_use]
pub fn blames_group(pool: &Pool, error: &ErrorDetail) -> bool {
    error.code == "403" && pool.runner_group_id != DEFAULT_GROUP
}

/// Returns the time until the next check: as long as the refusal has lasted, within bounds.
pub(super) fn wait(since: Time, now: Time) -> Seconds {
    now.since(since).clamp(SOONEST, LOOK_AGAIN)
}

/// Returns when to check again whether GitHub still refuses any of these: thirty seconds after the
/// newest refusal, then at intervals as long as it has lasted, up to five minutes. `last`: the
/// previous check. `None` if GitHub refuses no entity.
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
    fn from_github(scope: TroubleScope, by_machine: bool, reason: String, now: Time) -> Self {
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

    fn concerns(&self, entity: &Entity) -> bool {
        self.scope.entity().is_some_and(|own| own.same_as(entity))
    }
}

impl Cooldowns {
    /// Returns the record after GitHub's response about an entity, if that changes it.
    #[must_use]
    pub fn after_answer(
        &self,
        entity: &Entity,
        asked: RequestKind,
        trouble: Option<&ProviderError>,
        now: Time,
    ) -> Option<Self> {
        match trouble {
            // A missing response is no evidence about the credentials.
            Some(ProviderError::Unavailable(_)) => None,
            Some(ProviderError::RateLimited(until)) => self.limited(entity, *until, now),
            Some(ProviderError::Unauthorized(fault)) => self.refused(entity, asked, fault, now),
            None => self.without(|one| {
                one.concerns(entity)
                    && match &one.scope {
                        TroubleScope::Entity(_) => {
                            asked == RequestKind::Registration || !one.by_machine
                        }
                        // A secondary limit applies only to registrations: no other response shows
                        // that it is over.
                        // Source:
                        // docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
                        TroubleScope::Limit(_) => {
                            asked == RequestKind::Registration || now >= one.until
                        }
                        TroubleScope::Pool(_) | TroubleScope::PoolOfEntity(..) => false,
                    }
            }),
        }
    }

    /// Returns the record after GitHub registered a runner of the pool, if that changes it.
    #[must_use]
    pub fn after_registration(&self, pool: &Pool, entity: &Entity) -> Option<Self> {
        let answered = self.without_failing(entity);
        let opened = answered.as_ref().unwrap_or(self).without(|one| {
            one.concerns(entity) && one.scope.pool().is_none_or(|name| *name == pool.name)
        });
        opened.or(answered)
    }

    /// Returns the record after GitHub rejected a configuration of the pool as invalid, if that
    /// changes it.
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
                ..Trouble::from_github(scope, true, reason(fault), fault.at)
            },
        };
        self.with_trouble(next)
    }

    fn refused(
        &self,
        entity: &Entity,
        asked: RequestKind,
        fault: &ErrorDetail,
        now: Time,
    ) -> Option<Self> {
        let scope = TroubleScope::Entity(entity.lower_case());
        let known = self.known(&scope);
        // 401 concerns the credentials, regardless of the request.
        let is_forbidden = asked == RequestKind::Registration && fault.code == "403";
        let by_machine = known.is_none_or(|known| known.by_machine) && is_forbidden;
        let next = match known {
            Some(known) => Trouble { by_machine, reason: reason(fault), ..known.clone() },
            None => Trouble::from_github(scope, by_machine, reason(fault), now),
        };
        self.with_trouble(next)
    }

    fn limited(&self, entity: &Entity, until: Time, now: Time) -> Option<Self> {
        let scope = TroubleScope::Limit(entity.lower_case());
        let known = self.known(&scope);
        let mut next = known.cloned().unwrap_or_else(|| {
            Trouble::from_github(scope, false, "the rate limit is reached".to_owned(), now)
        });
        next.until = known.map_or(until, |known| known.until.max(until));
        self.with_trouble(next)
    }
}

#[cfg(test)]
mod tests;
