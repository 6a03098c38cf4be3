//! The dead-letter queues: their contents, and redriving them. AWS is called with the operator's own permissions.

use std::collections::BTreeSet;

use muster_domain::time::Time;
use muster_sigv4::Call;
use serde_json::{Value, json};

use crate::args::Dead;
use crate::failure::Failure;
use crate::views::dead_letters::{DeadLetter, DeadLetterQueue, Letters};

/// Maximum number of messages that are shown.
const SHOWN: usize = 50;
/// Maximum number of messages that SQS returns at once.
const AT_ONCE: usize = 10;
/// Visibility timeout of messages while they are shown, in seconds, in case the command ends before it returns them.
const HIDDEN: u32 = 30;

/// All queues, in display order.
pub const ALL: [Dead; 3] = [Dead::Jobs, Dead::Launches, Dead::Reaps];

/// A client for AWS services.
#[expect(async_fn_in_trait, reason = "those who ask know whose futures they are")]
pub trait Services {
    /// Makes calls concurrently. The answers are in the order of the calls.
    async fn calls(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure>;
}

/// Returns the queue's resource name in the template. CloudFormation adds the stack's name before it and a random
/// suffix.
const fn resource(queue: Dead) -> &'static str {
    match queue {
        Dead::Jobs => "JobsDeadLetters",
        Dead::Launches => "LaunchDeadLetters",
        Dead::Reaps => "ReapDeadLetters",
    }
}

/// Returns the resource name of the work queue that a function reads.
const fn work_resource(queue: Dead) -> &'static str {
    match queue {
        Dead::Jobs => "JobsQueue",
        Dead::Launches => "LaunchQueue",
        Dead::Reaps => "ReapQueue",
    }
}

/// Returns the call that lists the URLs of the stack's queues, from a page token on.
#[must_use]
pub fn listing(stack: &str, token: Option<&Value>) -> Call {
    let mut body = json!({ "QueueNamePrefix": format!("{stack}-"), "MaxResults": 1000 });
    if let Some(token) = token {
        body["NextToken"] = token.clone();
    }
    sqs("ListQueues", &body)
}

/// Returns the URL of a function's work queue from the stack's queue URLs.
#[must_use]
pub fn work_queue<'a>(stack: &str, queue: Dead, urls: &[&'a str]) -> Option<&'a str> {
    named(&format!("{stack}-{}-", work_resource(queue)), urls)
}

fn named<'a>(prefix: &str, urls: &[&'a str]) -> Option<&'a str> {
    let is_own = |url: &&&str| url.rsplit('/').next().is_some_and(|name| name.starts_with(prefix));
    urls.iter().find(is_own).copied()
}

fn sqs(operation: &str, body: &Value) -> Call {
    Call::json("sqs", &format!("AmazonSQS.{operation}"), body)
}

pub(crate) async fn call(services: &mut impl Services, call: Call) -> Result<Value, Failure> {
    services.calls(vec![call]).await?.pop().unwrap_or(Ok(Value::Null))
}

/// Returns the URLs of the stack's queues. An empty list means that the stack does not exist.
///
/// # Errors
/// Fails when SQS does not answer.
pub async fn urls(
    services: &mut impl Services,
    stack: &str,
) -> Result<Vec<(Dead, String)>, Failure> {
    let mut urls: Vec<String> = Vec::new();
    let mut token = Value::Null;
    loop {
        let from = (!token.is_null()).then_some(&token);
        let mut answer = call(services, listing(stack, from)).await?;
        let all = answer["QueueUrls"].as_array().into_iter().flatten();
        urls.extend(all.filter_map(|url| url.as_str().map(str::to_owned)));
        token = answer["NextToken"].take();
        if token.is_null() {
            break;
        }
    }
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let of = |queue: Dead| {
        let prefix = format!("{stack}-{}-", resource(queue));
        Some((queue, named(&prefix, &urls)?.to_owned()))
    };
    Ok(ALL.into_iter().filter_map(of).collect())
}

/// Returns the number of messages in each queue.
///
/// # Errors
/// Fails when SQS does not answer.
pub async fn counted(
    services: &mut impl Services,
    urls: &[(Dead, String)],
) -> Result<Vec<DeadLetterQueue>, Failure> {
    let calls = urls.iter().map(|(_, url)| {
        let names =
            ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "QueueArn"];
        sqs("GetQueueAttributes", &json!({ "QueueUrl": url, "AttributeNames": names }))
    });
    let mut queues = Vec::new();
    for ((queue, url), answer) in urls.iter().zip(services.calls(calls.collect()).await?) {
        let answer = answer?;
        let number = |name: &str| {
            answer["Attributes"][name].as_str().and_then(|n| n.parse().ok()).unwrap_or_default()
        };
        queues.push(DeadLetterQueue {
            queue: *queue,
            messages: number("ApproximateNumberOfMessages"),
            hidden: number("ApproximateNumberOfMessagesNotVisible"),
            url: url.clone(),
            arn: answer["Attributes"]["QueueArn"].as_str().unwrap_or_default().to_owned(),
        });
    }
    Ok(queues)
}

