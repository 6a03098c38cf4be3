//! The scale-up Lambda. Batches of the jobs queue: folds the events into the tables and wakes the
//! pools that they touch; it waits for no call of EC2. Of the launch queue: runs the launch pass of
//! a pool. A queue only says that something happened; the tables say what to do.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use muster_control::Settings;
use muster_control::jobs::ingest::{Folded, Ingest};
use muster_control::launches::scale_up::{
    LaunchReport, ScaleUp, again_after, comes_again, last_call, send_wakes,
};
use muster_control::metrics::Metric;
use muster_control::ports::{Compute, Queue, Table};
use muster_control::woken::Woken;
use muster_domain::ec2::ErrorClass;
use muster_domain::hash::{fnv1a, fnv1a_on};
use muster_domain::ids::PoolName;
use muster_domain::job::JobEvent;
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::time::{Seconds, Time};

/// What an invocation works with.
pub struct Deps<T, Q, C> {
    /// The tables.
    pub table: T,
    /// The queues.
    pub queue: Q,
    /// EC2.
    pub compute: C,
    /// The stack.
    pub settings: Settings,
}

/// What an invocation answers and counts.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The messages that stay in the queue.
    pub response: SqsBatchResponse,
    /// For CloudWatch.
    pub metrics: Vec<(Metric, f64)>,
}

/// A batch by what its messages say. Each is of one queue; but wake-ups were on the jobs queue
/// once, and some may be there during an upgrade.
#[derive(Default)]
struct Batch<'a> {
    events: Vec<(&'a SqsMessage, JobEvent, String)>,
    wakes: Vec<(&'a SqsMessage, WakePool)>,
    unreadable: Vec<&'a SqsMessage>,
}

/// Handles a batch. A message that cannot be handled stays in the queue and holds up no other; one
/// that cannot even be read ends in the dead-letter queue, where nothing is lost.
///
/// `invocation` must be unique among invocations that may overlap: the request id. `deadline` is
/// when Lambda stops it.
pub async fn handle<T: Table, Q: Queue, C: Compute>(
    deps: &Deps<T, Q, C>,
    event: SqsEvent,
    invocation: &str,
    deadline: Time,
    now: impl Fn() -> Time,
) -> Outcome {
    let last_call = last_call(now(), deadline);
    let mut outcome = Outcome::default();
    let batch = read(&event);
    for record in &batch.unreadable {
        outcome.metrics.push((Metric::UnknownRecords, 1.0));
        leave_event(deps, record, &mut outcome).await;
    }
    let settings = match deps.settings.followed(&deps.table, now()).await {
        Ok(settings) => settings,
        Err(error) => {
            // Nothing is known of any pool: all messages stay.
            tracing::error!(?error, "cannot read the set of pools");
            for (record, ..) in &batch.events {
                leave_event(deps, record, &mut outcome).await;
            }
            for (record, _) in &batch.wakes {
                let wait = comes_again(&Err(error.clone()), receives(record));
                leave_wake(deps, record, wait, &mut outcome).await;
            }
            return outcome;
        }
    };
    take_in(deps, &settings, batch.events, now(), &mut outcome).await;
    for (record, wake) in batch.wakes {
        let pass = ScaleUp {
            table: &deps.table,
            compute: &deps.compute,
            settings: &settings,
            holder: invocation,
            seed: seed(invocation, record.message_id.as_deref().unwrap_or_default()),
            last_call,
            clock: &now,
        };
        let passed = pass.pass(&wake, receives(record), now()).await;
        match &passed {
            Ok(report) => finish(deps, &wake.pool, report, &mut outcome).await,
            Err(error) => tracing::error!(pool.name = %wake.pool, ?error, "launch pass failed"),
        }
        leave_wake(deps, record, comes_again(&passed, receives(record)), &mut outcome).await;
    }
    outcome
}

fn read(event: &SqsEvent) -> Batch<'_> {
    let mut batch = Batch::default();
    for record in &event.records {
        match serde_json::from_str(record.body.as_deref().unwrap_or_default()) {
            Ok(JobsMessage::JobEvent { event, delivery }) => {
                batch.events.push((record, *event, delivery));
            }
            Ok(JobsMessage::WakePool(wake)) => batch.wakes.push((record, wake)),
            Err(error) => {
                let message_id = record.message_id.as_deref().unwrap_or_default();
                tracing::error!(sqs.message_id = message_id, %error, "rejected a message that cannot be read");
                batch.unreadable.push(record);
            }
        }
    }
    batch
}

fn receives(record: &SqsMessage) -> u32 {
    let receives = record.attributes.get("ApproximateReceiveCount");
    receives.and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// The event comes again in some seconds. Not hidden, it comes after the queue's own time-out:
/// later, but not lost.
async fn leave_event<T, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    record: &SqsMessage,
    outcome: &mut Outcome,
) {
    let id = record.message_id.clone().unwrap_or_default();
    let receipt = record.receipt_handle.as_deref().unwrap_or_default();
    if let Err(error) = deps.queue.hide_job(receipt, again_after(receives(record))).await {
        tracing::warn!(sqs.message_id = id, %error, "failed to hide a message; it comes again after the queue's time-out");
    }
    outcome.response.add_failure(id);
}

