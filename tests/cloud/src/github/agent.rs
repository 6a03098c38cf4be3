//! The side of GitHub that a runner process talks to.

use serde::Serialize;

use super::{Assignment, GitHub, GitHubError, Job, JobBehaviour, JobStatus, Runner, Scope};
use crate::{
    Millis,
    agenda::{Clockwork, Due},
    scramble,
};

/// The connection of one runner process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Session {
    pub id: String,
    pub runner_id: u64,
    pub runner_name: String,
    pub machine: Option<String>,
    pub connected_at: Millis,
    pub last_seen: Millis,
    /// The process exists. GitHub learns that it does not by silence.
    pub alive: bool,
    /// It ended its connection properly.
    pub left: bool,
    /// It waits for a job.
    pub listening: bool,
    /// Its registration was removed.
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
    pub behaviour: JobBehaviour,
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

impl GitHub {
    /// A runner process presents the secret of its JIT config. Good for one process.
    pub(crate) fn connect(
        &mut self,
        clockwork: &mut Clockwork,
        secret: &str,
        machine: Option<&str>,
        now: Millis,
    ) -> Result<String, GitHubError> {
        let runner = self.runners.values_mut().find(|runner| runner.secret == secret);
        let Some(runner) = runner else {
            return Err(GitHubError::new(401, "the registration of this runner does not exist"));
        };
        if runner.session.is_some() {
            return Err(GitHubError::new(409, "a session for this runner already exists"));
        }
        let id = clockwork.ids.uuid();
        runner.session = Some(id.clone());
        let session = Session {
            id: id.clone(),
            runner_id: runner.id,
            runner_name: runner.name.clone(),
            machine: machine.map(str::to_owned),
            connected_at: now,
            last_seen: now,
            alive: true,
            left: false,
            listening: false,
            deregistered: false,
            offered: None,
            job: None,
        };
        self.sessions.insert(id.clone(), session);
        Ok(id)
    }

    /// A runner asks for work. The first answer that carries a job starts it.
    pub(crate) fn listen(
        &mut self,
        clockwork: &mut Clockwork,
        session: &str,
        now: Millis,
    ) -> Result<Message, GitHubError> {
        let known = self.session_mut(session)?;
        known.last_seen = now;
        if known.deregistered {
            return Ok(Message::Deregistered);
        }
        known.listening = known.job.is_none();
        self.dispatch();
        let known = self.session_mut(session)?;
        let Some(id) = known.offered.take() else { return Ok(Message::Nothing) };
        known.listening = false;
        known.job = Some(id);
        Ok(Message::Job(self.hand_over(clockwork, session, id, now)?))
    }

    /// Whether `listen` would answer with more than [`Message::Nothing`].
    #[must_use]
    pub fn has_message(&self, session: &str) -> bool {
        let session = self.sessions.get(session);
        session.is_none_or(|s| !s.alive || s.deregistered || s.offered.is_some())
    }

    fn hand_over(
        &mut self,
        clockwork: &mut Clockwork,
        session: &str,
        id: u64,
        now: Millis,
    ) -> Result<JobOffer, GitHubError> {
        let session = self.sessions.get(session).ok_or_else(GitHubError::not_found)?.clone();
        let group_id = self.runners.get(&session.runner_id).map_or(1, |runner| runner.group_id);
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        job.offered = false;
        job.status = JobStatus::InProgress;
        job.started_at = Some(now);
        job.runner = Some(super::jobs::JobRunner {
            id: session.runner_id,
            name: session.runner_name,
            group_id,
            session: session.id,
            machine: session.machine,
        });
        let offer = JobOffer {
            id,
            name: job.spec.name.clone(),
            workflow: job.spec.workflow.clone(),
            run_id: job.run_id,
            run_attempt: job.run_attempt,
            repository: format!("{}/{}", job.repository.owner, job.repository.name),
            behaviour: job.spec.behaviour.clone(),
        };
        self.tell(clockwork, id, "in_progress", now);
        Ok(offer)
    }

    /// The job-started hook passed; the first step begins.
    pub(crate) fn job_began(
        &mut self,
        clockwork: &mut Clockwork,
        session: &str,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let machine = self.holder(session, id, now)?.machine.clone();
        let job = self.jobs.get_mut(&id).ok_or_else(GitHubError::not_found)?;
        job.began_at = Some(now);
        if let Some(duration) = job.spec.duration_ms {
            clockwork.at(now + duration, Due::WorkOver(id));
        }
        if let (Some(after), Some(machine)) = (job.spec.behaviour.machine_dies_after_ms, machine) {
            clockwork.at(now + after, Due::Death(machine));
        }
        Ok(())
    }

