//! Creation of usage records from instances, jobs and orphans.

use super::line::{EarlyEndCause, EndedBy, Line, OfJob, OfMachine, OrderedRerun, UsageKind};
use super::parts::{For, Parts};
use crate::instance::{DeleteReason, Instance, Phase};
use crate::job::Job;
use crate::orphan::Orphan;
use crate::time::{Seconds, Time};

/// EC2's reason for the end of a machine that it reclaims.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
const SPOT_TERMINATION: &str = "Server.SpotInstanceTermination";
/// EC2 announces a Spot interruption this long ahead.
const SPOT_NOTICE: Seconds = Seconds(120);
/// A job that GitHub reported as ended earlier than this before EC2's deadline was not stopped: the
/// supervisor stops an agent 40 seconds before it (`infra/machine/machine.py`, `STOP_BEFORE`).
const STOPS_BEFORE: Seconds = Seconds(45);
/// A job that GitHub reported as ended earlier than this before an unannounced end of its machine
/// had ended before: GitHub takes minutes to end the job of a machine that disappears.
const ENDS_BEFORE: Seconds = Seconds(15);

impl Line {
    /// Creates the usage record of an ended instance's machine. `None` if it never had a machine.
    /// `job`: the record of the job that it ran, if any.
    #[must_use]
    pub fn of_machine(instance: &Instance, job: Option<&Job>) -> Option<Self> {
        Self::until(instance, job, end_of(instance))
    }

    /// Creates the usage record of an instance that may be live, as if it ended now.
    #[must_use]
    pub fn so_far(instance: &Instance, job: Option<&Job>, now: Time) -> Option<Self> {
        let is_live = instance.state().is_live();
        Self::until(instance, job, if is_live { (now, EndedBy::Seen) } else { end_of(instance) })
    }

    fn until(instance: &Instance, job: Option<&Job>, end: (Time, EndedBy)) -> Option<Self> {
        let id = instance.machine()?.clone();
        let from = instance.bound_at.unwrap_or(instance.created_at);
        let since = job.map_or(instance.created_at, Job::waits_since);
        let mut line = Self::new(UsageKind::Machine, since, end);
        line.pool = Some(instance.pool.clone());
        line.set_job(job);
        line.machine = Some(OfMachine {
            id,
            instance: Some(instance.name.clone()),
            make: instance.make.clone().without_subnet(),
            template: instance.template_version.clone(),
            generation: instance.pool_generation,
            reason: instance.mark().map(|mark| mark.reason.as_str().to_owned()),
            cause: cause(instance, job),
        });
        line.set_phases(instance);
        line.parts = Parts::split(from, line.at, purpose(instance, job));
        let started = instance.runner.started.as_ref();
        line.pull_request = started.and_then(|job| job.pull_request);
        line.used = instance.runner.used;
        Some(line)
    }

    /// Creates the usage record of a job that ended without running on our machine. `None` if it
    /// never needed one.
    #[must_use]
    pub fn of_job_alone(job: &Job) -> Option<Self> {
        if job.never_waited() {
            return None;
        }
        let at = job.last_event.completed_at.unwrap_or(job.seen_at);
        let mut line = Self::new(UsageKind::Job, job.waits_since(), (at, EndedBy::Github));
        line.pool.clone_from(&job.pool);
        line.set_job(Some(job));
        Some(line)
    }

    /// Creates the usage record of an orphan at its end. `None` for a machine that comes from no
    /// launch: it is not Muster's.
    #[must_use]
    pub fn of_orphan(orphan: &Orphan, now: Time) -> Option<Self> {
        orphan.launch.as_ref()?;
        let since = orphan.costs_since.unwrap_or(orphan.since);
        let mut line = Self::new(UsageKind::Orphan, since, (now.max(since), EndedBy::Seen));
        line.machine = Some(OfMachine {
            id: orphan.machine.clone(),
            instance: orphan.instance.clone(),
            make: orphan.make.clone().without_subnet(),
            template: None,
            generation: 0,
            reason: None,
            cause: None,
        });
        line.parts = Parts::split(since, line.at, For::Nothing);
        Some(line)
    }

    fn set_job(&mut self, job: Option<&Job>) {
        let Some(job) = job else { return };
        let event = &job.last_event;
        self.t.heard = Some(self.after(job.seen_at));
        self.t.started = job.started_at().map(|at| self.after(at));
        self.t.completed = event.completed_at.map(|at| self.after(at));
        self.job = Some(OfJob {
            key: event.key,
            repository: event.repository.clone(),
            private: event.private,
            run: event.run,
            attempt: event.attempt,
            name: event.name.clone(),
            workflow: event.workflow.clone(),
            branch: event.branch.clone(),
            labels: event.labels.clone(),
            conclusion: event.conclusion.clone(),
            actor: event.actor.clone(),
            rerun: job.rerun.then(|| OrderedRerun { of: event.attempt.saturating_sub(1) }),
        });
    }

