//! Processes a batch of the jobs queue: folds events into jobs, warms pools before their jobs come, and wakes the affected pools. A
//! failed message returns soon and does not block the others.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join;
use muster_domain::causes::with_causes;
use muster_domain::ids::{Entity, InstallationId};
use muster_domain::inquiry::Inquiries;
use muster_domain::job::{Job, JobEvent};
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::warm::RepositoryEvent;
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::context::{Context, Wired};
use crate::jobs::ingest::{Folded, Ingest, Waited};
use crate::metrics::{self, Measure, Metric};
use crate::ports::{
    Launches as _, Operations as _, Queue, ReadError, Received, Table, again_after,
};
use crate::settings_cache::{SettingsCache, VersionedSettings};
use crate::woken::Woken;
use crate::writes::{self, PassError};

/// If the commit of new jobs takes longer, their wake-up is sent a second time: the first one may have
/// been received before the commit as often as it is redelivered ([`crate::launches::wake_up`]).
const LATE: Seconds = Seconds(1);

/// The outcome of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobsReport {
    /// Whether each message, in order, is done; the others return.
    pub acked: Vec<bool>,
    /// Metrics: waits of jobs that got a runner, and messages that keep failing.
    pub measures: Vec<Measure>,
}

/// The folded events of a batch.
struct FoldedBatch {
    /// The settings that they were folded with.
    settings: Rc<VersionedSettings>,
    /// For each event, in order.
    folded: Vec<Result<Folded, PassError>>,
    /// The numbers of the events whose wake-up has been sent.
    woken: BTreeSet<usize>,
}

