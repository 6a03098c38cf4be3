//! The scale-up Lambda. For batches of the jobs queue, it folds the events into the tables and
//! wakes the affected pools, without waiting for any EC2 call. For messages of the launch queue, it
//! runs the launch pass of a pool. A queue only reports that something happened; the tables
//! determine what to do.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use muster_control::context::{Context, Wired};
use muster_control::jobs::batch::{JobsBatch, JobsReport};
use muster_control::launches::wake_up::{WakeReport, WakeUp};
use muster_control::metrics::Measure;
use muster_control::ports::Received;
use muster_control::ports::{Compute, Queue, Table};
use muster_control::settings_cache::SettingsCache;
use muster_domain::causes::with_causes;
use muster_domain::message::{JobsMessage, WakePool};
use muster_domain::time::Time;

/// The result of an invocation.
#[derive(Debug, Default)]
pub struct ScaleUpOutcome {
    /// The messages to keep in the queue.
    pub response: SqsBatchResponse,
    /// Metrics for CloudWatch.
    pub measures: Vec<Measure>,
}

/// Handles a batch. `invocation` must be unique among invocations that may overlap: the request ID.
/// `deadline`: when Lambda stops the invocation. `cache`: what the function keeps between invocations.
pub async fn handle<W: Wired<Table: Table, Queue: Queue, Compute: Compute>>(
    context: Context<'_, W>,
    cache: &SettingsCache,
    event: SqsEvent,
    invocation: &str,
    deadline: Time,
    now: impl Fn() -> Time,
) -> ScaleUpOutcome {
    let messages: Vec<_> = event.records.into_iter().map(received).collect();
    let ids: Vec<String> = messages.iter().map(|received| received.id.clone()).collect();
    // Boxed, so that the compiler computes the pass's layout separately.
    let (acked, measures) = match wake_up(messages) {
        Ok(wake) => {
            let pass = WakeUp { context, invocation, deadline, clock: &now };
            let WakeReport { acked, measures, .. } = Box::pin(pass.run(&wake)).await;
            (vec![acked], measures)
        }
        Err(messages) => {
            let batch = JobsBatch { context, cache, clock: &now };
            let JobsReport { acked, measures } = Box::pin(batch.run(&messages)).await;
            (acked, measures)
        }
    };
    let mut response = SqsBatchResponse::default();
    for (id, _) in ids.into_iter().zip(acked).filter(|(_, acked)| !acked) {
        response.add_failure(id);
    }
    ScaleUpOutcome { response, measures }
}

/// Returns the wake-up of the launch queue, which delivers one message at a time. Anything else is
/// a batch of the jobs queue, returned as `Err`.
fn wake_up(
    mut messages: Vec<Received<Option<JobsMessage>>>,
) -> Result<Received<WakePool>, Vec<Received<Option<JobsMessage>>>> {
    match messages.pop() {
        Some(Received { message: Some(JobsMessage::WakePool(wake)), id, receipt, receives })
            if messages.is_empty() =>
        {
            Ok(Received { message: wake, id, receipt, receives })
        }
        last => {
            messages.extend(last);
            Err(messages)
        }
    }
}

fn received(record: SqsMessage) -> Received<Option<JobsMessage>> {
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
