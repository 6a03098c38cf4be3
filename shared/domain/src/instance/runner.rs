//! Changes of an instance's runner side: configuration, reports of the machine, GitHub's events.

use super::record::{DeleteMark, Exit, JobTitle, Runner, StartedJob, StopCause};
use super::state::RunnerState;
use super::{Instance, State, Used};
use crate::agent::{AgentInUse, AgentOffer, AgentVersion, TOO_OLD};
use crate::ids::{JobKey, RunnerId};
use crate::pool::{Mismatch, Pool};
use crate::provider::ErrorDetail;
use crate::text::first;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Number of requests after which a refusal by GitHub is final. A new repository or runner group
/// takes time to propagate at GitHub; three requests, 15 seconds apart, allow half a minute.
const REFUSAL_BELIEVED: u32 = 3;

/// Age at which GitHub's `completed` counts without a report of the machine. Alone it proves
/// nothing (actions/runner #4492), and a working machine reports its job's end within seconds. By
/// that time GitHub no longer accepts a result of the job.
const BELIEVED_AFTER: Seconds = Seconds(3600);

/// Why a machine's request is refused. In each case the machine must shut down or fail the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReportError {
    /// The instance is marked for delete or being deleted.
    #[error("this runner is being deleted")]
    Draining,
    /// The runner was configured and has started: a second agent must not start.
    #[error("this machine's runner has started already")]
    AlreadyStarted,
    /// The runner's agent has ended.
    #[error("this machine's runner has ended already")]
    Ended,
    /// The report comes from an earlier registration.
    #[error("the report is for a different registration")]
    OtherRegistration,
    /// GitHub gave the runner a job that its pool does not serve.
    #[error("this runner's pool does not serve the job's repository")]
    ForeignJob,
    /// The machine builds an image, or tries a new one: it never runs a job.
    #[error("this machine builds an image and runs no job")]
    BuildsImage,
}

/// The response to a job's start, unless it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Start {
    /// The start is recorded: the job may run.
    Accepted,
    /// A request to remove the runner is in flight. GitHub keeps a runner with a job (422) and
    /// removes one without (204), so its response decides; the hook asks again.
    Undecided,
    /// Its pool does not serve the repository: the runner ends without running the job.
    Foreign,
}

/// The contents of the job-started hook's report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StartReport {
    /// `owner/repo`.
    pub repository: String,
    /// Whether the repository is private. `None` if the hook could not find out.
    pub private: Option<bool>,
    /// The ID of the workflow run.
    pub run: u64,
    /// The job's name.
    pub name: String,
    /// The number of its pull request.
    pub pull_request: Option<u32>,
}

impl StartReport {
    /// Maximum stored length of repository and job names, in characters. GitHub's own limits are
    /// lower.
    const MAX_NAME: usize = 200;

    /// Creates a report from a machine's request, with names cut to the maximum length. `git_ref` is
    /// the run's `GITHUB_REF`; of it, only the number of a pull request is kept.
    #[must_use]
    pub fn new(
        repository: &str,
        private: Option<bool>,
        run: u64,
        name: &str,
        git_ref: &str,
    ) -> Self {
        let short = |text| first(text, Self::MAX_NAME).to_owned();
        let pull_request = pull_request_of(git_ref);
        Self { repository: short(repository), private, run, name: short(name), pull_request }
    }
}

/// Returns the number of the pull request that a ref is of: `refs/pull/N/merge`, `refs/pull/N/head`,
/// or a merge queue's `refs/heads/gh-readonly-queue/BASE/pr-N-SHA`.
/// Source: docs.github.com/en/actions/reference/workflows-and-actions/variables (`GITHUB_REF`); the
/// merge queue's branch is not documented.
fn pull_request_of(git_ref: &str) -> Option<u32> {
    let number = if let Some(pull) = git_ref.strip_prefix("refs/pull/") {
        pull.strip_suffix("/merge").or_else(|| pull.strip_suffix("/head"))?
    } else {
        let queued = git_ref.strip_prefix("refs/heads/gh-readonly-queue/")?;
        let (number, sha) = queued.rsplit_once("/pr-")?.1.split_once('-')?;
        let is_sha = !sha.is_empty() && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_sha.then_some(number)?
    };
    // `parse` also accepts a sign.
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|number| is_number && *number > 0)
}