/// An invocation for the jobs queue.
pub struct JobsBatch<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
    /// The settings that the function keeps between invocations.
    pub cache: &'a SettingsCache,
    /// Returns the current time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Queue: Queue>> JobsBatch<'_, W> {
    /// Processes a batch. A message that this version cannot parse counts as failing at once,
    /// because a retry cannot help; it moves to the dead-letter queue, where it is kept.
    pub async fn run(&self, messages: &[Received<Option<JobsMessage>>]) -> JobsReport {
        let mut report = self.handled(messages).await;
        let is_failing = |(one, acked): &(&Received<Option<JobsMessage>>, &bool)| {
            let is_readable = matches!(
                one.message,
                Some(
                    JobsMessage::JobEvent { .. }
                        | JobsMessage::Unreadable { .. }
                        | JobsMessage::Repository { .. }
                )
            );
            !**acked && (!is_readable || metrics::keeps_failing(one.receives))
        };
        let failing = messages.iter().zip(&report.acked).filter(is_failing).count();
        report.measures.extend(Measure::failing(failing));
        report
    }

    async fn handled(&self, messages: &[Received<Option<JobsMessage>>]) -> JobsReport {
        let acked = vec![false; messages.len()];
        let mut report = JobsReport { acked, ..JobsReport::default() };
        let (mut events, mut told, mut forecasts) = (Vec::new(), Vec::new(), Vec::new());
        for (number, received) in messages.iter().enumerate() {
            match &received.message {
                Some(JobsMessage::JobEvent { event, delivery }) => {
                    events.push((**event).clone());
                    told.push((number, delivery.as_str()));
                }
                Some(JobsMessage::Unreadable { repository, installation, delivery }) => {
                    let noted = self.note(repository, *installation, delivery).await;
                    report.acked[number] = noted.is_ok();
                    if let Err(error) = noted {
                        tracing::error!(%repository, delivery, error = with_causes(&error), "failed to record a repository to query; the message returns");
                        self.leave(received).await;
                    }
                }
                Some(JobsMessage::Repository { event, .. }) => forecasts.push((number, &**event)),
                Some(JobsMessage::WakePool(_)) | None => self.leave(received).await,
            }
        }
        if !forecasts.is_empty() {
            let events: Vec<&RepositoryEvent> = forecasts.iter().map(|(_, event)| *event).collect();
            let is_done = self.warm(&events).await;
            for (number, _) in forecasts {
                report.acked[number] = is_done;
                if !is_done {
                    self.leave(&messages[number]).await;
                }
            }
        }
        if !told.is_empty() {
            self.take_in(messages, &events, told, &mut report).await;
        }
        report
    }

    /// Records a repository whose event cannot be parsed: GitHub is queried for its queued jobs
    /// after the next sweep, because this function has no access to GitHub.
    async fn note(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        delivery: &str,
    ) -> Result<(), PassError> {
        let now = (self.clock)();
        let next = |all: Option<&Inquiries>| {
            let mut next = all.cloned().unwrap_or_default();
            let is_noted = next.tell(repository, installation, now);
            if !is_noted {
                tracing::error!(%repository, delivery, "too many repositories send events that cannot be read; this one is not queried");
            }
            is_noted.then_some(next)
        };
        writes::update(self.context.table, async || self.context.table.inquiries().await, next)
            .await?;
        Ok(())
    }

    /// Warms the pools whose rules match these events. Returns whether that is done. The cached
    /// settings do not suffice: they may be older than a rule, and no commit would notice.
    async fn warm(&self, events: &[&RepositoryEvent]) -> bool {
        let Some(settings) = self.refresh().await else { return false };
        let mut is_done = true;
        let mut wakes = Vec::new();
        for pool in &settings.settings().pools {
            let own: Vec<&RepositoryEvent> =
                events.iter().copied().filter(|event| pool.is_warmed_by(event)).collect();
            if own.is_empty() {
                continue;
            }
            match self.warm_pool(pool, &own).await {
                Ok(true) => wakes.push(WakePool::whole(pool.name.clone())),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(pool.name = %pool.name, error = with_causes(&error), "failed to warm a pool; the event is retried");
                    is_done = false;
                }
            }
        }
        if let Err(error) = self.context.queue.send_wakes(&wakes, Seconds(0)).await {
            tracing::warn!(
                error = with_causes(&error),
                "failed to wake the warmed pools; the sweep does"
            );
        }
        is_done
    }

    /// Records what the events require of a pool. Returns whether that changed anything.
    async fn warm_pool(&self, pool: &Pool, events: &[&RepositoryEvent]) -> Result<bool, PassError> {
        let (table, now) = (self.context.table, (self.clock)());
        let is_changed = Cell::new(false);
        let next = |stored: Option<&Capacity>| {
            let before = stored.cloned().unwrap_or_else(|| Capacity::empty(pool.name.clone()));
            let next = events.iter().fold(None, |next: Option<Capacity>, event| {
                next.as_ref().unwrap_or(&before).warmed(pool, event, now).or(next)
            });
            is_changed.set(next.is_some());
            next
        };
        writes::update(table, async || table.capacity(&pool.name).await, next).await?;
        if is_changed.get() {
            tracing::info!(pool.name = %pool.name, "an event warms the pool");
        }
        Ok(is_changed.get())
    }

    /// Folds the events of a batch and wakes the pools that have work now. If a wake-up cannot be
    /// sent, the event returns: folding it again changes nothing.
    async fn take_in(
        &self,
        messages: &[Received<Option<JobsMessage>>],
        events: &[JobEvent],
        told: Vec<(usize, &str)>,
        report: &mut JobsReport,
    ) {
        let Some(FoldedBatch { settings, folded, woken: sent }) = self.fold(events).await else {
            // No pool is known: all messages stay.
            for (number, _) in told {
                self.leave(&messages[number]).await;
            }
            return;
        };
        let settings = settings.settings();
        let (mut woken, mut wakers) = (Woken::default(), Vec::new());
        for (place, ((number, delivery), folded)) in told.into_iter().zip(folded).enumerate() {
            let event = &events[place];
            match folded {
                Ok(Folded::Stored { wake, jobs, waited }) => {
                    tracing::info!(job.id = %event.key, job.status = ?event.status, delivery, "recorded a job event");
                    report.acked[number] = true;
                    report.measures.extend(waited.map(|waited| measure(settings, &waited)));
                    if !wake.is_empty() && !sent.contains(&place) {
                        woken.after(&wake, &jobs);
                        wakers.push(number);
                    }
                }
                Ok(Folded::NotOurs(why)) => {
                    tracing::info!(job.id = %event.key, delivery, why, "ignored a job event: it is for no pool");
                    report.acked[number] = true;
                }
                Err(error) => {
                    tracing::error!(job.id = %event.key, delivery, error = with_causes(&error), "failed to record a job event; it is retried");
                    self.leave(&messages[number]).await;
                }
            }
        }
        if let Err(error) = self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await {
            tracing::error!(
                error = with_causes(&error),
                "failed to wake the pools; the events are retried"
            );
            for number in wakers {
                report.acked[number] = false;
                self.leave(&messages[number]).await;
            }
        }
    }

    /// Folds the events. New jobs are committed with the cached settings, which the commit checks, and
    /// their wake-ups are sent at the same time. Events of jobs that have left the queue usually need no
    /// pools. All other events, and those of a failed commit, are folded after reading the set of
    /// pools. Returns none if it cannot be read.
    async fn fold(&self, events: &[JobEvent]) -> Option<FoldedBatch> {
        let begun = (self.clock)();
        let cached = self.cache.get();
        let check = cached.as_ref().map(|cached| cached.check());
        let is_cached = cached.is_some();
        let mut settings = match cached {
            Some(cached) => cached,
            None => self.refresh().await?,
        };
        let ingest = Ingest { context: self.context.with(settings.settings()) };
        let new = ingest.new_jobs(events, begun);
        let (mut done, sent) = join(ingest.create(&new, check), self.wake_for(&new)).await;
        let is_woken = sent && !(self.clock)().is_past(begun, LATE);
        let woken = done.keys().copied().filter(|_| is_woken).collect();
        if is_cached {
            ingest.fold_beyond_queue(events, &mut done, begun).await;
            if done.len() < events.len() {
                settings = self.refresh().await?;
            }
        }
        let ingest = Ingest { context: self.context.with(settings.settings()) };
        let folded = ingest.fold_others(events, done, begun).await;
        Some(FoldedBatch { settings, folded, woken })
    }

    async fn refresh(&self) -> Option<Rc<VersionedSettings>> {
        let read = self.cache.refresh(self.context.settings, self.context.table).await;
        let log = |error: &ReadError| {
            tracing::error!(error = with_causes(error), "cannot read the set of pools");
        };
        read.inspect_err(log).ok()
    }

    /// Sends the wake-ups of jobs that are being committed. Returns whether they were sent.
    async fn wake_for(&self, new: &[(usize, Job)]) -> bool {
        let mut woken = Woken::default();
        for (_, job) in new.iter().filter(|(_, job)| job.is_demand()) {
            job.pool.iter().for_each(|pool| woken.for_job(pool.clone(), job.key()));
        }
        let sent = self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await;
        if let Err(error) = &sent {
            tracing::warn!(
                error = with_causes(error),
                "failed to wake the pools along with the commit of their jobs; they are woken after it"
            );
        }
        sent.is_ok()
    }

    /// Hides a message for some seconds. If hiding fails, it returns after the queue's visibility
    /// timeout: later, but not lost.
    async fn leave<M>(&self, received: &Received<M>) {
        let wait = again_after(received.receives);
        if let Err(error) = self.context.queue.hide_job(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it returns after the queue's visibility timeout"
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^52")]
fn measure(settings: &Settings, waited: &Waited) -> Measure {
    let of = metrics::pool(settings, &waited.pool);
    Measure::of(of, Metric::JobWaitSeconds, waited.millis as f64 / 1000.0)
}
