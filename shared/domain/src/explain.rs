//! Explains the state of jobs and instances in sentences for operators.

use crate::app::is_before_github;
use crate::instance::{Exit, Instance, RunnerState, State, StopCause, Waiting};
use crate::job::run::Doubt;
use crate::job::{Job, JobStatus};
use crate::launch::verdict::{Conditions, Wanted, verdict};
use crate::pool::Pool;
use crate::provider::ErrorDetail;
use crate::time::Time;

/// Maximum number of a failed machine's last log lines to show. Its record has more.
const LAST_WORDS: usize = 10;
/// What [`unserved`] says of a job without a pool, before the reason.
pub const NO_POOL: &str = "no pool serves it: ";
/// What [`unserved`] says of a job that waits for an approval.
pub const AWAITS_APPROVAL: &str = "it waits for an approval at GitHub";

/// Everything needed to explain a job besides its record.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// The job's pool, if it is still configured, and the conditions that can prevent a launch
    /// there.
    pub pool: Option<(&'a Pool, &'a Conditions)>,
    /// The instance that the job claims.
    pub claim: Option<&'a Instance>,
    /// The reason for each pool's position in the order of choice, from
    /// [`crate::pool::select::reasons`].
    pub choice: &'a [String],
}

/// Explains why a job has a runner, does not have one yet, or never will.
#[must_use]
pub fn job(job: &Job, context: &JobContext<'_>, now: Time) -> Vec<String> {
    let event = &job.last_event;
    let mut lines = vec![format!(
        "Job {} ({:?} of {}, run {} attempt {}) requests the labels {}.",
        job.key(),
        event.name,
        event.repository,
        event.run,
        event.attempt,
        event.labels
    )];
    match job.status() {
        JobStatus::Completed => {
            lines.push(format!(
                "It ended: {}{}.",
                event.conclusion.as_deref().unwrap_or("completed"),
                event
                    .runner
                    .as_ref()
                    .map(|runner| format!(", run by {runner}"))
                    .unwrap_or_default()
            ));
            lines.extend(job.doubt.and_then(Doubt::ending).map(str::to_owned));
        }
        JobStatus::InProgress => lines.push(format!(
            "It runs on {}.",
            event.runner.as_deref().unwrap_or("a runner that GitHub did not name")
        )),
        JobStatus::Waiting | JobStatus::Queued if job.is_gated() => lines.push(format!(
            "It has been waiting for an approval at GitHub for {}; it needs no runner yet.",
            now.since(job.gated_since())
        )),
        JobStatus::Waiting => lines.push(
            "It waited so long for an approval that GitHub has ended it; it no longer needs a \
             runner."
                .to_owned(),
        ),
        JobStatus::Queued if job.expired => lines.push(
            "It was queued so long that GitHub has cancelled it; it no longer needs a runner."
                .to_owned(),
        ),
        JobStatus::Queued => {
            queued(job, context, now, &mut lines);
            lines.extend(context.choice.iter().cloned());
        }
    }
    lines
}

/// Explains why no machine is launched for a job that no pool serves or that waits for an approval.
#[must_use]
pub fn unserved(job: &Job) -> String {
    let unmatched = job.unmatched.as_deref().filter(|_| job.pool.is_none());
    let why = unmatched.map(|why| format!("{NO_POOL}{why}"));
    let gate = job.is_gated().then(|| AWAITS_APPROVAL.to_owned());
    let parts: Vec<String> = gate.into_iter().chain(why).collect();
    if parts.is_empty() { "no reason is recorded".to_owned() } else { parts.join("; ") }
}

fn queued(job: &Job, context: &JobContext<'_>, now: Time, lines: &mut Vec<String>) {
    if job.is_unconfirmed() {
        lines.push(format!(
            "It was queued {} ago, but its first event arrived {} ago: no machine is launched \
             until GitHub confirms it.",
            now.since(job.queued_at()),
            now.since(job.seen_at)
        ));
        return;
    }
    lines.push(format!("It has been queued for {}.", now.since(job.waits_since())));
    if let Some(at) = job.asked_at {
        lines.push(format!("GitHub was last queried about it {} ago.", now.since(at)));
    }
    let Some(name) = &job.pool else {
        lines.push(format!(
            "No pool served it when it arrived: {}. The sweep checks again every minute.",
            job.unmatched.as_deref().unwrap_or("no reason is recorded")
        ));
        return;
    };
    lines.push(format!("Pool {name} serves it."));
    if let Some(moved) = &job.moved {
        lines.push(format!(
            "It was moved there from pool {} at {}: {}.",
            moved.from, moved.at, moved.why
        ));
    }
    if let Some(failed) = &job.failed {
        lines.push(format!(
            "Instance {} was launched for it but never ran a job (at {}): {}.",
            failed.instance, failed.at, failed.why
        ));
    }
    if let Some(instance) = context.claim {
        lines.push(format!("Instance {} is meant to run it.", instance.name));
        lines.extend(self::instance(instance, now));
        return;
    }
    lines.push(match context.pool {
        Some((pool, conditions)) => next_machine(job, pool, conditions, now),
        None => format!("Pool {name} is no longer configured."),
    });
}

