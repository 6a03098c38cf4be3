//! Commits of changed records.

use muster_domain::ids::JobKey;
use muster_domain::instance::{Instance, State};
use muster_domain::job::claim;
use muster_domain::job::{FailedMachine, Job, PassedOver};
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::time::Time;
use muster_domain::usage::Line;

use crate::causes::with_causes;
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
const CONFLICT_ROUNDS: usize = 6;

/// An error that may say that another writer was faster.
pub(crate) trait MayConflict {
    fn is_conflict(&self) -> bool;
}

impl MayConflict for PassError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Conflict))
    }
}

/// Reads, decides and commits, and does so again while another writer is faster.
///
/// # Errors
/// The round's own; the conflict, where somebody else kept being faster.
pub(crate) async fn in_rounds<A, E: MayConflict>(
    mut round: impl AsyncFnMut() -> Result<A, E>,
) -> Result<A, E> {
    for _ in 1..CONFLICT_ROUNDS {
        match round().await {
            Err(error) if error.is_conflict() => {}
            done => return done,
        }
    }
    round().await
}

/// Reads a record, makes the next one of it and commits that, and does so again while another
/// writer is faster. `next` answers none where nothing is to be written. Answers with the record as
/// it is stored then.
///
/// # Errors
/// When the tables do not answer, or somebody else kept being faster.
pub(crate) async fn update<T, R>(
    table: &T,
    read: impl AsyncFn() -> Result<Option<Stored<R>>, ReadError>,
    next: impl Fn(Option<&R>) -> Option<R>,
) -> Result<Option<Stored<R>>, PassError>
where
    T: Table,
    R: Clone,
    Write: From<Change<R>>,
{
    in_rounds(async || {
        let stored = read().await?;
        let Some(next) = next(stored.as_deref()) else { return Ok(stored) };
        let change = Change::from_read(stored.as_ref(), next);
        let committed = table.commit(&[change.clone().into()]).await?;
        Ok(Some(change.stored(&committed)))
    })
    .await
}

/// A record that a command replaces.
pub(crate) enum Before<R> {
    /// As it was read; none where there is none.
    Read(Option<Stored<R>>),
    /// It cannot be read. The command writes it anew.
    Unreadable,
}

impl<R> Before<R> {
    /// What was read, where a record that cannot be read is no error.
    pub(crate) fn of(read: Result<Option<Stored<R>>, ReadError>) -> Result<Self, ReadError> {
        match read {
            Ok(stored) => Ok(Self::Read(stored)),
            Err(ReadError::Unreadable { .. }) => Ok(Self::Unreadable),
            Err(error) => Err(error),
        }
    }

    /// The record.
    pub(crate) fn record(&self) -> Option<&R> {
        match self {
            Self::Read(stored) => stored.as_deref(),
            Self::Unreadable => None,
        }
    }

    /// The change to `next`. A repaired record gets a version that no writer can have read: versions
    /// count writes, and milliseconds since 1970 are far more.
    pub(crate) fn change(&self, next: R, now: Time) -> Change<R> {
        match self {
            Self::Read(stored) => Change::from_read(stored.as_ref(), next),
            Self::Unreadable => {
                Change::repair(next, Version(u64::try_from(now.as_millis()).unwrap_or_default()))
            }
        }
    }
}

/// Commits what is worth nothing any more once somebody else has written one of the records: they
/// know better, and the caller goes on without it. Whether it was committed.
///
/// # Errors
/// When the table does not answer.
pub(crate) async fn commit_unless_changed<T: Table>(
    table: &T,
    writes: &[Write],
) -> Result<bool, CommitError> {
    match table.commit(writes).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The write of a changed instance, if it changed.
pub(crate) fn instance(before: &Stored<Instance>, next: &Instance) -> Option<Write> {
    (before.record() != next).then(|| before.change(next.clone()).into())
}

/// The write of a new or changed job, if it changed.
pub(crate) fn job(before: Option<&Stored<Job>>, next: &Job) -> Option<Write> {
    let is_same = before.is_some_and(|before| before.record() == next);
    (!is_same).then(|| Change::from_read(before, next.clone()).into())
}

/// All writes that belong to an instance's change: the record, the end of its claim at the job, and
/// at its end the counters and its line of usage.
pub(crate) async fn for_instance<T: Table>(
    table: &T,
    before: &Stored<Instance>,
    next: &Instance,
    now: Time,
) -> Result<Vec<Write>, PassError> {
    let mut writes = Vec::new();
    writes.extend(instance(before, next));
    if let Some(key) = before.claim().filter(|_| next.claim() != before.claim()) {
        writes.extend(released_job(table, key, before, next, now).await?);
    }
    if before.state().is_live() && next.state() == State::Deleted {
        writes.push(Write::CapacityDown(next.pool.clone()));
        writes.extend(next.counted_in.iter().cloned().map(Write::CountDown));
        writes.extend(usage(table, next).await?.map(Write::from));
    }
    Ok(writes)
}

/// The line of an instance that has ended, if it had a machine. It is written with that end and so
/// once; a job that cannot be read does not hold the end up.
async fn usage<T: Table>(table: &T, ended: &Instance) -> Result<Option<Line>, PassError> {
    let job = match ended.runner.ran {
        Some(key) => match table.job(key).await {
            Ok(job) => job,
            Err(ReadError::Unreadable { key, why }) => {
                tracing::error!(
                    job.id = key,
                    error = with_causes(&why),
                    "wrote a line of usage without its job: not of this version"
                );
                None
            }
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    Ok(Line::of_machine(ended, job.as_deref()))
}

/// The job that the instance claimed, if it still waits: demand again.
async fn released_job<T: Table>(
    table: &T,
    key: JobKey,
    before: &Instance,
    next: &Instance,
    now: Time,
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
    if let Some(why) = before.served_nothing(next) {
        released.failed = Some(FailedMachine { instance: before.name.clone(), at: now, why });
    }
    Ok(job(Some(&stored), &released))
}
