//! The rotation of repositories to query for queued jobs that GitHub never announced.

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::ids::{AppName, Entity, InstallationId};
use crate::time::{Seconds, Time};

/// Minimum interval between the starts of two rounds, so that a few repositories are not queried
/// every minute.
const ROUND: Seconds = Seconds(600);

/// A position in the list of repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListPosition {
    /// The installation whose repositories are listed.
    pub installation: InstallationId,
    /// The number of the page.
    pub page: u32,
}

/// The next step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InquiryStep {
    /// Wait until the next round.
    Wait,
    /// List a page of this App's repositories: the first one, or the one at this position.
    List(AppName, Option<ListPosition>),
    /// Query a repository.
    Query,
}

/// The progress of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Turn {
    /// Repositories of the last page that were not queried yet, in reverse order.
    left: Vec<Entity>,
    /// Their installation.
    installation: Option<InstallationId>,
    /// The App whose repositories are listed next.
    #[serde(default)]
    app: AppName,
    /// That App's next page. `None` for the first one.
    next: Option<ListPosition>,
    /// When this round began.
    began_at: Option<Time>,
}

impl Turn {
    /// Returns the next step. Each sweep makes one step, so that no sweep makes many calls.
    #[must_use]
    pub fn step(&self, now: Time) -> InquiryStep {
        // A time in the future was written by a wrong clock.
        let is_new = |at: Time| now >= at && !now.is_past(at, ROUND);
        if !self.left.is_empty() {
            InquiryStep::Query
        } else if self.is_at_start() && self.began_at.is_some_and(is_new) {
            InquiryStep::Wait
        } else {
            InquiryStep::List(self.app, self.next)
        }
    }

    /// Returns whether an earlier sweep should have listed the repositories, and recorded that. Of a
    /// further page it is not known.
    #[must_use]
    pub fn is_listing_overdue(&self, now: Time) -> bool {
        let is_late = |began: Time| backoff::is_overdue(began + ROUND, now);
        !self.is_at_start() || self.began_at.is_some_and(is_late)
    }

    /// Returns whether the next page is the first one of a round.
    fn is_at_start(&self) -> bool {
        self.app == AppName::MAIN && self.next.is_none()
    }

    /// Records a listed page, whose repositories are queried next. After the last page of an App come
    /// those of the next one in `apps`, which begins with the main App.
    pub fn listed(
        &mut self,
        mut repositories: Vec<Entity>,
        installation: Option<InstallationId>,
        next: Option<ListPosition>,
        apps: &[AppName],
        now: Time,
    ) {
        if self.is_at_start() {
            self.began_at = Some(now);
        }
        if next.is_none() {
            let mut later = apps.iter().skip_while(|app| **app != self.app).skip(1);
            self.app = later.next().copied().unwrap_or_default();
        }
        repositories.reverse();
        (self.left, self.installation, self.next) = (repositories, installation, next);
    }

