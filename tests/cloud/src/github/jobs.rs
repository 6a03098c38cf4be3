//! Jobs: queued, gated, worked on, finished, cancelled, killed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{GitHub, GitHubError, News, Repository};
use crate::Millis;

/// What a test says about a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    pub owner: String,
    pub repo: String,
    #[serde(default = "yes")]
    pub private: bool,
    pub labels: Vec<String>,
    #[serde(default = "JobSpec::default_name")]
    pub name: String,
    #[serde(default = "JobSpec::default_workflow")]
    pub workflow: String,
    /// The run it belongs to; a new one without it.
    #[serde(default)]
    pub run_id: Option<u64>,
    #[serde(default)]
    pub run_attempt: Option<u32>,
    /// Its environment is protected. GitHub says `queued`, then `waiting`, and `queued` again once
    /// somebody has approved (RunsOn #539).
    #[serde(default)]
    pub gated: bool,
    /// How long it works; until it is finished through the control API without it.
    #[serde(default)]
    pub duration_ms: Option<Millis>,
    #[serde(default)]
    pub behaviour: JobBehaviour,
}

fn yes() -> bool {
    true
}

impl JobSpec {
    fn default_name() -> String {
        "build".to_owned()
    }

    fn default_workflow() -> String {
        "ci".to_owned()
    }
}

/// What a job does to its runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobBehaviour {
    /// `failure` for a job that fails; `success` without it.
    pub conclusion: Option<String>,
    /// The runner process exits without a word this long after the work began.
    pub runner_crashes_after_ms: Option<Millis>,
    /// The machine hangs this long after the work began.
    pub machine_dies_after_ms: Option<Millis>,
}

/// The numbers that a new job gets.
#[derive(Clone, Copy, Debug)]
pub struct JobNumbers {
    pub job: u64,
    pub run: u64,
    /// Its repository's, if this is the first job of it.
    pub repository: u64,
}

/// GitHub's words for where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    Queued,
    /// For somebody's approval of its deployment.
    Waiting,
    InProgress,
    Completed,
}

impl JobStatus {
    /// The word GitHub uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Waiting => "waiting",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// The runner a job went to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobRunner {
    pub id: u64,
    pub name: String,
    pub group_id: u64,
    pub machine: Option<Arc<str>>,
}

/// One job. A copy is cheap: what a job was like at some time is a copy of it.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    pub id: u64,
    pub run_id: u64,
    pub run_attempt: u32,
    pub repository: Arc<Repository>,
    pub spec: Arc<JobSpec>,
    pub status: JobStatus,
    pub conclusion: Option<Arc<str>>,
    pub queued_at: Millis,
    /// When somebody approved it.
    pub approved_at: Option<Millis>,
    /// When it was handed to a runner.
    pub started_at: Option<Millis>,
    /// When its first step began, after the runner's job-started hook.
    pub began_at: Option<Millis>,
    pub completed_at: Option<Millis>,
    pub runner: Option<Arc<JobRunner>>,
    /// The runner's own hook refused it.
    pub refused: bool,
    /// Its machine lost its power while it ran.
    pub killed: bool,
    /// Offered to a runner that has not picked it up yet.
    pub(super) offered: bool,
    /// How the work is to end or has ended; the runner reports it.
    pub(super) over: Option<Arc<str>>,
}

impl Job {
    /// A job that was just queued. `run`: its run and attempt.
    pub(super) const fn queued(
        id: u64,
        run: (u64, u32),
        repository: Arc<Repository>,
        spec: Arc<JobSpec>,
        now: Millis,
    ) -> Self {
        let (run_id, run_attempt) = run;
        Self {
            id,
            run_id,
            run_attempt,
            repository,
            spec,
            status: JobStatus::Queued,
            conclusion: None,
            queued_at: now,
            approved_at: None,
            started_at: None,
            began_at: None,
            completed_at: None,
            runner: None,
            refused: false,
            killed: false,
            offered: false,
            over: None,
        }
    }

    /// How its work ends, once that is known; the runner has yet to report it.
    #[must_use]
    pub fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// The work is over; the runner has not reported it yet.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.over.is_some()
    }
}

/// A machine lost its power while a job ran on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kill {
    pub job: u64,
    pub runner: String,
    pub machine: Option<Arc<str>>,
    pub at: Millis,
    /// What took the power.
    pub cause: String,
    /// Whether the job's first step had begun: work was lost.
    pub begun: bool,
}

impl GitHub {
    /// A workflow queues a job.
    pub fn queue_job(
        &mut self,
        spec: Arc<JobSpec>,
        numbers: JobNumbers,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let repository = self.repository_of(&spec, numbers.repository)?;
        let run = (numbers.run, spec.run_attempt.unwrap_or(1));
        let job = Job::queued(numbers.job, run, repository, spec, now);
        self.news.push(News::Webhook(job.clone()));
        self.queued.push(job.id);
        self.jobs.insert(job.id, job);
        Ok(())
    }

