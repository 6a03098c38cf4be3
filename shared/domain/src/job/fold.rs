//! What an event makes of a job.

use super::{Gate, Job, JobEvent, JobStatus};
use crate::SCHEMA;
use crate::time::Time;

/// Merges an event into a job's record. Returns the record unchanged when the event says nothing
/// new.
///
/// Order-free: every field is a join (the larger status, the earlier time, the text that is there),
/// so any order and any repetition of the same events ends in the same record. Deliveries are
/// late, doubled and out of order, and a late `queued` must not revive a job that has ended.
#[must_use]
pub fn fold(job: Option<Job>, event: JobEvent, now: Time) -> Job {
    let is_queued = |job: &Job| job.status() >= JobStatus::Queued;
    let Some(mut job) = job else {
        let queued_seen_at = (event.status >= JobStatus::Queued).then_some(now);
        return Job {
            schema: SCHEMA,
            last_event: event,
            seen_at: now,
            pool: None,
            unmatched: None,
            claim: None,
            hold: None,
            passed_over: None,
            expired: false,
            moved: None,
            asked_at: None,
            queued_seen_at,
            gate: None,
        };
    };
    let status = event.status;
    let said = join(job.last_event.clone(), event);
    if said != job.last_event {
        let was_queued = is_queued(&job);
        job.last_event = said;
        if !was_queued && is_queued(&job) {
            job.queued_seen_at = Some(now);
        }
    }
    if job.status() == JobStatus::Queued {
        turn_gate(&mut job, status, now);
    } else {
        job.gate = None;
    }
    job
}

/// What an event says about the approval of a job that is queued. `queued` is believed at once,
/// also of a job that was given up: at worst GitHub is asked once more. `waiting` may be older than
/// a `queued` that came before, and is a reason to ask.
fn turn_gate(job: &mut Job, said: JobStatus, now: Time) {
    if said == JobStatus::Queued && (job.gate.is_some() || job.expired) {
        if job.is_gated() || job.expired {
            job.queued_seen_at = Some(now);
        }
        if job.expired {
            // Its instance may be gone long since, and told nobody of a job that was given up.
            job.claim = None;
        }
        job.gate = None;
        job.expired = false;
    } else if said == JobStatus::Waiting && job.gate.is_none() && !job.expired {
        job.gate = Some(Gate::Told(now));
    }
}

fn join(a: JobEvent, b: JobEvent) -> JobEvent {
    JobEvent {
        key: a.key,
        status: a.status.max(b.status),
        repository: a.repository.max(b.repository),
        // Public once is public: the stricter reading wins.
        private: a.private && b.private,
        user_owned: a.user_owned || b.user_owned,
        installation: a.installation.max(b.installation),
        run: a.run.max(b.run),
        attempt: a.attempt.max(b.attempt),
        name: a.name.max(b.name),
        labels: a.labels.max(b.labels),
        runner: a.runner.max(b.runner),
        conclusion: a.conclusion.max(b.conclusion),
        queued_at: earlier(a.queued_at, b.queued_at),
        started_at: earlier(a.started_at, b.started_at),
        completed_at: earlier(a.completed_at, b.completed_at),
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