    fn set_phases(&mut self, instance: &Instance) {
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

/// Returns when a machine's instance record stops covering its cost. The agent's exit is the
/// machine's own report, so GitHub's end of the job bounds it. For a machine kept for inspection,
/// the exit is not the end.
#[must_use]
pub fn end_of(instance: &Instance) -> (Time, EndedBy) {
    let exit = instance.runner.exit.as_ref().filter(|_| instance.kept_until.is_none());
    let exit = exit.map(|exit| exit.at.max(instance.runner.github_completed_at.unwrap_or(exit.at)));
    let (at, by) = match (instance.ended_at, exit) {
        (Some(at), _) => (at, EndedBy::Event),
        (None, Some(at)) => (at, EndedBy::Exit),
        (None, None) => (instance.since(), EndedBy::Seen),
    };
    // The source has a separate clock, so clamp its time.
    (at.max(instance.bound_at.unwrap_or(at)).min(instance.since()), by)
}

/// What was wasted with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The machine ended before its job.
    Job,
    /// It was launched for a job but never ran one.
    Machine,
}

/// Returns what was wasted with the machine of an ended instance, if anything.
#[must_use]
pub fn loss(instance: &Instance) -> Option<Loss> {
    instance.machine()?;
    match purpose(instance, None) {
        For::Nothing => Some(Loss::Machine),
        For::Job(..) if instance.runner.has_taken_job() && is_cut(instance, None) => {
            cause(instance, None).map(|_| Loss::Job)
        }
        For::Job(..) | For::Nobody => None,
    }
}

/// Returns the purpose of its time. A job that only its hook reported still ran.
fn purpose(instance: &Instance, job: Option<&Job>) -> For {
    let hook = instance.runner.started.as_ref();
    let is_known = job.is_some() || instance.runner.ran.is_some();
    if is_known || hook.is_some() {
        let event = job.map(|job| &job.last_event);
        let started = event.and_then(|event| event.started_at).or(hook.map(|hook| hook.at));
        let completed = event.and_then(|event| event.completed_at);
        return For::Job(started, completed.or(hook.and_then(|hook| hook.completed_at)));
    }
    if instance.bought_for_job { For::Nothing } else { For::Nobody }
}

/// Returns whether the job of a machine that took one was cut short, according to the machine and
/// GitHub. The supervisor stops the agent before EC2's deadline, so GitHub may report the job's end
/// before the machine ends. The job-completed hook does not run then.
fn is_cut(instance: &Instance, job: Option<&Job>) -> bool {
    let runner = &instance.runner;
    let has_ended = runner.started.as_ref().is_some_and(|job| job.completed_at.is_some());
    let ended = job.and_then(|job| job.last_event.completed_at).or(runner.github_completed_at);
    !has_ended && ended.is_none_or(|over| over >= cut_from(instance))
}

/// Returns the time from which on GitHub's end of a job means that the machine's end cut it short: a
/// job that ended earlier ended by itself.
#[must_use]
pub fn cut_from(instance: &Instance) -> Time {
    let exit = instance.runner.exit.as_ref();
    let is_stopped = exit.is_some_and(|exit| exit.stopped_for.is_some());
    match (instance.spot_notice_at, is_stopped) {
        (Some(at), true) => at,
        (Some(at), false) => at + SPOT_NOTICE - STOPS_BEFORE,
        (None, true) => end_of(instance).0 - SPOT_NOTICE,
        // Its notice may have been lost.
        (None, false) if instance.ended_by() == Some(SPOT_TERMINATION) => {
            end_of(instance).0 - STOPS_BEFORE
        }
        (None, false) => end_of(instance).0 - ENDS_BEFORE,
    }
}

/// Returns whether EC2 took the machine, according to EC2 only: it reclaimed Spot capacity, or the
/// host failed. Never for an end that a person or Muster caused.
/// Source: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
#[must_use]
pub fn interruption(instance: &Instance) -> Option<EarlyEndCause> {
    let ended = instance.ended_by();
    let is_by_ec2 = ended.is_some_and(|code| code.starts_with("Server."));
    if !is_by_ec2 && instance.may_kill_job() {
        return None;
    }
    if ended == Some(SPOT_TERMINATION) || instance.spot_notice_at.is_some() {
        return Some(EarlyEndCause::SpotNotice);
    }
    is_by_ec2.then_some(EarlyEndCause::HostLost)
}

/// Returns when EC2 announced that it reclaims the machine's Spot capacity, or when it did so without
/// an announcement.
#[must_use]
pub fn reclaimed_at(instance: &Instance) -> Option<Time> {
    let is_taken = instance.ended_by() == Some(SPOT_TERMINATION);
    instance.spot_notice_at.or_else(|| is_taken.then(|| end_of(instance).0))
}

/// Returns whether the machine stopped its agent for an interruption of which EC2 has not reported
/// anything yet.
#[must_use]
pub fn lacks_notice(instance: &Instance) -> bool {
    let stopped = instance.runner.exit.as_ref().and_then(|exit| exit.stopped_for);
    stopped.is_some() && interruption(instance).is_none()
}

/// Returns what ended it early. For an interruption, only EC2's word counts: a job can make its
/// machine report anything. An interruption after the end of its job does not count.
fn cause(instance: &Instance, job: Option<&Job>) -> Option<EarlyEndCause> {
    let reason = instance.mark().map(|mark| &mark.reason);
    let ended = instance.ended_by();
    let took_job = job.is_some() || instance.runner.has_taken_job();
    let by_spot = ended == Some(SPOT_TERMINATION) || reason == Some(&DeleteReason::SpotNotice);
    if by_spot || instance.spot_notice_at.is_some() {
        return (!took_job || is_cut(instance, job)).then_some(EarlyEndCause::SpotNotice);
    }
    if reason == Some(&DeleteReason::MaxLifetime) {
        return Some(EarlyEndCause::MaxLifetime);
    }
    let is_killed = instance.order().is_some_and(|order| order.kill_running_job);
    if is_killed && took_job && is_cut(instance, job) {
        return Some(EarlyEndCause::Killed);
    }
    ended.map(|_| EarlyEndCause::HostLost)
}
