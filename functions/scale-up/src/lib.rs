//! The scale-up Lambda. Batches of the jobs queue: folds the events into the tables and wakes the
//! pools that they touch; it waits for no call of EC2. Of the launch queue: runs the launch pass of
//! a pool. A queue only says that something happened; the tables say what to do.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use muster_control::Settings;
use muster_control::causes::with_causes;
use muster_control::jobs::batch::{JobsBatch, Received};
use muster_control::metrics::Metric;
use muster_control::ports::{Compute, Queue, Table};
use muster_domain::time::Time;

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

/// Handles a batch. `invocation` must be unique among invocations that may overlap: the request id.
/// `deadline` is when Lambda stops it.
pub async fn handle<T: Table, Q: Queue, C: Compute>(
    deps: &Deps<T, Q, C>,
    event: SqsEvent,
    invocation: &str,
    deadline: Time,
    now: impl Fn() -> Time,
) -> Outcome {
    let Deps { table, queue, compute, settings } = deps;
    let batch = JobsBatch { table, queue, compute, settings, invocation, deadline, clock: &now };
    let messages: Vec<Received> = event.records.into_iter().map(received).collect();
    // Boxed, so that the compiler computes the pass's layout by itself.
    let report = Box::pin(batch.run(&messages)).await;
    let mut response = SqsBatchResponse::default();
    for (received, _) in messages.into_iter().zip(&report.acked).filter(|(_, acked)| !**acked) {
        response.add_failure(received.id);
    }
    Outcome { response, metrics: report.metrics() }
}

fn received(record: SqsMessage) -> Received {
    let id = record.message_id.unwrap_or_default();
    let message = serde_json::from_str(record.body.as_deref().unwrap_or_default())
        .inspect_err(|error| {
            tracing::error!(
                sqs.message_id = id,
                error = with_causes(error),
                "rejected a message that cannot be read"
            );
        })
        .ok();
    let receives = record.attributes.get("ApproximateReceiveCount");
    let receives = receives.and_then(|count| count.parse().ok()).unwrap_or(1);
    let receipt = record.receipt_handle.unwrap_or_default();
    Received { message, id, receipt, receives }
}

#[cfg(test)]
mod tests {
    use muster_domain::message::JobsMessage;

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
}
