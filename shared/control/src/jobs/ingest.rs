//! Folds a job event into the job's row, and levels the claims it upsets.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::ids::{InstanceName, JobKey, PoolName};
use muster_domain::instance::{Instance, JobTitle, State};
use muster_domain::job::claim::{self, Started};
use muster_domain::job::run::{self, Doubt};
use muster_domain::job::{self, Job, JobEvent, JobStatus, Moved};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::foreign_runners::foreign_runner;
use muster_domain::pool::select;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Line;

use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::health::note;
use crate::ports::{Instances as _, Jobs as _, ReadError, Table, Write};
use crate::writes::{self, PassError};

/// Most jobs that are read, and written, in one call.
const MAX_TOGETHER: usize = 100;

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folded {
    /// The event is in the row.
    Stored {
        /// Pools with new demand or new free supply, whose launch pass should run. More than one
        /// when GitHub gave a job of one pool to a runner of another.
        wake: BTreeSet<PoolName>,
        /// The jobs as they are stored now: its own, and the one that its runner left for it.
        jobs: Vec<Job>,
        /// How long its own job waited, if this event is the first to name a runner.
        waited: Option<Waited>,
    },
    /// The job is none of ours; no row is kept.
    NotOurs(String),
}

/// How long a job waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The pool that served it.
    pub pool: PoolName,
    /// See [`Job::waited`].
    pub millis: u64,
}

/// The ingest pass.
pub struct Ingest<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

/// Everybody that an event touches, as read.
#[derive(Default)]
struct Touched {
    taker: Option<Stored<Instance>>,
    left: Option<Stored<Job>>,
    spared: Option<Stored<Instance>>,
    /// The job is a copy of one that ran in an earlier attempt, so it ran on no machine.
    is_copy: bool,
}

