//! Changes of an instance's runner side: configuration, reports of the machine, GitHub's events.

use super::record::{DeleteMark, ErrorDetail, Exit, JobTitle, Runner, StartedJob};
use super::state::RunnerState;
use super::{Instance, State};
use crate::agent::{AgentInUse, AgentOffer, AgentVersion, TOO_OLD};
use crate::ids::{JobKey, RunnerId};
use crate::pool::{Mismatch, Pool};
use crate::text::first;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// How often a machine asks before GitHub's refusal is believed. What was made a moment ago, a
/// repository or a runner group, is not known everywhere at GitHub yet: three times, 15 seconds
/// apart, give it half a minute.
const REFUSAL_BELIEVED: u32 = 3;

/// How old GitHub's `completed` must be until it counts without a word of the machine. Alone it
/// proves nothing (actions/runner #4492), and a machine that works tells its job's end in seconds.
/// GitHub itself takes no result of that job any more.
const BELIEVED_AFTER: Seconds = Seconds(3600);

/// Why a machine's request is refused. Each means that the machine must shut down or fail the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReportError {
    /// The instance is marked for delete or on its way out.
    #[error("this runner is being deleted")]
    Draining,
    /// The runner was configured and has started: a second agent must not come up.
    #[error("this machine's runner has started already")]
    AlreadyStarted,
    /// The runner's agent has ended.
    #[error("this machine's runner has ended already")]
    Ended,
    /// The report is of an earlier registration.
    #[error("the report is of another registration")]
    OtherRegistration,
    /// GitHub gave it a job that its pool does not serve.
    #[error("this runner's pool does not serve the job's repository")]
    ForeignJob,
}

/// What a job's start is answered, unless it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Start {
    /// It stands on record: the job may start.
    Accepted,
    /// GitHub is asked to remove the runner and has not answered. It keeps a runner with a job
    /// (422), and removes one without (204): its answer decides, and the hook asks again.
    Undecided,
    /// Its pool does not serve the repository: the runner ends without having run the job.
    Foreign,
}

/// What the job-started hook tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartReport {
    /// `owner/repo`.
    pub repository: String,
    /// Whether it is private; none where the hook did not find out.
    pub private: Option<bool>,
    /// The workflow run.
    pub run: u64,
    /// The job's name.
    pub name: String,
}

impl StartReport {
    /// Longest name of a repository and of a job that is kept, characters. GitHub's own are shorter.
    const MAX_NAME: usize = 200;

    /// A report as a machine sends it: no longer than a record can hold.
    #[must_use]
    pub fn new(repository: &str, private: Option<bool>, run: u64, name: &str) -> Self {
        let short = |text| first(text, Self::MAX_NAME).to_owned();
        Self { repository: short(repository), private, run, name: short(name) }
    }
}

impl Runner {
    /// A job was seen on it, by its hook or by GitHub's event, whether it has ended or not.
    #[must_use]
    pub const fn has_taken_job(&self) -> bool {
        self.started.is_some() || self.github_job.is_some() || self.github_completed_at.is_some()
    }

    /// No configuration has reached the machine: one is handed out only after its registration is
    /// on record, and no call is out. So no job can run there, whatever GitHub shows.
    #[must_use]
    pub const fn is_without_configuration(&self) -> bool {
        self.id.is_none() && self.asking_since.is_none()
    }

    /// A job runs on it: the hook reported a start without an end, or GitHub a job in progress.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.exit.is_none()
            && (self.started.as_ref().is_some_and(StartedJob::is_under_way)
                || self.github_job.is_some())
    }

    /// Since when GitHub has called the job over that runs here as far as the machine has told, and
    /// from when on GitHub's word alone counts.
    #[must_use]
    pub fn called_over(&self) -> Option<(Time, Time)> {
        let job = self.started.as_ref().filter(|job| job.is_under_way() && self.exit.is_none())?;
        let over = self.github_completed_at?;
        Some((over, over.max(job.at) + BELIEVED_AFTER))
    }

    fn move_to(&mut self, state: RunnerState, now: Time) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }
}

impl Instance {
    /// Counts a configuration call before it is made. Its answer may be lost: the next call has
    /// another name, since GitHub refuses a name that is taken (409). Returns the registration to
    /// remove, if the one before is known.
    ///
    /// # Errors
    /// When no configuration may be handed out.
    pub fn ask_configuration(&mut self, now: Time) -> Result<Option<RunnerId>, ReportError> {
        if self.mark.is_some() || !matches!(self.state, State::Creating | State::Running) {
            return Err(ReportError::Draining);
        }
        match self.runner.state {
            RunnerState::Pending | RunnerState::Installing if !self.runner.has_taken_job() => {}
            RunnerState::Failed | RunnerState::Terminated => return Err(ReportError::Ended),
            RunnerState::Pending
            | RunnerState::Installing
            | RunnerState::Idle
            | RunnerState::Active => return Err(ReportError::AlreadyStarted),
        }
        let earlier = self.runner.id.take();
        self.runner.n += 1;
        self.runner.asking_since = Some(now);
        self.tell(now, format!("configuration {} asked of GitHub", self.runner.n));
        Ok(earlier)
    }

