//! `dead-letters`: what the queues gave up, and back with it.

use std::collections::BTreeSet;

use muster_domain::time::Time;
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::{Session, World, pretty};
use crate::args::{Dead, DeadLetters};
use crate::failure::Failure;
use crate::views::dead_letters::{self, Message, Queue};
use crate::words::count;

/// Most messages that are shown.
const SHOWN: usize = 50;
/// As many as SQS hands out at once.
const AT_ONCE: usize = 10;
/// For how long nobody else sees what is looked at, should the command end in between, seconds.
const HIDDEN: u32 = 30;

/// In the order in which they are shown.
const ALL: [Dead; 3] = [Dead::Jobs, Dead::Launches, Dead::Reaps];

/// The queue's name in the template. CloudFormation puts the stack's before it and letters behind.
const fn resource(queue: Dead) -> &'static str {
    match queue {
        Dead::Jobs => "JobsDeadLetters",
        Dead::Launches => "LaunchDeadLetters",
        Dead::Reaps => "ReapDeadLetters",
    }
}

fn sqs(operation: &str, body: &Value) -> Call {
    Call::json("sqs", &format!("AmazonSQS.{operation}"), body)
}

impl<W: World> Session<'_, W> {
    pub(super) async fn dead_letters(&mut self, order: &DeadLetters) -> Result<String, Failure> {
        let mut urls = self.queues().await?;
        if urls.is_empty() {
            self.world.other_stack().await?;
            urls = self.queues().await?;
        }
        urls.retain(|(queue, _)| order.queue.is_none_or(|wanted| wanted == *queue));
        let calls = urls.iter().map(|(_, url)| {
            let names = [
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "QueueArn",
            ];
            sqs("GetQueueAttributes", &json!({ "QueueUrl": url, "AttributeNames": names }))
        });
        let mut queues = Vec::new();
        for ((queue, url), answer) in urls.iter().zip(self.world.aws(calls.collect()).await?) {
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
        match queues.as_slice() {
            [] => Err(Failure::Unknown("The stack has no such queue.".to_owned())),
            [one] if order.show => self.dead_letters_shown(one).await,
            [one] if order.redrive => self.redrive(one, order.yes).await,
            all if self.json => {
                let all: Vec<Value> = all.iter().map(Queue::json).collect();
                Ok(pretty(&json!({ "version": 1, "ok": true, "queues": all })))
            }
            all => Ok(dead_letters::list(all, self.screen)),
        }
    }

    async fn queues(&mut self) -> Result<Vec<(Dead, String)>, Failure> {
        let stack = self.world.stack().await?;
        let mut urls: Vec<String> = Vec::new();
        let mut token = Value::Null;
        loop {
            let mut body = json!({ "QueueNamePrefix": format!("{stack}-"), "MaxResults": 1000 });
            if !token.is_null() {
                body["NextToken"] = token;
            }
            let mut answer = self.call(sqs("ListQueues", &body)).await?;
            let all = answer["QueueUrls"].as_array().into_iter().flatten();
            urls.extend(all.filter_map(|url| url.as_str().map(str::to_owned)));
            token = answer["NextToken"].take();
            if token.is_null() {
                break;
            }
        }
        let of = |queue: Dead| {
            let prefix = format!("{stack}-{}-", resource(queue));
            let own = |url: &&String| {
                url.rsplit('/').next().is_some_and(|name| name.starts_with(&prefix))
            };
            Some((queue, urls.iter().find(own)?.clone()))
        };
        Ok(ALL.into_iter().filter_map(of).collect())
    }

    /// Takes messages and gives them back: SQS knows no other look.
    async fn dead_letters_shown(&mut self, queue: &Queue) -> Result<String, Failure> {
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
            let taken = self.call(sqs("ReceiveMessage", &body)).await;
            let mut answer = match taken {
                Ok(answer) => answer,
                Err(failure) => {
                    self.give_back(queue, &found).await?;
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
        self.give_back(queue, &found).await?;
        if self.json {
            return Ok(pretty(&json!({ "version": 1, "ok": true, "messages": found })));
        }
        let mut messages: Vec<Message> = found.iter().map(message).collect();
        messages.sort_by_key(|one| one.sent_at);
        Ok(dead_letters::messages(&messages, queue, self.world.now(), self.screen))
    }

    async fn give_back(&mut self, queue: &Queue, messages: &[Value]) -> Result<(), Failure> {
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
        self.world.aws(calls).await?.into_iter().try_for_each(|answer| answer.map(drop))
    }

    async fn redrive(&mut self, queue: &Queue, yes: bool) -> Result<String, Failure> {
        let what = count(usize::try_from(queue.messages).unwrap_or(usize::MAX), "message");
        if queue.messages == 0 {
            return Ok(if self.json {
                pretty(&json!({ "version": 1, "ok": true, "messages": 0 }))
            } else {
                dead_letters::none(queue, self.screen)
            });
        }
        let name = queue.name();
        self.agreed(yes, &format!("Send {what} of {name} back to be handled again?"))?;
        let body = json!({ "SourceArn": queue.arn });
        let answer = self.call(sqs("StartMessageMoveTask", &body)).await?;
        if self.json {
            return Ok(pretty(&answer));
        }
        Ok(dead_letters::sent_back(&what, self.screen))
    }
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
        let template = include_str!("../../../template.yaml");
        for queue in ALL {
            let line = format!("  {}:\n    Type: AWS::SQS::Queue\n", resource(queue));
            assert!(template.contains(&line), "{line}");
        }
    }
}
