//! Whether GitHub lets us work for an entity.

pub mod app;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Entity, PoolName};
use crate::instance::ErrorDetail;
use crate::launch::cooldown::LaunchBlock;
use crate::observation::ProviderError;
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// While GitHub refuses us, when to look again whether it still does.
pub const LOOK_AGAIN: Seconds = Seconds(300);
/// The shortest wait between two questions whether it still does. Most refusals are short, and many
/// wrong credentials in a row make GitHub refuse right ones as well.
/// Source: docs.github.com/en/rest/authentication/authenticating-to-the-rest-api#failed-login-limit
const SOONEST: Seconds = Seconds(30);
/// The shortest and the longest wait between machines that only find out whether runners may be
/// registered again. A machine that heard the refusal asks on for minutes; the first of these comes
/// soon because that one may be gone.
const PROBE_AFTER: (Seconds, Seconds) = (Seconds(120), Seconds(3600));
/// The longest one where GitHub calls a pool's configuration wrong: such a machine asks for half a
/// minute and ends.
const CONFIGURED_AFTER: Seconds = Seconds(900);

/// What GitHub was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To register a runner.
    Registration,
    /// Anything else.
    Other,
}

/// The record of an entity that GitHub refused us. There is none while all is well.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EntityHealth {
    /// The entity.
    pub entity: Entity,
    /// Since when GitHub refuses our credentials; none when it heals.
    pub unauthorized_since: Option<Time>,
    /// The last refusal.
    pub last_error: Option<ErrorDetail>,
    /// Until when GitHub's rate limit lasts; none when it was not met since the last registration.
    pub limited_until: Option<Time>,
    /// As far as we know, nothing but registrations is refused: no answer to another question shows
    /// that this has healed.
    pub registrations_alone: bool,
    /// The pools whose configurations GitHub calls wrong here: their runner group was deleted, say.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_pools: BTreeMap<PoolName, RefusedPool>,
}

/// GitHub calls the configuration of a pool's runners wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefusedPool {
    /// Since when.
    pub since: Time,
    /// The pool's generation: another one may be right.
    pub generation: u64,
    /// What GitHub says.
    pub error: ErrorDetail,
}

/// A machine that is to find out whether GitHub registers runners again. One of all passes launches
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The cursor that holds when the last one was launched.
    pub cursor: String,
    since: Time,
    longest: Seconds,
}

impl Probe {
    /// When the next one may be launched: after as long as the refusal has lasted, within bounds.
    /// `last`: when the last one was.
    #[must_use]
    pub fn due_at(&self, last: Option<Time>) -> Time {
        let last = last.map_or(self.since, |last| last.max(self.since));
        last + last.since(self.since).clamp(PROBE_AFTER.0, self.longest)
    }
}

/// How many machines may be launched for an entity now, and why no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// How many.
    pub most: u32,
    /// Why the others wait.
    pub held: LaunchBlock,
    /// Slots whose launch is to be tried again wait as well.
    pub holds_slots: bool,
    /// Another pool may serve their jobs meanwhile: GitHub refuses the runners of this one alone.
    pub elsewhere: bool,
}

impl EntityHealth {
    /// The record of an entity that is well.
    #[must_use]
    pub const fn well(entity: Entity) -> Self {
        Self {
            entity,
            unauthorized_since: None,
            last_error: None,
            limited_until: None,
            registrations_alone: false,
            refused_pools: BTreeMap::new(),
        }
    }