    /// The repository that a job says it is of, as that job shows it.
    fn repository_of(&mut self, of: &JobSpec, fresh: u64) -> Result<Arc<Repository>, GitHubError> {
        let owner = self.owner(&of.owner).ok_or_else(|| {
            GitHubError::new(404, format!("no owner '{}' is registered", of.owner))
        })?;
        let login = owner.spec.owner.clone();
        let key = format!("{login}/{}", of.repo).to_ascii_lowercase();
        let repository = self.repositories.entry(key).or_insert_with(|| {
            let (name, private) = (of.repo.clone(), of.private);
            Arc::new(Repository { id: fresh, owner: login, name, private })
        });
        if repository.private != of.private {
            Arc::make_mut(repository).private = of.private;
        }
        Ok(Arc::clone(repository))
    }

    /// GitHub finds that somebody must approve the deployment of a queued job.
    pub fn gate_job(&mut self, id: u64) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        if job.status != JobStatus::Queued {
            return Err(GitHubError::new(409, "the job is not queued"));
        }
        job.status = JobStatus::Waiting;
        self.news.push(News::Webhook(job.clone()));
        self.queued.retain(|other| *other != id);
        Ok(())
    }

    /// Somebody approves a job's deployment. Its times stay those of its creation.
    pub fn approve_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        let job = self.gated(id)?;
        job.status = JobStatus::Queued;
        job.approved_at = Some(now);
        let job = job.clone();
        self.news.push(News::Webhook(job));
        self.queued.push(id);
        Ok(())
    }

    /// Somebody rejects a job's deployment: it ends without a runner.
    pub fn reject_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        self.gated(id)?;
        self.complete(id, "failure", now);
        Ok(())
    }

    fn gated(&mut self, id: u64) -> Result<&mut Job, GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        if job.status != JobStatus::Waiting {
            return Err(GitHubError::new(409, "the job waits for no approval"));
        }
        Ok(job)
    }

    /// Ends the work of a held job; a queued one keeps the conclusion until it has begun.
    pub fn finish_job(&mut self, id: u64, conclusion: &str) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        if job.status == JobStatus::Completed {
            return Err(GitHubError::new(409, "the job is completed"));
        }
        job.over = Some(conclusion.into());
        Ok(())
    }

    /// Cancels a job: at once while no runner has it, through its runner once it runs.
    ///
    /// People cancel runs, so its run is a cancelled one from then on.
    pub fn cancel_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        let job = self.jobs.get(&id).ok_or_else(GitHubError::not_found)?;
        if job.status != JobStatus::Completed {
            self.cancelled_runs.insert((job.run_id, job.run_attempt));
        }
        self.cancel(id, now)
    }

    pub(super) fn cancel(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        let is_offered = job.offered;
        match job.status {
            JobStatus::Completed => return Err(GitHubError::new(409, "the job is completed")),
            JobStatus::InProgress => job.over = Some("cancelled".into()),
            JobStatus::Queued | JobStatus::Waiting => {
                if is_offered {
                    self.withdraw(id);
                }
                self.complete(id, "cancelled", now);
            }
        }
        Ok(())
    }

    /// The work of a job has lasted as long as it takes.
    pub fn work_over(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let conclusion = job.spec.behaviour.conclusion.as_deref().unwrap_or("success");
            job.over.get_or_insert_with(|| conclusion.into());
        }
    }

    /// The end of a job, told to the world.
    pub(super) fn complete(&mut self, id: u64, conclusion: &str, now: Millis) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.status == JobStatus::Completed {
            return;
        }
        job.status = JobStatus::Completed;
        job.conclusion = Some(conclusion.into());
        job.completed_at = Some(now);
        job.offered = false;
        self.news.push(News::Webhook(job.clone()));
        self.queued.retain(|other| *other != id);
        if conclusion == "failure" {
            self.fail_fast(id, now);
        }
    }

    /// GitHub gives up on the runner of a job: the job fails. The registration stays, offline,
    /// unless [`Self::removes_lost_runners`].
    pub fn give_up(&mut self, id: u64, now: Millis) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(runner) = job.runner.as_ref().map(|runner| runner.id) else { return };
        if job.status != JobStatus::InProgress {
            return;
        }
        if let Some(session) = self.sessions.get_mut(&runner).filter(|s| s.job == Some(id)) {
            session.job = None;
        }
        if self.removes_lost_runners {
            self.remove_runner(runner, "lost", now);
        }
        self.complete(id, "failure", now);
    }
}
