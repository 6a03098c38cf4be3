//! Tables and queues: crate `aws` at an emulator of DynamoDB and SQS.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use muster_aws::queue::SqsQueue;
use muster_aws::table::DynamoTable;
use muster_conformance::queue::{self, Body, QueueWorld, Received, Which};
use muster_conformance::table::{self, TableWorld};
use muster_conformance::{differences, run_all};
use muster_domain::ids::InstanceName;

use crate::RUNTIME;
use crate::support::Stack;

/// How long a received message is hidden here: long enough to look twice, also where the machine
/// stands still for a while, and short enough to wait for.
const VISIBILITY: Duration = Duration::from_secs(6);

struct Bench(Stack);

impl Bench {
    const fn url(&self, which: Which) -> &String {
        match which {
            Which::Jobs => &self.0.urls.jobs,
            Which::Launch => &self.0.urls.launch,
            Which::Reap => &self.0.urls.reap,
        }
    }
}

impl TableWorld for Bench {
    type Table = DynamoTable;

    fn table(&self) -> &DynamoTable {
        &self.0.table
    }

    async fn spoil(&self, instance: &InstanceName) {
        let (table, key) = (&self.0.names.instances, ("name", instance.as_str()));
        let mut item = self.0.raw(table, key).await.expect("there");
        item.insert("schema".into(), AttributeValue::N("9".into()));
        self.0.put_raw(table, item).await;
    }
}

impl QueueWorld for Bench {
    type Queue = SqsQueue;

    fn queue(&self) -> &SqsQueue {
        &self.0.queue
    }

    async fn receive(&self, which: Which) -> Vec<Received> {
        let receive = self
            .0
            .sqs
            .receive_message()
            .queue_url(self.url(which))
            .max_number_of_messages(10)
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let messages = receive.send().await.expect("ReceiveMessage").messages.unwrap_or_default();
        let told = |message: aws_sdk_sqs::types::Message| {
            let body = message.body().expect("a body");
            let receives = MessageSystemAttributeName::ApproximateReceiveCount;
            let receives = message.attributes().and_then(|all| all.get(&receives));
            Received {
                body: match which {
                    Which::Jobs | Which::Launch => {
                        Body::Jobs(serde_json::from_str(body).expect("ours"))
                    }
                    Which::Reap => Body::Reap(serde_json::from_str(body).expect("ours")),
                },
                receipt: message.receipt_handle().expect("a receipt").to_owned(),
                receives: receives.and_then(|text| text.parse().ok()).expect("a count"),
            }
        };
        messages.into_iter().map(told).collect()
    }

    async fn delete(&self, which: Which, received: &Received) {
        let delete = self.0.sqs.delete_message().queue_url(self.url(which));
        delete.receipt_handle(&received.receipt).send().await.expect("DeleteMessage");
    }

    async fn pass(&self, seconds: u32) {
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    }

    async fn lapse(&self) {
        tokio::time::sleep(VISIBILITY + Duration::from_millis(300)).await;
    }
}

async fn queues() -> Bench {
    let bench = Bench(Stack::new().await);
    for which in [Which::Jobs, Which::Launch, Which::Reap] {
        let visibility = VISIBILITY.as_secs().to_string();
        let set = bench.0.sqs.set_queue_attributes().queue_url(bench.url(which));
        let set = set.attributes(QueueAttributeName::VisibilityTimeout, visibility);
        set.send().await.expect("SetQueueAttributes");
    }
    bench
}

#[test]
fn the_tables_are_as_the_passes_know_them() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let bench = Bench(Stack::new().await);
            table::check(name, &bench).await;
        });
    };
    assert!(run_all(table::CHECKS, differences::WIRE_TABLE, run) >= 65);
}

#[test]
fn the_queues_are_as_the_passes_know_them() {
    let run = |name: &str| {
        RUNTIME.block_on(async {
            let bench = queues().await;
            queue::check(name, &bench).await;
        });
    };
    assert!(run_all(queue::CHECKS, differences::WIRE_QUEUE, run) >= 17);
}
