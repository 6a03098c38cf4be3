//! The side of GitHub that a runner process talks to. A configuration is good for one process, so a
//! connection goes by the number of its registration.

use std::sync::Arc;

use serde::Serialize;

use super::jobs::JobRunner;
use super::{GitHub, GitHubError, Job, JobBehaviour, JobStatus, Kill, News, Runner, RunnerScope};
use crate::Millis;

/// The connection of one runner process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Session {
    pub runner_id: u64,
    pub runner_name: String,
    pub machine: Option<Arc<str>>,
    pub connected_at: Millis,
    pub last_seen: Millis,
    /// The process exists. GitHub learns that it does not by silence.
    pub alive: bool,
    /// It ended its connection properly.
    pub left: bool,
    /// It is told, when it asks next, that its registration was removed.
    pub deregistered: bool,
    /// A job it will get when it asks next.
    pub offered: Option<u64>,
    /// The job it runs, as far as GitHub knows.
    pub job: Option<u64>,
}

/// A job as a runner gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOffer {
    pub id: u64,
    pub name: String,
    pub workflow: String,
    pub run_id: u64,
    pub run_attempt: u32,
    pub repository: String,
    pub private: bool,
    pub behaviour: JobBehaviour,
}

impl From<&Job> for JobOffer {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id,
            name: job.spec.name.clone(),
            workflow: job.spec.workflow.clone(),
            run_id: job.run_id,
            run_attempt: job.run_attempt,
            repository: format!("{}/{}", job.repository.owner, job.repository.name),
            private: job.repository.private,
            behaviour: job.spec.behaviour.clone(),
        }
    }
}

/// The answer to a runner that asks for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Job(JobOffer),
    /// Nothing now: ask again.
    Nothing,
    /// The registration is gone: the process should exit.
    Deregistered,
}

/// The life of a connection.
impl GitHub {
    /// A runner process presents its configuration. Good for one process.
    pub fn connect(
        &mut self,
        runner: u64,
        machine: Option<&str>,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let Some(known) = self.runners.get(&runner) else {
            return Err(GitHubError::new(401, "the registration of this runner does not exist"));
        };
        if self.sessions.contains_key(&runner) {
            return Err(GitHubError::new(409, "a session for this runner already exists"));
        }
        let session = Session {
            runner_id: runner,
            runner_name: known.name.clone(),
            machine: machine.map(Arc::from),
            connected_at: now,
            last_seen: now,
            alive: true,
            left: false,
            deregistered: false,
            offered: None,
            job: None,
        };
        self.sessions.insert(runner, session);
        Ok(())
    }

    /// The process asks for work, and waits for it from here on.
    pub fn await_job(&mut self, runner: u64, now: Millis) -> Result<(), GitHubError> {
        let session = self.session_mut(runner)?;
        session.last_seen = now;
        let free = session.job.is_none() && session.offered.is_none();
        if free && self.runners.contains_key(&runner) && !self.idle.contains(&runner) {
            self.idle.push(runner);
        }
        Ok(())
    }

    /// What a process that asks for work is answered. An answer that carries a job starts it.
    pub fn answer(&mut self, runner: u64, now: Millis) -> Result<Message, GitHubError> {
        let session = self.session_mut(runner)?;
        if session.deregistered {
            return Ok(Message::Deregistered);
        }
        let Some(job) = session.offered.take() else { return Ok(Message::Nothing) };
        self.assign(job, runner, now)?;
        let job = self.jobs.get(&job).ok_or_else(GitHubError::not_found)?;
        Ok(Message::Job(JobOffer::from(job)))
    }

    /// Whether a process that asks for work would be answered with more than [`Message::Nothing`].
    /// Sessions are written as the wire writes them.
    #[must_use]
    pub fn has_message(&self, session: &str) -> bool {
        let session = session.parse().ok().and_then(|runner| self.sessions.get(&runner));
        session.is_none_or(|s| !s.alive || s.deregistered || s.offered.is_some())
    }

    /// The job-started hook passed; the first step begins.
    pub fn job_began(&mut self, runner: u64, id: u64, now: Millis) -> Result<(), GitHubError> {
        let machine = self.holder(runner, id, now)?.machine.clone();
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        job.began_at = Some(now);
        if let Some(lasts) = job.spec.duration_ms {
            self.news.push(News::Works { job: id, lasts });
        }
        if let (Some(after), Some(machine)) = (job.spec.behaviour.machine_dies_after_ms, machine) {
            self.news.push(News::Dies { machine, after });
        }
        Ok(())
    }