    /// Whether a request for a configuration was held up, and the machine has asked again
    /// meanwhile: it waits for this one no more, and may run what the later one was answered.
    /// `begun`: when the request came.
    #[must_use]
    pub fn is_overtaken(&self, begun: Time) -> bool {
        let Runner { asking_since, id, state, since, .. } = &self.runner;
        let answered = id.is_some() && *state == RunnerState::Installing;
        asking_since.is_some_and(|asked| begun < asked) || (answered && begun < *since)
    }

    /// GitHub answered the configuration call that was made at `now`.
    pub fn configured(&mut self, id: RunnerId, now: Time) {
        self.runner.id = Some(id);
        self.runner.asking_since = None;
        self.unregistered = None;
        self.runner.state = RunnerState::Installing;
        // Also when it is not the first answer.
        self.runner.since = now;
        self.phases.registers(now);
        let name = self.runner_name();
        self.tell(now, format!("registered as {name} (runner {id})"));
    }

    /// What its machine runs: its image's own agent, or what it takes in that one's place.
    pub fn runs_agent(
        &mut self,
        own: Option<AgentVersion>,
        offer: Option<&AgentOffer>,
        newest: Option<AgentVersion>,
        now: Time,
    ) {
        let version = match offer {
            None => own,
            Some(AgentOffer::Download(download)) => Some(download.version),
            Some(AgentOffer::Newest) => None,
        };
        let is_newest = |version| newest.is_some_and(|newest| version >= newest);
        self.runner.agent =
            version.map(|version| AgentInUse { version, is_newest: is_newest(version) });
        if let (Some(own), Some(_)) = (own, offer) {
            let next = version.map_or_else(|| "the newest".to_owned(), |one| one.to_string());
            self.tell(now, format!("its image's agent {own} is too old: it takes {next}"));
        }
    }

    /// What it means that its agent ended because GitHub called it too old, if it did. After a job
    /// the report may be the job's own, and says nothing.
    pub(super) fn refused_agent(&self) -> Option<String> {
        let Runner { exit, agent, .. } = &self.runner;
        let is_refused = exit.as_ref().is_some_and(|exit| exit.code == Some(TOO_OLD))
            && !self.runner.has_taken_job();
        let told = || {
            agent.map_or_else(|| "GitHub called its agent too old".to_owned(), AgentInUse::refused)
        };
        is_refused.then(told)
    }

    /// The agent that GitHub has just called too old, where another may serve: `next` is the record
    /// after this one.
    #[must_use]
    pub fn agent_refused_by(&self, next: &Self) -> Option<AgentVersion> {
        let is_news = self.runner.exit.is_none() && next.refused_agent().is_some();
        next.runner.agent.filter(|agent| is_news && !agent.is_newest).map(|agent| agent.version)
    }

    /// GitHub has called the newest agent too old: there is none that would serve.
    #[must_use]
    pub(crate) fn no_agent_serves(&self) -> bool {
        self.refused_agent().is_some() && self.runner.agent.is_some_and(|agent| agent.is_newest)
    }

    /// GitHub has no registration for the last configuration call: it never happened.
    pub fn not_configured(&mut self, now: Time) {
        self.runner.asking_since = None;
        self.tell(now, "GitHub has no such registration".to_owned());
    }

    /// GitHub refused the last configuration call as wrong (400, 404, 422), so it made no
    /// registration. True when the machine need not ask again: its runner has ended then.
    pub fn configuration_refused(
        &mut self,
        fault: ErrorDetail,
        now: Time,
        timings: &Timings,
    ) -> bool {
        self.runner.asking_since = None;
        self.registration_failed(&fault);
        self.tell(now, format!("GitHub refused the configuration: {}", fault.message));
        let is_believed = self.runner.n >= REFUSAL_BELIEVED;
        if is_believed {
            self.runner_ended(None, None, now, timings);
            if let Some(exit) = &mut self.runner.exit {
                exit.refused.get_or_insert(fault);
            }
        }
        is_believed
    }