/// The wake-up comes again after `wait`, or is done with.
async fn leave_wake<T, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    record: &SqsMessage,
    wait: Option<Seconds>,
    outcome: &mut Outcome,
) {
    let Some(wait) = wait else { return };
    let id = record.message_id.clone().unwrap_or_default();
    let receipt = record.receipt_handle.as_deref().unwrap_or_default();
    if let Err(error) = deps.queue.hide_wake(receipt, wait).await {
        tracing::warn!(sqs.message_id = id, %error, "failed to hide a message; it comes again after the queue's time-out");
    }
    outcome.response.add_failure(id);
}

/// Folds the events of a batch, and wakes the pools that have something to do now. An event whose
/// wake-up cannot be sent comes again: folding it once more changes nothing.
async fn take_in<T: Table, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    settings: &Settings,
    events: Vec<(&SqsMessage, JobEvent, String)>,
    now: Time,
    outcome: &mut Outcome,
) {
    let ingest = Ingest { table: &deps.table, settings };
    let (mut told, mut all) = (Vec::new(), Vec::new());
    for (record, event, delivery) in events {
        told.push((record, delivery));
        all.push(event);
    }
    let folded = ingest.fold_all(&all, now).await;
    let (mut woken, mut wakers) = (Woken::default(), Vec::new());
    for (((record, delivery), event), folded) in told.into_iter().zip(&all).zip(folded) {
        match folded {
            Ok(Folded::Stored { wake, jobs }) => {
                tracing::info!(job.id = %event.key, job.status = ?event.status, delivery, "recorded a job event");
                if !wake.is_empty() {
                    woken.after(&wake, &jobs);
                    wakers.push(record);
                }
            }
            Ok(Folded::NotOurs(why)) => {
                tracing::info!(job.id = %event.key, delivery, why, "ignored a job event: no pool is meant");
            }
            Err(error) => {
                tracing::error!(job.id = %event.key, delivery, ?error, "failed to record a job event; it comes again");
                leave_event(deps, record, outcome).await;
            }
        }
    }
    if wakers.is_empty() {
        return;
    }
    if let Err(error) = deps.queue.send_wakes(&woken.messages(), Seconds(0)).await {
        tracing::error!(%error, "failed to wake the pools; the events come again");
        for record in wakers {
            leave_event(deps, record, outcome).await;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
async fn finish<T, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    pool: &PoolName,
    report: &LaunchReport,
    outcome: &mut Outcome,
) {
    tracing::info!(pool.name = %pool, ?report, "launch pass finished");
    if report.failed > 0 {
        outcome.metrics.push((Metric::LaunchFailed, report.failed as f64));
    }
    if !report.refusals.is_empty() {
        // The others as none, so that each class has a line once there is any.
        let of = |class| report.refusals.get(&class).map_or(0.0, |count| *count as f64);
        let classes = ErrorClass::ALL.into_iter();
        let counted = classes.filter_map(|class| Some((Metric::for_refusal(class)?, of(class))));
        outcome.metrics.extend(counted);
    }
    if let Err(error) = send_wakes(&deps.queue, pool, report).await {
        tracing::warn!(pool.name = %pool, %error, "failed to ask for another launch pass; the sweep will");
    }
}

/// A number that differs between passes, from the request id and the message: launch ids must never
/// repeat.
fn seed(invocation: &str, message: &str) -> u64 {
    fnv1a_on(fnv1a(invocation.as_bytes()), message.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(event: &str) -> Vec<JobsMessage> {
        let event: SqsEvent = serde_json::from_str(event).expect("an SQS batch");
        let bodies = event.records.iter().map(|record| record.body.as_deref().unwrap_or_default());
        bodies.map(|body| serde_json::from_str(body).expect("a message of ours")).collect()
    }

    #[test]
    fn the_sample_batches_are_read() {
        let read = messages(include_str!("../../../events/scale-up-jobs.json"));
        let [JobsMessage::JobEvent { event, .. }] = &read[..] else { panic!("{read:?}") };
        assert_eq!(event.key.to_string(), "700800900/56789012345");
        let read = messages(include_str!("../../../events/scale-up-wake-pool.json"));
        let [JobsMessage::WakePool(wake)] = &read[..] else { panic!("{read:?}") };
        assert_eq!((wake.pool.as_str(), wake.jobs.len()), ("default", 1));
    }

    #[test]
    fn passes_have_seeds_of_their_own() {
        assert_eq!(seed("8f5e-1", "a"), seed("8f5e-1", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-2", "a"));
        assert_ne!(seed("8f5e-1", "a"), seed("8f5e-1", "b"));
    }
}