impl<W: Wired<Table: Table>> Ingest<'_, W> {
    /// Folds one event, in any order and any number of times.
    ///
    /// # Errors
    /// When the tables do not answer or somebody else kept being faster: deliver the event again.
    pub async fn fold(&self, event: &JobEvent, now: Time) -> Result<Folded, PassError> {
        // Large, and in most passes that could fold never reached: not part of them.
        writes::in_rounds(async || Box::pin(self.try_fold(event, None, now)).await).await
    }

    /// Folds the end of a job that GitHub does not tell: what says so goes on record with it.
    ///
    /// # Errors
    /// As for [`Self::fold`].
    pub(crate) async fn fold_end(
        &self,
        event: &JobEvent,
        why: Doubt,
        now: Time,
    ) -> Result<Folded, PassError> {
        writes::in_rounds(async || Box::pin(self.try_fold(event, Some(why), now)).await).await
    }

    /// Folds many events, each with an answer of its own, in order. Jobs that only wait are written
    /// together, and those that are not new read together, in one call each for up to a hundred;
    /// what cannot be done together is done one by one, so that no event fails for another's sake.
    pub async fn fold_all(&self, events: &[JobEvent], now: Time) -> Vec<Result<Folded, PassError>> {
        let mut folded: Vec<Option<Result<Folded, PassError>>> = vec![None; events.len()];
        let mut seen = BTreeSet::new();
        let together: Vec<usize> = (0..events.len())
            .filter(|index| {
                let event = &events[*index];
                event.status < JobStatus::InProgress && seen.insert(event.key)
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

    /// Answers those of `part` that it could fold in one commit, or all of them when the rows
    /// cannot be read.
    async fn fold_together(
        &self,
        events: &[JobEvent],
        part: &[usize],
        folded: &mut [Option<Result<Folded, PassError>>],
        now: Time,
    ) {
        // A job that has just been queued is most likely new, and needs no look. If it is not, the
        // commit says so.
        let is_new = |index: &usize| {
            let event = &events[*index];
            event.status == JobStatus::Queued && self.folded(None, event, now).pool.is_some()
        };
        let (new, mut rest): (Vec<usize>, Vec<usize>) = part.iter().partition(|one| is_new(one));
        if !self.fold_onto(&BTreeMap::new(), events, &new, folded, now).await {
            rest = part.to_vec();
        }
        if rest.is_empty() {
            return;
        }
        let keys: Vec<JobKey> = rest.iter().map(|index| events[*index].key).collect();
        match self.context.table.jobs(&keys).await {
            Ok(stored) => {
                let stored = stored.into_iter().map(|job| (job.key(), job)).collect();
                self.fold_onto(&stored, events, &rest, folded, now).await;
            }
            // One by one the others can be read.
            Err(ReadError::Unreadable { .. }) => {}
            Err(error) => {
                rest.iter().for_each(|index| folded[*index] = Some(Err(error.clone().into())));
            }
        }
    }

    /// Folds into the rows as `stored`, in one commit. Answers false, and no event, when that
    /// fails: then each event is folded for itself.
    async fn fold_onto(
        &self,
        stored: &BTreeMap<JobKey, Stored<Job>>,
        events: &[JobEvent],
        part: &[usize],
        folded: &mut [Option<Result<Folded, PassError>>],
        now: Time,
    ) -> bool {
        let (mut writes, mut answers) = (Vec::new(), Vec::new());
        for index in part {
            let before = stored.get(&events[*index].key);
            let next = self.folded(before.map(Stored::record), &events[*index], now);
            if next.status() >= JobStatus::InProgress {
                // A late event of a job that runs: it has others to touch.
                continue;
            }
            if let Some(why) = self.not_ours_yet(before.is_some(), &next) {
                answers.push((*index, Folded::NotOurs(why)));
                continue;
            }
            writes.extend(writes::job(before, &next));
            let wake = to_wake(&next, &Touched::default());
            answers.push((*index, Folded::Stored { wake, jobs: vec![next], waited: None }));
        }
        // Somebody has changed a row; or the tables do not answer, and it may be that they refuse
        // one item alone.
        if !writes.is_empty() && self.context.table.commit(&writes).await.is_err() {
            return false;
        }
        for (index, answer) in answers {
            folded[index] = Some(Ok(answer));
        }
        true
    }

    /// The row as an event alone makes it.
    fn folded(&self, before: Option<&Job>, event: &JobEvent, now: Time) -> Job {
        let mut next = job::fold(before.cloned(), event.clone(), now);
        // One that is queued after a long wait may find its pool removed.
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

    /// Whether a job that is not on record would be taken in.
    pub(super) fn is_ours(&self, event: &JobEvent, now: Time) -> bool {
        self.not_ours_yet(false, &self.folded(None, event, now)).is_none()
    }

    fn not_ours_yet(&self, is_known: bool, next: &Job) -> Option<String> {
        (!is_known && next.pool.is_none()).then(|| self.not_ours(next)).flatten()
    }

    async fn try_fold(
        &self,
        event: &JobEvent,
        why: Option<Doubt>,
        now: Time,
    ) -> Result<Folded, PassError> {
        let before = self.context.table.job(event.key).await?;
        let mut next = self.folded(before.as_deref(), event, now);
        if before.as_ref().is_some_and(|before| before.status() < JobStatus::InProgress) {
            next.doubt = why.or(next.doubt);
        }
        if let Some(why) = self.not_ours_yet(before.is_some(), &next) {
            return Ok(Folded::NotOurs(why));
        }
        let touched = self.read_touched(&next).await?;
        let (next, mut changes) = self.settle(next, &touched, now);
        if let Some(write) = writes::job(before.as_ref(), &next) {
            let line = usage(before.as_deref(), &next, &touched);
            changes.extend([write].into_iter().chain(line));
        }
        if !changes.is_empty() {
            self.context.table.commit(&changes).await?;
        }
        // Also without a change: an earlier delivery of this event may have been stopped here.
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

    /// Records that a runner of another fleet took a job that has a machine here. If that cannot be
    /// written, the next such job is recorded.
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

    /// GitHub was asked for a job, after `asked` was read, and calls it waiting for an approval.
    /// Once that is settled ([`Job::found_waiting`]) the job needs no machine: the one that was
    /// meant for it is free.
    ///
    /// # Errors
    /// When the tables do not answer, or somebody has changed the row: the answer may be older than
    /// that.
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
        tracing::info!(job.id = %asked.key(), approval = ?next.approval, "GitHub says that the job waits for an approval");
        let mut writes: Vec<Write> = writes::job(Some(asked), &next).into_iter().collect();
        writes.extend(changes);
        self.context.table.commit(&writes).await?;
        Ok(())
    }

    /// The pool that keeps runners idle, when one of them took a job.
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

    /// A job that no pool serves and no runner of ours took. One that asks for `self-hosted`, or
    /// for what a pool carries that refuses it now, is kept, so that `explain` can say why nobody
    /// serves it; a job of GitHub's own runners is not.
    fn not_ours(&self, job: &Job) -> Option<String> {
        let asks_for_self_hosted = job.last_event.labels.iter().any(|label| label == "self-hosted");
        let is_meant = self.context.settings.pools.iter().any(|pool| pool.is_meant_by(job));
        (!asks_for_self_hosted && !is_meant && job.ran_on().is_none())
            .then(|| job.unmatched.clone().unwrap_or_default())
    }

    /// Reads who is touched once a job has left the queue.
    async fn read_touched(&self, job: &Job) -> Result<Touched, PassError> {
        if job.status() < JobStatus::InProgress {
            return Ok(Touched::default());
        }
        let named = match job.ran_on() {
            Some(name) => self.context.table.instance(&name).await?,
            None => None,
        };
        let taker = named.filter(|named| job.is_taken_by(named));
        // A runner runs one job: what else names it is a copy.
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

    /// The job as it is to be stored, and the writes of everybody else.
    fn settle(&self, job: Job, touched: &Touched, now: Time) -> (Job, Vec<Write>) {
        let live_taker = touched.taker.as_deref().filter(|taker| taker.state().is_live());
        let Some(mut taker) = live_taker.cloned() else {
            return Self::settle_without_taker(job, touched, now);
        };
        let mut changes = Vec::new();
        if job.status() == JobStatus::Completed {
            let failed = job.last_event.has_failed();
            taker.github_completed(job.key(), failed, now, &self.context.settings.timings);
        } else {
            changes.extend(killed_unseen(&taker, now).map(Write::Audit));
            taker.github_started(job.key(), now);
        }
        let JobEvent { repository, name, .. } = job.last_event.clone();
        taker.name_job(job.key(), JobTitle { repository, name });
        let (left, spared) = (touched.left.as_deref().cloned(), touched.spared.as_deref().cloned());
        let started = Started { job, taker, left, spared };
        let can_serve = |instance: &Instance, job: &Job| {
            let pool = self.context.settings.pool(&instance.pool);
            pool.is_some_and(|pool| claim::can_serve(pool, instance, job))
        };
        let settled = claim::settle_started(started, can_serve, now);
        changes.extend(changed(touched.taker.as_ref(), &settled.taker));
        if let Some(spared) = &settled.spared {
            changes.extend(changed(touched.spared.as_ref(), spared));
        }
        if let Some(left) = &settled.left {
            changes.extend(writes::job(touched.left.as_ref(), left));
        }
        (settled.job, changes)
    }

    /// Cancelled before a runner took it, or taken by one that is not ours: whoever was meant for
    /// it is free.
    fn settle_without_taker(mut job: Job, touched: &Touched, now: Time) -> (Job, Vec<Write>) {
        let mut changes = Vec::new();
        if let Some(spared) = &touched.spared {
            let mut next = spared.record().clone();
            if next.claim() == Some(job.key()) {
                next.clear_claim(now, "the job needs no runner any more");
            }
            changes.extend(changed(Some(spared), &next));
            claim::set_job_claim(&mut job, None);
        }
        (job, changes)
    }
}

/// The line about a job of which nobody had heard when an order, or the machine's age, began to end
/// its machine. `taker` as it was before the job was known.
fn killed_unseen(taker: &Instance, now: Time) -> Option<Audit> {
    let told = taker.mark().is_some_and(|mark| mark.kill_told);
    let ends = taker.may_kill_job() && (taker.state() == State::Deleting || told);
    (ends && !taker.runner.has_taken_job() && taker.runner.exit.is_none()).then(|| {
        let (by, why) = taker.killer();
        Audit::new(&taker.name, AuditKind::JobKilled, by, why, now)
    })
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

fn to_wake(job: &Job, touched: &Touched) -> BTreeSet<PoolName> {
    let demand = job.pool.as_ref().filter(|_| job.is_demand());
    let left = touched.left.as_ref().and_then(|left| left.pool.as_ref());
    let spared = touched.spared.as_ref().map(|spared| &spared.pool);
    [demand, left, spared].into_iter().flatten().cloned().collect()
}

fn changed(before: Option<&Stored<Instance>>, next: &Instance) -> Option<Write> {
    before.and_then(|before| writes::instance(before, next))
}
