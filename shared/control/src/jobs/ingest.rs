//! Folds a job event into the job's row and updates the claims that it affects.

mod settle;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join;
use muster_domain::causes::with_causes;
use muster_domain::ids::{InstanceName, JobKey, PoolName, instance_of_runner};
use muster_domain::instance::Instance;
use muster_domain::job::run::{self, Doubt};
use muster_domain::job::{self, Job, JobEvent, JobStatus, Moved};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::foreign_runners::foreign_runner;
use muster_domain::pool::select;
use muster_domain::rerun::Interruption;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;
use muster_domain::usage::Line;

use crate::context::{Context, Wired};
use crate::health::note;
use crate::ports::{Instances as _, Jobs as _, Operations as _, ReadError, Table, Write};
use crate::writes::{self, PassError};

/// Maximum number of jobs read or written in one call.
const MAX_TOGETHER: usize = 100;

/// The outcome of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folded {
    /// The event is stored in the row.
    Stored {
        /// Pools with new demand or new free runners, whose launch pass should run. More than one
        /// if GitHub assigned a job of one pool to a runner of another pool.
        wake: BTreeSet<PoolName>,
        /// The jobs as stored now: the event's job, and the one that its runner was meant for.
        jobs: Vec<Job>,
        /// The job's wait, if this event is the first to name a runner.
        waited: Option<Waited>,
    },
    /// The job does not belong to us, for this reason; it gets no row.
    NotOurs(String),
}

/// A job's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The pool that served it.
    pub pool: PoolName,
    /// See [`Job::waited`].
    pub millis: u64,
}

/// The ingest pass.
pub struct Ingest<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

/// The records that an event affects, as read.
#[derive(Default)]
struct Touched {
    taker: Option<Stored<Instance>>,
    left: Option<Stored<Job>>,
    spared: Option<Stored<Instance>>,
    /// The job is a copy of a job from an earlier attempt, so it ran on no machine.
    is_copy: bool,
}

/// The records that an event is folded into.
struct Read {
    before: Option<Stored<Job>>,
    /// The job's record after the event.
    next: Job,
    touched: Touched,
}