    /// Whether the work is over, and how it ended.
    pub fn job_over(
        &mut self,
        runner: u64,
        id: u64,
        now: Millis,
    ) -> Result<Option<Arc<str>>, GitHubError> {
        self.holder(runner, id, now)?;
        Ok(self.jobs.get(&id).and_then(|job| job.over.clone()))
    }

    /// The runner reports the end of its job; being ephemeral, it is deregistered with it.
    pub fn job_done(
        &mut self,
        runner: u64,
        id: u64,
        conclusion: &str,
        now: Millis,
    ) -> Result<(), GitHubError> {
        self.holder(runner, id, now)?.job = None;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.refused = job.began_at.is_none() && conclusion != "cancelled";
        }
        self.complete(id, conclusion, now);
        self.remove_runner(runner, "done", now);
        Ok(())
    }

    /// The process ends its connection properly.
    pub fn disconnect(&mut self, runner: u64) -> Result<(), GitHubError> {
        let session = self.session_mut(runner)?;
        session.alive = false;
        session.left = true;
        self.stop_waiting(runner);
        Ok(())
    }

    /// Every process on a machine is gone. GitHub does not know yet.
    pub fn machine_lost_power(&mut self, machine: &str, cause: &str, now: Millis) {
        let there = self.sessions.values().filter(|s| s.machine.as_deref() == Some(machine));
        let runners: Vec<u64> = there.map(|session| session.runner_id).collect();
        for runner in runners {
            self.agent_lost(runner, cause, now);
        }
    }

    /// A process is gone without a word. GitHub does not know yet.
    pub fn agent_lost(&mut self, runner: u64, cause: &str, now: Millis) {
        let Ok(session) = self.session_mut(runner) else { return };
        session.alive = false;
        let (job, machine) = (session.job, session.machine.clone());
        let name = job.map(|_| session.runner_name.clone());
        self.stop_waiting(runner);
        let Some(job) = job.and_then(|id| self.jobs.get_mut(&id)) else { return };
        job.killed = true;
        self.kills.push(Kill {
            job: job.id,
            runner: name.unwrap_or_default(),
            machine,
            at: now,
            cause: cause.to_owned(),
            begun: job.began_at.is_some(),
        });
        self.news.push(News::Silent(job.id));
    }

    /// GitHub has not noticed yet that the process of an idle runner is gone: it goes on offering
    /// jobs to it. Answers whether there is such a runner.
    pub fn go_on_offering(&mut self, runner: u64) -> bool {
        let session = self.sessions.get(&runner).filter(|one| !one.alive && one.job.is_none());
        let registered = session.is_some() && self.runners.contains_key(&runner);
        if registered && !self.idle.contains(&runner) {
            self.idle.push(runner);
        }
        registered
    }

    /// Now it has. A job that was offered meanwhile lapses by itself ([`Self::forget_runner`]).
    pub fn notice_end(&mut self, runner: u64) {
        self.idle.retain(|other| *other != runner);
    }

    /// The process of a registration, if one ever came.
    #[must_use]
    pub fn session(&self, runner: u64) -> Option<&Session> {
        self.sessions.get(&runner)
    }

    fn session_mut(&mut self, runner: u64) -> Result<&mut Session, GitHubError> {
        let session = self.sessions.get_mut(&runner).filter(|session| session.alive);
        session.ok_or_else(|| GitHubError::new(410, "this session does not exist"))
    }

    fn holder(&mut self, runner: u64, id: u64, now: Millis) -> Result<&mut Session, GitHubError> {
        let session = self.session_mut(runner)?;
        session.last_seen = now;
        if session.job != Some(id) {
            return Err(GitHubError::new(409, "this runner does not run that job"));
        }
        Ok(session)
    }
}

/// Who gets which job. To whom one goes of those that it may go to is the driver's choice.
impl GitHub {
    /// Jobs that need a runner, in the order in which they came to do so.
    #[must_use]
    pub fn queued(&self) -> &[u64] {
        &self.queued
    }

    /// Runners that wait for a job, in the order in which they came to do so.
    #[must_use]
    pub fn idle(&self) -> &[u64] {
        &self.idle
    }

