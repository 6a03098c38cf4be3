//! Attempts of workflow runs: what a re-run does, and what GitHub shows of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::runs::{Fate, in_repository};
use super::{GitHub, GitHubError, Job, JobStatus, News};
use crate::Millis;

/// What the runs of one workflow have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    pub workflow: u64,
    pub event: String,
    pub branch: String,
}

/// Which jobs somebody wants run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// One job, of the current attempt.
    Job(u64),
    /// All that did not succeed.
    Failed,
}

impl GitHub {
    /// Says where a run comes from. Without this nothing is shown of it.
    pub fn describe_run(&mut self, run: u64, facts: RunFacts) {
        self.run_facts.insert(run, facts);
    }

    /// Where a run comes from.
    #[must_use]
    pub fn run_facts(&self, run: u64) -> Option<&RunFacts> {
        self.run_facts.get(&run)
    }

    /// The runs that come from there too, newest first, and whether each has ended.
    #[must_use]
    pub fn runs_like(&self, owner: &str, name: &str, facts: &RunFacts) -> Vec<(u64, bool)> {
        let alike = self.run_facts.iter().rev().filter(|(_, of)| *of == facts);
        let shown = alike.filter_map(|(run, _)| Some((*run, self.run_in(owner, name, *run)?)));
        shown.map(|(run, view)| (run, view.is_over)).collect()
    }

    /// The last attempt of a run.
    #[must_use]
    pub fn last_attempt(&self, run: u64) -> u32 {
        let of_run = self.jobs.values().filter(|job| job.run_id == run);
        of_run.map(|job| job.run_attempt).max().unwrap_or(1)
    }

    /// Whether our App started an attempt.
    #[must_use]
    pub fn is_by_app(&self, run: u64, attempt: u32) -> bool {
        self.by_app.contains(&(run, attempt))
    }

    /// How many attempts of a run our App started.
    #[must_use]
    pub fn attempts_of_app(&self, run: u64) -> usize {
        self.by_app.iter().filter(|(of, _)| *of == run).count()
    }

    /// Whether a failed job cancels the others of a run.
    #[must_use]
    pub fn is_fail_fast(&self, run: u64) -> bool {
        self.fast.contains(&run)
    }

    /// Runs jobs again: `fresh` tells of each job of the new attempt its id. Those that are not run
    /// again are carried over: copies that keep their times, their runner and their end.
    ///
    /// GitHub takes this only while no attempt runs, and a single job only of the current attempt.
    pub fn rerun(
        &mut self,
        (owner, name): (&str, &str),
        run: u64,
        which: Again,
        by_app: bool,
        mut fresh: impl FnMut(&Job) -> u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let no = |why: &str| Err(GitHubError::new(403, why));
        let Some(view) = self.run_in(owner, name, run) else {
            return Err(GitHubError::not_found());
        };
        if !view.is_over {
            return no(match which {
                Again::Job(_) => "The workflow run containing this job is already running",
                Again::Failed => "This workflow is already running",
            });
        }
        if matches!(self.fates.get(&run), Some(Fate::Ended(_))) {
            return no("This workflow run cannot be retried");
        }
        let attempt = self.last_attempt(run);
        let of_run = |job: &&Job| job.run_id == run && job.run_attempt == attempt;
        let jobs: Vec<Job> = self.jobs.values().filter(of_run).cloned().collect();
        if let Again::Job(id) = which
            && !jobs.iter().any(|job| job.id == id)
        {
            return no("Only jobs from the current attempt can be re-run");
        }
        if by_app {
            self.by_app.insert((run, attempt + 1));
        }
        for job in jobs {
            let is_again = match which {
                Again::Job(id) => id == job.id,
                Again::Failed => !matches!(job.conclusion.as_deref(), Some("success" | "skipped")),
            };
            let id = fresh(&job);
            let next = match is_again {
                true => Job::queued(id, (run, attempt + 1), job.repository, job.spec, now),
                false => Job { id, run_attempt: attempt + 1, queued_at: now, ..job },
            };
            if is_again || self.tells_of_copies {
                self.news.push(News::Webhook(next.clone()));
            }
            if is_again {
                self.queued.push(id);
            }
            self.jobs.insert(id, next);
        }
        Ok(())
    }

    /// The jobs of an attempt, as GitHub lists them.
    #[must_use]
    pub fn attempt_jobs(&self, owner: &str, name: &str, run: u64, attempt: u32) -> Vec<&Job> {
        let of = |job: &&Job| {
            job.run_id == run && job.run_attempt == attempt && in_repository(job, owner, name)
        };
        self.jobs.values().filter(of).collect()
    }

    /// A matrix job failed: GitHub cancels the others of a run whose strategy is fail-fast.
    pub(super) fn fail_fast(&mut self, failed: u64, now: Millis) {
        let Some(job) = self.jobs.get(&failed).filter(|job| self.fast.contains(&job.run_id)) else {
            return;
        };
        let (run, attempt) = (job.run_id, job.run_attempt);
        let open = |job: &&Job| {
            job.run_id == run && job.run_attempt == attempt && job.status != JobStatus::Completed
        };
        let siblings: Vec<u64> = self.jobs.values().filter(open).map(|job| job.id).collect();
        for sibling in siblings {
            let is_taken = self
                .jobs
                .get(&sibling)
                .is_some_and(|job| job.status == JobStatus::InProgress && job.over.is_none());
            if is_taken {
                if let Some(job) = self.jobs.get_mut(&sibling) {
                    job.over = Some(Arc::from("cancelled"));
                }
                self.cancelled.push(sibling);
            } else {
                let _ = self.cancel(sibling, now);
            }
        }
    }

    /// Jobs that fail-fast cancelled on their runners, since this was last asked.
    pub fn take_cancelled(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cancelled)
    }

    /// Makes a failed job cancel the other jobs of this run.
    pub fn set_fail_fast(&mut self, run: u64) {
        self.fast.insert(run);
    }

    /// What the REST API shows of a run besides its state.
    pub(super) fn rest_of_run(&self, run: u64) -> Value {
        let attempt = self.last_attempt(run);
        let actor = if self.is_by_app(run, attempt) { "Bot" } else { "User" };
        let mut view = json!({
            "run_attempt": attempt,
            "triggering_actor": { "type": actor },
        });
        if let Some(facts) = self.run_facts(run) {
            view["workflow_id"] = facts.workflow.into();
            view["event"] = facts.event.clone().into();
            view["head_branch"] = facts.branch.clone().into();
        }
        view
    }
}
