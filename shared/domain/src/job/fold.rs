//! What an event makes of a job.

use super::{Approval, Job, JobEvent, JobStatus};
use crate::SCHEMA;
use crate::time::Time;

/// Merges an event into a job's record. Returns the record unchanged when the event says nothing
/// new.
///
/// Order-free: every field is a join (the larger status and its texts, the earlier time), so any
/// order and any repetition of the same events ends in the same record. Deliveries are late, doubled
/// and out of order, and a late `queued` must not revive a job that has ended. One thing is taken
/// for granted: events that disagree about the labels or the runner do not leave them out.
#[must_use]
pub fn fold(job: Option<Job>, event: JobEvent, now: Time) -> Job {
    let Some(mut job) = job else {
        return Job {
            schema: SCHEMA,
            last_event: event,
            seen_at: now,
            pool: None,
            unmatched: None,
            claim: None,
            passed_over: None,
            failed: None,
            expired: false,
            moved: None,
            asked_at: None,
            opened_at: None,
            approval: None,
            doubt: None,
        };
    };
    let status = event.status;
    let was_gated = job.is_gated() || job.status() == JobStatus::Waiting;
    job.last_event = join(job.last_event, event);
    if was_gated && status >= JobStatus::Queued {
        job.opened_at = Some(now);
    } else if status == JobStatus::Waiting && job.status() >= JobStatus::Queued {
        // It was created before its approval, so only our own time says when it was queued.
        job.opened_at.get_or_insert(job.seen_at);
    }
    if job.status() == JobStatus::Queued {
        turn_gate(&mut job, status, now);
    } else {
        job.approval = None;
    }
    job
}

/// What an event says about the approval of a job that is queued. `queued` is believed at once,
/// also of a job that was given up: at worst GitHub is asked once more. `waiting` may be older than
/// a `queued` that came before, and is a reason to ask.
fn turn_gate(job: &mut Job, said: JobStatus, now: Time) {
    if said == JobStatus::Queued && (job.approval.is_some() || job.expired) {
        job.opened_at = Some(now);
        if job.expired {
            // Its instance may be gone long since, and told nobody of a job that was given up.
            job.claim = None;
        }
        job.approval = None;
        job.expired = false;
    } else if said == JobStatus::Waiting && job.approval.is_none() && !job.expired {
        job.approval = Some(Approval::Told(now));
    }
}

/// The texts are those of the event with the higher status: GitHub writes them anew for each, and a
/// repository may have another name by then (ARC #3412). Between two of the same status any rule
/// will do that does not know which came first. What an event leaves out stays as it is known: some
/// `completed` events carry no labels (ARC #1370).
///
/// What belongs together comes from one event. After a transfer, the old owner's installation has
/// no access to the new owner's repository; without an installation, GitHub is asked for the
/// owner's.
fn join(a: JobEvent, b: JobEvent) -> JobEvent {
    let (older, newer) = if texts(&a) < texts(&b) { (a, b) } else { (b, a) };
    // A number belongs to its name. GitHub's answer to a question has the name alone.
    let has_its_runner = newer.runner.is_none() || newer.runner == older.runner;
    let runner_id = newer.runner_id.or(older.runner_id.filter(|_| has_its_runner));
    let (run, attempt) = (older.run, older.attempt).max((newer.run, newer.attempt));
    JobEvent {
        key: newer.key,
        status: newer.status,
        repository: newer.repository,
        user_owned: newer.user_owned,
        installation: newer.installation,
        // Public once is public: the stricter reading wins.
        private: older.private && newer.private,
        run,
        attempt,
        name: newer.name,
        workflow: newer.workflow.or(older.workflow),
        branch: newer.branch.or(older.branch),
        labels: if newer.labels.is_empty() { older.labels } else { newer.labels },
        runner: newer.runner.or(older.runner),
        runner_id,
        conclusion: newer.conclusion.or(older.conclusion),
        queued_at: earlier(older.queued_at, newer.queued_at),
        started_at: earlier(older.started_at, newer.started_at),
        completed_at: earlier(older.completed_at, newer.completed_at),
    }
}

/// The status, and then all texts: by these an event stands above another.
fn texts(event: &JobEvent) -> impl Ord + '_ {
    let JobEvent { status, repository, user_owned, installation, name, .. } = event;
    let JobEvent { workflow, branch, labels, runner, runner_id, conclusion, .. } = event;
    (
        (status, repository, user_owned, installation),
        (name, workflow, branch, labels, runner, runner_id, conclusion),
    )
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
