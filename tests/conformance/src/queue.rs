//! The queues, as `muster_control::ports::Queue` sends to them and the functions' pollers receive
//! from them.

use muster_control::ports::Queue;
use muster_domain::job::JobStatus;
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::Seconds;

use crate::checks;
use crate::records::{event, planned, pool};

/// One of the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Job events.
    Jobs,
    /// Wake-ups of pools.
    Launch,
    /// Passes over instances.
    Reap,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// On the jobs queue and the launch queue.
    Jobs(JobsMessage),
    /// On the reap queue.
    Reap(ReapMessage),
}

/// A message as a poller gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it says.
    pub body: Body,
    /// What names this receive of it.
    pub receipt: String,
    /// Which receive it is.
    pub receives: u32,
}

/// The queues behind a door.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait QueueWorld {
    /// The port.
    type Queue: Queue;

    /// The port.
    fn queue(&self) -> &Self::Queue;
    /// Takes what is visible, as a poller does.
    async fn receive(&self, which: Which) -> Vec<Received>;
    /// Removes a message, as the event source mapping does after a success.
    async fn delete(&self, which: Which, received: &Received);
    /// Time passes.
    async fn pass(&self, seconds: u32);
    /// Time passes until received messages that nobody deleted are visible again.
    async fn lapse(&self);
}

checks! { QueueWorld:
    a_job_event_arrives_whole,
    a_job_event_that_is_hidden_comes_after_its_wait,
    a_wake_up_arrives_whole,
    a_wake_up_with_a_delay_comes_after_it,
    a_wake_up_that_is_hidden_comes_after_its_wait,
    a_reap_message_arrives_whole,
    a_machines_change_arrives_whole,
    the_queues_are_apart,
    any_number_of_messages_arrives,
    nothing_is_sent_for_no_message,
    the_same_message_sent_twice_arrives_twice,
    a_received_message_is_hidden,
    a_deleted_message_does_not_come_again,
    a_message_that_nobody_deletes_comes_again,
    receives_are_counted,
    a_hidden_message_comes_after_its_wait,
    a_message_hidden_for_no_time_comes_at_once,
    a_hidden_message_does_not_hide_others,
}

fn reap(n: u32) -> ReapMessage {
    // A nonce may be any number, also one that no signed integer and no float can hold.
    ReapMessage::Reap { name: planned(n, None).name, nonce: u64::MAX - u64::from(n) }
}

fn job_event() -> JobsMessage {
    let mut event = event(1, JobStatus::Queued);
    event.name = "\u{0}\u{8}\u{ffff} naïve 👷 </xml> \"q\"".into();
    JobsMessage::JobEvent { event: event.into(), delivery: "d-1".into() }
}