impl<W: Wired<Table: Table>> Ingest<'_, W> {
    /// Folds one event. Events may arrive in any order and any number of times.
    ///
    /// # Errors
    /// When the tables do not answer or too many concurrent writes conflict: deliver the event
    /// again.
    pub async fn fold(&self, event: &JobEvent, now: Time) -> Result<Folded, PassError> {
        self.fold_as(event, None, now).await
    }

    /// Folds the end of a job that GitHub does not report, and records the reason.
    ///
    /// # Errors
    /// As for [`Self::fold`].
    pub(crate) async fn fold_end(
        &self,
        event: &JobEvent,
        why: Doubt,
        now: Time,
    ) -> Result<Folded, PassError> {
        self.fold_as(event, Some(why), now).await
    }

    async fn fold_as(
        &self,
        event: &JobEvent,
        why: Option<Doubt>,
        now: Time,
    ) -> Result<Folded, PassError> {
        // Large and rarely reached: boxed, so that it does not enlarge every pass.
        writes::in_rounds(async || {
            let read = self.read(event, now).await?;
            Box::pin(self.try_fold(event, read, why, now)).await
        })
        .await
    }

    /// Folds the events of jobs that have left the queue, if the pools do not influence the result: the
    /// settings may be cached ones. Adds the folded events to `done`.
    pub(super) async fn fold_beyond_queue(
        &self,
        events: &[JobEvent],
        done: &mut BTreeMap<usize, Folded>,
        now: Time,
    ) {
        for (number, event) in events.iter().enumerate() {
            if event.status < JobStatus::InProgress || done.contains_key(&number) {
                continue;
            }
            let folded = writes::in_rounds(async || {
                let read = self.read(event, now).await?;
                match self.is_settled_without_pools(&read) {
                    true => Box::pin(self.try_fold(event, read, None, now)).await.map(Some),
                    false => Ok(None),
                }
            });
            // Any other event is folded after the set of pools is read.
            if let Ok(Some(folded)) = folded.await {
                done.insert(number, folded);
            }
        }
    }

    /// Folds many events, each with an answer of its own, in order. Jobs that are most likely new are
    /// written together, and the others read and written together.
    pub async fn fold_all(&self, events: &[JobEvent], now: Time) -> Vec<Result<Folded, PassError>> {
        let folded = self.create(&self.new_jobs(events, now), None).await;
        self.fold_others(events, folded, now).await
    }

    /// Returns the records of jobs that are most likely new, because they were just queued, each with
    /// the number of its event.
    pub(super) fn new_jobs(&self, events: &[JobEvent], now: Time) -> Vec<(usize, Job)> {
        let mut seen = BTreeSet::new();
        let new = |(number, event): (usize, &JobEvent)| {
            // A later attempt may be Muster's; the record of the run shows it.
            let is_first =
                event.status == JobStatus::Queued && event.attempt == 1 && seen.insert(event.key);
            let job = is_first.then(|| self.folded(None, event, now))?;
            job.pool.is_some().then_some((number, job))
        };
        events.iter().enumerate().filter_map(new).collect()
    }

    /// Commits new jobs together, up to a hundred at a time, each commit with `check`. Returns those that
    /// were new, by the number of their event.
    pub(super) async fn create(
        &self,
        new: &[(usize, Job)],
        check: Option<Write>,
    ) -> BTreeMap<usize, Folded> {
        let mut stored = BTreeMap::new();
        for part in new.chunks(MAX_TOGETHER - usize::from(check.is_some())) {
            let rows = part.iter().map(|(_, job)| Change::create(job.clone()).into());
            let writes: Vec<Write> = rows.chain(check.clone()).collect();
            if self.context.table.commit(&writes).await.is_ok() {
                stored
                    .extend(part.iter().map(|(number, job)| (*number, stored_alone(job.clone()))));
            }
        }
        stored
    }

    /// Folds the events that are not in `done`. Jobs that are still queued are read and written
    /// together, in one call each for up to a hundred. If that fails, each is folded separately, so that
    /// no event fails because of another.
    pub(super) async fn fold_others(
        &self,
        events: &[JobEvent],
        done: BTreeMap<usize, Folded>,
        now: Time,
    ) -> Vec<Result<Folded, PassError>> {
        let mut folded: Vec<Option<Result<Folded, PassError>>> = vec![None; events.len()];
        done.into_iter().for_each(|(number, answer)| folded[number] = Some(Ok(answer)));
        let mut seen = BTreeSet::new();
        let together: Vec<usize> = (0..events.len())
            .filter(|index| {
                let event = &events[*index];
                folded[*index].is_none()
                    && event.status < JobStatus::InProgress
                    && event.attempt == 1
                    && seen.insert(event.key)
            })
            .collect();
        for part in together.chunks(MAX_TOGETHER) {
            self.fold_together(events, part, &mut folded, now).await;
        }
        for (index, answer) in folded.iter_mut().enumerate() {
            if answer.is_none() {
                *answer = Some(self.fold(&events[index], now).await);
            }
        }
        folded.into_iter().flatten().collect()
    }

    /// Folds events in one commit. Sets the results of those it folded, or of all if the rows
    /// cannot be read.
    async fn fold_together(
        &self,
        events: &[JobEvent],
        part: &[usize],
        folded: &mut [Option<Result<Folded, PassError>>],
        now: Time,
    ) {
        let keys: Vec<JobKey> = part.iter().map(|index| events[*index].key).collect();
        match self.context.table.jobs(&keys).await {
            Ok(stored) => {
                let stored = stored.into_iter().map(|job| (job.key(), job)).collect();
                self.fold_onto(&stored, events, part, folded, now).await;
            }
            // Each readable row can be read separately.
            Err(ReadError::Unreadable { .. }) => {}
            Err(error) => {
                part.iter().for_each(|index| folded[*index] = Some(Err(error.clone().into())));
            }
        }
    }

    /// Folds into the rows as `stored`, in one commit. If the commit fails, no result is set: each event
    /// is then folded separately.
    async fn fold_onto(
        &self,
        stored: &BTreeMap<JobKey, Stored<Job>>,
        events: &[JobEvent],
        part: &[usize],
        folded: &mut [Option<Result<Folded, PassError>>],
        now: Time,
    ) {
        let (mut writes, mut answers) = (Vec::new(), Vec::new());
        for index in part {
            let before = stored.get(&events[*index].key);
            let next = self.folded(before.map(Stored::record), &events[*index], now);
            if next.status() >= JobStatus::InProgress {
                // A late event of a running job also affects other records.
                continue;
            }
            if let Some(why) = self.not_ours_yet(before.is_some(), &next) {
                answers.push((*index, Folded::NotOurs(why)));
                continue;
            }
            writes.extend(writes::job(before, &next));
            answers.push((*index, stored_alone(next)));
        }
        // A row has changed, or the table failed, possibly for only one of the items.
        if !writes.is_empty() && self.context.table.commit(&writes).await.is_err() {
            return;
        }
        for (index, answer) in answers {
            folded[index] = Some(Ok(answer));
        }
    }

    /// Returns the row after the event, without effects on other records.
    fn folded(&self, before: Option<&Job>, event: &JobEvent, now: Time) -> Job {
        let mut next = job::fold(before.cloned(), event.clone(), now);
        // A job that is queued again after a long wait may find that its pool was removed.
        let returns = next.is_waiting() && before.is_some_and(|before| !before.is_waiting());
        let is_known = |name: &PoolName| self.context.settings.pool(name).is_some();
        if returns && !next.pool.as_ref().is_some_and(is_known) {
            let why = "its pool was removed before it was queued again".to_owned();
            next.moved = next.pool.take().map(|from| Moved { from, at: now, why });
        }
        if next.pool.is_none() {
            self.match_pool(&mut next);
        }
        let expiry = self.context.settings.timings.job_expiry_seconds;
        let is_new = before.is_none() && next.status() == JobStatus::Queued;
        if is_new && run::is_old(&next, expiry, now) {
            next.doubt = Some(Doubt::Old);
        }
        next
    }

    /// Whether a job without a record would be imported.
    pub(super) fn is_ours(&self, event: &JobEvent, now: Time) -> bool {
        self.not_ours_yet(false, &self.folded(None, event, now)).is_none()
    }

    fn not_ours_yet(&self, is_known: bool, next: &Job) -> Option<String> {
        (!is_known && next.pool.is_none()).then(|| self.not_ours(next)).flatten()
    }

    /// Reads an event's job, and at the same time the instance of the runner that the event names.
    async fn read(&self, event: &JobEvent, now: Time) -> Result<Read, PassError> {
        let table = self.context.table;
        let name = event.runner.as_deref().and_then(instance_of_runner);
        let instance = async {
            match &name {
                Some(name) => table.instance(name).await,
                None => Ok(None),
            }
        };
        let (before, instance) = join(table.job(event.key), instance).await;
        let before = before?;
        let mut next = self.folded(before.as_deref(), event, now);
        let is_new = before.is_none();
        // A person's event may correct one that came before it.
        let needs_record = is_new || event.by_person && next.rerun;
        if event.attempt > 1 && !next.is_copy() && needs_record {
            let record = writes::readable(table.rerun(event.run_key()).await)?;
            let ours = record.filter(|record| record.has_caused(event));
            next.rerun = ours.is_some();
            if let Some(record) = ours.filter(|_| is_new) {
                next.last_event.actor = record.actor();
            }
        }
        // The record may name a different runner.
        let instance = match next.ran_on() {
            ran_on if ran_on == name => instance?,
            Some(other) => table.instance(&other).await?,
            None => None,
        };
        let touched = self.read_touched(&next, instance).await?;
        Ok(Read { before, next, touched })
    }

    /// Returns whether the result is the same with any set of pools: the job stays in its pool, no other
    /// job loses its machine, and the machine's pool is known.
    fn is_settled_without_pools(&self, read: &Read) -> bool {
        let Read { before, next, touched } = read;
        let stays = before.as_ref().is_some_and(|before| before.pool == next.pool);
        let taker = touched.taker.as_ref().map(|taker| &taker.pool);
        let is_known = taker.is_none_or(|pool| self.context.settings.pool(pool).is_some());
        stays && next.pool.is_some() && touched.left.is_none() && is_known
    }

    async fn try_fold(
        &self,
        event: &JobEvent,
        read: Read,
        why: Option<Doubt>,
        now: Time,
    ) -> Result<Folded, PassError> {
        let Read { before, mut next, touched } = read;
        if before.as_ref().is_some_and(|before| before.status() < JobStatus::InProgress) {
            next.doubt = why.or(next.doubt);
        }
        if let Some(why) = self.not_ours_yet(before.is_some(), &next) {
            return Ok(Folded::NotOurs(why));
        }
        let (next, mut changes) = self.settle(next, &touched, now);
        if let Some(write) = writes::job(before.as_ref(), &next) {
            let line = usage(before.as_deref(), &next, &touched);
            changes.extend([write].into_iter().chain(line));
            changes.extend(self.interrupted(&next, &touched, now).await?);
        }
        if !changes.is_empty() {
            self.context.table.commit(&changes).await?;
        }
        // Even without a change: an earlier delivery of this event may have been interrupted here.
        let mut wake = to_wake(&next, &touched);
        wake.extend(self.short_of_idle(&next, &touched));
        let left = changes.into_iter().filter_map(|write| match write {
            Write::Job(job) if job.key() != event.key => Some(job.next().clone()),
            _ => None,
        });
        let waited = waited(before.as_deref(), &next, &touched);
        self.note_foreign_runner(before.as_deref(), &next, &touched, now).await;
        Ok(Folded::Stored { wake, jobs: left.chain([next]).collect(), waited })
    }

    /// Returns the write for a job whose machine EC2 had taken before this event, which is the first
    /// to name the machine.
    async fn interrupted(
        &self,
        job: &Job,
        touched: &Touched,
        now: Time,
    ) -> Result<Option<Write>, PassError> {
        let Some(taker) = touched.taker.as_deref().filter(|taker| !taker.state().is_live()) else {
            return Ok(None);
        };
        match Interruption::of(taker, Some(job)) {
            Some(one) if one.has_cut(job) => {
                writes::interruption(self.context.table, taker, Some(job), now).await
            }
            _ => Ok(None),
        }
    }

    /// Records that a runner of a different fleet took a job that has a machine here. If the write
    /// fails, the next such job is recorded.
    async fn note_foreign_runner(
        &self,
        before: Option<&Job>,
        next: &Job,
        touched: &Touched,
        now: Time,
    ) {
        let runner = foreign_runner(before, next, touched.taker.is_some());
        let (Some(runner), Some(pool)) = (runner, &next.pool) else { return };
        let after = |known: &Cooldowns| known.after_foreign_runner(pool, runner, now);
        if let Err(error) = note(self.context.table, after).await {
            tracing::warn!(pool.name = %pool, error = with_causes(&error),
                "failed to record that another fleet took a job");
        }
    }

    /// Handles GitHub's answer, received after `asked` was read, that a job waits for an approval.
    /// Once that is confirmed ([`Job::found_waiting`]), the job needs no machine, and the instance
    /// meant for it is free.
    ///
    /// # Errors
    /// When the tables do not answer, or the row has changed: the answer may be older than the
    /// change.
    pub(crate) async fn found_waiting(
        &self,
        asked: &Stored<Job>,
        now: Time,
    ) -> Result<(), PassError> {
        let next = asked.found_waiting(now);
        let spared = match next.claim.as_ref().filter(|_| next.is_gated()) {
            Some(name) => self.context.table.instance(name).await?,
            None => None,
        };
        let touched = Touched { spared, ..Touched::default() };
        let (next, changes) = Self::settle_without_taker(next, &touched, now);
        tracing::info!(job.id = %asked.key(), approval = ?next.approval, "GitHub reports that the job waits for an approval");
        let mut writes: Vec<Write> = writes::job(Some(asked), &next).into_iter().collect();
        writes.extend(changes);
        self.context.table.commit(&writes).await?;
        Ok(())
    }

    /// Returns the pool with `min_idle` whose runner took a job.
    fn short_of_idle(&self, job: &Job, touched: &Touched) -> Option<PoolName> {
        let taker = touched.taker.as_ref().filter(|_| job.status() == JobStatus::InProgress)?;
        let pool = self.context.settings.pool(&taker.pool)?;
        (pool.idle_wanted() > 0).then(|| pool.name.clone())
    }

    fn match_pool(&self, job: &mut Job) {
        match select::choose(&self.context.settings.pools, self.context.settings.balance, job) {
            Ok(pool) => {
                job.pool = Some(pool.name.clone());
                job.unmatched = None;
            }
            Err(why) => job.unmatched = Some(why.to_string()),
        }
    }

    /// Returns why a job that no pool serves and no runner of ours took gets no record. A job that
    /// requests `self-hosted`, or the labels of a pool that refuses it now, is recorded so that
    /// `explain` can say why it waits; a job for GitHub-hosted runners is not.
    fn not_ours(&self, job: &Job) -> Option<String> {
        let asks_for_self_hosted = job.last_event.labels.iter().any(|label| label == "self-hosted");
        let is_meant = self.context.settings.pools.iter().any(|pool| pool.is_meant_by(job));
        (!asks_for_self_hosted && !is_meant && job.ran_on().is_none())
            .then(|| job.unmatched.clone().unwrap_or_default())
    }

    /// Reads who is touched once a job has left the queue. `named` is the instance of its runner.
    async fn read_touched(
        &self,
        job: &Job,
        named: Option<Stored<Instance>>,
    ) -> Result<Touched, PassError> {
        if job.status() < JobStatus::InProgress {
            return Ok(Touched::default());
        }
        let taker = named.filter(|named| named.took(job));
        // A runner runs one job, so any other job that names it is a copy.
        let ran_other =
            |taker: &Stored<Instance>| taker.runner.ran.is_some_and(|ran| ran != job.key());
        let is_copy = job.is_copy() || taker.as_ref().is_some_and(ran_other);
        let taker = taker.filter(|_| !is_copy);
        let is_taker = |name: &InstanceName| taker.as_ref().is_some_and(|own| own.name == *name);
        let spared = match job.claim.as_ref().filter(|name| !is_taker(name)) {
            Some(name) => self.context.table.instance(name).await?,
            None => None,
        };
        let left = match taker.as_ref().and_then(|taker| taker.claim()) {
            Some(key) if key != job.key() => self.context.table.job(key).await?,
            _ => None,
        };
        Ok(Touched { taker, left, spared, is_copy })
    }
}

