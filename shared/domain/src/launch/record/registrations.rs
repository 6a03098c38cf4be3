//! Entities whose registrations fail without a refusal: GitHub, or the service that provides the
//! App's key, does not answer.
//!
//! A refusal or a rate limit is recorded as a trouble, and pauses launches. These failures do not
//! pause anything: machines retry, and the first success removes the entry.

use serde::{Deserialize, Serialize};

use super::Cooldowns;
use crate::ids::Entity;
use crate::instance::registration::{bounded, cause};
use crate::provider::ErrorDetail;
use crate::time::{Seconds, Time};

/// Minimum interval between two writes about one entity. A hundred machines that boot together
/// write one record.
const WRITTEN_APART: Seconds = Seconds(30);
/// How long failures must last before operators are notified.
const NOTED_AFTER: Seconds = Seconds(60);
/// How long an entry is valid after the last failure: by then, machines have stopped trying.
const VALID: Seconds = Seconds(900);
/// Maximum number of entries, the latest ones.
const MAX_ENTRIES: usize = 50;

/// An entity whose registrations fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailingRegistrations {
    /// The entity at which runners cannot be registered.
    pub entity: Entity,
    /// When the first registration since the last success failed.
    pub since: Time,
    /// The latest recorded error.
    pub last: ErrorDetail,
}

impl FailingRegistrations {
    /// Formats the problem for operators, without a final full stop.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        let Self { entity, since, last } = self;
        format!(
            "no runner can be registered for {entity} since {}: {} (last at {}); machines retry, and \
             jobs wait for them",
            since.clock(now),
            cause(last),
            last.at.clock(now)
        )
    }

    fn is_valid(&self, now: Time) -> bool {
        !now.is_past(self.last.at, VALID)
    }

    /// Returns whether it has lasted long enough to report.
    #[must_use]
    pub fn is_reported(&self, now: Time) -> bool {
        self.is_valid(now) && now.is_past(self.since, NOTED_AFTER)
    }
}

impl Cooldowns {
    /// Returns the record after a registration that failed without a refusal, if that changes it.
    #[must_use]
    pub fn after_failed_registration(&self, entity: &Entity, error: &ErrorDetail) -> Option<Self> {
        let now = error.at;
        let is_of = |one: &&FailingRegistrations| one.entity.same_as(entity);
        let known = self.failing.iter().find(is_of).filter(|one| one.is_valid(now));
        if known.is_some_and(|one| !now.is_past(one.last.at, WRITTEN_APART)) {
            return None;
        }
        let next = FailingRegistrations {
            entity: entity.lower_case(),
            since: known.map_or(now, |one| one.since),
            last: bounded(error),
        };
        let others = self.failing.iter().filter(|one| !is_of(one) && one.is_valid(now)).cloned();
        let mut all: Vec<_> = std::iter::once(next).chain(others).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.last.at));
        all.truncate(MAX_ENTRIES);
        Some(Self { failing: all.into(), ..self.clone() })
    }

    /// Returns the record without the entry of this entity, if there is one.
    #[must_use]
    pub(crate) fn without_failing(&self, entity: &Entity) -> Option<Self> {
        let left = self.failing.iter().filter(|one| !one.entity.same_as(entity)).cloned();
        let left: Vec<_> = left.collect();
        (left.len() < self.failing.len()).then(|| Self { failing: left.into(), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, fault};

    fn acme() -> Entity {
        "acme".parse().expect("an entity")
    }

    fn failed(known: &Cooldowns, second: u32) -> Option<Cooldowns> {
        let error = ErrorDetail { at: at(second), ..fault("503") };
        known.after_failed_registration(&acme(), &error)
    }

    #[test]
    fn failures_are_reported_after_a_minute_and_until_a_success() {
        let first = failed(&Cooldowns::default(), 10).expect("written");
        assert!(!first.failing[0].is_reported(at(69)));
        assert!(first.failing[0].is_reported(at(70)));
        assert_eq!(failed(&first, 39), None, "written at most each half minute");
        let later = failed(&first, 40).expect("written");
        assert_eq!((later.failing.len(), later.failing[0].since), (1, at(10)));
        assert!(later.failing[0].is_reported(at(939)));
        assert!(!later.failing[0].is_reported(at(940)), "no machine has tried for 15 minutes");
        let again = failed(&later, 940).expect("written");
        assert_eq!(again.failing[0].since, at(940), "a new failure");
        let over = later.without_failing(&"ACME".parse().expect("an entity"));
        assert_eq!(over, Some(Cooldowns::default()));
        assert_eq!(Cooldowns::default().without_failing(&acme()), None);
    }

    #[test]
    fn the_record_is_bounded() {
        let all = (0..100).fold(Cooldowns::default(), |known, n| {
            let error = ErrorDetail { at: at(n), message: "x".repeat(9_000), ..fault("503") };
            let entity = format!("org-{n}").parse().expect("an entity");
            known.after_failed_registration(&entity, &error).expect("written")
        });
        assert_eq!(all.failing.len(), MAX_ENTRIES);
        assert_eq!(all.failing[0].entity.as_str(), "org-99");
        assert!(all.failing.iter().all(|one| one.last.message.len() == 300));
    }
}
