//! Commits of changed records.

use muster_domain::backoff;
use muster_domain::ids::JobKey;
use muster_domain::instance::{DeleteReason, ErrorDetail, Instance, State};
use muster_domain::job::PassedOver;
use muster_domain::job::claim;
use muster_domain::job::{Hold, Job};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use crate::ports::{CommitError, QueueError, ReadError, Table, Write};

/// Why a pass stopped. All heal by running the pass again; an unreadable record stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A message could not be sent.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// How often a pass reads again after somebody else was faster.
pub(crate) const CONFLICT_ROUNDS: usize = 6;

/// The write of a changed instance, if it changed.
pub(crate) fn instance(before: &Instance, next: &Instance) -> Option<Write> {
    (before != next).then(|| Write::Instance {
        next: Box::new(next.clone()),
        replaces: Some(before.generation()),
    })
}

/// The write of a changed job, if it changed.
pub(crate) fn job(before: Option<&Job>, next: &Job) -> Option<Write> {
    (before != Some(next)).then(|| Write::Job {
        next: Box::new(next.clone()),
        replaces: before.map(|job| job.generation),
    })
}

/// All writes that belong to an instance's change: the record, the end of its claim at the job, and
/// at its end the counters.
pub(crate) async fn for_instance<T: Table>(
    table: &T,
    before: &Instance,
    next: &Instance,
    now: Time,
    timings: &Timings,
) -> Result<Vec<Write>, PassError> {
    let mut writes = Vec::new();
    writes.extend(instance(before, next));
    if let Some(key) = before.claim().filter(|_| next.claim() != before.claim()) {
        writes.extend(released_job(table, key, before, next, now, timings).await?);
    }
    if before.state().is_live() && next.state() == State::Deleted {
        writes.push(Write::CapacityDown(next.pool.clone()));
        writes.extend(next.counted_in.iter().cloned().map(Write::CountDown));
    }
    Ok(writes)
}

/// The job that the instance claimed, if it still waits: demand again. After a failure that the
/// next instance may share it is held back for a while, longer each time, so that machines are not
/// burnt without pause on a launch or a job that cannot succeed.
async fn released_job<T: Table>(
    table: &T,
    key: JobKey,
    before: &Instance,
    next: &Instance,
    now: Time,
    timings: &Timings,
) -> Result<Option<Write>, PassError> {
    let Some(stored) = table.job(key).await? else {
        return Ok(None);
    };
    let Some(mut released) = claim::release(&stored, &before.name) else {
        return Ok(None);
    };
    if next.passed_over && !before.passed_over && next.runner.exit.is_none() {
        released.passed_over = Some(PassedOver::again(stored.passed_over, now));
    }
    if let Some(reason) = hold_reason(before, next) {
        let failures = stored.hold.as_ref().map_or(0, |hold| hold.failures) + 1;
        let until = now + backoff::hold_wait(failures, timings);
        released.hold = Some(Hold { until, reason, failures, closed: None });
    }
    Ok(job(Some(&stored), &released))
}

fn hold_reason(before: &Instance, next: &Instance) -> Option<String> {
    if let Some(fault) = next.runner.exit.as_ref().and_then(|exit| exit.refused.as_ref()) {
        let ErrorDetail { code, message, .. } = fault;
        return Some(format!("GitHub refuses its runner a configuration ({code}: {message})"));
    }
    if next.passed_over && !before.passed_over {
        return Some(if next.runner.exit.is_some() {
            "its runner ended without taking it".to_owned()
        } else {
            "GitHub did not give it to its idle runner (check the runner group's access)".to_owned()
        });
    }
    if before.died_unheard(next) {
        let what = "its machine ended before its runner was there";
        // What was known before is no reason of this end.
        let told = next.last_error.as_ref().filter(|_| next.last_error != before.last_error);
        return Some(match told {
            Some(fault) => format!("{what}: {}: {}", fault.code, fault.message),
            None => what.to_owned(),
        });
    }
    match next.drain()?.reason {
        DeleteReason::LaunchFailed => Some(match &next.last_error {
            Some(fault) => format!("the launch failed: {}: {}", fault.code, fault.message),
            None => "the launch failed".to_owned(),
        }),
        DeleteReason::BootTimeout => Some("its machine did not start a runner".to_owned()),
        _ => None,
    }
}
