//! The queues of messages that were given up: what is in them, and back with it. AWS is asked with the operator's own rights.

use std::collections::BTreeSet;

use muster_domain::time::Time;
use muster_sigv4::Call;
use serde_json::{Value, json};

use crate::args::Dead;
use crate::failure::Failure;
use crate::views::dead_letters::{Letters, Message, Queue};

/// Most messages that are shown.
const SHOWN: usize = 50;
/// As many as SQS hands out at once.
const AT_ONCE: usize = 10;
/// For how long nobody else sees what is looked at, should the command end in between, seconds.
const HIDDEN: u32 = 30;

/// In the order in which they are shown.
pub const ALL: [Dead; 3] = [Dead::Jobs, Dead::Launches, Dead::Reaps];

/// Who makes calls to AWS's services.
#[expect(async_fn_in_trait, reason = "those who ask know whose futures they are")]
pub trait Services {
    /// The answers to calls that are made side by side, in the same order.
    async fn calls(&mut self, calls: Vec<Call>) -> Result<Vec<Result<Value, Failure>>, Failure>;
}

/// The queue's name in the template. CloudFormation puts the stack's before it and letters behind.
const fn resource(queue: Dead) -> &'static str {
    match queue {
        Dead::Jobs => "JobsDeadLetters",
        Dead::Launches => "LaunchDeadLetters",
        Dead::Reaps => "ReapDeadLetters",
    }
}

/// The queue that a function reads, in the template.
const fn work_resource(queue: Dead) -> &'static str {
    match queue {
        Dead::Jobs => "JobsQueue",
        Dead::Launches => "LaunchQueue",
        Dead::Reaps => "ReapQueue",
    }
}

/// Lists the addresses of the stack's queues, from the page of this token on.
#[must_use]
pub fn listing(stack: &str, token: Option<&Value>) -> Call {
    let mut body = json!({ "QueueNamePrefix": format!("{stack}-"), "MaxResults": 1000 });
    if let Some(token) = token {
        body["NextToken"] = token.clone();
    }
    sqs("ListQueues", &body)
}

/// The address of the queue that a function reads, among those of the stack.
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

async fn call(services: &mut impl Services, call: Call) -> Result<Value, Failure> {
    services.calls(vec![call]).await?.pop().unwrap_or(Ok(Value::Null))
}

/// The stack's queues. None at all: there is no such stack.
///
/// # Errors
/// When SQS does not say.
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

/// How much is in each.
///
/// # Errors
/// When SQS does not say.
pub async fn counted(
    services: &mut impl Services,
    urls: &[(Dead, String)],
) -> Result<Vec<Queue>, Failure> {
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
        queues.push(Queue {
            queue: *queue,
            messages: number("ApproximateNumberOfMessages"),
            hidden: number("ApproximateNumberOfMessagesNotVisible"),
            url: url.clone(),
            arn: answer["Attributes"]["QueueArn"].as_str().unwrap_or_default().to_owned(),
        });
    }
    Ok(queues)
}

/// What a page shows: all queues, or one with its messages.
///
/// # Errors
/// When SQS does not say.
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

/// Sends those of a queue back, if there are any. Returns the queue as it was.
///
/// # Errors
/// When SQS does not.
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

async fn all(services: &mut impl Services, stack: &str) -> Result<Vec<Queue>, Failure> {
    let urls = urls(services, stack).await?;
    counted(services, &urls).await
}

/// One of them.
///
/// # Errors
/// There is none.
pub fn of(all: Vec<Queue>, name: Dead) -> Result<Queue, Failure> {
    all.into_iter().find(|one| one.queue == name).ok_or_else(none)
}

/// The stack has no queues.
#[must_use]
pub fn none() -> Failure {
    Failure::Unknown("The stack has no such queue.".to_owned())
}

/// Takes messages and gives them back: SQS knows no other look.
///
/// # Errors
/// When SQS does not hand them out, or does not take them back.
pub async fn looked_at(services: &mut impl Services, queue: &Queue) -> Result<Vec<Value>, Failure> {
    let mut found: Vec<Value> = Vec::new();
    let mut seen = BTreeSet::new();
    while found.len() < SHOWN {
        let body = json!({
            "QueueUrl": queue.url,
            "MaxNumberOfMessages": AT_ONCE,
            "VisibilityTimeout": HIDDEN,
            // Without a wait SQS asks some of its servers only, and says that there is none.
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
    queue: &Queue,
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

/// Sends all of them back to be handled again.
///
/// # Errors
/// When SQS does not.
pub async fn sent_back(services: &mut impl Services, queue: &Queue) -> Result<Value, Failure> {
    call(services, sqs("StartMessageMoveTask", &json!({ "SourceArn": queue.arn }))).await
}

/// What was handed out, the oldest first.
#[must_use]
pub fn messages(found: &[Value]) -> Vec<Message> {
    let mut messages: Vec<Message> = found.iter().map(message).collect();
    messages.sort_by_key(|one| one.sent_at);
    messages
}

fn message(one: &Value) -> Message {
    let attribute =
        |name: &str| one["Attributes"][name].as_str().and_then(|n| n.parse::<i64>().ok());
    Message {
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
