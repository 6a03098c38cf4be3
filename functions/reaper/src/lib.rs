//! The reaper Lambda: runs the sweep on its schedule, and one pass per message of the reap queue.

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use muster_control::context::{Context, Ports};
use muster_control::metrics::Measure;
use muster_control::ports::{Compute, Directory, ImageStore, PriceList, Receiver, WorkflowRuns};
use muster_control::reaps::batch::{Batch, ReceivedReap};
use muster_control::tick::{Tick, TimeLimit};
use muster_domain::causes::with_causes;
use muster_domain::ids::MachineId;
use muster_domain::message::{ReapMessage, SPOT_INTERRUPTION};
use muster_domain::time::{Seconds, Time};
use serde::Deserialize;
use serde_json::Value;

/// The result of an invocation.
#[derive(Debug, Default)]
pub struct ReaperOutcome {
    /// The response to Lambda.
    pub response: Value,
    /// Metrics for CloudWatch.
    pub measures: Vec<Measure>,
}

/// The source of an invocation.
#[derive(Debug, PartialEq, Eq)]
enum Trigger {
    /// The reap queue.
    Batch,
    /// The schedule.
    Tick,
}

impl Trigger {
    /// Detects the source: an SQS batch has `Records`, the schedule's event does not.
    fn of(event: &Value) -> anyhow::Result<Self> {
        if event.get("Records").is_some() {
            return Ok(Self::Batch);
        }
        match event.get("detail-type").and_then(Value::as_str) {
            Some("Scheduled Event") => Ok(Self::Tick),
            other => {
                anyhow::bail!("the reaper knows SQS batches and scheduled events, not {other:?}")
            }
        }
    }
}

/// Handles either trigger, in a context with the settings from the stack's parameters. `deadline`:
/// when Lambda stops the invocation; `receiver`: where notifications are sent.
///
/// # Errors
///
/// If the event is neither, or the sweep cannot read the set of pools.
pub async fn handle<
    P: Ports<Github: Directory + WorkflowRuns, Compute: Compute + PriceList + ImageStore>,
>(
    context: Context<'_, P>,
    receiver: &impl Receiver,
    event: Value,
    deadline: Time,
    now: impl Fn() -> Time,
) -> anyhow::Result<ReaperOutcome> {
    // Boxed, so that the compiler computes a pass's layout separately.
    match Trigger::of(&event)? {
        Trigger::Batch => {
            Box::pin(batch(context, serde_json::from_value(event)?, deadline, now)).await
        }
        Trigger::Tick => Box::pin(tick(context, receiver, deadline, now)).await,
    }
}

/// Tokio's timers.
struct Timers;

impl TimeLimit for Timers {
    async fn within<R>(&self, left: Seconds, task: impl Future<Output = R>) -> Option<R> {
        tokio::time::timeout(Duration::from_secs(left.0.into()), task).await.ok()
    }
}

async fn tick<
    P: Ports<Github: Directory + WorkflowRuns, Compute: Compute + PriceList + ImageStore>,
>(
    context: Context<'_, P>,
    receiver: &impl Receiver,
    deadline: Time,
    now: impl Fn() -> Time,
) -> anyhow::Result<ReaperOutcome> {
    let Context { table, settings, .. } = context;
    let settings = &settings.current(table).await.context("the set of pools")?;
    let context = context.with(settings);
    let receiver = Some(receiver);
    let report = Tick { context, receiver, limit: &Timers, clock: &now, deadline }.run().await;
    Ok(ReaperOutcome { response: report.response(), measures: report.measures(settings) })
}

async fn batch<P: Ports>(
    context: Context<'_, P>,
    event: SqsEvent,
    deadline: Time,
    now: impl Fn() -> Time,
) -> anyhow::Result<ReaperOutcome> {
    let mut response = SqsBatchResponse::default();
    let (mut ids, mut messages) = (Vec::new(), Vec::new());
    for record in event.records {
        let id = record.message_id.clone().unwrap_or_default();
        match received(record) {
            Ok(received) => {
                ids.push(id);
                messages.push(received);
            }
            Err(why) => {
                tracing::error!(
                    sqs.message_id = id,
                    error = with_causes(&why),
                    "rejected a message that cannot be read"
                );
                response.add_failure(id);
            }
        }
    }
    // An unreadable message counts as failing immediately, because a retry cannot help.
    let unreadable = Measure::failing(response.batch_item_failures.len());
    let report = Batch { context }.run(&messages, deadline, &now).await;
    for (id, _) in ids.into_iter().zip(&report.acked).filter(|(_, acked)| !**acked) {
        response.add_failure(id);
    }
    if report.postponed > 0 {
        tracing::warn!(report.postponed, "left passes to a later invocation");
    }
    let measures = report.measures.into_iter().chain(unreadable).collect();
    Ok(ReaperOutcome { response: serde_json::to_value(response)?, measures })
}

