//! Merges events into job records.

use super::{Approval, Job, JobEvent, JobStatus};
use crate::SCHEMA;
use crate::time::Time;

/// Merges an event into a job's record. Returns the record unchanged if the event adds no
/// information.
///
/// The result does not depend on order: every field is a join (the larger status with its texts,
/// the earlier time), so any order and any repetition of a set of events ends in one record.
/// Deliveries arrive late, twice and out of order, and a late `queued` must not revive a job that
/// has ended. One assumption: events that disagree about the labels or the runner do not omit them.
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
            rerun: false,
            doubt: None,
        };
    };
    let status = event.status;
    let was_gated = job.is_gated() || job.status() == JobStatus::Waiting;
    job.last_event = join(job.last_event, event);
    if was_gated && status >= JobStatus::Queued {
        job.opened_at = Some(now);
    } else if status == JobStatus::Waiting && job.status() >= JobStatus::Queued {
        // The job was created before its approval, so only our own clock shows when it was queued.
        job.opened_at.get_or_insert(job.seen_at);
    }
    if job.status() == JobStatus::Queued {
        update_approval(&mut job, status, now);
    } else {
        job.approval = None;
    }
    job
}

/// Applies an event to the approval state of a queued job.
///
/// `queued` is accepted immediately, even for a job that was given up as expired: the worst case is
/// one extra query to GitHub. `waiting` may be older than an earlier `queued`, so it only causes a
/// query.
fn update_approval(job: &mut Job, status: JobStatus, now: Time) {
    if status == JobStatus::Queued && (job.approval.is_some() || job.expired) {
        job.opened_at = Some(now);
        if job.expired {
            // Its instance may have ended long ago without releasing the claim of an expired job.
            job.claim = None;
        }
        job.approval = None;
        job.expired = false;
    } else if status == JobStatus::Waiting && job.approval.is_none() && !job.expired {
        job.approval = Some(Approval::Told(now));
    }
}

/// Joins two events of one job.
///
/// The texts come from the event with the higher status: GitHub writes them anew for each event,
/// and the repository may have been renamed in between (ARC #3412). Between two events with equal
/// status, any rule works that does not depend on arrival order. A field that one event omits keeps
/// its known value: some `completed` events have no labels (ARC #1370).
///
/// Fields that belong together come from a single event. After a transfer, the old owner's
/// installation has no access to the new owner's repository; if the event has no installation,
/// Muster queries GitHub for the new owner's.
fn join(a: JobEvent, b: JobEvent) -> JobEvent {
    // The exception: the first that arrives. A later event may be sent by whoever approved the job.
    let actor = a.actor.clone().or_else(|| b.actor.clone());
    let (older, newer) = if sort_key(&a) < sort_key(&b) { (a, b) } else { (b, a) };
    // An ID belongs to its runner name. GitHub's API answer has only the name.
    let has_its_runner = newer.runner.is_none() || newer.runner == older.runner;
    let runner_id = newer.runner_id.or(older.runner_id.filter(|_| has_its_runner));
    let (run, attempt) = (older.run, older.attempt).max((newer.run, newer.attempt));
    JobEvent {
        key: newer.key,
        status: newer.status,
        repository: newer.repository,
        user_owned: newer.user_owned,
        installation: newer.installation,
        // If any event says public, treat the job as public: the stricter reading is safe.
        private: older.private && newer.private,
        run,
        attempt,
        name: newer.name,
        workflow: newer.workflow.or(older.workflow),
        branch: newer.branch.or(older.branch),
        actor,
        by_person: older.by_person || newer.by_person,
        deploys: older.deploys || newer.deploys,
        labels: if newer.labels.is_empty() { older.labels } else { newer.labels },
        runner: newer.runner.or(older.runner),
        runner_id,
        conclusion: newer.conclusion.or(older.conclusion),
        queued_at: earlier(older.queued_at, newer.queued_at),
        started_at: earlier(older.started_at, newer.started_at),
        completed_at: earlier(older.completed_at, newer.completed_at),
    }
}

/// Sort key of an event: the status, then all texts.
fn sort_key(event: &JobEvent) -> impl Ord + '_ {
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
