//! A batch of the jobs queue or of the launch queue: events are folded, and the pools that they
//! touch are woken; a wake-up runs the launch pass of its pool. A message that fails comes again
//! soon, and holds up no other.

use futures_util::future::join;
use muster_domain::ec2::ErrorClass;
use muster_domain::hash::{fnv1a, fnv1a_on};
use muster_domain::ids::PoolName;
use muster_domain::job::JobEvent;
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::time::{Seconds, Time};

use crate::Settings;
use crate::causes::with_causes;
use crate::jobs::ingest::{Folded, Ingest};
use crate::launches::scale_up::{
    LaunchReport, LaunchStopped, Looked, ScaleUp, again_after, comes_again, last_call, send_wakes,
};
use crate::metrics::Metric;
use crate::ports::{Compute, Queue, ReadError, Table};
use crate::woken::Woken;
use crate::writes::PassError;

/// A message of the jobs queue or of the launch queue.
#[derive(Clone, Debug)]
pub struct Received {
    /// What it says; none when this version cannot read it.
    pub message: Option<JobsMessage>,
    /// Names it among all messages, the same at every receive.
    pub id: String,
    /// What it is hidden by.
    pub receipt: String,
    /// How often it was received, this time included.
    pub receives: u32,
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsReport {
    /// For each message, in order: done with it; the others come back.
    pub acked: Vec<bool>,
    /// Messages that this version cannot read. They end in the dead-letter queue, where nothing is
    /// lost.
    pub unreadable: u32,
    /// What the launch passes did, those included that were stopped by an error.
    pub passes: Vec<(PoolName, LaunchReport)>,
}

impl JobsReport {
    /// What CloudWatch is told.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn metrics(&self) -> Vec<(Metric, f64)> {
        let mut metrics = vec![(Metric::UnknownRecords, 1.0); self.unreadable as usize];
        for (_, report) in &self.passes {
            if report.failed > 0 {
                metrics.push((Metric::LaunchFailed, report.failed as f64));
            }
            if !report.refusals.is_empty() {
                // The others as none, so that each class has a line once there is any.
                let of = |class| report.refusals.get(&class).map_or(0.0, |count| *count as f64);
                let classes = ErrorClass::ALL.iter().copied();
                let counted =
                    classes.filter_map(|class| Some((Metric::for_refusal(class)?, of(class))));
                metrics.extend(counted);
            }
        }
        metrics
    }
}

/// An invocation for either queue. Wake-ups were on the jobs queue once, and some may be there
/// during an upgrade.
pub struct JobsBatch<'a, T, Q, C> {
    /// The tables.
    pub table: &'a T,
    /// The queues.
    pub queue: &'a Q,
    /// EC2.
    pub compute: &'a C,
    /// The stack, as its parameters say.
    pub settings: &'a Settings,
    /// Names the invocation among all that may overlap.
    pub invocation: &'a str,
    /// When Lambda stops it.
    pub deadline: Time,
    /// The time.
    pub clock: &'a dyn Fn() -> Time,
}