    /// The agent reports that it runs. Said again it changes nothing: a job could say it all day,
    /// and each write would make the pass that ends its machine begin anew.
    ///
    /// # Errors
    /// When the report is of an earlier registration.
    pub fn runner_started(
        &mut self,
        name: &str,
        now: Time,
        timings: &Timings,
    ) -> Result<(), ReportError> {
        self.expect_registration(name)?;
        if self.runner.state <= RunnerState::Installing {
            self.runner.move_to(RunnerState::Idle, now);
            self.phases.starts(now);
            self.set_due_by(now + timings.claim_idle_seconds);
            self.tell(now, "runner started".to_owned());
        }
        Ok(())
    }

    /// **The compare-and-set before every job's first step.** While it stands on record, nothing
    /// but an order to kill ends the machine. A mark of our own, for which evidence is still being
    /// gathered, is taken back, and a delete of our own that has yet to ask GitHub waits for the
    /// job's end. One that has asked leaves it to GitHub. Otherwise the start is refused, so that
    /// the job fails in its set-up and no work is lost.
    ///
    /// A job that the pool does not serve is refused as well. The hook ends the agent then, and that
    /// end is put on record here: the claim is given back at once, and no later start is accepted.
    ///
    /// # Errors
    /// When the delete came first.
    pub fn job_started(
        &mut self,
        name: &str,
        report: StartReport,
        pool: &Pool,
        now: Time,
        timings: &Timings,
    ) -> Result<Start, ReportError> {
        self.expect_registration(name)?;
        if self.refuses_jobs() {
            return Err(ReportError::Draining);
        }
        if let Some(exit) = &self.runner.exit {
            // Its answer may have been lost.
            return if exit.foreign.is_some() {
                Ok(Start::Foreign)
            } else {
                Err(ReportError::Ended)
            };
        }
        if self.is_undecided() {
            return Ok(Start::Undecided);
        }
        if self.runner.started.is_none() {
            if let Err(why) = self.admits(&report, pool) {
                self.refuse_foreign(&report, &why, now, timings);
                return Ok(Start::Foreign);
            }
            let what = format!("job {:?} of {} started", report.name, report.repository);
            self.runner.started = Some(StartedJob {
                at: now,
                repository: report.repository,
                run: report.run,
                name: report.name,
                completed_at: None,
                written_off_at: None,
            });
            // Only evidence was being gathered, and this is the strongest there is.
            if self.state == State::Running {
                self.clear_mark(now, "a job starts");
            }
            self.runner.move_to(RunnerState::Active, now);
            self.tell(now, what);
        }
        Ok(Start::Accepted)
    }

    /// A pool may have another entity by now: what counts is where this runner is registered.
    fn admits(&self, report: &StartReport, pool: &Pool) -> Result<(), Mismatch> {
        if !self.entity.covers(&report.repository) {
            return Err(Mismatch::Entity(self.entity.clone()));
        }
        pool.admits(&report.repository, report.private)
    }

    fn refuse_foreign(
        &mut self,
        report: &StartReport,
        why: &Mismatch,
        now: Time,
        timings: &Timings,
    ) {
        let StartReport { name, repository, .. } = report;
        let what = format!("job {name:?} of {repository}: {why}");
        self.tell(now, format!("refused the start of {what}"));
        let exit = Exit { foreign: Some(what), ..Exit::at(now) };
        self.end_runner(RunnerState::Terminated, exit, "runner is ended".to_owned(), timings);
    }

    /// GitHub is asked to remove it, and keeps it if it has a job: a start waits for that answer.
    pub(crate) fn is_undecided(&self) -> bool {
        let is_asked = self.mark.as_ref().is_some_and(|mark| mark.removing_until.is_some());
        is_asked && self.runner.started.is_none() && !self.refuses_jobs()
    }

    /// Whether a job may start no more. GitHub gives a registered runner a job at any moment, and
    /// tells us so when it is asked to remove it (422): what counts is what it answers, not what we
    /// have decided. An end that waits for no job does not wait for that answer either.
    fn refuses_jobs(&self) -> bool {
        match (self.state, &self.mark) {
            (State::Running, None) => false,
            (State::Running, Some(mark)) => mark.refuses_jobs(),
            (State::PendingDelete, Some(mark)) => {
                self.order.is_some() || mark.refuses_jobs() || mark.kill_told || mark.deregistered
            }
            _ => true,
        }
    }

    /// Each job is refused from here on by the hook, with which the supervisor starts every agent,
    /// and none has started: whatever GitHub hands it fails, and nothing is there that evidence
    /// could save.
    pub(crate) fn is_shut(&self) -> bool {
        let refuses =
            self.order.is_some() || self.mark.as_ref().is_some_and(DeleteMark::refuses_jobs);
        let Runner { id, asking_since, .. } = &self.runner;
        let is_registered = id.is_some() && asking_since.is_none();
        refuses && is_registered && !self.runner.has_taken_job()
    }

