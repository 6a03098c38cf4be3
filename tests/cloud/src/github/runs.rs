//! Workflow runs: what GitHub shows of one, and the runs that end without their jobs.

use serde_json::Value;

use super::{GitHub, Job, JobStatus};

/// What became of a run apart from its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ended, this way. Jobs that were queued then are called queued for ever, and no event
    /// tells of them (Tuist #12673, pytorch/test-infra #5164).
    Ended(String),
    /// Somebody deleted it, and its jobs with it.
    Deleted,
}

/// A run as GitHub shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    pub is_over: bool,
    pub conclusion: Option<String>,
}

impl GitHub {
    /// A run ends while its jobs are queued, and they stay so: no runner gets them any more.
    pub fn end_run(&mut self, run: u64, conclusion: &str) {
        self.withdraw_jobs_of(run);
        self.fates.insert(run, Fate::Ended(conclusion.to_owned()));
    }

    /// A run is deleted: neither it nor its jobs are shown any more, and no event tells of them.
    pub fn delete_run(&mut self, run: u64) {
        self.withdraw_jobs_of(run);
        self.fates.insert(run, Fate::Deleted);
    }

    fn withdraw_jobs_of(&mut self, run: u64) {
        let of_run = |job: &&Job| job.run_id == run && job.status == JobStatus::Queued;
        let jobs: Vec<u64> = self.jobs.values().filter(of_run).map(|job| job.id).collect();
        for id in jobs {
            self.withdraw(id);
            self.queued.retain(|other| *other != id);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.offered = false;
            }
        }
    }

    /// A job that can never run, although GitHub calls it queued or has deleted it.
    #[must_use]
    pub fn is_ghost(&self, job: &Job) -> bool {
        job.status == JobStatus::Queued && self.fates.contains_key(&job.run_id)
    }

    /// A job of a repository, unless its run was deleted.
    #[must_use]
    pub fn job_in(&self, owner: &str, name: &str, id: u64) -> Option<&Job> {
        let is_shown = |job: &&Job| {
            in_repository(job, owner, name) && self.fates.get(&job.run_id) != Some(&Fate::Deleted)
        };
        self.job(id).filter(is_shown)
    }

    /// A run of a repository: over when all of its jobs are, or when it ended without them.
    #[must_use]
    pub fn run_in(&self, owner: &str, name: &str, run: u64) -> Option<RunView> {
        let of_run = |job: &&Job| job.run_id == run && in_repository(job, owner, name);
        let jobs: Vec<&Job> = self.jobs.values().filter(of_run).collect();
        let last = jobs.iter().map(|job| job.run_attempt).max()?;
        match self.fates.get(&run) {
            Some(Fate::Deleted) => return None,
            Some(Fate::Ended(conclusion)) => {
                return Some(RunView { is_over: true, conclusion: Some(conclusion.clone()) });
            }
            None => {}
        }
        let jobs: Vec<&Job> = jobs.into_iter().filter(|job| job.run_attempt == last).collect();
        let is_over = jobs.iter().all(|job| job.status == JobStatus::Completed);
        let ended = |how: &str| jobs.iter().any(|job| job.conclusion.as_deref() == Some(how));
        let is_cancelled = self.cancelled_runs.contains(&(run, last)) && ended("cancelled");
        let words = if is_cancelled { ["cancelled", "failure"] } else { ["failure", "cancelled"] };
        let conclusion = words.into_iter().find(|how| ended(how));
        let conclusion = is_over.then(|| conclusion.unwrap_or("success").to_owned());
        Some(RunView { is_over, conclusion })
    }

    /// A run as the REST API shows it.
    #[must_use]
    pub fn run_view(&self, owner: &str, name: &str, run: u64) -> Option<Value> {
        let RunView { is_over, conclusion } = self.run_in(owner, name, run)?;
        let status = if is_over { "completed" } else { "in_progress" };
        let mut view = self.rest_of_run(run);
        view["id"] = run.into();
        view["status"] = status.into();
        view["conclusion"] = conclusion.into();
        Some(view)
    }
}

pub(super) fn in_repository(job: &Job, owner: &str, name: &str) -> bool {
    job.repository.owner.eq_ignore_ascii_case(owner)
        && job.repository.name.eq_ignore_ascii_case(name)
}
