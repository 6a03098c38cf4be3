//! The SQS queues.

use std::error::Error;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{BatchResultErrorEntry, SendMessageBatchRequestEntry};
use muster_control::ports::{Queue, QueueError, Unavailable};
use muster_domain::message::{JobsMessage, ReapMessage, WakePool, to_ascii_json};
use muster_domain::time::Seconds;
use serde::Serialize;

use crate::error::ServiceError;

/// Maximum number of messages in one SQS call.
const BATCH: usize = 10;

/// Maximum visibility timeout of a message, in seconds. SQS counts twelve hours from the message's
/// receipt, rejects more instead of cutting it, and does not report the age of a receipt: the
/// difference is for the time that a worker may already have had it.
/// Source:
/// docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
const MAX_WAIT: u32 = 12 * 3600 - 300;

/// Maximum delay of a new message in SQS, in seconds.
/// Source:
/// docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatchRequestEntry.html
const MAX_DELAY: u32 = 900;

/// The URLs of a stack's queues. Empty for queues that the function does not use.
#[derive(Clone, Debug, Default)]
pub struct QueueUrls {
    /// Job events.
    pub jobs: String,
    /// Wake-ups of pools.
    pub launch: String,
    /// Passes over instances.
    pub reap: String,
}

/// The queues of a stack.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    urls: QueueUrls,
}

impl SqsQueue {
    /// Creates a client of these queues.
    #[must_use]
    pub fn new(config: &SdkConfig, urls: QueueUrls) -> Self {
        Self { client: Client::new(config), urls }
    }

    /// Opens the connection, so that the first event does not wait for it. The response is ignored:
    /// a failure would recur with the first message.
    pub async fn connect(&self) {
        let QueueUrls { jobs, launch, reap } = &self.urls;
        let url = [jobs, launch, reap].into_iter().find(|url| !url.is_empty()).unwrap_or(jobs);
        // An empty batch is rejected immediately and needs no permission other than sending.
        let _ =
            self.client.send_message_batch().queue_url(url).set_entries(Some(vec![])).send().await;
    }

    async fn send<M: Serialize>(
        &self,
        url: &str,
        messages: &[M],
        delay: Seconds,
    ) -> Result<(), QueueError> {
        for batch in messages.chunks(BATCH) {
            let entries =
                batch.iter().enumerate().map(|(index, message)| entry(index, message, delay));
            let entries = entries.collect::<Result<Vec<_>, _>>()?;
            let answer = self
                .client
                .send_message_batch()
                .queue_url(url)
                .set_entries(Some(entries))
                .send()
                .await
                .map_err(|error| failed("SendMessageBatch", ServiceError::from_sdk(&error)))?;
            // SQS answers 200 even for a batch of which it accepted no message.
            all_sent(batch.len(), answer.failed())?;
        }
        Ok(())
    }

    async fn hide_in(&self, url: &str, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.client
            .change_message_visibility()
            .queue_url(url)
            .receipt_handle(receipt)
            .visibility_timeout(visibility(wait))
            .send()
            .await
            .map_err(|error| failed("ChangeMessageVisibility", ServiceError::from_sdk(&error)))?;
        Ok(())
    }
}

fn entry<M: Serialize>(
    index: usize,
    message: &M,
    delay: Seconds,
) -> Result<SendMessageBatchRequestEntry, QueueError> {
    SendMessageBatchRequestEntry::builder()
        .id(index.to_string())
        .message_body(to_ascii_json(message))
        .set_delay_seconds(delay_seconds(delay))
        .build()
        .map_err(|error| failed("SendMessageBatch", error))
}

fn all_sent(count: usize, failed: &[BatchResultErrorEntry]) -> Result<(), QueueError> {
    let Some(first) = failed.first() else { return Ok(()) };
    Err(QueueError(Unavailable::new(format!(
        "{} of {count} messages were not sent; the first: {}: {}",
        failed.len(),
        first.code(),
        first.message().unwrap_or_default()
    ))))
}

fn failed(call: &str, cause: impl Error + Send + Sync + 'static) -> QueueError {
    QueueError(Unavailable::caused(call, cause))
}

/// Returns the wait in seconds, limited to SQS's maximum.
fn visibility(wait: Seconds) -> i32 {
    i32::try_from(wait.0.min(MAX_WAIT)).unwrap_or(i32::MAX)
}

/// Returns the delay in seconds, limited to SQS's maximum. `None` means immediately.
fn delay_seconds(delay: Seconds) -> Option<i32> {
    let cut = i32::try_from(delay.0.min(MAX_DELAY)).unwrap_or(i32::MAX);
    (cut > 0).then_some(cut)
}

impl Queue for SqsQueue {
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError> {
        self.send(&self.urls.jobs, messages, Seconds(0)).await
    }

    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError> {
        let wakes: Vec<_> = wakes.iter().cloned().map(JobsMessage::WakePool).collect();
        self.send(&self.urls.launch, &wakes, delay).await
    }

    async fn send_reap(&self, messages: &[ReapMessage]) -> Result<(), QueueError> {
        self.send(&self.urls.reap, messages, Seconds(0)).await
    }

    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.hide_in(&self.urls.reap, receipt, wait).await
    }

    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.hide_in(&self.urls.jobs, receipt, wait).await
    }

    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.hide_in(&self.urls.launch, receipt, wait).await
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::causes::with_causes;

    use super::*;

    #[test]
    fn a_wait_is_cut_to_what_sqs_takes() {
        assert_eq!(visibility(Seconds(0)), 0);
        assert_eq!(visibility(Seconds(300)), 300);
        assert_eq!(visibility(Seconds(43_200)), 42_900);
        assert_eq!(visibility(Seconds(u32::MAX)), 42_900);
    }

    #[test]
    fn a_delay_is_cut_to_what_sqs_takes_and_left_out_where_there_is_none() {
        assert_eq!(delay_seconds(Seconds(0)), None);
        assert_eq!(delay_seconds(Seconds(14)), Some(14));
        assert_eq!(delay_seconds(Seconds(901)), Some(900));
    }

    #[test]
    fn a_batch_with_failed_entries_is_an_error() {
        let failed = BatchResultErrorEntry::builder()
            .id("3")
            .sender_fault(false)
            .code("InternalError")
            .message("try again")
            .build()
            .expect("complete");
        let error = all_sent(10, &[failed]).expect_err("one failed");
        assert_eq!(
            with_causes(&error),
            "queue unavailable: 1 of 10 messages were not sent; the first: InternalError: try again"
        );
        assert_eq!(all_sent(10, &[]), Ok(()));
    }
}
