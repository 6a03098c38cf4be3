//! The queues.

use muster_aws::queue::{QueueUrls, SqsQueue};
use muster_control::ports::Queue as _;
use muster_domain::ids::PoolName;
use muster_domain::job::JobStatus;
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::Seconds;

use crate::records::*;
use crate::support::Stack;

async fn receive(stack: &Stack, url: &str) -> Vec<aws_sdk_sqs::types::Message> {
    let receive = stack.sqs.receive_message().queue_url(url).max_number_of_messages(10);
    receive.send().await.expect("ReceiveMessage").messages.unwrap_or_default()
}

async fn drained(stack: &Stack, url: &str) -> Vec<String> {
    let mut bodies = Vec::new();
    loop {
        let messages = receive(stack, url).await;
        if messages.is_empty() {
            return bodies;
        }
        bodies.extend(messages.into_iter().filter_map(|message| message.body));
    }
}

fn reap(n: u32) -> ReapMessage {
    ReapMessage::Reap { name: planned(n, None).name, nonce: u64::MAX - u64::from(n) }
}

#[tokio::test]
async fn messages_of_any_number_arrive_whole() {
    let stack = Stack::new().await;
    let sent: Vec<ReapMessage> = (0..23).map(reap).collect();
    assert_eq!(stack.queue.send_reap(&sent).await, Ok(()));
    assert_eq!(stack.queue.send_reap(&[]).await, Ok(()));
    let bodies = drained(&stack, &stack.urls.reap).await;
    assert_eq!(bodies.len(), 23);
    for message in &sent {
        let arrived =
            bodies.iter().any(|body| serde_json::from_str(body).ok().as_ref() == Some(message));
        assert!(arrived, "{message:?}");
    }
}

#[tokio::test]
async fn any_text_of_a_workflows_author_can_be_sent() {
    let stack = Stack::new().await;
    let mut event = event(1, JobStatus::Queued);
    // SQS rejects the raw form of the first three; the others must arrive unchanged.
    event.name = "\u{0}\u{8}\u{ffff} naïve 👷 </xml> \"q\"".into();
    let message = JobsMessage::JobEvent { event: event.into(), delivery: "d-1".into() };
    assert_eq!(stack.queue.send_jobs(std::slice::from_ref(&message)).await, Ok(()));
    let bodies = drained(&stack, &stack.urls.jobs).await;
    assert_eq!(bodies.len(), 1);
    assert!(bodies[0].is_ascii());
    assert_eq!(serde_json::from_str::<JobsMessage>(&bodies[0]).expect("ours"), message);
    assert!(drained(&stack, &stack.urls.reap).await.is_empty(), "the other queue");
}

#[tokio::test]
async fn wake_ups_go_to_a_queue_of_their_own_and_may_come_later() {
    let stack = Stack::new().await;
    let pool: PoolName = "default".parse().expect("valid");
    let jobs = vec![event(1, JobStatus::Queued).key];
    let now = WakePool { jobs, ..WakePool::whole(pool.clone()) };
    assert_eq!(stack.queue.send_wakes(std::slice::from_ref(&now), Seconds(0)).await, Ok(()));
    assert_eq!(stack.queue.send_wakes(&[WakePool::whole(pool)], Seconds(600)).await, Ok(()));
    let bodies = drained(&stack, &stack.urls.launch).await;
    assert_eq!(bodies.len(), 1, "the other one comes in ten minutes: {bodies:?}");
    let read: JobsMessage = serde_json::from_str(&bodies[0]).expect("ours");
    assert_eq!(read, JobsMessage::WakePool(now));
    assert!(drained(&stack, &stack.urls.jobs).await.is_empty(), "another queue");
}

#[tokio::test]
async fn a_hidden_message_stays_hidden_for_the_time_asked() {
    let stack = Stack::new().await;
    stack.queue.send_reap(&[reap(1)]).await.expect("sent");
    let receipt = |messages: Vec<aws_sdk_sqs::types::Message>| {
        messages.into_iter().next().and_then(|message| message.receipt_handle).expect("a message")
    };
    let first = receipt(receive(&stack, &stack.urls.reap).await);
    assert_eq!(stack.queue.hide(&first, Seconds(0)).await, Ok(()), "at once");
    let second = receipt(receive(&stack, &stack.urls.reap).await);
    // Longer than SQS accepts (the emulator accepts any value).
    assert_eq!(stack.queue.hide(&second, Seconds(100_000)).await, Ok(()));
    assert!(receive(&stack, &stack.urls.reap).await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_sent_is_an_error() {
    let stack = Stack::new().await;
    let missing = stack.urls.reap.replace("-q-reap", "-q-none");
    let urls = QueueUrls { jobs: missing.clone(), launch: missing.clone(), reap: missing };
    let queue = SqsQueue::new(&stack.config, urls);
    assert!(queue.send_reap(&[reap(1)]).await.is_err());
    let wake = WakePool::whole("default".parse().expect("valid"));
    assert!(queue.send_wakes(&[wake], Seconds(1)).await.is_err());
    assert!(queue.hide("nonsense", Seconds(1)).await.is_err());
}

#[tokio::test]
async fn connecting_early_sends_nothing() {
    let stack = Stack::new().await;
    stack.queue.connect().await;
    assert!(drained(&stack, &stack.urls.jobs).await.is_empty());
}
