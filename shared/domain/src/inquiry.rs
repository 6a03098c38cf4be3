//! Repositories to query for queued jobs because an unreadable event came from there: its job may
//! otherwise stay unknown. One record for the whole stack.

mod turn;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::backoff;
use crate::ids::{Entity, InstallationId};
use crate::time::{Seconds, Time};

pub use self::turn::{InquiryStep, ListPosition, Turn};

/// Maximum number of repositories in the record. More than that many with unreadable events raise
/// an alarm.
const MAX_REPOSITORIES: usize = 100;
/// Minimum interval between two queries of a repository, regardless of the number of such events.
const APART: Seconds = Seconds(300);
/// First wait after a failed query; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Seconds = Seconds(60);
const LONGEST_WAIT: Seconds = Seconds(3600);
/// Time after which GitHub cancels a queued job.
/// Source: docs.github.com/en/actions/reference/limits
const GIVEN_UP: Seconds = Seconds(24 * 3600);

/// A repository to query, or that was queried recently.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inquiry {
    /// The App's installation, if an event named it.
    pub installation: Option<InstallationId>,
    /// The first event that no answer covers.
    pub since: Time,
    /// The last event.
    pub told_at: Time,
    /// When to query. `None` if an answer covers all events.
    pub due_at: Option<Time>,
    /// When GitHub last answered.
    pub answered_at: Option<Time>,
    /// Number of consecutive failed queries.
    pub failures: u32,
}

/// The record of repositories to query.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inquiries {
    /// The record's schema version.
    pub schema: u16,
    /// By repository (`owner/repo`).
    pub repositories: BTreeMap<Entity, Inquiry>,
    /// The rotation of queries for jobs that were never announced.
    #[serde(default)]
    pub turn: Turn,
}

impl Default for Inquiries {
    /// Creates an empty record.
    fn default() -> Self {
        Self { schema: SCHEMA, repositories: BTreeMap::new(), turn: Turn::default() }
    }
}

impl Inquiries {
    /// Records an unreadable event of a repository. Returns false if the record is full.
    pub fn tell(
        &mut self,
        repository: &Entity,
        installation: Option<InstallationId>,
        now: Time,
    ) -> bool {
        let is_recent = |one: &Inquiry| one.answered_at.is_some_and(|at| now < at + APART);
        self.repositories.retain(|_, one| one.due_at.is_some() || is_recent(one));
        let is_full = self.repositories.len() >= MAX_REPOSITORIES;
        if is_full && !self.repositories.contains_key(repository) {
            return false;
        }
        let one = self.repositories.entry(repository.clone()).or_insert(Inquiry {
            installation,
            since: now,
            told_at: now,
            due_at: None,
            answered_at: None,
            failures: 0,
        });
        one.installation = installation.or(one.installation);
        one.told_at = now;
        if one.due_at.is_none() {
            one.since = now;
            one.due_at = Some(one.answered_at.map_or(now, |at| now.max(at + APART)));
        }
        true
    }

    /// Returns the repositories to query now, longest wait first.
    #[must_use]
    pub fn due(&self, now: Time) -> Vec<(Entity, Inquiry)> {
        let is_due = |one: &Inquiry| one.due_at.is_some_and(|at| at <= now);
        let due = self.repositories.iter().filter(|(_, one)| is_due(one));
        let mut due: Vec<_> = due.map(|(name, one)| (name.clone(), one.clone())).collect();
        due.sort_by_key(|(_, one)| one.due_at);
        due
    }

    /// Records GitHub's answer to a query sent at `asked`. It does not cover events that arrived
    /// later.
    pub fn answered(&mut self, repository: &Entity, asked: Time, now: Time) {
        let Some(one) = self.repositories.get_mut(repository) else { return };
        one.failures = 0;
        one.answered_at = Some(now);
        one.due_at = (one.told_at > asked).then(|| now + APART);
        one.since = one.told_at;
    }

    /// Records a failed query; `until` is the end of a rate limit, if GitHub gave one. Returns
    /// false if the repository is dropped, because jobs that were queued then have ended.
    pub fn unanswered(&mut self, repository: &Entity, until: Option<Time>, now: Time) -> bool {
        let Some(one) = self.repositories.get_mut(repository) else { return true };
        if now.is_past(one.since, GIVEN_UP) {
            self.repositories.remove(repository);
            return false;
        }
        one.failures = one.failures.saturating_add(1);
        let wait = backoff::grown(FIRST_WAIT, one.failures, LONGEST_WAIT);
        one.due_at = Some(until.unwrap_or(now + wait));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::from_millis(second * 1000)
    }

    fn named(name: &str) -> Entity {
        name.parse().expect("a repository")
    }

    fn due_at(all: &Inquiries) -> Option<i64> {
        all.repositories.values().find_map(|one| one.due_at).map(Time::as_secs)
    }

    #[test]
    fn a_repository_is_asked_about_once_in_five_minutes() {
        let (mut all, web) = (Inquiries::default(), named("acme/web"));
        assert!(all.tell(&web, Some(InstallationId(7)), at(0)) && all.tell(&web, None, at(9)));
        assert_eq!(due_at(&all), Some(0), "the second event changes no time");
        let due = all.due(at(9));
        assert_eq!((due.len(), due[0].1.installation), (1, Some(InstallationId(7))));
        all.answered(&web, at(10), at(12));
        assert!(due_at(&all).is_none() && all.due(at(9000)).is_empty());
        all.tell(&web, None, at(20));
        assert_eq!(due_at(&all), Some(312));
        all.answered(&web, at(312), at(313));
        // An event that arrives during the query may report a job that the answer does not contain.
        all.tell(&web, None, at(700));
        all.tell(&web, None, at(702));
        all.answered(&web, at(701), at(703));
        assert_eq!(due_at(&all), Some(1003));
    }

    #[test]
    fn silence_is_asked_again_later_each_time_and_for_a_day() {
        let (mut all, web) = (Inquiries::default(), named("acme/web"));
        all.tell(&web, None, at(0));
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert!(all.unanswered(&web, None, at(0)));
            waits.extend(due_at(&all));
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert!(all.unanswered(&web, Some(at(900)), at(0)));
        assert_eq!(due_at(&all), Some(900), "a limit says itself until when");
        assert!(!all.unanswered(&web, None, at(24 * 3600 + 1)));
        assert_eq!(all, Inquiries::default());
    }

    #[test]
    fn the_record_stays_small() {
        let mut all = Inquiries::default();
        let taken = |all: &mut Inquiries, now| {
            let names = (0..300).map(|number| named(&format!("acme/r{number}")));
            names.filter(|name| all.tell(name, None, now)).count()
        };
        assert_eq!(taken(&mut all, at(0)), MAX_REPOSITORIES);
        for (name, _) in all.due(at(0)) {
            all.answered(&name, at(1), at(1));
        }
        all.tell(&named("acme/other"), None, at(400));
        assert_eq!(all.repositories.len(), 1, "those that were answered make room");
    }
}
