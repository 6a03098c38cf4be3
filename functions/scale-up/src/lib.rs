//! The scale-up Lambda: folds job events into the tables, then runs the launch pass of every pool
//! that was touched. The queue only says that something happened; the tables say what to do.

use std::collections::{BTreeMap, BTreeSet};

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use control::Settings;
use control::ingest::{Folded, Ingest};
use control::ports::{Compute, Queue, Table};
use control::scale_up::{Report, ScaleUp, again_after, last_call};
use domain::ids::PoolName;
use domain::job::{Job, JobEvent};
use domain::launch::ErrorClass;
use domain::message::JobsMessage;
use domain::metrics::Metric;
use domain::time::Time;

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

/// Handles a batch. A message that cannot be handled stays in the queue and holds up no other; one
/// that cannot even be read ends in the dead-letter queue, where nothing is lost.
///
/// `invocation` must be unique among invocations that may overlap: the request id. `deadline` is when Lambda stops it.
pub async fn handle<T: Table, Q: Queue, C: Compute>(
    deps: &Deps<T, Q, C>,
    event: SqsEvent,
    invocation: &str,
    deadline: Time,
    now: impl Fn() -> Time,
) -> Outcome {
    let last_call = last_call(now(), deadline);
    let mut outcome = Outcome::default();
    let settings = match deps.settings.followed(&deps.table, now()).await {
        Ok(settings) => settings,
        Err(error) => {
            // Nothing is known of any pool: all messages stay.
            tracing::error!(?error, "the set of pools cannot be read");
            let ids = event.records.iter().map(|record| record.message_id.clone());
            ids.for_each(|id| outcome.response.add_failure(id.unwrap_or_default()));
            hide(deps, &event.records, &outcome.response).await;
            return outcome;
        }
    };
    let mut pools: BTreeMap<PoolName, Asked> = BTreeMap::new();
    let mut events = Vec::new();
    for record in &event.records {
        let id = record.message_id.clone().unwrap_or_default();
        match read(record) {
            Some(JobsMessage::WakePool { pool }) => {
                let asked = pools.entry(pool).or_default();
                asked.by.push(id);
                asked.woken = true;
            }
            Some(JobsMessage::JobEvent { event, delivery }) => events.push((id, *event, delivery)),
            None => {
                outcome.metrics.push((Metric::UnknownRecords, 1.0));
                outcome.response.add_failure(id);
            }
        }
    }
    let folded = fold(deps, &settings, events, now(), &mut pools, &mut outcome).await;
    for (pool, asked) in pools {
        let pass = ScaleUp {
            table: &deps.table,
            compute: &deps.compute,
            settings: &settings,
            holder: invocation,
            seed: seed(invocation),
            thorough: asked.woken,
            folded: &folded,
            last_call,
            clock: &now,
        };
        match pass.pass(&pool, now()).await {
            Ok(report) => finish(deps, &pool, &report, &mut outcome).await,
            Err(error) => {
                tracing::error!(pool.name = %pool, ?error, "launch pass failed");
                asked.by.into_iter().for_each(|id| outcome.response.add_failure(id));
            }
        }
    }
    hide(deps, &event.records, &outcome.response).await;
    outcome
}

/// What failed comes again in some seconds. Not hidden, it comes after the queue's own time-out: later, but not lost.
async fn hide<T, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    records: &[SqsMessage],
    response: &SqsBatchResponse,
) {
    let failed: BTreeSet<&str> =
        response.batch_item_failures.iter().map(|one| one.item_identifier.as_str()).collect();
    for record in records {
        let id = record.message_id.as_deref().unwrap_or_default();
        let Some(receipt) = record.receipt_handle.as_deref().filter(|_| failed.contains(id)) else {
            continue;
        };
        let receives = record.attributes.get("ApproximateReceiveCount");
        let receives = receives.and_then(|count| count.parse().ok()).unwrap_or(1);
        if let Err(error) = deps.queue.hide_job(receipt, again_after(receives)).await {
            tracing::warn!(sqs.message_id = id, %error, "message not hidden");
        }
    }
}