/// Describes what the next launch pass does for a job without a claim.
fn next_machine(job: &Job, pool: &Pool, conditions: &Conditions, now: Time) -> String {
    match verdict(pool, Wanted::Job(job), conditions, now) {
        Ok(_) => "The next launch pass will assign or launch a runner for it.".to_owned(),
        Err(block) => match block.until {
            Some(until) => format!("No machine is launched for it before {until}: {}.", block.why),
            None => format!("No machine is launched for it now: {}.", block.why),
        },
    }
}

/// Explains what an instance is doing and what it waits for.
#[must_use]
pub fn instance(instance: &Instance, now: Time) -> Vec<String> {
    let mut lines = vec![format!(
        "Instance {}: {} since {} ({} ago){}.",
        instance.name,
        instance.state(),
        instance.since(),
        now.since(instance.since()),
        instance.machine().map(|machine| format!(", machine {machine}")).unwrap_or_default()
    )];
    match instance.state() {
        State::PendingCreate => {
            lines.push(format!("Its launch will be retried (attempt {}).", instance.attempts + 1));
        }
        State::Creating => lines.push("A machine is being requested from EC2.".to_owned()),
        State::Running => {
            lines.push(running(instance));
            let failed = instance.unregistered.as_ref();
            lines.extend(failed.map(|failed| format!("{}.", failed.sentence(now))));
            lines.extend(over_at_github(instance).map(|text| format!("{text}.")));
            lines.extend(ending(instance));
        }
        State::Error | State::PendingDelete | State::PendingForceDelete | State::Deleting => {
            lines.extend(over_at_github(instance).map(|text| format!("{text}.")));
            lines.extend(ending(instance));
        }
        State::Deleted => {}
    }
    lines.extend(interruption(instance));
    let lines_logged: Vec<&str> = instance.last_words().collect();
    let last = &lines_logged[lines_logged.len().saturating_sub(LAST_WORDS)..];
    lines.extend(last.iter().map(|line| format!("Machine log: \"{line}\".")));
    if let Some(fault) = &instance.last_error {
        lines.push(format!(
            "Last error, at {}: {}: {}: {}.",
            fault.at, fault.operation, fault.code, fault.message
        ));
    }
    if let Some(due) = instance.due_at() {
        lines.push(format!("Its next check is due at {due}."));
    }
    lines
}

/// Describes what a Spot interruption did to the runner, or will do to its job.
fn interruption(instance: &Instance) -> Option<String> {
    let runner = &instance.runner;
    let at = instance.spot_notice_at.or(runner.interrupted_at)?;
    let what = match &runner.exit {
        None if runner.is_busy() => {
            "if the job has not ended 40 seconds before the machine does, the agent is stopped"
        }
        Some(Exit { stopped_for: Some(StopCause::Interruption), .. }) => {
            match runner.has_taken_job() {
                true => "the agent was stopped so GitHub knew before the machine ended",
                false => "the agent had no job and was stopped",
            }
        }
        None | Some(_) => return None,
    };
    Some(format!("EC2 announced the interruption at {at}; {what}."))
}