    /// Whether nothing is to be remembered.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.unauthorized_since.is_none()
            && self.limited_until.is_none()
            && self.refused_pools.is_empty()
    }

    /// The record after an answer.
    #[must_use]
    pub fn after(&self, asked: Asked, trouble: Option<&ProviderError>, now: Time) -> Self {
        let mut next = self.clone();
        match trouble {
            // No answer says nothing about the credentials.
            Some(ProviderError::Unavailable(_)) => {}
            Some(ProviderError::RateLimited(until)) => {
                next.limited_until = next.limited_until.max(Some(*until));
            }
            Some(ProviderError::Unauthorized(fault)) => {
                // 401 is about the credentials, whatever they are used for.
                let is_forbidden = asked == Asked::Registration && fault.code == "403";
                let alone = self.unauthorized_since.is_none() || self.registrations_alone;
                next.registrations_alone = alone && is_forbidden;
                next.unauthorized_since.get_or_insert(now);
                next.last_error = Some(fault.clone());
            }
            None => {
                if asked == Asked::Registration || !self.registrations_alone {
                    let refused_pools = next.refused_pools;
                    next = Self { refused_pools, ..Self::well(next.entity) };
                }
                // A secondary limit is that of registrations alone: no other answer shows that it
                // is over.
                // Source:
                // docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
                if asked == Asked::Other {
                    next.limited_until = self.limited_until.filter(|until| now < *until);
                }
            }
        }
        next
    }

    /// The record after GitHub has called a configuration of the pool wrong.
    #[must_use]
    pub fn after_refused_configuration(&self, pool: &Pool, error: &ErrorDetail) -> Self {
        let mut next = self.clone();
        let known = self.refusal_in(pool);
        next.refused_pools.insert(
            pool.name.clone(),
            RefusedPool {
                since: known.map_or(error.at, |known| known.since),
                generation: pool.generation,
                error: error.clone(),
            },
        );
        next
    }

    /// The record after GitHub has registered a runner of the pool.
    #[must_use]
    pub fn after_configuration(&self, pool: &Pool, now: Time) -> Self {
        let mut next = self.after(Asked::Registration, None, now);
        next.refused_pools.remove(&pool.name);
        next
    }

    fn refusal_in(&self, pool: &Pool) -> Option<&RefusedPool> {
        let refusal = self.refused_pools.get(&pool.name)?;
        (refusal.generation == pool.generation).then_some(refusal)
    }

    /// How the pool finds out whether runners are registered again, where only a machine can.
    #[must_use]
    pub fn probe(&self, pool: &Pool) -> Option<Probe> {
        let entity = &self.entity;
        if let Some(since) = self.unauthorized_since {
            let cursor = format!("probe#{entity}");
            let probe = Probe { cursor, since, longest: PROBE_AFTER.1 };
            return self.registrations_alone.then_some(probe);
        }
        let since = self.refusal_in(pool)?.since;
        let cursor = format!("probe#{entity}#{}", pool.name);
        Some(Probe { cursor, since, longest: CONFIGURED_AFTER })
    }

    /// Why no machine of the pool is launched for the entity, and when to look again.
    #[must_use]
    pub fn held_in(&self, pool: &Pool, now: Time) -> Option<LaunchBlock> {
        self.held(now).or_else(|| {
            let RefusedPool { since, error, .. } = self.refusal_in(pool)?;
            let (name, entity) = (&pool.name, &self.entity);
            let ErrorDetail { code, message, .. } = error;
            let reason = format!(
                "GitHub refuses the runners of pool {name} for {entity} since {since} ({code}: {message})"
            );
            Some(LaunchBlock { until: now + wait(*since, now), reason, closed: None })
        })
    }

    /// Why no machine is launched for the entity, and when to look again.
    #[must_use]
    pub fn held(&self, now: Time) -> Option<LaunchBlock> {
        let entity = &self.entity;
        if let Some(until) = self.limited_until.filter(|until| now < *until) {
            let reason = format!("GitHub's rate limit for {entity} lasts until {until}");
            return Some(LaunchBlock { until, reason, closed: None });
        }
        let since = self.unauthorized_since?;
        let what = match self.registrations_alone {
            true => "refuses to register runners",
            false => "refuses our credentials",
        };
        let why =
            self.last_error.as_ref().map(|fault| format!(" ({}: {})", fault.code, fault.message));
        let why = why.unwrap_or_default();
        let reason = format!("GitHub {what} for {entity} since {since}{why}");
        Some(LaunchBlock { until: now + wait(since, now), reason, closed: None })
    }
}

/// How long a job is held: as long as the refusal has lasted, as the questions are. It may end
/// soon, and nobody tells the jobs.
fn wait(since: Time, now: Time) -> Seconds {
    now.since(since).clamp(SOONEST, LOOK_AGAIN)
}

