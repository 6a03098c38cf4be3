//! Detection of a second fleet with matching labels: a pool's jobs run on runners outside this
//! stack while the stack's machines wait for them. GitHub reports no error for that.

use serde::{Deserialize, Serialize};

use super::Cooldowns;
use crate::ids::PoolName;
use crate::job::{Job, JobStatus};
use crate::text::first;
use crate::time::{Seconds, Time};

/// Minimum interval between two writes about one pool; jobs in between are not counted.
const WRITTEN_APART: Seconds = Seconds(10);
/// Number of such jobs that is reported; fewer may be chance.
const REPEATED: u32 = 3;
/// How long after the last such job an entry is valid.
const VALID: Seconds = Seconds(900);
/// Maximum number of entries, the latest ones.
const MAX_ENTRIES: usize = 50;
/// Maximum stored length of a runner name, in characters. GitHub allows 64.
const MAX_NAME: usize = 64;
/// Name prefixes of GitHub-hosted runners.
const HOSTED: [&str; 2] = ["GitHub Actions", "GitHub-Actions"];

/// A pool whose jobs run elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ForeignRunners {
    /// The pool.
    pub pool: PoolName,
    /// When the first such job started.
    pub since: Time,
    /// When the last such job started.
    pub at: Time,
    /// Number of such jobs counted.
    pub count: u32,
    /// The runner that took the last such job.
    pub runner: String,
}

impl ForeignRunners {
    /// Returns whether such jobs are frequent and recent enough to report.
    #[must_use]
    pub fn is_reported(&self, now: Time) -> bool {
        self.count >= REPEATED && self.is_valid(now)
    }

    fn is_valid(&self, now: Time) -> bool {
        !now.is_past(self.at, VALID)
    }

    /// Formats the problem for operators, without a final full stop.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        let Self { pool, since, count, runner, .. } = self;
        format!(
            "another fleet takes jobs of pool {pool}: at least {count} since {} ran on runners that \
             are not this stack's, the last on {runner}, while machines launched for them wait",
            since.clock(now)
        )
    }
}

/// Returns the runner that took a job of a pool, if it belongs neither to this stack nor to GitHub.
/// `took`: whether an instance of the stack took the job.
#[must_use]
pub fn foreign_runner<'a>(before: Option<&Job>, next: &'a Job, took: bool) -> Option<&'a str> {
    let before = before.filter(|before| before.status() < JobStatus::InProgress)?;
    let runner = next.last_event.runner.as_deref().filter(|name| !name.is_empty())?;
    let is_hosted = HOSTED.iter().any(|hosted| runner.starts_with(hosted));
    // Only for a job that has a machine: otherwise no money is wasted.
    let has_machine = before.pool.is_some() && before.claim.is_some();
    let is_taken = next.status() >= JobStatus::InProgress;
    (is_taken && has_machine && !took && !is_hosted).then_some(runner)
}

impl Cooldowns {
    /// Returns the record after a job of the pool started on a foreign runner, if that changes it.
    #[must_use]
    pub fn after_foreign_runner(&self, pool: &PoolName, runner: &str, now: Time) -> Option<Self> {
        let known = self.foreign.iter().find(|one| one.pool == *pool);
        let known = known.filter(|one| one.is_valid(now));
        if known.is_some_and(|one| !now.is_past(one.at, WRITTEN_APART)) {
            return None;
        }
        let next = ForeignRunners {
            pool: pool.clone(),
            since: known.map_or(now, |one| one.since),
            at: now,
            count: known.map_or(0, |one| one.count).saturating_add(1),
            runner: first(runner, MAX_NAME).to_owned(),
        };
        let others = self.foreign.iter().filter(|one| one.pool != *pool && one.is_valid(now));
        let mut all: Vec<_> = std::iter::once(next).chain(others.cloned()).collect();
        all.truncate(MAX_ENTRIES);
        Some(Self { foreign: all.into(), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    fn pool() -> PoolName {
        "gpu".parse().expect("a name")
    }

    fn taken(known: &Cooldowns, second: u32) -> Option<Cooldowns> {
        known.after_foreign_runner(&pool(), "arc-7xk2p", at(second))
    }

    #[test]
    fn three_jobs_within_a_quarter_of_an_hour_are_reported() {
        let mut known = Cooldowns::default();
        for (second, is_written) in [(0, true), (5, false), (10, true), (19, false), (20, true)] {
            let next = taken(&known, second);
            assert_eq!(next.is_some(), is_written, "{second}");
            known = next.unwrap_or(known);
            assert_eq!(known.foreign[0].is_reported(at(second)), second == 20, "{second}");
        }
        let one = &known.foreign[0];
        assert!(one.is_reported(at(919)) && !one.is_reported(at(920)));
        assert!(one.sentence(at(30)).contains("at least 3 since"), "{}", one.sentence(at(30)));
        let again = taken(&known, 920).expect("written");
        assert_eq!((again.foreign.len(), again.foreign[0].count), (1, 1), "begins anew");
    }

    #[test]
    fn the_record_is_bounded() {
        let all = (0..100).fold(Cooldowns::default(), |known, n| {
            let pool = format!("p{n}").parse().expect("a name");
            known.after_foreign_runner(&pool, &"é".repeat(900), at(n)).expect("written")
        });
        assert_eq!(all.foreign.len(), MAX_ENTRIES);
        assert!(all.foreign.iter().all(|one| one.runner.chars().count() == MAX_NAME));
    }
}