    /// The pairs of a queued job and a waiting runner that fit each other.
    #[must_use]
    pub fn candidates(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for job in self.queued.iter().filter_map(|id| self.jobs.get(id)).filter(|j| !j.offered) {
            for runner in self.idle.iter().filter_map(|id| self.runners.get(id)) {
                if self.serves(runner, job) {
                    pairs.push((job.id, runner.id));
                }
            }
        }
        pairs
    }

    /// A waiting runner gets a job when it asks next.
    pub fn offer(&mut self, job: u64, runner: u64) {
        let (Some(known), Some(session)) =
            (self.jobs.get_mut(&job), self.sessions.get_mut(&runner))
        else {
            return;
        };
        known.offered = true;
        session.offered = Some(job);
        self.idle.retain(|other| *other != runner);
    }

    /// An offer is void: its runner goes on waiting.
    pub(super) fn withdraw(&mut self, job: u64) {
        for session in self.sessions.values_mut().filter(|s| s.offered == Some(job)) {
            session.offered = None;
            self.idle.push(session.runner_id);
        }
    }

    /// A runner waits no longer. A job that was offered to it is there for others.
    pub(super) fn stop_waiting(&mut self, runner: u64) {
        self.idle.retain(|other| *other != runner);
        let Some(session) = self.sessions.get_mut(&runner) else { return };
        if let Some(job) = session.offered.take().and_then(|id| self.jobs.get_mut(&id)) {
            job.offered = false;
        }
    }

    /// A runner that is connected takes a queued job.
    pub fn assign(&mut self, job: u64, runner: u64, now: Millis) -> Result<(), GitHubError> {
        let group_id = self.runners.get(&runner).map_or(1, |runner| runner.group_id);
        let taken = self.jobs.get_mut(&job).filter(|job| job.status == JobStatus::Queued);
        let taken = taken.ok_or_else(|| GitHubError::new(409, "the job is not queued"))?;
        let session = self.sessions.get_mut(&runner).filter(|session| session.alive);
        let session = session.ok_or_else(GitHubError::not_found)?;
        session.job = Some(job);
        taken.offered = false;
        taken.status = JobStatus::InProgress;
        taken.started_at = Some(now);
        taken.runner = Some(Arc::new(JobRunner {
            id: runner,
            name: session.runner_name.clone(),
            group_id,
            machine: session.machine.clone(),
        }));
        self.news.push(News::Webhook(taken.clone()));
        self.idle.retain(|other| *other != runner);
        self.queued.retain(|other| *other != job);
        Ok(())
    }

    /// Whether GitHub would give this job to this runner. A job without labels asks for a runner of
    /// GitHub's own.
    #[must_use]
    pub fn serves(&self, runner: &Runner, job: &Job) -> bool {
        let wanted = &job.spec.labels;
        let carries =
            |wanted: &String| runner.labels.iter().any(|l| l.eq_ignore_ascii_case(wanted));
        !runner.barred
            && !wanted.is_empty()
            && wanted.iter().all(carries)
            && self.reaches(&runner.scope, job)
            && self.admits(runner, job)
    }

    /// Whether the job's repository is one of those that share a scope's runners.
    fn reaches(&self, scope: &RunnerScope, job: &Job) -> bool {
        let repository = &job.repository;
        match scope {
            RunnerScope::Repository { owner, name } => {
                owner.eq_ignore_ascii_case(&repository.owner)
                    && name.eq_ignore_ascii_case(&repository.name)
            }
            RunnerScope::Organization(login) => login.eq_ignore_ascii_case(&repository.owner),
            RunnerScope::Enterprise(slug) => self
                .owner(&repository.owner)
                .and_then(|owner| owner.spec.enterprise.as_deref())
                .is_some_and(|enterprise| enterprise.eq_ignore_ascii_case(slug)),
        }
    }

    /// Whether the runner's group lets in the job's repository.
    fn admits(&self, runner: &Runner, job: &Job) -> bool {
        let in_repository = matches!(runner.scope, RunnerScope::Repository { .. });
        in_repository
            || job.repository.private
            || self
                .owner(runner.scope.owner())
                .and_then(|owner| owner.group(runner.group_id))
                .is_some_and(|group| group.public_repositories)
    }
}