/// When to ask again whether GitHub still refuses these: thirty seconds after the youngest refusal,
/// and then after as long as it has lasted, up to five minutes. `last`: when that was asked last.
/// None when it refuses none.
#[must_use]
pub fn question_due(unwell: &[EntityHealth], last: Option<Time>) -> Option<Time> {
    let youngest = unwell.iter().filter_map(|health| health.unauthorized_since).max()?;
    let last = last.unwrap_or(youngest).max(youngest);
    Some(last + last.since(youngest).clamp(SOONEST, LOOK_AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    fn error(code: &str, at_second: u32) -> ErrorDetail {
        ErrorDetail {
            at: at(at_second),
            operation: "x".to_owned(),
            code: code.to_owned(),
            message: "simulated".to_owned(),
        }
    }

    fn refused(code: &str) -> ProviderError {
        ProviderError::Unauthorized(error(code, 0))
    }

    fn pool(name: &str) -> Pool {
        Pool { name: name.parse().expect("a name"), ..crate::testkit::pool() }
    }

    fn well() -> EntityHealth {
        EntityHealth::well("acme".parse().expect("an entity"))
    }

    #[test]
    fn any_answer_shows_that_refused_credentials_are_taken_again() {
        let health = well().after(Asked::Registration, Some(&refused("401")), at(10));
        assert_eq!(health.unauthorized_since, Some(at(10)));
        let still = health.after(Asked::Registration, Some(&refused("401")), at(20));
        assert_eq!(still.unauthorized_since, Some(at(10)));
        for asked in [Asked::Other, Asked::Registration] {
            assert!(still.after(asked, None, at(30)).is_well(), "{asked:?}");
        }
    }

    #[test]
    fn where_registrations_alone_are_refused_only_one_of_them_heals() {
        let health = well().after(Asked::Registration, Some(&refused("403")), at(10));
        assert!(!health.after(Asked::Other, None, at(20)).is_well());
        assert!(health.after(Asked::Registration, None, at(20)).is_well());
        // Until another question is refused as well.
        let all = health.after(Asked::Other, Some(&refused("403")), at(20));
        assert!(all.after(Asked::Other, None, at(30)).is_well());
        let all = all.after(Asked::Registration, Some(&refused("403")), at(25));
        assert!(all.after(Asked::Other, None, at(30)).is_well());
    }

    #[test]
    fn machines_find_out_after_two_minutes_and_then_less_and_less_often() {
        let pool = pool("default");
        let due = |health: &EntityHealth| {
            let probe = health.probe(&pool).expect("only a machine finds out");
            let (mut due, mut last) = (Vec::new(), None);
            for _ in 0..8 {
                last = Some(probe.due_at(last));
                due.extend(last.map(|last| last.since(at(0)).0 / 60));
            }
            due
        };
        let forbidden = well().after(Asked::Registration, Some(&refused("403")), at(0));
        assert_eq!(due(&forbidden), [2, 4, 8, 16, 32, 64, 124, 184]);
        let wrong = well().after_refused_configuration(&pool, &error("422", 0));
        assert_eq!(due(&wrong), [2, 4, 8, 16, 31, 46, 61, 76]);
        // One of an earlier trouble is none of this one's.
        let later = well().after(Asked::Registration, Some(&refused("403")), at(9000));
        assert_eq!(later.probe(&pool).map(|probe| probe.due_at(Some(at(60)))), Some(at(9120)));
        let all = forbidden.after(Asked::Other, Some(&refused("403")), at(20));
        assert_eq!(all.probe(&pool), None, "GitHub is asked, and no machine needed");
    }

    #[test]
    fn a_wrong_configuration_is_one_pool_s_until_that_pool_changes_or_gets_a_runner() {
        let (own, other) = (pool("gpu"), pool("default"));
        let health = well().after_refused_configuration(&own, &error("422", 10));
        let again = health.after_refused_configuration(&own, &error("422", 100));
        assert_eq!(again.refused_pools[&own.name].since, at(10));
        let held =
            |health: &EntityHealth, pool: &Pool| health.held_in(pool, at(200)).map(|one| one.until);
        assert_eq!(held(&again, &own), Some(at(390)));
        assert_eq!((held(&again, &other), again.held(at(200))), (None, None));
        // Runners of another pool say nothing of this one's.
        let same = again.after_configuration(&other, at(300));
        assert_eq!((&same, same.is_well()), (&again, false));
        assert!(again.after_configuration(&own, at(300)).is_well());
        let changed = Pool { generation: own.generation + 1, ..own };
        assert_eq!((held(&again, &changed), again.probe(&changed)), (None, None));
    }

    #[test]
    fn a_rate_limit_holds_until_it_ends_or_a_runner_is_registered() {
        let limit = |until| ProviderError::RateLimited(at(until));
        let health = well().after(Asked::Other, Some(&limit(100)), at(10));
        assert_eq!(health.held(at(99)).map(|held| held.until), Some(at(100)));
        assert_eq!(health.held(at(100)), None);
        let longer = health.after(Asked::Other, Some(&limit(50)), at(20));
        assert_eq!(longer.limited_until, Some(at(100)));
        assert_eq!(longer.after(Asked::Other, None, at(30)), longer);
        assert!(longer.after(Asked::Registration, None, at(30)).is_well());
        assert!(longer.after(Asked::Other, None, at(100)).is_well());
    }

    #[test]
    fn jobs_wait_as_long_as_the_refusal_has_lasted_and_five_minutes_at_most() {
        let health = well().after(Asked::Other, Some(&refused("401")), at(1000));
        for (now, until) in [(1000, 1030), (1010, 1040), (1100, 1200), (1300, 1600), (9000, 9300)] {
            assert_eq!(health.held(at(now)).map(|held| held.until), Some(at(until)), "at {now}");
        }
    }

    #[test]
    fn github_is_asked_again_in_waits_as_long_as_its_refusal_has_lasted() {
        let refused =
            |at_second| EntityHealth { unauthorized_since: Some(at(at_second)), ..well() };
        assert_eq!(question_due(&[well()], None), None);
        let one = [refused(100), well()];
        let rows = [
            (None, 130),
            (Some(20), 130),
            (Some(130), 160),
            (Some(160), 220),
            (Some(220), 340),
            (Some(600), 900),
        ];
        for (last, due) in rows {
            assert_eq!(question_due(&one, last.map(at)), Some(at(due)), "asked at {last:?}");
        }
        let younger = [refused(100), refused(5000)];
        assert_eq!(question_due(&younger, Some(at(4990))), Some(at(5030)));
    }
}
