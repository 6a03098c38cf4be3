//! Commits changed records.

use muster_domain::causes::with_causes;
use muster_domain::claim;
use muster_domain::instance::{Instance, State};
use muster_domain::job::{FailedMachine, Job, PassedOver};
use muster_domain::rerun::{Interruption, Rerun, RunOf};
use muster_domain::stored::{Change, Stored, Version};
use muster_domain::time::Time;
use muster_domain::usage::{self, Line, Loss};

use crate::ports::{CommitError, QueueError, ReadError, Table, Write};

/// Why a pass stopped. Running the pass again resolves all of these, except an unreadable record.
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

/// Maximum number of attempts when concurrent writes conflict.
const CONFLICT_ROUNDS: usize = 6;

/// An error that may be a conflict with a concurrent write.
pub(crate) trait MayConflict {
    fn is_conflict(&self) -> bool;
}

impl MayConflict for PassError {
    fn is_conflict(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Conflict))
    }
}

/// Runs rounds that read, decide and commit, until one does not conflict with a concurrent write.
///
/// # Errors
/// The round's error, or the conflict after too many rounds.
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

/// Reads a record, commits the result of `next`, and repeats this after a conflict. If `next`
/// returns none, nothing is written. Returns the record as stored.
///
/// # Errors
/// When the tables do not answer, or too many concurrent writes conflict.
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

/// Leaves out a record that cannot be parsed, for passes that can continue without it.
pub(crate) fn readable<R>(
    read: Result<Option<Stored<R>>, ReadError>,
) -> Result<Option<Stored<R>>, ReadError> {
    match read {
        Err(error @ ReadError::Unreadable { .. }) => {
            tracing::error!(error = with_causes(&error), "continued without a record");
            Ok(None)
        }
        read => read,
    }
}

/// Rewrites a record that cannot be parsed. Only for what Muster learns by itself: an operator's
/// orders and the states of jobs and instances are never replaced.
pub(crate) async fn renewed<T, R>(
    table: &T,
    read: Result<Option<Stored<R>>, ReadError>,
    anew: impl FnOnce() -> R,
    now: Time,
) -> Result<Option<Stored<R>>, PassError>
where
    T: Table,
    R: Clone,
    Write: From<Change<R>>,
{
    let error = match read {
        Err(error @ ReadError::Unreadable { .. }) => error,
        read => return Ok(read?),
    };
    tracing::error!(error = with_causes(&error), "rewrote a record that cannot be read");
    let change = Before::Unreadable.change(anew(), now);
    let committed = table.commit(&[change.clone().into()]).await?;
    Ok(Some(change.stored(&committed)))
}