fn received(record: SqsMessage) -> Result<ReceivedReap, MessageError> {
    let message = read(&record)?;
    let receives = record.attributes.get("ApproximateReceiveCount");
    let receives = receives.and_then(|count| count.parse().ok()).unwrap_or(1);
    let id = record.message_id.unwrap_or_default();
    Ok(ReceivedReap::new(message, &id, receives, record.receipt_handle.unwrap_or_default()))
}

/// The `detail-type` of EC2's Spot interruption notice.
const SPOT_WARNING: &str = "EC2 Spot Instance Interruption Warning";

/// EventBridge's envelope, as EC2's rules deliver it.
#[derive(Deserialize)]
struct Envelope {
    source: String,
    #[serde(rename = "detail-type")]
    detail_type: String,
    /// When it happened.
    #[serde(default)]
    time: Option<String>,
    detail: Detail,
}

#[derive(Deserialize)]
struct Detail {
    #[serde(rename = "instance-id")]
    instance_id: MachineId,
    #[serde(default)]
    state: Option<String>,
}

/// A message that is neither Muster's own nor an EC2 event.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("event of {0}")]
    Source(String),
}

/// Reads a message: Muster's own or an EC2 event.
fn read(record: &SqsMessage) -> Result<ReapMessage, MessageError> {
    let body = record.body.as_deref().unwrap_or_default();
    if let Ok(message) = serde_json::from_str(body) {
        return Ok(message);
    }
    let envelope: Envelope = serde_json::from_str(body)?;
    if envelope.source != "aws.ec2" {
        return Err(MessageError::Source(envelope.source));
    }
    let what = match envelope.detail_type.as_str() {
        SPOT_WARNING => SPOT_INTERRUPTION.to_owned(),
        _ => envelope.detail.state.unwrap_or(envelope.detail_type),
    };
    // An unreadable time counts as absent, because no decision depends on it.
    let at = envelope.time.and_then(|time| time.parse().ok());
    Ok(ReapMessage::MachineChanged { machine: envelope.detail.instance_id, what, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(event: &str) -> Vec<Result<ReapMessage, MessageError>> {
        let event: SqsEvent = serde_json::from_str(event).expect("an SQS batch");
        event.records.iter().map(read).collect()
    }

    #[test]
    fn our_own_message_is_read() {
        let read = messages(include_str!("../../../events/reaper-reap.json"));
        let [Ok(ReapMessage::Reap { name, nonce })] = &read[..] else { panic!("{read:?}") };
        assert_eq!((name.as_str(), *nonce), ("default-4kq7v2", 1_795_252_804_003));
    }

    #[test]
    fn ec2s_events_name_their_machine() {
        let cases = [
            (
                include_str!("../../../events/reaper-ec2-state-change.json"),
                ("shutting-down", "2026-11-21T09:20:04.000Z"),
            ),
            (
                include_str!("../../../events/reaper-spot-warning.json"),
                (SPOT_INTERRUPTION, "2026-11-21T09:18:00.000Z"),
            ),
        ];
        for (event, (expected, when)) in cases {
            let read = messages(event);
            let [Ok(ReapMessage::MachineChanged { machine, what, at })] = &read[..] else {
                panic!("{read:?}")
            };
            assert_eq!((machine.as_str(), what.as_str()), ("i-0a1b2c3d4e5f60718", expected));
            assert_eq!(at.map(|at| at.to_string()).as_deref(), Some(when));
        }
    }

    #[test]
    fn other_events_and_garbage_are_refused() {
        let other = r#"{"source":"aws.s3","detail-type":"x","detail":{"instance-id":"i-0a1b2c3d4e5f60718"}}"#;
        for body in ["", "{}", "not json", other, r#"{"type":"reap","name":"a b","nonce":1}"#] {
            let mut record = SqsMessage::default();
            record.body = Some(body.to_owned());
            assert!(read(&record).is_err(), "{body:?}");
        }
    }

    #[tokio::test]
    async fn a_tick_does_not_wait_for_ever() {
        assert_eq!(Timers.within(Seconds(60), async { 7 }).await, Some(7));
        assert_eq!(Timers.within(Seconds(0), std::future::pending::<u32>()).await, None);
    }

    #[test]
    fn the_schedules_event_is_no_batch() {
        let trigger = |event: &str| Trigger::of(&serde_json::from_str(event).expect("JSON"));
        let tick = trigger(include_str!("../../../events/reaper-tick.json"));
        assert_eq!(tick.expect("known"), Trigger::Tick);
        let batch = trigger(include_str!("../../../events/reaper-reap.json"));
        assert_eq!(batch.expect("known"), Trigger::Batch);
        let other = trigger(r#"{"detail-type":"EC2 Instance State-change Notification"}"#);
        assert!(other.is_err(), "{other:?}");
    }
}