impl Runner {
    /// Returns whether its hook or GitHub's event reported a job on it, running or ended.
    #[must_use]
    pub const fn has_taken_job(&self) -> bool {
        self.started.is_some() || self.github_job.is_some() || self.github_completed_at.is_some()
    }

    /// Returns whether no configuration has reached the machine: a configuration is handed out only
    /// after its registration is recorded, and no request is in flight. So no job can run there,
    /// regardless of what GitHub shows.
    #[must_use]
    pub const fn is_without_configuration(&self) -> bool {
        self.id.is_none() && self.asking_since.is_none()
    }

    /// Returns whether a job runs on it: the hook reported a start without an end, or GitHub
    /// reported a job in progress.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.exit.is_none()
            && (self.started.as_ref().is_some_and(StartedJob::is_under_way)
                || self.github_job.is_some())
    }

    /// Returns when GitHub reported the end of a job that is still running according to the
    /// machine, and when GitHub's report alone will count.
    #[must_use]
    pub fn called_over(&self) -> Option<(Time, Time)> {
        let job = self.started.as_ref().filter(|job| job.is_under_way() && self.exit.is_none())?;
        let over = self.github_completed_at?;
        Some((over, over.max(job.at) + BELIEVED_AFTER))
    }

    pub(super) fn move_to(&mut self, state: RunnerState, now: Time) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }
}

impl Instance {
    /// Counts a configuration request before it is sent. Its response may be lost, so the next
    /// request uses a new name: GitHub rejects a name that is in use (409). Returns the previous
    /// registration, if known, for removal.
    ///
    /// # Errors
    /// If no configuration may be handed out.
    pub fn ask_configuration(&mut self, now: Time) -> Result<Option<RunnerId>, ReportError> {
        if self.builds().is_some() {
            return Err(ReportError::BuildsImage);
        }
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
        self.tell(now, format!("configuration {} requested from GitHub", self.runner.n));
        Ok(earlier)
    }

    /// Returns whether this request for a configuration, which arrived at `begun`, was overtaken:
    /// the machine has repeated the request meanwhile and may already use the later response.
    #[must_use]
    pub fn is_overtaken(&self, begun: Time) -> bool {
        let Runner { asking_since, id, state, since, .. } = &self.runner;
        let answered = id.is_some() && *state == RunnerState::Installing;
        asking_since.is_some_and(|asked| begun < asked) || (answered && begun < *since)
    }

    /// Records GitHub's response to the configuration request of time `now`.
    pub fn configured(&mut self, id: RunnerId, now: Time) {
        self.runner.id = Some(id);
        self.runner.asking_since = None;
        self.unregistered = None;
        self.runner.state = RunnerState::Installing;
        // Set for repeated responses too.
        self.runner.since = now;
        self.phases.registers(now);
        let name = self.runner_name();
        self.tell(now, format!("registered as {name} (runner {id})"));
    }

