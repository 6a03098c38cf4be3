//! A batch of the jobs queue: events are folded, and the pools that they touch are woken. A message
//! that fails comes again soon, and holds up no other.

use muster_domain::ids::{Entity, InstallationId};
use muster_domain::inquiry::Inquiries;
use muster_domain::job::JobEvent;
use muster_domain::message::JobsMessage;
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::jobs::ingest::{Folded, Ingest, Waited};
use crate::launches::pass::again_after;
use crate::metrics::{self, Measure, Metric};
use crate::ports::{Operations as _, Queue, Table};
use crate::woken::Woken;
use crate::writes::{self, PassError};

/// A message as a queue hands it over.
#[derive(Clone, Debug)]
pub struct Received<M> {
    /// What it says.
    pub message: M,
    /// Names it among all messages, the same at every receive.
    pub id: String,
    /// What it is hidden by.
    pub receipt: String,
    /// How often it was received, this time included.
    pub receives: u32,
}

/// The outcome of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobsReport {
    /// For each message, in order: done with it; the others come back.
    pub acked: Vec<bool>,
    /// The metrics: how long jobs waited that have a runner now, and the messages that keep failing.
    pub measures: Vec<Measure>,
}

/// An invocation for the jobs queue.
pub struct JobsBatch<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
    /// The time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<W: Wired<Table: Table, Queue: Queue>> JobsBatch<'_, W> {
    /// Handles a batch. A message that this version cannot read counts as failing at once, since a
    /// retry cannot help; it ends in the dead-letter queue, where it is not lost.
    pub async fn run(&self, messages: &[Received<Option<JobsMessage>>]) -> JobsReport {
        let mut report = self.handled(messages).await;
        let is_failing = |(one, acked): &(&Received<Option<JobsMessage>>, &bool)| {
            let is_readable = matches!(
                one.message,
                Some(JobsMessage::JobEvent { .. } | JobsMessage::Unreadable { .. })
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
        let (mut events, mut told) = (Vec::new(), Vec::new());
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
                        tracing::error!(%repository, delivery, error = with_causes(&error), "failed to note that a repository is to be asked about; the message comes again");
                        self.leave(received).await;
                    }
                }
                Some(JobsMessage::WakePool(_)) | None => self.leave(received).await,
            }
        }
        if told.is_empty() {
            return report;
        }
        match self.context.settings.current(self.context.table).await {
            Ok(settings) => self.take_in(&settings, messages, &events, told, &mut report).await,
            Err(error) => {
                // Nothing is known of any pool: all messages stay.
                tracing::error!(error = with_causes(&error), "cannot read the set of pools");
                for (number, _) in told {
                    self.leave(&messages[number]).await;
                }
            }
        }
        report
    }

    /// An event cannot be read: GitHub is asked for what is queued there, after the next sweep. This
    /// function has no way to GitHub.
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
                tracing::error!(%repository, delivery, "too many repositories send events that cannot be read; this one is not asked about");
            }
            is_noted.then_some(next)
        };
        writes::update(self.context.table, async || self.context.table.inquiries().await, next)
            .await?;
        Ok(())
    }

    /// Folds the events of a batch, and wakes the pools that have something to do now. An event
    /// whose wake-up cannot be sent comes again: folding it once more changes nothing.
    async fn take_in(
        &self,
        settings: &Settings,
        messages: &[Received<Option<JobsMessage>>],
        events: &[JobEvent],
        told: Vec<(usize, &str)>,
        report: &mut JobsReport,
    ) {
        let ingest = Ingest { context: self.context.with(settings) };
        let folded = ingest.fold_all(events, (self.clock)()).await;
        let (mut woken, mut wakers) = (Woken::default(), Vec::new());
        for (((number, delivery), event), folded) in told.into_iter().zip(events).zip(folded) {
            match folded {
                Ok(Folded::Stored { wake, jobs, waited }) => {
                    tracing::info!(job.id = %event.key, job.status = ?event.status, delivery, "recorded a job event");
                    report.acked[number] = true;
                    report.measures.extend(waited.map(|waited| measure(settings, &waited)));
                    if !wake.is_empty() {
                        woken.after(&wake, &jobs);
                        wakers.push(number);
                    }
                }
                Ok(Folded::NotOurs(why)) => {
                    tracing::info!(job.id = %event.key, delivery, why, "ignored a job event: no pool is meant");
                    report.acked[number] = true;
                }
                Err(error) => {
                    tracing::error!(job.id = %event.key, delivery, error = with_causes(&error), "failed to record a job event; it comes again");
                    self.leave(&messages[number]).await;
                }
            }
        }
        if wakers.is_empty() {
            return;
        }
        if let Err(error) = self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await {
            tracing::error!(
                error = with_causes(&error),
                "failed to wake the pools; the events come again"
            );
            for number in wakers {
                report.acked[number] = false;
                self.leave(&messages[number]).await;
            }
        }
    }

    /// The message comes again in some seconds. Not hidden, it comes after the queue's own
    /// time-out: later, but not lost.
    async fn leave<M>(&self, received: &Received<M>) {
        let wait = again_after(received.receives);
        if let Err(error) = self.context.queue.hide_job(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it comes again after the queue's time-out"
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "waits stay far below 2^52")]
fn measure(settings: &Settings, waited: &Waited) -> Measure {
    let of = metrics::pool(settings, &waited.pool);
    Measure::of(of, Metric::JobWaitSeconds, waited.millis as f64 / 1000.0)
}