/// Who asked for a pool's pass.
#[derive(Default)]
struct Asked {
    /// Messages.
    by: Vec<String>,
    /// One of them is a wake-up: somebody has found something that waits.
    woken: bool,
}

fn read(record: &SqsMessage) -> Option<JobsMessage> {
    let body = record.body.as_deref().unwrap_or_default();
    serde_json::from_str(body)
        .inspect_err(|error| {
            let message_id = record.message_id.as_deref().unwrap_or_default();
            tracing::error!(sqs.message_id = message_id, %error, "message cannot be read");
        })
        .ok()
}

/// Folds the events of a batch, by message id, and notes the pools whose pass should run. Answers the jobs as they are
/// stored.
async fn fold<T: Table, Q, C>(
    deps: &Deps<T, Q, C>,
    settings: &Settings,
    events: Vec<(String, JobEvent, String)>,
    now: Time,
    pools: &mut BTreeMap<PoolName, Asked>,
    outcome: &mut Outcome,
) -> Vec<Job> {
    let ingest = Ingest { table: &deps.table, settings };
    let (mut told, mut all) = (Vec::new(), Vec::new());
    for (id, event, delivery) in events {
        told.push((id, delivery));
        all.push(event);
    }
    let folded = ingest.fold_all(&all, now).await;
    let mut stored = Vec::new();
    for (((id, delivery), event), folded) in told.into_iter().zip(&all).zip(folded) {
        match folded {
            Ok(Folded::Stored { wake, jobs }) => {
                stored.extend(jobs);
                tracing::info!(job.id = %event.key, job.status = ?event.status, delivery, "job folded");
                for pool in wake {
                    pools.entry(pool).or_default().by.push(id.clone());
                }
            }
            Ok(Folded::NotOurs(why)) => {
                tracing::info!(job.id = %event.key, delivery, why, "job is none of ours");
            }
            Err(error) => {
                tracing::error!(job.id = %event.key, delivery, ?error, "job not folded; again later");
                outcome.response.add_failure(id);
            }
        }
    }
    stored
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
async fn finish<T, Q: Queue, C>(
    deps: &Deps<T, Q, C>,
    pool: &PoolName,
    report: &Report,
    outcome: &mut Outcome,
) {
    tracing::info!(pool.name = %pool, ?report, "launch pass");
    if report.failed > 0 {
        outcome.metrics.push((Metric::LaunchFailed, report.failed as f64));
    }
    if !report.refusals.is_empty() {
        // The others as none, so that each class has a line once there is any.
        let of = |class| report.refusals.get(&class).map_or(0.0, |count| *count as f64);
        let classes = ErrorClass::ALL.into_iter();
        let counted = classes.filter_map(|class| Some((Metric::of_refusal(class)?, of(class))));
        outcome.metrics.extend(counted);
    }
    let again = report.unfinished.then_some(pool);
    let wakes: Vec<JobsMessage> = again
        .into_iter()
        .chain(&report.moved_to)
        .map(|pool| JobsMessage::WakePool { pool: pool.clone() })
        .collect();
    if !wakes.is_empty()
        && let Err(error) = deps.queue.send_jobs(&wakes).await
    {
        tracing::warn!(pool.name = %pool, %error, "the rest waits for the sweep");
    }
}

/// A number that differs between invocations, from the request id: launch ids must never repeat.
/// FNV-1a, since the standard hasher is not the same in every release.
fn seed(invocation: &str) -> u64 {
    invocation.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
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
        let [JobsMessage::WakePool { pool }] = &read[..] else { panic!("{read:?}") };
        assert_eq!(pool.as_str(), "default");
    }

    #[test]
    fn invocations_have_seeds_of_their_own() {
        assert_eq!(seed("8f5e-1"), seed("8f5e-1"));
        assert_ne!(seed("8f5e-1"), seed("8f5e-2"));
    }
}