    /// Takes the next repository that may be queried, and skips those before it.
    pub fn take(
        &mut self,
        may_be_queried: impl Fn(&Entity) -> bool,
    ) -> Option<(Entity, Option<InstallationId>)> {
        while let Some(one) = self.left.pop() {
            if may_be_queried(&one) {
                return Some((one, self.installation));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Time {
        Time::from_millis(minute * 60_000)
    }

    fn named(names: &[&str]) -> Vec<Entity> {
        names.iter().map(|name| name.parse().expect("a repository")).collect()
    }

    /// Simulates one sweep per minute. For each page: its repositories, and whether a next page
    /// exists.
    fn sweeps(pages: &[(&[&str], bool)], minutes: i64, refused: &str) -> Vec<String> {
        let (mut turn, mut pages, mut done) = (Turn::default(), pages.iter().cycle(), Vec::new());
        for minute in 0..minutes {
            match turn.step(at(minute)) {
                InquiryStep::Wait => {}
                InquiryStep::List(_, place) => {
                    let (names, more) = pages.next().expect("a page");
                    let page = place.map_or(1, |place| place.page);
                    let next = ListPosition { installation: InstallationId(7), page: page + 1 };
                    let next = more.then_some(next);
                    turn.listed(
                        named(names),
                        Some(InstallationId(7)),
                        next,
                        &[AppName::MAIN],
                        at(minute),
                    );
                    done.push(format!("{minute} page {page}"));
                }
                InquiryStep::Query => {
                    let one = turn.take(|one| one.as_str() != refused);
                    done.extend(one.map(|(name, _)| format!("{minute} {name}")));
                }
            }
        }
        done
    }

    #[test]
    fn each_repository_has_its_turn() {
        type Pages<'a> = &'a [(&'a [&'a str], bool)];
        let twelve: Vec<String> = (0..12).map(|number| format!("a/{number}")).collect();
        let twelve: Vec<&str> = twelve.iter().map(String::as_str).collect();
        let cases: [(&str, Pages<'_>, i64, &[&str]); 7] = [
            ("none", &[(&[], false)], 22, &["0 page 1", "10 page 1", "20 page 1"]),
            ("one", &[(&["a/b"], false)], 13, &["0 page 1", "1 a/b", "10 page 1", "11 a/b"]),
            (
                "two pages",
                &[(&["a/b", "a/c"], true), (&["a/d"], false)],
                12,
                &["0 page 1", "1 a/b", "2 a/c", "3 page 2", "4 a/d", "10 page 1", "11 a/b"],
            ),
            (
                "a page of repositories that no pool serves",
                &[(&[], true), (&["a/d"], false)],
                4,
                &["0 page 1", "1 page 2", "2 a/d"],
            ),
            (
                "one that may not be queried",
                &[(&["a/b", "a/no", "a/c"], false)],
                4,
                &["0 page 1", "1 a/b", "2 a/c"],
            ),
            ("only one that may not be queried", &[(&["a/no"], false)], 3, &["0 page 1"]),
            (
                "a long round is followed by the next one at once",
                &[(&twelve, false), (&["a/z"], false)],
                15,
                &[
                    "0 page 1",
                    "1 a/0",
                    "2 a/1",
                    "3 a/2",
                    "4 a/3",
                    "5 a/4",
                    "6 a/5",
                    "7 a/6",
                    "8 a/7",
                    "9 a/8",
                    "10 a/9",
                    "11 a/10",
                    "12 a/11",
                    "13 page 1",
                    "14 a/z",
                ],
            ),
        ];
        for (name, pages, minutes, expected) in cases {
            assert_eq!(sweeps(pages, minutes, "a/no"), expected, "{name}");
        }
    }

    #[test]
    fn a_clock_that_was_ahead_holds_no_round_up() {
        let mut turn = Turn::default();
        turn.listed(Vec::new(), None, None, &[AppName::MAIN], at(100));
        assert_eq!(turn.step(at(101)), InquiryStep::Wait);
        assert_eq!(turn.step(at(99)), InquiryStep::List(AppName::MAIN, None));
    }

    /// A round lists each App, also one that was removed while it was listed.
    #[test]
    fn a_round_lists_each_app() {
        let [one, two] = ["one", "two"].map(|name| name.parse::<AppName>().expect("a name"));
        let page = ListPosition { installation: InstallationId(7), page: 2 };
        let mut turn = Turn::default();
        for (apps, next, then) in [
            (&[AppName::MAIN, one, two][..], None, InquiryStep::List(one, None)),
            (&[AppName::MAIN, one, two], Some(page), InquiryStep::List(one, Some(page))),
            (&[AppName::MAIN, one, two], None, InquiryStep::List(two, None)),
            (&[AppName::MAIN, one], None, InquiryStep::Wait),
        ] {
            turn.listed(Vec::new(), None, next, apps, at(1));
            assert_eq!(turn.step(at(2)), then);
        }
    }
}
