//! What the queues contain and why the functions that read them fail, for `status`, `explain` and
//! `doctor`.

use futures_util::future::join_all;
use muster_api::answers::Finding;
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::json;
use tokio::join;

use super::Session;
use super::batch::CallBatch;
use crate::args::Dead;
use crate::doctor::Fact;
use crate::doctor::backlog::{Backlog, Reserve, error_of, findings};
use crate::doctor::stack::FUNCTIONS;
use crate::failure::Failure;
use crate::queues::{ALL, listing, work_queue};
use crate::world::{Cloud, Console};

/// Period in which to look for an error. A failed message is retried within half a minute.
const RECENT: Seconds = Seconds(120);
/// Filter patterns for lines that may be errors: the functions' own, and Lambda's.
const ERRORS: [&str; 2] = ["ERROR", "?error ?timeout ?\"timed out\" ?\"Runtime exited\" ?panicked"];

impl<W: Cloud + Console> Session<'_, W> {
    /// Returns the problems of the queues and their functions; empty without permission to query
    /// AWS.
    pub(super) async fn backlog_findings(&mut self) -> Vec<Finding> {
        self.backlogs().await.unwrap_or_default()
    }

    /// Returns why a job without a record may be in the queue: the failure, or the number of events.
    pub(super) async fn not_on_record(&mut self) -> Option<String> {
        let stack = self.world.stack().await.ok()?;
        let (batch, now) = (CallBatch::default(), self.world.now());
        let (reserved, mut jobs) = self.together(&batch, counted(&batch, &stack)).await.ok()?;
        jobs.retain(|one| one.queue == Dead::Jobs && one.messages > 0);
        let first = jobs.first()?.sentence();
        let jobs = with_errors(&batch, &stack, now, jobs);
        let jobs = self.together(&batch, jobs).await.ok()?.ok()?;
        let reserved: Vec<_> = reserved
            .into_iter()
            .filter(|(name, _)| matches!(*name, "webhook" | "scale-up"))
            .collect();
        let wrongs = findings(&reserved, &jobs, &stack);
        Some(match wrongs.first() {
            Some(Finding { message, fix, .. }) => {
                format!("{message} {}", fix.as_deref().unwrap_or_default())
            }
            None => format!("{first} and not recorded yet; try again in a minute"),
        })
    }

    async fn backlogs(&mut self) -> Result<Vec<Finding>, Failure> {
        let stack = self.world.stack().await?;
        let (batch, now) = (CallBatch::default(), self.world.now());
        let (reserved, counted) = self.together(&batch, counted(&batch, &stack)).await?;
        // Without permission to read logs, stopped functions are still reported.
        let backlogs = with_errors(&batch, &stack, now, counted.clone());
        let backlogs = self.together(&batch, backlogs).await?.unwrap_or(counted);
        Ok(findings(&reserved, &backlogs, &stack))
    }
}

/// Reads each function's reserved concurrency and counts the queues' messages, in two rounds of
/// calls.
async fn counted(batch: &CallBatch, stack: &str) -> (Vec<Reserve>, Vec<Backlog>) {
    let (listed, reserves) = join!(
        batch.ask(listing(stack, None)),
        join_all(FUNCTIONS.map(|name| reserved(batch, stack, name))),
    );
    let reserves = reserves.into_iter().flatten().collect();
    let Ok(listed) = listed else { return (reserves, Vec::new()) };
    let urls = listed["QueueUrls"].as_array().into_iter().flatten();
    let urls: Vec<&str> = urls.filter_map(|url| url.as_str()).collect();
    let queues =
        ALL.into_iter().filter_map(|queue| Some((queue, work_queue(stack, queue, &urls)?)));
    let counted = queues
        .map(|(queue, url)| batch.fact(of_queue(url), move |answer| Backlog::read(queue, answer)));
    (reserves, join_all(counted).await.into_iter().flatten().collect())
}

/// Returns the queues that contain messages, each with the last error of the function that reads it.
///
/// # Errors
/// Fails when logs cannot be read.
pub(super) async fn with_errors(
    batch: &CallBatch,
    stack: &str,
    now: Time,
    backlogs: Vec<Backlog>,
) -> Result<Vec<Backlog>, Failure> {
    let full = backlogs.into_iter().filter(|one| one.messages > 0);
    let all = full.map(|one| async move {
        let error = last_error(batch, one.reader().group(stack), now - RECENT).await?;
        Ok(Backlog { error, ..one })
    });
    join_all(all).await.into_iter().collect()
}

/// Returns the last error in a log; `None` also if the log does not exist.
async fn last_error(
    batch: &CallBatch,
    group: String,
    since: Time,
) -> Result<Option<String>, Failure> {
    let calls = ERRORS.map(|pattern| {
        let since = since.as_millis();
        let body = json!({ "logGroupName": group, "startTime": since, "filterPattern": pattern });
        batch.ask(Call::json("logs", "Logs_20140328.FilterLogEvents", &body))
    });
    let mut last = None;
    for answer in join_all(calls).await {
        let answer = match answer {
            Err(failure) if failure.is_missing() => continue,
            answer => answer?,
        };
        let events = answer["events"].as_array().into_iter().flatten();
        let errors = events.filter_map(|event| {
            Some((event["timestamp"].as_i64(), error_of(event["message"].as_str()?)?))
        });
        last = last.into_iter().chain(errors).max_by_key(|(at, _)| *at);
    }
    Ok(last.map(|(_, error)| error))
}

/// Reads a function's reserved concurrency. If the function does not exist, a different check
/// reports it.
pub(super) async fn reserved(
    batch: &CallBatch,
    stack: &str,
    name: &'static str,
) -> Fact<(&'static str, Option<u64>)> {
    let path = format!("/2019-09-30/functions/{stack}-{name}/concurrency");
    match batch.ask(Call::get("lambda", &path)).await {
        Err(failure) if failure.is_missing() => Ok((name, None)),
        answer => Ok((name, answer?["ReservedConcurrentExecutions"].as_u64())),
    }
}

pub(super) fn of_queue(url: &str) -> Call {
    let names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
    let body = json!({ "QueueUrl": url, "AttributeNames": names });
    Call::json("sqs", "AmazonSQS.GetQueueAttributes", &body)
}