    /// Whether the work is over, and how it ended.
    pub(crate) fn job_over(
        &mut self,
        session: &str,
        id: u64,
        now: Millis,
    ) -> Result<Option<String>, GitHubError> {
        self.holder(session, id, now)?;
        Ok(self.jobs.get(&id).and_then(|job| job.over.clone()))
    }

    /// The runner reports the end of its job; being ephemeral, it is deregistered with it.
    pub(crate) fn job_done(
        &mut self,
        clockwork: &mut Clockwork,
        session: &str,
        id: u64,
        conclusion: &str,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let holder = self.holder(session, id, now)?;
        holder.job = None;
        let runner = holder.runner_id;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.refused = job.began_at.is_none() && conclusion != "cancelled";
        }
        self.complete(clockwork, id, conclusion, now);
        self.remove_runner(runner, "done", now);
        Ok(())
    }

    /// The process ends its connection properly.
    pub(crate) fn disconnect(&mut self, session: &str) -> Result<(), GitHubError> {
        let session = self.session_mut(session)?;
        session.alive = false;
        session.left = true;
        session.listening = false;
        if let Some(job) = session.offered.take().and_then(|id| self.jobs.get_mut(&id)) {
            job.offered = false;
        }
        self.dispatch();
        Ok(())
    }

    fn session_mut(&mut self, session: &str) -> Result<&mut Session, GitHubError> {
        let session = self.sessions.get_mut(session).filter(|session| session.alive);
        session.ok_or_else(|| GitHubError::new(410, "this session does not exist"))
    }

    fn holder(&mut self, session: &str, id: u64, now: Millis) -> Result<&mut Session, GitHubError> {
        let session = self.session_mut(session)?;
        session.last_seen = now;
        if session.job != Some(id) {
            return Err(GitHubError::new(409, "this runner does not run that job"));
        }
        Ok(session)
    }

    /// Offers queued jobs to runners that wait: oldest job first, to any runner that matches.
    pub(crate) fn dispatch(&mut self) {
        let queued: Vec<u64> = self
            .jobs
            .values()
            .filter(|job| job.status == JobStatus::Queued && !job.offered)
            .map(|job| job.id)
            .collect();
        for id in queued {
            let Some(session) = self.pick(id) else { continue };
            if let Some(session) = self.sessions.get_mut(&session) {
                session.offered = Some(id);
            }
            if let Some(job) = self.jobs.get_mut(&id) {
                job.offered = true;
            }
        }
    }

    fn pick(&self, id: u64) -> Option<String> {
        let job = self.jobs.get(&id)?;
        let mut fitting: Vec<(u64, &String)> = self
            .sessions
            .values()
            .filter(|s| s.alive && s.listening && s.job.is_none() && s.offered.is_none())
            .filter_map(|s| Some((self.runners.get(&s.runner_id)?, s)))
            .filter(|(runner, _)| self.serves(runner, job))
            .map(|(runner, session)| (runner.id, &session.id))
            .collect();
        fitting.sort_unstable();
        let index = match self.assignment {
            Assignment::Oldest => 0,
            Assignment::Newest => fitting.len().checked_sub(1)?,
            Assignment::Any => (scramble(id) % u64::try_from(fitting.len()).ok()?.max(1)) as usize,
        };
        fitting.get(index).map(|(_, session)| (*session).clone())
    }

    /// Whether GitHub would give this job to this runner.
    #[must_use]
    pub fn serves(&self, runner: &Runner, job: &Job) -> bool {
        let labelled = job
            .spec
            .labels
            .iter()
            .all(|wanted| runner.labels.iter().any(|label| label.eq_ignore_ascii_case(wanted)));
        let repository = &job.repository;
        let reachable = match &runner.scope {
            Scope::Repository { owner, name } => {
                owner.eq_ignore_ascii_case(&repository.owner)
                    && name.eq_ignore_ascii_case(&repository.name)
            }
            Scope::Organization(login) => login.eq_ignore_ascii_case(&repository.owner),
            Scope::Enterprise(slug) => self
                .owner(&repository.owner)
                .and_then(|owner| owner.spec.enterprise.as_deref())
                .is_some_and(|enterprise| enterprise.eq_ignore_ascii_case(slug)),
        };
        let in_repository = matches!(runner.scope, Scope::Repository { .. });
        let admitted = in_repository
            || repository.private
            || self
                .owner(runner.scope.owner())
                .and_then(|owner| owner.group(runner.group_id))
                .is_some_and(|group| group.public_repositories);
        labelled && reachable && admitted
    }
}