/// Returns the usage line of a job whose machine ended before this event, or that ended without a
/// machine of ours. A job that was still behind its approval needed none.
fn usage(before: Option<&Job>, job: &Job, touched: &Touched) -> Option<Write> {
    let was_open = before.is_none_or(|before| !before.is_completed() && !before.is_gated());
    let line = match touched.taker.as_deref() {
        Some(taker) if taker.state().is_live() => None,
        Some(taker) => Line::of_machine(taker, Some(job)),
        None if touched.is_copy => None,
        None if job.is_completed() && was_open && job.pool.is_some() => Line::of_job_alone(job),
        None => None,
    };
    line.map(Write::from)
}

/// Returns the wait of a job once: an event that is delivered again finds the runner on record.
fn waited(before: Option<&Job>, job: &Job, touched: &Touched) -> Option<Waited> {
    let was_taken = before.is_some_and(|before| before.ran_on().is_some());
    let is_taken = !was_taken && !touched.is_copy && job.ran_on().is_some();
    let (pool, millis) = (job.pool.clone()?, job.waited()?);
    is_taken.then_some(Waited { pool, millis })
}

/// Returns the result for a job whose record was the only one written.
fn stored_alone(job: Job) -> Folded {
    let wake = to_wake(&job, &Touched::default());
    Folded::Stored { wake, jobs: vec![job], waited: None }
}

fn to_wake(job: &Job, touched: &Touched) -> BTreeSet<PoolName> {
    let demand = job.pool.as_ref().filter(|_| job.is_demand());
    let left = touched.left.as_ref().and_then(|left| left.pool.as_ref());
    let spared = touched.spared.as_ref().map(|spared| &spared.pool);
    [demand, left, spared].into_iter().flatten().cloned().collect()
}