fn running(instance: &Instance) -> String {
    let claim = instance.claim().map(|job| format!(" for job {job}")).unwrap_or_default();
    match instance.runner.state {
        RunnerState::Pending if instance.unregistered.is_some() => {
            format!("Its machine has booted and has no runner yet{claim}.")
        }
        RunnerState::Pending => format!("Its machine boots{claim}."),
        RunnerState::Installing => {
            format!("Its runner {} has its configuration{claim}.", instance.runner_name())
        }
        RunnerState::Idle => format!("Its runner {} waits{claim}.", instance.runner_name()),
        RunnerState::Active => match &instance.runner.started {
            Some(job) if job.is_under_way() => {
                format!("It runs job {:?} of {}.", job.name, job.repository)
            }
            Some(job) => format!("Its job {:?} of {} has ended.", job.name, job.repository),
            None => format!("It runs a job{claim}."),
        },
        RunnerState::Failed => {
            match instance.runner.exit.as_ref().and_then(|exit| exit.refused.as_ref()) {
                Some(ErrorDetail { code, message, .. }) => format!(
                    "GitHub refuses to register its runner ({code}: {message}); the machine shuts \
                     itself down."
                ),
                None => "Its machine failed to boot and shuts itself down.".to_owned(),
            }
        }
        RunnerState::Terminated => {
            match instance.runner.exit.as_ref().and_then(|exit| exit.foreign.as_ref()) {
                Some(what) => format!(
                    "GitHub gave its runner {what}. It did not run it; the machine shuts itself down."
                ),
                None => match instance.kept_until {
                    Some(until) => format!(
                        "Its job failed, and its pool keeps such machines for inspection: it \
                         shuts itself down at {until}."
                    ),
                    None => "Its runner ended; the machine shuts itself down.".to_owned(),
                },
            }
        }
    }
}

/// Describes GitHub's report that a job has ended when its machine has reported no end. The text
/// has no final full stop.
#[must_use]
pub fn over_at_github(instance: &Instance) -> Option<String> {
    if let Some((over, believed)) = instance.runner.called_over() {
        return Some(format!(
            "GitHub reported the end of that job at {over}; if the machine does not report it by \
             {believed}, GitHub's report is accepted"
        ));
    }
    let job = instance.runner.started.as_ref().filter(|job| job.completed_at.is_none())?;
    job.written_off_at.filter(|_| instance.runner.exit.is_none()).map(|at| {
        format!(
            "GitHub reported the end of that job and the machine did not for an hour, so Muster \
             has been ending it since {at} unless GitHub reports its runner as busy"
        )
    })
}

fn ending(instance: &Instance) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(order) = instance.order() {
        let force = if order.force { "Forced delete" } else { "Delete" };
        lines.push(format!("{force} ordered by {} at {}: {}.", order.by, order.at, order.reason));
    }
    if let Some(mark) = instance.mark() {
        let how = match instance.state() {
            State::Running if mark.refuses_jobs() => "Marked for delete, so it takes no job",
            State::Running => "Marked for delete unless a job starts",
            State::PendingCreate
            | State::Creating
            | State::Error
            | State::PendingDelete
            | State::PendingForceDelete
            | State::Deleting
            | State::Deleted => "Being deleted",
        };
        lines.push(format!("{how}: {}.", mark.reason.as_str()));
        let is_ours = instance.last_error.as_ref().is_some_and(|one| is_before_github(&one.code));
        match &mark.waiting {
            Some(Waiting::Unauthorized) if is_ours => lines.push(
                "GitHub cannot be asked to remove its runner (bypass_github_unauthorized skips \
                 this check)."
                    .to_owned(),
            ),
            Some(waiting) => lines.push(format!("{}.", waits_for(waiting, instance.attempts))),
            None => {}
        }
    }
    lines
}

fn waits_for(waiting: &Waiting, attempts: u32) -> String {
    match waiting {
        Waiting::Registering => "A configuration call may still be in flight".to_owned(),
        Waiting::JobRunning => "It waits for the end of the running job".to_owned(),
        Waiting::Busy => {
            "GitHub reports that its runner is busy; the delete waits for the job to end".to_owned()
        }
        Waiting::SecondRead => {
            "It was not busy; a second check must confirm that before it is deleted".to_owned()
        }
        Waiting::RateLimited => "GitHub's rate limit is reached".to_owned(),
        Waiting::Unauthorized => {
            "GitHub refuses the App's credentials (bypass_github_unauthorized skips this check)"
                .to_owned()
        }
        Waiting::GithubUnavailable => "GitHub does not answer".to_owned(),
        Waiting::LaunchOpen => {
            "EC2 has not reported yet whether it launched a machine for it".to_owned()
        }
        Waiting::Provider => {
            format!("EC2 failed to terminate it {attempts} time(s); it will be retried")
        }
        Waiting::SwitchedOff => {
            "An operator has paused deletes (see status); force ignores that".to_owned()
        }
        Waiting::Absent => {
            "EC2 does not know its machine; a later check must confirm that".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