    /// Records which agent the machine runs: its image's, or the replacement that it was offered.
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
            self.tell(now, format!("its image's agent {own} is too old: it installs {next}"));
        }
    }

    /// Explains the agent's end if it ended because GitHub rejected its version as too old. After a
    /// job the exit report may be the job's own, so it proves nothing.
    pub(super) fn refused_agent(&self) -> Option<String> {
        let Runner { exit, agent, .. } = &self.runner;
        let is_refused = exit.as_ref().is_some_and(|exit| exit.code == Some(TOO_OLD))
            && !self.runner.has_taken_job();
        let reason = || {
            agent.map_or_else(
                || "GitHub rejected its agent as too old".to_owned(),
                AgentInUse::refused,
            )
        };
        is_refused.then(reason)
    }

    /// Returns the agent that GitHub has just rejected as too old, if a newer one may work. `next`
    /// is the record after this one.
    #[must_use]
    pub fn agent_refused_by(&self, next: &Self) -> Option<AgentVersion> {
        let is_news = self.runner.exit.is_none() && next.refused_agent().is_some();
        next.runner.agent.filter(|agent| is_news && !agent.is_newest).map(|agent| agent.version)
    }

    /// Returns whether GitHub rejected even the newest agent as too old, so that no agent can work.
    #[must_use]
    pub(crate) fn no_agent_serves(&self) -> bool {
        self.refused_agent().is_some() && self.runner.agent.is_some_and(|agent| agent.is_newest)
    }

    /// Records that GitHub has no registration for the last configuration request: it never took
    /// effect.
    pub fn not_configured(&mut self, now: Time) {
        self.runner.asking_since = None;
        self.tell(now, "GitHub has no such registration".to_owned());
    }

    /// Records that GitHub rejected the last configuration request as invalid (400, 404, 422), so
    /// that it created no registration. Returns true if the refusal is final; the runner has then
    /// ended.
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

    /// Records the agent's report that it runs. A repeated report writes no change: a job could
    /// send it continuously, and each write would restart the pass that deletes the machine.
    ///
    /// # Errors
    /// If the report comes from an earlier registration.
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

    /// **The compare-and-set before every job's first step.** Once the start is recorded, only an
    /// order to kill ends the machine.
    ///
    /// A mark set by Muster, for which evidence is still being gathered, is removed. A delete by
    /// Muster that has not called GitHub yet waits for the job's end; one that has called GitHub
    /// leaves the decision to GitHub. Otherwise the start is refused, so that the job fails in its
    /// set-up and no work is lost.
    ///
    /// A job that the pool does not serve is also refused. The hook then ends the agent, and that
    /// end is recorded here: the claim is released immediately, and no later start is accepted.
    ///
    /// # Errors
    /// If the delete came first.
    pub fn job_started(
        &mut self,
        name: &str,
        mut report: StartReport,
        pool: &Pool,
        now: Time,
        timings: &Timings,
    ) -> Result<Start, ReportError> {
        self.expect_registration(name)?;
        // A machine does not know its App.
        report.repository = self.entity.app().qualify(&report.repository);
        if self.build.is_some() {
            return Err(ReportError::BuildsImage);
        }
        if self.refuses_jobs() {
            return Err(ReportError::Draining);
        }
        if let Some(exit) = &self.runner.exit {
            // The response to an earlier report may have been lost.
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
                pull_request: report.pull_request,
                completed_at: None,
                written_off_at: None,
            });
            // A mark in this state only means that evidence is being gathered, and a job start is
            // the strongest evidence.
            if self.state == State::Running {
                self.clear_mark(now, "a job starts");
            }
            self.runner.move_to(RunnerState::Active, now);
            self.tell(now, what);
        }
        Ok(Start::Accepted)
    }

    /// Checks where this runner is registered as well as the pool, whose entity may have changed
    /// since.
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
        self.end_runner(RunnerState::Terminated, exit, "runner is stopped".to_owned(), timings);
    }

    /// Returns whether a request to remove the runner is in flight, so that a job start must wait
    /// for GitHub's response.
    pub(crate) fn is_undecided(&self) -> bool {
        let is_asked = self.mark.as_ref().is_some_and(|mark| mark.removing_until.is_some());
        is_asked && self.runner.started.is_none() && !self.refuses_jobs()
    }

    /// Returns whether no job may start. GitHub can give a registered runner a job at any moment,
    /// and reports that with 422 when asked to remove the runner: GitHub's response decides, not
    /// our intent. A delete that does not wait for jobs does not wait for that response either.
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

    /// Returns whether the hook, which every supervised agent starts with, refuses all jobs from
    /// now on, and no job has started. Any job that GitHub assigns fails, so there is no work for
    /// the kill gate to protect.
    pub(crate) fn is_shut(&self) -> bool {
        let refuses =
            self.order.is_some() || self.mark.as_ref().is_some_and(DeleteMark::refuses_jobs);
        let Runner { id, asking_since, .. } = &self.runner;
        let is_registered = id.is_some() && asking_since.is_none();
        refuses && is_registered && !self.runner.has_taken_job()
    }

    /// Records the hook's report of the job's end. The agent's exit follows.
    ///
    /// # Errors
    /// If the report comes from an earlier registration.
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

    /// Records what its job used. The first report counts: the machine repeats it with each later one.
    pub fn job_used(&mut self, used: Option<Used>) {
        if self.runner.started.is_some() {
            self.runner.used = self.runner.used.or(used.map(Used::bounded));
        }
    }

    /// Records that the agent ended or, if `code` is `None`, never started. The machine then shuts
    /// itself down.
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

    /// Records that the supervisor stopped the agent. The machine then shuts itself down.
    pub fn runner_stopped(&mut self, why: StopCause, code: i32, now: Time, timings: &Timings) {
        if self.runner.exit.is_some() {
            return;
        }
        let what = match why {
            StopCause::Interruption => "runner stopped because of the Spot interruption",
        };
        let exit = Exit { code: Some(code), stopped_for: Some(why), ..Exit::at(now) };
        self.end_runner(RunnerState::Terminated, exit, what.to_owned(), timings);
    }

    /// Records the machine's report that it saw EC2's notice of a Spot interruption. Only EC2's own
    /// event changes what happens to the instance ([`Instance::spot_notice`]): a job can send this
    /// report too.
    ///
    /// # Errors
    /// If the report comes from an earlier registration.
    pub fn interrupted(&mut self, name: &str, now: Time) -> Result<(), ReportError> {
        self.expect_registration(name)?;
        if self.runner.interrupted_at.is_none() {
            self.runner.interrupted_at = Some(now);
            self.tell(now, "its machine saw EC2's notice of a Spot interruption".to_owned());
        }
        Ok(())
    }

    fn end_runner(&mut self, state: RunnerState, exit: Exit, what: String, timings: &Timings) {
        let now = exit.at;
        self.runner.move_to(state, now);
        self.runner.github_job = None;
        self.runner.exit = Some(exit);
        // Without a job it may still have a claim, and that job must not wait for this machine's
        // end.
        let grace = now + timings.shutdown_grace_seconds;
        self.set_due_by(if self.runner.has_taken_job() { grace } else { now });
        self.tell(now, what);
    }

    /// Records GitHub's event that this runner took a job. Returns whether that is new.
    pub fn github_started(&mut self, job: JobKey, now: Time) -> bool {
        let known = self.runner.github_job == Some(job)
            || self.runner.github_completed_at.is_some()
            || self.runner.exit.is_some()
            || !self.state.is_live();
        self.record_ran_job(job);
        if !known {
            self.runner.github_job = Some(job);
            if self.runner.state <= RunnerState::Idle {
                self.runner.move_to(RunnerState::Active, now);
            }
            self.tell(now, format!("GitHub: job {job} in progress"));
        }
        !known
    }

    /// Records GitHub's event that this runner's job has ended. Alone it proves nothing about the
    /// machine (actions/runner #4492), so the machine's own report gets time to follow. Returns
    /// whether that is new.
    pub fn github_completed(
        &mut self,
        job: JobKey,
        failed: bool,
        now: Time,
        timings: &Timings,
    ) -> bool {
        let new = self.runner.github_completed_at.is_none() && self.state.is_live();
        self.record_ran_job(job);
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

    /// Records the job, even for an agent that ended before GitHub's event arrived. An ephemeral
    /// runner takes one job.
    fn record_ran_job(&mut self, job: JobKey) {
        if self.state.is_live() {
            self.runner.ran.get_or_insert(job);
        }
    }

    /// Records the name of the job that it ran, from the event that reported it.
    pub fn name_job(&mut self, job: JobKey, title: JobTitle) {
        if self.state.is_live() && self.runner.ran == Some(job) {
            self.runner.ran_title.get_or_insert(title);
        }
    }

    /// Accepts GitHub's report of the job's end: see [`Runner::called_over`].
    pub(crate) fn write_job_off(&mut self, now: Time) {
        if let Some(job) = &mut self.runner.started {
            job.written_off_at = Some(now);
            self.tell(
                now,
                "its job counts as ended: GitHub reported it, its machine did not".to_owned(),
            );
        }
    }

    /// Handles any evidence against a delete that is only marked: removes the mark.
    pub fn seen_busy(&mut self, now: Time, why: &str) {
        self.runner.state = RunnerState::Active;
        // Reset even if it was active before: every wait starts over.
        self.runner.since = now;
        self.clear_mark(now, why);
    }

    fn expect_registration(&self, name: &str) -> Result<(), ReportError> {
        if name == self.runner_name() { Ok(()) } else { Err(ReportError::OtherRegistration) }
    }
}

#[cfg(test)]
mod tests;
