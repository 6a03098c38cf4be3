//! Repositories in which GitHub is to be asked for queued jobs: an event came from there that
//! cannot be read, and the job that it told of waits unheard. One record for the whole stack.

mod turn;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::backoff;
use crate::ids::{Entity, InstallationId};
use crate::time::{Seconds, Time};

pub use self::turn::{Place, Step, Turn};

/// Most repositories on record. An App that sends events of more that cannot be read has its alarm.
const MAX_REPOSITORIES: usize = 100;
/// A repository is asked about once in this time, however many such events come from there.
const APART: Seconds = Seconds(300);
/// The wait after a question without an answer: it doubles up to the other.
const FIRST_WAIT: Seconds = Seconds(60);
const LONGEST_WAIT: Seconds = Seconds(3600);
/// GitHub cancels a job that was queued for so long.
/// Source: docs.github.com/en/actions/reference/limits
const GIVEN_UP: Seconds = Seconds(24 * 3600);

/// A repository that GitHub is to be asked about, or was asked about lately.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inquiry {
    /// The App's installation, as far as an event named it.
    pub installation: Option<InstallationId>,
    /// The first event that no answer covers.
    pub since: Time,
    /// The last event.
    pub told_at: Time,
    /// When GitHub is to be asked; none once an answer covers all events.
    pub due_at: Option<Time>,
    /// GitHub's last answer.
    pub answered_at: Option<Time>,
    /// Questions in a row without an answer.
    pub failures: u32,
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inquiries {
    /// Version of the record's form.
    pub schema: u16,
    /// By repository (`owner/repo`).
    pub repositories: BTreeMap<Entity, Inquiry>,
    /// Whose turn it is to be queried for jobs that were never announced.
    #[serde(default)]
    pub turn: Turn,
}

impl Default for Inquiries {
    /// Nobody is asked about.
    fn default() -> Self {
        Self { schema: SCHEMA, repositories: BTreeMap::new(), turn: Turn::default() }
    }
}

impl Inquiries {
    /// An event of a repository cannot be read. False when there is no room for one more.
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

    /// The repositories to ask about now, those that waited longest before the others.
    #[must_use]
    pub fn due(&self, now: Time) -> Vec<(Entity, Inquiry)> {
        let is_due = |one: &Inquiry| one.due_at.is_some_and(|at| at <= now);
        let due = self.repositories.iter().filter(|(_, one)| is_due(one));
        let mut due: Vec<_> = due.map(|(name, one)| (name.clone(), one.clone())).collect();
        due.sort_by_key(|(_, one)| one.due_at);
        due
    }

    /// GitHub answered a question that was asked at `asked`. An event that came since then is not
    /// covered.
    pub fn answered(&mut self, repository: &Entity, asked: Time, now: Time) {
        let Some(one) = self.repositories.get_mut(repository) else { return };
        one.failures = 0;
        one.answered_at = Some(now);
        one.due_at = (one.told_at > asked).then(|| now + APART);
        one.since = one.told_at;
    }

    /// GitHub did not answer; it may have said until when it will not. False when nobody is asked
    /// any more: jobs that were queued then have ended.
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
        // One that comes while GitHub is asked may tell of a job that the answer does not hold.
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