impl<T: Table, Q: Queue, C: Compute> JobsBatch<'_, T, Q, C> {
    /// Handles a batch.
    pub async fn run(&self, messages: &[Received]) -> JobsReport {
        let last_call = last_call((self.clock)(), self.deadline);
        let mut report = JobsReport { acked: vec![false; messages.len()], ..JobsReport::default() };
        for received in messages.iter().filter(|received| received.message.is_none()) {
            report.unreadable += 1;
            self.leave_event(received).await;
        }
        let (settings, mut looked) = join(
            self.settings.followed(self.table, (self.clock)()),
            self.look_first(messages, (self.clock)()),
        )
        .await;
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => {
                // Nothing is known of any pool: all messages stay.
                tracing::error!(error = with_causes(&error), "cannot read the set of pools");
                self.leave_all(messages, &Err(error), &mut report).await;
                return report;
            }
        };
        self.take_in(&settings, messages, &mut report).await;
        for (number, received) in messages.iter().enumerate() {
            if let Some(JobsMessage::WakePool(wake)) = &received.message {
                let looked = looked.take();
                let done =
                    self.launch(&settings, received, wake, looked, last_call, &mut report).await;
                report.acked[number] = done;
            }
        }
        report
    }

    /// What the launch pass of a wake-up reads first: at the same moment as the set of pools, since
    /// a wake-up comes alone and nothing is to be done before it.
    async fn look_first(
        &self,
        messages: &[Received],
        now: Time,
    ) -> Option<Result<Looked, ReadError>> {
        let [Received { message: Some(JobsMessage::WakePool(wake)), .. }] = messages else {
            return None;
        };
        Some(Looked::read(self.table, wake, now).await)
    }

    async fn leave_all(
        &self,
        messages: &[Received],
        failed: &Result<LaunchReport, PassError>,
        report: &mut JobsReport,
    ) {
        for (received, acked) in messages.iter().zip(&mut report.acked) {
            match received.message {
                Some(JobsMessage::JobEvent { .. }) => self.leave_event(received).await,
                Some(JobsMessage::WakePool(_)) => {
                    *acked =
                        self.leave_wake(received, comes_again(failed, received.receives)).await;
                }
                None => {}
            }
        }
    }

    /// Folds the events of a batch, and wakes the pools that have something to do now. An event
    /// whose wake-up cannot be sent comes again: folding it once more changes nothing.
    async fn take_in(&self, settings: &Settings, messages: &[Received], report: &mut JobsReport) {
        let (mut told, mut events): (Vec<(usize, &str)>, Vec<JobEvent>) = (Vec::new(), Vec::new());
        for (number, received) in messages.iter().enumerate() {
            if let Some(JobsMessage::JobEvent { event, delivery }) = &received.message {
                told.push((number, delivery));
                events.push((**event).clone());
            }
        }
        let ingest = Ingest { table: self.table, settings };
        let folded = ingest.fold_all(&events, (self.clock)()).await;
        let (mut woken, mut wakers) = (Woken::default(), Vec::new());
        for (((number, delivery), event), folded) in told.into_iter().zip(&events).zip(folded) {
            match folded {
                Ok(Folded::Stored { wake, jobs }) => {
                    tracing::info!(job.id = %event.key, job.status = ?event.status, delivery, "recorded a job event");
                    report.acked[number] = true;
                    if !wake.is_empty() {
                        woken.after(&wake, &jobs, settings);
                        wakers.push(number);
                    }
                }
                Ok(Folded::NotOurs(why)) => {
                    tracing::info!(job.id = %event.key, delivery, why, "ignored a job event: no pool is meant");
                    report.acked[number] = true;
                }
                Err(error) => {
                    tracing::error!(job.id = %event.key, delivery, error = with_causes(&error), "failed to record a job event; it comes again");
                    self.leave_event(&messages[number]).await;
                }
            }
        }
        if wakers.is_empty() {
            return;
        }
        if let Err(error) = self.queue.send_wakes(&woken.messages(), Seconds(0)).await {
            tracing::error!(
                error = with_causes(&error),
                "failed to wake the pools; the events come again"
            );
            for number in wakers {
                report.acked[number] = false;
                self.leave_event(&messages[number]).await;
            }
        }
    }

    /// The launch pass that a wake-up asks for. Whether the wake-up is done with.
    async fn launch(
        &self,
        settings: &Settings,
        received: &Received,
        wake: &WakePool,
        looked: Option<Result<Looked, ReadError>>,
        last_call: Time,
        report: &mut JobsReport,
    ) -> bool {
        let pass = ScaleUp {
            table: self.table,
            compute: self.compute,
            settings,
            holder: self.invocation,
            seed: seed(self.invocation, &received.id),
            last_call,
            clock: self.clock,
        };
        let (receives, now) = (received.receives, (self.clock)());
        let passed = match looked {
            Some(Ok(looked)) => pass.pass_after(looked, wake, receives).await,
            Some(Err(error)) => Err(error.into()),
            None => pass.pass(wake, receives, now).await,
        };
        let wait = comes_again(&passed, received.receives);
        let passed = passed.unwrap_or_else(|LaunchStopped { report, error }| {
            tracing::error!(pool.name = %wake.pool, error = with_causes(&error), "launch pass failed");
            *report
        });
        tracing::info!(pool.name = %wake.pool, report = ?passed, "launch pass ended");
        if let Err(error) = send_wakes(self.queue, &wake.pool, &passed).await {
            tracing::warn!(pool.name = %wake.pool, error = with_causes(&error), "failed to ask for another launch pass; the sweep will");
        }
        report.passes.push((wake.pool.clone(), passed));
        self.leave_wake(received, wait).await
    }

    /// The event comes again in some seconds. Not hidden, it comes after the queue's own time-out:
    /// later, but not lost.
    async fn leave_event(&self, received: &Received) {
        let wait = again_after(received.receives);
        if let Err(error) = self.queue.hide_job(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it comes again after the queue's time-out"
            );
        }
    }

    /// The wake-up comes again after `wait`, or is done with. Which of the two.
    async fn leave_wake(&self, received: &Received, wait: Option<Seconds>) -> bool {
        let Some(wait) = wait else { return true };
        if let Err(error) = self.queue.hide_wake(&received.receipt, wait).await {
            tracing::warn!(
                sqs.message_id = received.id,
                error = with_causes(&error),
                "failed to hide a message; it comes again after the queue's time-out"
            );
        }
        false
    }
}

/// A number that differs between passes, from the request id and the message: launch ids must never
/// repeat.
fn seed(invocation: &str, message: &str) -> u64 {
    fnv1a_on(fnv1a(invocation.as_bytes()), message.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::seed;

    #[test]
    fn passes_have_seeds_of_their_own() {
        assert_eq!(seed("8f5e-1", "a"), seed("8f5e-1", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-2", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-1", "b"));
    }
}