/// Moves a cursor before calls to GitHub or EC2 whose answers are recorded. While the table refuses
/// writes, every sweep would repeat those calls. Returns false if a concurrent sweep makes them.
///
/// # Errors
/// When the table does not answer.
pub(crate) async fn take_turn<T: Table>(
    table: &T,
    cursor: &str,
    now: Time,
) -> Result<bool, PassError> {
    let last = table.cursor(cursor).await?;
    match table.move_cursor(cursor, last, now).await {
        Ok(()) => Ok(true),
        Err(CommitError::Conflict) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A record that a write replaces.
pub(crate) enum Before<R> {
    /// The record as read, if it exists.
    Read(Option<Stored<R>>),
    /// The record cannot be parsed; the write replaces it.
    Unreadable,
}

impl<R> Before<R> {
    /// Returns the record as read; one that cannot be parsed is not an error.
    pub(crate) fn of(read: Result<Option<Stored<R>>, ReadError>) -> Result<Self, ReadError> {
        match read {
            Ok(stored) => Ok(Self::Read(stored)),
            Err(ReadError::Unreadable { .. }) => Ok(Self::Unreadable),
            Err(error) => Err(error),
        }
    }

    /// Returns the record.
    pub(crate) fn record(&self) -> Option<&R> {
        match self {
            Self::Read(stored) => stored.as_deref(),
            Self::Unreadable => None,
        }
    }

    /// Returns the change to `next`. A repaired record gets a version that no concurrent writer can
    /// have read: versions count writes, and the milliseconds since 1970 are far larger.
    pub(crate) fn change(&self, next: R, now: Time) -> Change<R> {
        match self {
            Self::Read(stored) => Change::from_read(stored.as_ref(), next),
            Self::Unreadable => {
                Change::repair(next, Version(u64::try_from(now.as_millis()).unwrap_or_default()))
            }
        }
    }
}

/// Commits writes that are obsolete once one of the records has changed: then the concurrent writer
/// has newer information. Returns whether the commit succeeded.
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

/// Returns the write of an instance, if it changed.
pub(crate) fn instance(before: &Stored<Instance>, next: &Instance) -> Option<Write> {
    (before.record() != next).then(|| before.change(next.clone()).into())
}

/// Returns the write of a new or changed job, if it changed.
pub(crate) fn job(before: Option<&Stored<Job>>, next: &Job) -> Option<Write> {
    let is_same = before.is_some_and(|before| before.record() == next);
    (!is_same).then(|| Change::from_read(before, next.clone()).into())
}

/// Returns all writes for an instance's change: the record, the release of its claim, and at its
/// end the counters and its usage record.
pub(crate) async fn for_instance<T: Table>(
    table: &T,
    before: &Stored<Instance>,
    next: &Instance,
    now: Time,
) -> Result<Vec<Write>, PassError> {
    let mut writes = Vec::new();
    writes.extend(instance(before, next));
    let claimed = before.claim().filter(|_| next.claim() != before.claim());
    let claimed = match claimed {
        Some(key) => table.job(key).await?,
        None => None,
    };
    if let Some(stored) = &claimed {
        writes.extend(released_job(stored, before, next, now));
    }
    if before.state().is_live() && next.state() == State::Deleted {
        writes.push(Write::CapacityDown(next.pool.clone()));
        writes.extend(next.counted_in.iter().cloned().map(Write::CountDown));
        // Mostly the job that it has claimed.
        let ran = match next.runner.ran {
            Some(key) if claimed.as_ref().is_some_and(|job| job.key() == key) => claimed,
            Some(key) => readable(table.job(key).await)?,
            None => None,
        };
        let ran = ran.as_deref();
        writes.extend(Line::of_machine(next, ran).map(Write::from));
        if usage::loss(next) == Some(Loss::Job) {
            writes.extend(interruption(table, next, ran, now).await?);
        }
    }
    Ok(writes)
}

/// Returns the usage record of an ended instance, and the write of the workflow run of its job, if the
/// end of its machine cut that short.
pub(crate) async fn of_cut_job<T: Table>(
    table: &T,
    ended: &Instance,
    now: Time,
) -> Result<Vec<Write>, PassError> {
    if usage::loss(ended) != Some(Loss::Job) {
        return Ok(Vec::new());
    }
    let ran = match ended.runner.ran {
        Some(key) => readable(table.job(key).await)?,
        None => None,
    };
    let line = Line::of_machine(ended, ran.as_deref()).map(Write::from);
    let rerun = interruption(table, ended, ran.as_deref(), now).await?;
    Ok(line.into_iter().chain(rerun).collect())
}

/// Returns the write of the workflow run whose job was interrupted by the end of this instance's
/// machine. None if EC2 did not interrupt it, or the run has it on record.
pub(crate) async fn interruption<T: Table>(
    table: &T,
    ended: &Instance,
    job: Option<&Job>,
    now: Time,
) -> Result<Option<Write>, PassError> {
    let (Some(one), Some(of)) = (Interruption::of(ended, job), RunOf::of(ended, job)) else {
        return Ok(None);
    };
    let before = Before::of(table.rerun(of.key()).await)?;
    let next = Rerun::with(before.record(), &of, &ended.pool, one, now);
    Ok(next.map(|next| before.change(next, now).into()))
}

/// Returns the job that the instance claimed, as demand again, if it still waits.
fn released_job(
    stored: &Stored<Job>,
    before: &Instance,
    next: &Instance,
    now: Time,
) -> Option<Write> {
    let mut released = claim::release(stored, &before.name)?;
    if next.passed_over && !before.passed_over && next.runner.exit.is_none() {
        released.passed_over = Some(PassedOver::again(stored.passed_over, now));
    }
    if let Some(why) = before.served_nothing(next) {
        released.failed = Some(FailedMachine { instance: before.name.clone(), at: now, why });
    }
    job(Some(stored), &released)
}