/// Everything that is visible.
async fn drain<W: QueueWorld>(world: &W, which: Which) -> Vec<Received> {
    let mut all = Vec::new();
    loop {
        let batch = world.receive(which).await;
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

async fn one<W: QueueWorld>(world: &W, which: Which) -> Received {
    let mut all = drain(world, which).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn jobs_arrive<W: QueueWorld>(world: &W, message: JobsMessage) {
    world.queue().send_jobs(std::slice::from_ref(&message)).await.expect("sent");
    assert_eq!(one(world, Which::Jobs).await.body, Body::Jobs(message));
}

async fn reap_arrives<W: QueueWorld>(world: &W, message: ReapMessage) {
    world.queue().send_reap(std::slice::from_ref(&message)).await.expect("sent");
    assert_eq!(one(world, Which::Reap).await.body, Body::Reap(message));
}

async fn a_job_event_arrives_whole<W: QueueWorld>(world: &W) {
    jobs_arrive(world, job_event()).await;
}

async fn a_job_event_that_is_hidden_comes_after_its_wait<W: QueueWorld>(world: &W) {
    world.queue().send_jobs(&[job_event()]).await.expect("sent");
    let received = one(world, Which::Jobs).await;
    world.queue().hide_job(&received.receipt, Seconds(3)).await.expect("hidden");
    world.pass(1).await;
    assert_eq!(drain(world, Which::Jobs).await, [], "too early");
    world.pass(3).await;
    assert_eq!(one(world, Which::Jobs).await.body, received.body);
}

async fn a_wake_up_arrives_whole<W: QueueWorld>(world: &W) {
    let jobs = vec![event(1, JobStatus::Queued).key];
    let named = WakePool { jobs, ..WakePool::whole(pool()) };
    for wake in [WakePool::whole(pool()), named] {
        world.queue().send_wakes(std::slice::from_ref(&wake), Seconds(0)).await.expect("sent");
        let received = one(world, Which::Launch).await;
        assert_eq!(received.body, Body::Jobs(JobsMessage::WakePool(wake)));
        world.delete(Which::Launch, &received).await;
    }
    assert_eq!(drain(world, Which::Jobs).await, []);
}

async fn a_wake_up_with_a_delay_comes_after_it<W: QueueWorld>(world: &W) {
    world.queue().send_wakes(&[WakePool::whole(pool())], Seconds(3)).await.expect("sent");
    world.pass(1).await;
    assert_eq!(drain(world, Which::Launch).await, [], "too early");
    world.pass(3).await;
    one(world, Which::Launch).await;
}

async fn a_wake_up_that_is_hidden_comes_after_its_wait<W: QueueWorld>(world: &W) {
    world.queue().send_wakes(&[WakePool::whole(pool())], Seconds(0)).await.expect("sent");
    let received = one(world, Which::Launch).await;
    world.queue().hide_wake(&received.receipt, Seconds(3)).await.expect("hidden");
    world.pass(1).await;
    assert_eq!(drain(world, Which::Launch).await, [], "too early");
    world.pass(3).await;
    assert_eq!(one(world, Which::Launch).await.body, received.body);
}

async fn a_reap_message_arrives_whole<W: QueueWorld>(world: &W) {
    reap_arrives(world, reap(1)).await;
}

async fn a_machines_change_arrives_whole<W: QueueWorld>(world: &W) {
    let machine = crate::records::machine(1);
    reap_arrives(
        world,
        ReapMessage::MachineChanged { machine, what: "not listed".into(), at: None },
    )
    .await;
}

async fn the_queues_are_apart<W: QueueWorld>(world: &W) {
    world.queue().send_jobs(&[job_event()]).await.expect("sent");
    assert_eq!(drain(world, Which::Reap).await, []);
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    world.queue().send_wakes(&[WakePool::whole(pool())], Seconds(0)).await.expect("sent");
    assert_eq!(drain(world, Which::Jobs).await.len(), 1);
    assert_eq!(drain(world, Which::Launch).await.len(), 1);
    assert_eq!(drain(world, Which::Reap).await.len(), 1);
}

async fn any_number_of_messages_arrives<W: QueueWorld>(world: &W) {
    let sent: Vec<ReapMessage> = (0..23).map(reap).collect();
    world.queue().send_reap(&sent).await.expect("sent");
    let arrived = drain(world, Which::Reap).await;
    assert_eq!(arrived.len(), 23);
    for message in sent {
        let body = Body::Reap(message);
        assert!(arrived.iter().any(|one| one.body == body), "{body:?}");
    }
}

async fn nothing_is_sent_for_no_message<W: QueueWorld>(world: &W) {
    assert_eq!(world.queue().send_jobs(&[]).await, Ok(()));
    assert_eq!(world.queue().send_reap(&[]).await, Ok(()));
    assert_eq!(world.queue().send_wakes(&[], Seconds(9)).await, Ok(()));
    assert_eq!(drain(world, Which::Jobs).await, []);
    assert_eq!(drain(world, Which::Reap).await, []);
}

async fn the_same_message_sent_twice_arrives_twice<W: QueueWorld>(world: &W) {
    for _ in 0..2 {
        world.queue().send_reap(&[reap(1)]).await.expect("sent");
    }
    assert_eq!(drain(world, Which::Reap).await.len(), 2);
}

async fn a_received_message_is_hidden<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    one(world, Which::Reap).await;
    assert_eq!(world.receive(Which::Reap).await, []);
}

async fn a_deleted_message_does_not_come_again<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    let received = one(world, Which::Reap).await;
    world.delete(Which::Reap, &received).await;
    world.lapse().await;
    assert_eq!(drain(world, Which::Reap).await, []);
}

async fn a_message_that_nobody_deletes_comes_again<W: QueueWorld>(world: &W) {
    world.queue().send_jobs(&[job_event()]).await.expect("sent");
    let first = one(world, Which::Jobs).await;
    world.lapse().await;
    let again = one(world, Which::Jobs).await;
    assert_eq!(again.body, first.body);
}

async fn receives_are_counted<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    for expected in 1..=3 {
        assert_eq!(one(world, Which::Reap).await.receives, expected);
        world.lapse().await;
    }
}

async fn a_hidden_message_comes_after_its_wait<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    let received = one(world, Which::Reap).await;
    world.queue().hide(&received.receipt, Seconds(3)).await.expect("hidden");
    world.pass(1).await;
    assert_eq!(drain(world, Which::Reap).await, [], "too early");
    world.pass(3).await;
    assert_eq!(one(world, Which::Reap).await.body, received.body);
}

async fn a_message_hidden_for_no_time_comes_at_once<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    let received = one(world, Which::Reap).await;
    world.queue().hide(&received.receipt, Seconds(0)).await.expect("hidden");
    assert_eq!(one(world, Which::Reap).await.receives, 2);
}

async fn a_hidden_message_does_not_hide_others<W: QueueWorld>(world: &W) {
    world.queue().send_reap(&[reap(1)]).await.expect("sent");
    let received = one(world, Which::Reap).await;
    world.queue().hide(&received.receipt, Seconds(60)).await.expect("hidden");
    world.queue().send_reap(&[reap(2)]).await.expect("sent");
    assert_eq!(one(world, Which::Reap).await.body, Body::Reap(reap(2)));
}
