//! Jobs: queued, handed out, worked on, finished, cancelled, killed.

use serde::{Deserialize, Serialize};

use super::{GitHub, GitHubError, Repository};
use crate::{
    Millis,
    agenda::{Clockwork, Due},
};

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
    pub fn name(self) -> &'static str {
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
    pub session: String,
    pub machine: Option<String>,
}

/// One job.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    pub id: u64,
    pub run_id: u64,
    pub run_attempt: u32,
    pub repository: Repository,
    pub spec: JobSpec,
    pub status: JobStatus,
    pub conclusion: Option<String>,
    pub queued_at: Millis,
    /// When somebody approved it.
    pub approved_at: Option<Millis>,
    /// When it was handed to a runner.
    pub started_at: Option<Millis>,
    /// When its first step began, after the runner's job-started hook.
    pub began_at: Option<Millis>,
    pub completed_at: Option<Millis>,
    pub runner: Option<JobRunner>,
    /// The runner's own hook refused it.
    pub refused: bool,
    /// Its machine lost its power while it ran.
    pub killed: bool,
    /// Offered to a runner that has not picked it up yet.
    pub(crate) offered: bool,
    /// How the work ended, once it has; the runner reports it.
    pub(crate) over: Option<String>,
}

impl Job {
    /// The work is over; the runner has not reported it yet.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }
}

/// A machine lost its power while a job ran on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kill {
    pub job: u64,
    pub runner: String,
    pub machine: String,
    pub at: Millis,
    /// What took the power.
    pub cause: String,
    /// Whether the job's first step had begun: work was lost.
    pub begun: bool,
}

impl GitHub {
    pub(crate) fn queue_job(
        &mut self,
        clockwork: &mut Clockwork,
        spec: &JobSpec,
        now: Millis,
    ) -> Result<u64, GitHubError> {
        let owner = self.owner(&spec.owner).ok_or_else(|| {
            GitHubError::new(404, format!("no owner '{}' is registered", spec.owner))
        })?;
        let login = owner.spec.owner.clone();
        let key = format!("{login}/{}", spec.repo).to_ascii_lowercase();
        let fresh = clockwork.ids.small();
        let repository = self.repositories.entry(key).or_insert_with(|| Repository {
            id: fresh,
            owner: login,
            name: spec.repo.clone(),
            private: spec.private,
        });
        repository.private = spec.private;
        let id = clockwork.ids.large();
        let job = Job {
            id,
            run_id: spec.run_id.unwrap_or_else(|| clockwork.ids.large()),
            run_attempt: spec.run_attempt.unwrap_or(1),
            repository: repository.clone(),
            spec: spec.clone(),
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
        };
        self.jobs.insert(id, job);
        self.tell(clockwork, id, "queued", now);
        if let Some(job) = self.jobs.get_mut(&id).filter(|job| job.spec.gated) {
            job.status = JobStatus::Waiting;
            self.tell(clockwork, id, "waiting", now);
        }
        self.dispatch();
        Ok(id)
    }

    /// Somebody approves a job's deployment. Its times stay those of its creation.
    pub(crate) fn approve_job(
        &mut self,
        clockwork: &mut Clockwork,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        if job.status != JobStatus::Waiting {
            return Err(GitHubError::new(409, "the job waits for no approval"));
        }
        job.status = JobStatus::Queued;
        job.approved_at = Some(now);
        self.tell(clockwork, id, "queued", now);
        self.dispatch();
        Ok(())
    }

    /// Ends the work of a held job; a queued one keeps the conclusion until it has begun.
    pub(crate) fn finish_job(&mut self, id: u64, conclusion: &str) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        if job.status == JobStatus::Completed {
            return Err(GitHubError::new(409, "the job is completed"));
        }
        job.over = Some(conclusion.to_owned());
        Ok(())
    }

    /// Cancels a job: at once while no runner has it, through its runner once it runs.
    pub(crate) fn cancel_job(
        &mut self,
        clockwork: &mut Clockwork,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        match job.status {
            JobStatus::Completed => Err(GitHubError::new(409, "the job is completed")),
            JobStatus::InProgress => {
                job.over = Some("cancelled".to_owned());
                Ok(())
            }
            JobStatus::Queued | JobStatus::Waiting => {
                for session in self.sessions.values_mut().filter(|s| s.offered == Some(id)) {
                    session.offered = None;
                }
                self.complete(clockwork, id, "cancelled", now);
                Ok(())
            }
        }
    }

    pub(crate) fn work_over(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let conclusion = job.spec.behaviour.conclusion.clone();
            job.over.get_or_insert(conclusion.unwrap_or_else(|| "success".to_owned()));
        }
    }

    /// The end of a job, told to the world.
    pub(crate) fn complete(
        &mut self,
        clockwork: &mut Clockwork,
        id: u64,
        conclusion: &str,
        now: Millis,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.status == JobStatus::Completed {
            return;
        }
        job.status = JobStatus::Completed;
        job.conclusion = Some(conclusion.to_owned());
        job.completed_at = Some(now);
        job.offered = false;
        self.tell(clockwork, id, "completed", now);
    }

    /// Everything that ran on a machine is gone. GitHub does not know yet.
    pub(crate) fn machine_lost_power(
        &mut self,
        clockwork: &mut Clockwork,
        machine: &str,
        cause: &str,
        now: Millis,
    ) {
        for session in self.sessions.values_mut() {
            if session.machine.as_deref() != Some(machine) || !session.alive {
                continue;
            }
            session.alive = false;
            session.listening = false;
            if let Some(job) = session.offered.take().and_then(|id| self.jobs.get_mut(&id)) {
                job.offered = false;
            }
            let Some(job) = session.job.and_then(|id| self.jobs.get_mut(&id)) else { continue };
            job.killed = true;
            self.kills.push(Kill {
                job: job.id,
                runner: session.runner_name.clone(),
                machine: machine.to_owned(),
                at: now,
                cause: cause.to_owned(),
                begun: job.began_at.is_some(),
            });
            let late = now + clockwork.timings.lost_communication_ms;
            clockwork.at(late, Due::LostCommunication(job.id));
        }
        self.dispatch();
    }

    /// GitHub gives up on a runner: its job fails, its registration stays (offline).
    pub(crate) fn lost_communication(&mut self, clockwork: &mut Clockwork, id: u64, now: Millis) {
        for session in self.sessions.values_mut().filter(|s| s.job == Some(id)) {
            session.job = None;
        }
        self.complete(clockwork, id, "failure", now);
    }
}