/// Returns what a page shows: all queues, or one with its messages.
///
/// # Errors
/// Fails when SQS does not answer.
pub async fn told(
    services: &mut impl Services,
    stack: &str,
    queue: Option<Dead>,
) -> Result<Value, Failure> {
    let all = all(services, stack).await?;
    let Some(name) = queue else { return Ok(json!(all)) };
    let queue = of(all, name)?;
    let found = looked_at(services, &queue).await?;
    Ok(json!(Letters { queue, messages: messages(&found) }))
}

/// Redrives a queue if it has messages. Returns the queue as it was before.
///
/// # Errors
/// Fails when SQS does not accept the call.
pub async fn redriven(
    services: &mut impl Services,
    stack: &str,
    name: Dead,
) -> Result<Value, Failure> {
    let queue = of(all(services, stack).await?, name)?;
    if queue.messages > 0 {
        sent_back(services, &queue).await?;
    }
    Ok(json!(queue))
}

async fn all(services: &mut impl Services, stack: &str) -> Result<Vec<DeadLetterQueue>, Failure> {
    let urls = urls(services, stack).await?;
    counted(services, &urls).await
}

/// Returns one of the queues.
///
/// # Errors
/// Fails when it does not exist.
pub fn of(all: Vec<DeadLetterQueue>, name: Dead) -> Result<DeadLetterQueue, Failure> {
    all.into_iter().find(|one| one.queue == name).ok_or_else(none)
}

/// The error for a stack without queues.
#[must_use]
pub fn none() -> Failure {
    Failure::Unknown("The stack has no such queue.".to_owned())
}

/// Receives messages and makes them visible again: SQS has no other way to read them.
///
/// # Errors
/// Fails when SQS does not return messages or does not make them visible again.
pub async fn looked_at(
    services: &mut impl Services,
    queue: &DeadLetterQueue,
) -> Result<Vec<Value>, Failure> {
    let mut found: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    while found.len() < SHOWN {
        let body = json!({
            "QueueUrl": queue.url,
            "MaxNumberOfMessages": AT_ONCE,
            "VisibilityTimeout": HIDDEN,
            // Without a wait, SQS queries only some of its servers and may return no message.
            "WaitTimeSeconds": 1,
            "MessageSystemAttributeNames": ["SentTimestamp", "ApproximateReceiveCount"],
        });
        let mut answer = match call(services, sqs("ReceiveMessage", &body)).await {
            Ok(answer) => answer,
            Err(failure) => {
                give_back(services, queue, &found).await?;
                return Err(failure);
            }
        };
        let Value::Array(messages) = answer["Messages"].take() else { break };
        let before = found.len();
        let is_new = |one: &Value| seen.insert(one["MessageId"].to_string());
        found.extend(messages.into_iter().filter(is_new));
        if found.len() == before {
            break;
        }
    }
    give_back(services, queue, &found).await?;
    Ok(found)
}

async fn give_back(
    services: &mut impl Services,
    queue: &DeadLetterQueue,
    messages: &[Value],
) -> Result<(), Failure> {
    let calls = messages.chunks(AT_ONCE).map(|messages| {
        let entry = |(index, one): (usize, &Value)| {
            json!({
                "Id": index.to_string(),
                "ReceiptHandle": one["ReceiptHandle"],
                "VisibilityTimeout": 0,
            })
        };
        let entries: Vec<Value> = messages.iter().enumerate().map(entry).collect();
        let body = json!({ "QueueUrl": queue.url, "Entries": entries });
        sqs("ChangeMessageVisibilityBatch", &body)
    });
    let calls: Vec<Call> = calls.collect();
    if calls.is_empty() {
        return Ok(());
    }
    services.calls(calls).await?.into_iter().try_for_each(|answer| answer.map(drop))
}

/// Starts to move all messages back to the queue that they came from.
///
/// # Errors
/// Fails when SQS does not accept the call.
pub async fn sent_back(
    services: &mut impl Services,
    queue: &DeadLetterQueue,
) -> Result<Value, Failure> {
    call(services, sqs("StartMessageMoveTask", &json!({ "SourceArn": queue.arn }))).await
}

/// Returns the received messages, oldest first.
#[must_use]
pub fn messages(found: &[Value]) -> Vec<DeadLetter> {
    let mut messages: Vec<DeadLetter> = found.iter().map(message).collect();
    messages.sort_by_key(|one| one.sent_at);
    messages
}

fn message(one: &Value) -> DeadLetter {
    let attribute =
        |name: &str| one["Attributes"][name].as_str().and_then(|n| n.parse::<i64>().ok());
    DeadLetter {
        sent_at: attribute("SentTimestamp").map(Time::from_millis),
        body: one["Body"].as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_is_the_templates() {
        let template = include_str!("../../template.yaml");
        for name in ALL.into_iter().flat_map(|queue| [resource(queue), work_resource(queue)]) {
            let line = format!("  {name}:\n    Type: AWS::SQS::Queue\n");
            assert!(template.contains(&line), "{line}");
        }
    }
}
