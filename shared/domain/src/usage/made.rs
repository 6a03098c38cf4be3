//! Lines as they are made of records.

use super::line::{Cause, EndedBy, Kind, Line, OfJob, OfMachine};
use super::parts::{For, Parts};
use crate::instance::{DeleteReason, Instance, Phase};
use crate::job::Job;
use crate::orphan::Orphan;
use crate::time::Time;

/// EC2's reason for the end of a machine that it takes back.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
const SPOT_TERMINATION: &str = "Server.SpotInstanceTermination";

impl Line {
    /// The line of an instance's machine, of a record that has ended. None for one that never had a
    /// machine. `job` is the record of the job that it ran, where there is one.
    #[must_use]
    pub fn of_machine(instance: &Instance, job: Option<&Job>) -> Option<Self> {
        Self::until(instance, job, end_of(instance))
    }

    /// The same of a record that may live: then it is the line as it would be if it ended now.
    #[must_use]
    pub fn so_far(instance: &Instance, job: Option<&Job>, now: Time) -> Option<Self> {
        let is_live = instance.state().is_live();
        Self::until(instance, job, if is_live { (now, EndedBy::Seen) } else { end_of(instance) })
    }

    fn until(instance: &Instance, job: Option<&Job>, end: (Time, EndedBy)) -> Option<Self> {
        let id = instance.machine()?.clone();
        let from = instance.bound_at.unwrap_or(instance.created_at);
        let since = job.map_or(instance.created_at, Job::waits_since);
        let mut line = Self::new(Kind::Machine, since, end);
        line.pool = Some(instance.pool.clone());
        line.of_job(job);
        line.machine = Some(OfMachine {
            id,
            instance: Some(instance.name.clone()),
            make: instance.make.clone(),
            template: instance.template_version.clone(),
            generation: instance.pool_generation,
            reason: instance.mark().map(|mark| mark.reason.as_str().to_owned()),
            cause: cause(instance),
        });
        line.of_phases(instance);
        line.parts = Parts::split(from, line.at, purpose(instance, job));
        Some(line)
    }

    /// Returns the line of a job that ended without a machine of ours. None for one that never
    /// needed a machine.
    #[must_use]
    pub fn of_job_alone(job: &Job) -> Option<Self> {
        if job.never_waited() {
            return None;
        }
        let at = job.last_event.completed_at.unwrap_or(job.seen_at);
        let mut line = Self::new(Kind::Job, job.waits_since(), (at, EndedBy::Github));
        line.pool.clone_from(&job.pool);
        line.of_job(Some(job));
        Some(line)
    }

    /// The line of an orphan's time, at its end. None for a machine that no launch made: it is not
    /// ours to answer for.
    #[must_use]
    pub fn of_orphan(orphan: &Orphan, now: Time) -> Option<Self> {
        orphan.launch.as_ref()?;
        let since = orphan.costs_since.unwrap_or(orphan.since);
        let mut line = Self::new(Kind::Orphan, since, (now.max(since), EndedBy::Seen));
        line.machine = Some(OfMachine {
            id: orphan.machine.clone(),
            instance: orphan.instance.clone(),
            make: orphan.make.clone(),
            template: None,
            generation: 0,
            reason: None,
            cause: None,
        });
        line.parts = Parts::split(since, line.at, For::Nothing);
        Some(line)
    }

    fn of_job(&mut self, job: Option<&Job>) {
        let Some(job) = job else { return };
        let said = &job.last_event;
        self.t.heard = Some(self.after(job.seen_at));
        self.t.started = job.started_at().map(|at| self.after(at));
        self.t.completed = said.completed_at.map(|at| self.after(at));
        self.job = Some(OfJob {
            key: said.key,
            repository: said.repository.clone(),
            private: said.private,
            run: said.run,
            attempt: said.attempt,
            name: said.name.clone(),
            workflow: said.workflow.clone(),
            branch: said.branch.clone(),
            labels: said.labels.clone(),
            conclusion: said.conclusion.clone(),
        });
    }

    fn of_phases(&mut self, instance: &Instance) {
        for (phase, at) in instance.phases() {
            let at = Some(self.after(at));
            match phase {
                Phase::Planned => self.t.planned = at,
                Phase::Launched => self.t.launched = at,
                Phase::Prepared => self.t.asked = at,
                Phase::Registered => self.t.registered = at,
                Phase::Started => self.t.listening = at,
                Phase::Running | Phase::Booted | Phase::Job => {}
            }
        }
        self.t.exited = instance.runner.exit.as_ref().map(|exit| self.after(exit.at));
    }
}

/// When a machine's record stopped answering for what it costs. The agent's end is the machine's own
/// word, of which GitHub's end of the job is a bound; of one that is kept for a look it is no end.
#[must_use]
pub fn end_of(instance: &Instance) -> (Time, EndedBy) {
    let exit = instance.runner.exit.as_ref().filter(|_| instance.kept_until.is_none());
    let exit = exit.map(|exit| exit.at.max(instance.runner.github_completed_at.unwrap_or(exit.at)));
    let (at, by) = match (instance.ended_at, exit) {
        (Some(at), _) => (at, EndedBy::Event),
        (None, Some(at)) => (at, EndedBy::Exit),
        (None, None) => (instance.since(), EndedBy::Seen),
    };
    // Whoever told it has a clock of its own.
    (at.max(instance.bound_at.unwrap_or(at)).min(instance.since()), by)
}

/// What was lost with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The machine ended before its job.
    Job,
    /// It was bought for a job, and ran none.
    Machine,
}

/// What was lost with the machine of a record that has ended, if anything was.
#[must_use]
pub fn loss(instance: &Instance) -> Option<Loss> {
    instance.machine()?;
    match purpose(instance, None) {
        For::Nothing => Some(Loss::Machine),
        For::Job(..) if is_cut(instance) => cause(instance).map(|_| Loss::Job),
        For::Job(..) | For::Nobody => None,
    }
}

/// What its time was for. A job of which only its hook has told ran all the same.
fn purpose(instance: &Instance, job: Option<&Job>) -> For {
    let hook = instance.runner.started.as_ref();
    let is_known = job.is_some() || instance.runner.ran.is_some();
    if is_known || hook.is_some() {
        let said = job.map(|job| &job.last_event);
        let started = said.and_then(|said| said.started_at).or(hook.map(|hook| hook.at));
        let completed = said.and_then(|said| said.completed_at);
        return For::Job(started, completed.or(hook.and_then(|hook| hook.completed_at)));
    }
    if instance.bought_for_job { For::Nothing } else { For::Nobody }
}

/// Whether it ended before its job, as far as machine and GitHub have told.
fn is_cut(instance: &Instance) -> bool {
    let runner = &instance.runner;
    runner.has_taken_job()
        && runner.github_completed_at.is_none()
        && runner.started.as_ref().is_none_or(|job| job.completed_at.is_none())
}

/// What cut it short. What GitHub called completed before was cut off by nothing.
fn cause(instance: &Instance) -> Option<Cause> {
    let reason = instance.mark().map(|mark| &mark.reason);
    let ended = instance.ended_by();
    let by_spot = ended == Some(SPOT_TERMINATION) || reason == Some(&DeleteReason::SpotNotice);
    if by_spot || instance.spot_notice_at.is_some() {
        return Some(Cause::SpotNotice);
    }
    if reason == Some(&DeleteReason::MaxLifetime) {
        return Some(Cause::MaxLifetime);
    }
    if is_cut(instance) && instance.order().is_some_and(|order| order.kill_running_job) {
        return Some(Cause::Killed);
    }
    ended.map(|_| Cause::HostLost)
}
