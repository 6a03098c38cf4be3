//! Why things are as they are, in sentences for people.

use crate::app::is_before_github;
use crate::instance::{ErrorDetail, Instance, RunnerState, State, Waiting};
use crate::job::run::Doubt;
use crate::job::{Job, JobStatus};
use crate::launch::verdict::{Conditions, Wanted, verdict};
use crate::pool::Pool;
use crate::time::Time;

/// How many of a failed machine's last lines are told. Its record has more.
const LAST_WORDS: usize = 10;

/// What is known around a job.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'a> {
    /// Its pool while that is configured, and what may stand in the way of a launch there.
    pub pool: Option<(&'a Pool, &'a Conditions)>,
    /// The instance that it claims.
    pub claim: Option<&'a Instance>,
    /// Of each pool why it is where it is in the order of choice, as
    /// [`crate::pool::select::reasons`] says it.
    pub choice: &'a [String],
}

/// Why a job has a runner, or none yet, or never will.
#[must_use]
pub fn job(job: &Job, context: &JobContext<'_>, now: Time) -> Vec<String> {
    let said = &job.last_event;
    let mut lines = vec![format!(
        "Job {} ({:?} of {}, run {} attempt {}) asks for the labels {}.",
        job.key(),
        said.name,
        said.repository,
        said.run,
        said.attempt,
        said.labels
    )];
    match job.status() {
        JobStatus::Completed => {
            lines.push(format!(
                "It is over: {}{}.",
                said.conclusion.as_deref().unwrap_or("completed"),
                said.runner.as_ref().map(|runner| format!(", run by {runner}")).unwrap_or_default()
            ));
            lines.extend(job.doubt.and_then(Doubt::ending).map(str::to_owned));
        }
        JobStatus::InProgress => lines.push(format!(
            "It runs on {}.",
            said.runner.as_deref().unwrap_or("a runner that GitHub did not name")
        )),
        JobStatus::Waiting | JobStatus::Queued if job.is_gated() => lines.push(format!(
            "It waits for an approval at GitHub, since {} ago as far as we know; it needs no runner yet.",
            now.since(job.gated_since())
        )),
        JobStatus::Waiting => lines.push(
            "It waited for an approval for so long that GitHub has ended it; no runner is sought."
                .to_owned(),
        ),
        JobStatus::Queued if job.expired => lines.push(
            "It was queued for so long that GitHub has cancelled it; no runner is sought."
                .to_owned(),
        ),
        JobStatus::Queued => {
            queued(job, context, now, &mut lines);
            lines.extend(context.choice.iter().cloned());
        }
    }
    lines
}

/// Why nothing is launched for a job that no pool serves, or that waits for an approval.
#[must_use]
pub fn unserved(job: &Job) -> String {
    let unmatched = job.unmatched.as_deref().filter(|_| job.pool.is_none());
    let why = unmatched.map(|why| format!("no pool serves it: {why}"));
    let gate = job.is_gated().then(|| "it waits for an approval at GitHub".to_owned());
    let parts: Vec<String> = gate.into_iter().chain(why).collect();
    if parts.is_empty() { "no reason is on record".to_owned() } else { parts.join("; ") }
}

fn queued(job: &Job, context: &JobContext<'_>, now: Time, lines: &mut Vec<String>) {
    if job.is_unconfirmed() {
        lines.push(format!(
            "It was queued {} ago, and first heard of {} ago: no machine is launched before GitHub confirms it.",
            now.since(job.queued_at()),
            now.since(job.seen_at)
        ));
        return;
    }
    lines.push(format!("It has been queued for {}.", now.since(job.waits_since())));
    if let Some(at) = job.asked_at {
        lines.push(format!("GitHub was asked about it {} ago.", now.since(at)));
    }
    let Some(name) = &job.pool else {
        lines.push(format!(
            "No pool served it when it came: {}. Each minute's sweep looks again.",
            job.unmatched.as_deref().unwrap_or("no reason is on record")
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
            "Instance {} was launched for it and served nothing (at {}): {}.",
            failed.instance, failed.at, failed.why
        ));
    }
    if let Some(instance) = context.claim {
        lines.push(format!("Instance {} is to run it.", instance.name));
        lines.extend(self::instance(instance, now));
        return;
    }
    lines.push(match context.pool {
        Some((pool, conditions)) => next_machine(job, pool, conditions, now),
        None => format!("Pool {name} is not configured any more."),
    });
}

/// What the next launch pass does for a job without a claim.
fn next_machine(job: &Job, pool: &Pool, conditions: &Conditions, now: Time) -> String {
    match verdict(pool, Wanted::Job(job), conditions, now) {
        Ok(_) => "The next launch pass finds it a runner.".to_owned(),
        Err(block) => match block.until {
            Some(until) => format!("No machine is launched for it before {until}: {}.", block.why),
            None => format!("No machine is launched for it now: {}.", block.why),
        },
    }
}