    /// The hook reports the job's end. The agent's exit follows.
    ///
    /// # Errors
    /// When the report is of an earlier registration.
    pub fn job_completed(
        &mut self,
        name: &str,
        now: Time,
        timings: &Timings,
    ) -> Result<(), ReportError> {
        self.expect_registration(name)?;
        if let Some(job) = &mut self.runner.started
            && job.completed_at.is_none()
        {
            job.completed_at = Some(now);
            self.set_due_by(now + timings.completed_grace_seconds);
            self.tell(now, "job completed".to_owned());
        }
        Ok(())
    }

    /// The agent ended, or (code none) never started. The machine shuts itself down next.
    pub fn runner_ended(
        &mut self,
        code: Option<i32>,
        log: Option<String>,
        now: Time,
        timings: &Timings,
    ) {
        if self.runner.exit.is_some() {
            return;
        }
        let (state, what) = match code {
            Some(code) => (RunnerState::Terminated, format!("runner ended with code {code}")),
            None => (RunnerState::Failed, "boot failed".to_owned()),
        };
        self.end_runner(state, Exit { code, log, ..Exit::at(now) }, what, timings);
        if let Some(why) = self.refused_agent() {
            self.tell(now, why);
        }
    }

    fn end_runner(&mut self, state: RunnerState, exit: Exit, what: String, timings: &Timings) {
        let now = exit.at;
        self.runner.move_to(state, now);
        self.runner.github_job = None;
        self.runner.exit = Some(exit);
        // Without a job it may still hold a claim, and that job must not wait for this machine's
        // end.
        let grace = now + timings.shutdown_grace_seconds;
        self.set_due_by(if self.runner.has_taken_job() { grace } else { now });
        self.tell(now, what);
    }

    /// GitHub's event says that this runner took a job. Returns whether that is new.
    pub fn github_started(&mut self, job: JobKey, now: Time) -> bool {
        let known = self.runner.github_job == Some(job)
            || self.runner.github_completed_at.is_some()
            || self.runner.exit.is_some()
            || !self.state.is_live();
        self.note_ran(job);
        if !known {
            self.runner.github_job = Some(job);
            if self.runner.state <= RunnerState::Idle {
                self.runner.move_to(RunnerState::Active, now);
            }
            self.tell(now, format!("GitHub: job {job} in progress"));
        }
        !known
    }

    /// GitHub's event says that the job this runner took is over. Alone it proves nothing about
    /// the machine (actions/runner #4492): its own report is given time to follow.
    pub fn github_completed(
        &mut self,
        job: JobKey,
        failed: bool,
        now: Time,
        timings: &Timings,
    ) -> bool {
        let new = self.runner.github_completed_at.is_none() && self.state.is_live();
        self.note_ran(job);
        if new {
            self.runner.github_job = None;
            self.runner.github_completed_at = Some(now);
            self.runner.failed = failed;
            if self.runner.exit.is_none() {
                self.set_due_by(now + timings.completed_grace_seconds);
            }
            self.tell(now, format!("GitHub: job {job} completed"));
        }
        new
    }

    /// Also of an agent that ended before GitHub's event came. An ephemeral runner takes one job.
    fn note_ran(&mut self, job: JobKey) {
        if self.state.is_live() {
            self.runner.ran.get_or_insert(job);
        }
    }

    /// Which job the one is that it ran, by the event that says so.
    pub fn name_job(&mut self, job: JobKey, title: JobTitle) {
        if self.state.is_live() && self.runner.ran == Some(job) {
            self.runner.ran_title.get_or_insert(title);
        }
    }

    /// GitHub's word for the job's end is taken: see [`Runner::called_over`].
    pub(crate) fn write_job_off(&mut self, now: Time) {
        if let Some(job) = &mut self.runner.started {
            job.written_off_at = Some(now);
            self.tell(
                now,
                "its job counts as over: GitHub says so, its machine nothing".to_owned(),
            );
        }
    }

    /// Any sign against a delete that is only marked.
    pub fn seen_busy(&mut self, now: Time, why: &str) {
        self.runner.state = RunnerState::Active;
        // Also when it was active before: every wait starts over.
        self.runner.since = now;
        self.clear_mark(now, why);
    }

    fn expect_registration(&self, name: &str) -> Result<(), ReportError> {
        if name == self.runner_name() { Ok(()) } else { Err(ReportError::OtherRegistration) }
    }
}

#[cfg(test)]
mod tests;