/// What an instance does, and what it waits for.
#[must_use]
pub fn instance(instance: &Instance, now: Time) -> Vec<String> {
    let mut lines = vec![format!(
        "Instance {} is {} since {} ({} ago){}.",
        instance.name,
        instance.state(),
        instance.since(),
        now.since(instance.since()),
        instance.machine().map(|machine| format!(", machine {machine}")).unwrap_or_default()
    )];
    match instance.state() {
        State::PendingCreate => {
            lines.push(format!("Its launch is tried again (attempt {}).", instance.attempts + 1));
        }
        State::Creating => lines.push("EC2 is asked for a machine.".to_owned()),
        State::Running => {
            lines.push(running(instance));
            let failed = instance.unregistered.as_ref();
            lines.extend(failed.map(|failed| format!("{}.", failed.sentence(now))));
            lines.extend(over_at_github(instance).map(|said| format!("{said}.")));
            lines.extend(ending(instance));
        }
        State::Error | State::PendingDelete | State::PendingForceDelete | State::Deleting => {
            lines.extend(over_at_github(instance).map(|said| format!("{said}.")));
            lines.extend(ending(instance));
        }
        State::Deleted => {}
    }
    let said: Vec<&str> = instance.last_words().collect();
    let last = &said[said.len().saturating_sub(LAST_WORDS)..];
    lines.extend(last.iter().map(|line| format!("Its machine said: \"{line}\".")));
    if let Some(fault) = &instance.last_error {
        lines.push(format!(
            "Last error, at {}: {}: {}: {}.",
            fault.at, fault.operation, fault.code, fault.message
        ));
    }
    if let Some(due) = instance.due_at() {
        lines.push(format!("The next look at it is due at {due}."));
    }
    lines
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
            Some(job) => format!("Its job {:?} of {} is over.", job.name, job.repository),
            None => format!("It runs a job{claim}."),
        },
        RunnerState::Failed => {
            match instance.runner.exit.as_ref().and_then(|exit| exit.refused.as_ref()) {
                Some(ErrorDetail { code, message, .. }) => format!(
                    "GitHub refuses its runner a configuration ({code}: {message}); the machine shuts itself down."
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
                        "Its job failed, and its pool keeps such a machine for a look: it shuts itself down at {until}."
                    ),
                    None => "Its runner ended; the machine shuts itself down.".to_owned(),
                },
            }
        }
    }
}

/// What GitHub says of the end of a job that its machine says nothing of, without the full stop.
#[must_use]
pub fn over_at_github(instance: &Instance) -> Option<String> {
    if let Some((over, believed)) = instance.runner.called_over() {
        return Some(format!(
            "GitHub has called that job over since {over}; if the machine stays silent until \
             {believed}, that counts"
        ));
    }
    let job = instance.runner.started.as_ref().filter(|job| job.completed_at.is_none())?;
    job.written_off_at.filter(|_| instance.runner.exit.is_none()).map(|at| {
        format!(
            "GitHub calls that job over and the machine said nothing for an hour, so since {at} it \
             ends unless GitHub calls its runner busy"
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
            | State::Deleted => "On its way out",
        };
        lines.push(format!("{how}: {}.", mark.reason.as_str()));
        let is_ours = instance.last_error.as_ref().is_some_and(|one| is_before_github(&one.code));
        match &mark.waiting {
            Some(Waiting::Unauthorized) if is_ours => lines.push(
                "GitHub cannot be asked to end its runner (bypass_github_unauthorized passes this)."
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
            "GitHub says that its runner is busy; the delete waits for its end".to_owned()
        }
        Waiting::SecondRead => {
            "It was not busy; that must be confirmed by a later look before it may end".to_owned()
        }
        Waiting::RateLimited => "GitHub's rate limit is reached".to_owned(),
        Waiting::Unauthorized => {
            "GitHub refuses the App's credentials (bypass_github_unauthorized passes this)"
                .to_owned()
        }
        Waiting::GithubUnavailable => "GitHub does not answer".to_owned(),
        Waiting::LaunchOpen => {
            "EC2 has not said yet whether it launched a machine for it".to_owned()
        }
        Waiting::Provider => {
            format!("EC2 failed to terminate it {attempts} time(s); it is tried again")
        }
        Waiting::SwitchedOff => {
            "Deletes are switched off by an operator (see status); force passes this".to_owned()
        }
        Waiting::Absent => {
            "EC2 does not know its machine; that must be confirmed by a later look".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
