//! The queues' door: SQS's own rules are the model's (`tests/cloud`). Here stand what goes wrong on
//! the way, at least once and in no order, and Lambda's pollers.

use std::rc::Rc;

use muster_cloud::queue::{self, HideError};
use muster_control::ports::{Queue, QueueError, Unavailable};
use muster_domain::job::{JobEvent, fold};
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::pool::Pool;
use muster_domain::time::Seconds;

use crate::agenda::{Event, MINUTE, Millis, SECOND, Which};
use crate::door::Door;
use crate::fault::Fault;
use crate::invocations::Call;
use crate::lambda::{Failing, consumer_of};
use crate::world::{Task, World};

/// Visibility of all queues: six times the functions' time-out, as AWS advises.
const VISIBILITY: Millis = 6 * MINUTE;
/// What the template says of a queue and its poller; a test compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// `maxReceiveCount`.
    pub most_receives: u32,
    /// `BatchSize`.
    pub batch: u64,
    /// `MaximumConcurrency`.
    pub concurrency: u32,
}
/// The jobs queue.
pub const JOBS: Template = Template { most_receives: 500, batch: 10, concurrency: 3 };
/// The launch queue.
pub const LAUNCH: Template = Template { most_receives: 100, batch: 1, concurrency: 5 };
/// The reap queue.
pub const REAP: Template = Template { most_receives: 100, batch: 50, concurrency: 3 };
/// Longest time that SQS keeps a new message back.
const MAX_DELAY: Seconds = Seconds(900);

/// What a message says.
#[derive(Clone, Debug)]
pub enum Body {
    /// For scale-up, on the jobs queue or the launch queue.
    Jobs(JobsMessage),
    /// For the reaper.
    Reap(ReapMessage),
}

/// A message as a poller got it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its number.
    pub id: u64,
    /// Which of its receives this is.
    pub receives: u32,
    /// What it says.
    pub body: Rc<Body>,
}

impl Received {
    /// SQS's receipt handle.
    #[must_use]
    pub fn receipt(&self) -> String {
        format!("{}/{}", self.id, self.receives)
    }
}

/// One queue and its poller.
#[derive(Debug)]
pub struct One {
    queue: queue::Queue<Rc<Body>>,
    template: Template,
    running: u32,
    poll_at: Option<Millis>,
}

/// All queues.
#[derive(Debug)]
pub struct Queues {
    jobs: One,
    launch: One,
    reap: One,
    sent: u64,
    /// Each batch is as large as it may be. SQS often hands over less.
    pub full_batches: bool,
}

impl Default for Queues {
    fn default() -> Self {
        let [jobs, launch, reap] = [JOBS, LAUNCH, REAP].map(One::new);
        Self { jobs, launch, reap, sent: 0, full_batches: false }
    }
}

impl One {
    const fn new(template: Template) -> Self {
        let queue = queue::Queue::new(VISIBILITY, template.most_receives);
        Self { queue, template, running: 0, poll_at: None }
    }

    /// How many messages there are, hidden ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// When the next message is seen, or is seen again.
    #[must_use]
    pub fn next_visible(&self) -> Option<Millis> {
        self.queue.next_visible()
    }

    /// All messages, hidden ones included.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.queue.bodies().map(AsRef::as_ref)
    }

    /// When each message is seen.
    pub(crate) fn visible_times(&self) -> impl Iterator<Item = Millis> {
        self.queue.visible_times()
    }

    /// Takes up to a batch of visible messages.
    pub fn receive(&mut self, most: u64, now: Millis) -> Vec<Received> {
        let batch = self.queue.receive(most, now).into_iter();
        batch
            .map(|queue::Received { id, receives, body }| Received { id, receives, body })
            .collect()
    }
}

impl Queues {
    /// How many messages were sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// One of them.
    pub const fn of(&mut self, which: Which) -> &mut One {
        match which {
            Which::Jobs => &mut self.jobs,
            Which::Launch => &mut self.launch,
            Which::Reap => &mut self.reap,
        }
    }

    /// Messages that are sent from now on have been received so often before.
    pub const fn age(&mut self, receives: u32) {
        self.jobs.queue.received_before = receives;
        self.launch.queue.received_before = receives;
        self.reap.queue.received_before = receives;
    }

    /// How many messages there are in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len() + self.launch.len() + self.reap.len()
    }

    /// Whether all are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl World {
    /// A message arrives in a queue, with all that SQS does to it.
    pub fn enqueue(&mut self, which: Which, body: Body) {
        self.enqueue_later(which, body, 0);
    }

    /// The same for one that nobody receives before a time has passed.
    pub fn enqueue_later(&mut self, which: Which, body: Body, delay: Millis) {
        // Job events are durable in SQS, and so is that one cannot be read; whatever else is on the
        // queues may be lost by design.
        if which == Which::Jobs {
            if self.strikes(Fault::JobEventLost) {
                self.message_is_lost(&body);
                return;
            }
        } else if self.strikes(Fault::MessageLost) {
            return;
        }
        let body = Rc::new(body);
        let copies = if self.strikes(Fault::MessageDoubled) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.strikes(Fault::MessageLate) {
                self.between(SECOND, 3 * MINUTE)
            } else if self.strikes(Fault::MessageReordered) {
                self.between(SECOND, 5 * SECOND)
            } else {
                self.between(5, 60)
            };
            let visible_at = self.now + delay + late;
            self.queues.sent += 1;
            self.note_alike(which, &body);
            let id = self.queues.sent;
            self.queues.of(which).queue.enter(id, Rc::clone(&body), visible_at);
            self.poll_by(which, visible_at);
        }
    }

    /// Lambda looks into the queue at that time at the latest.
    fn poll_by(&mut self, which: Which, at: Millis) {
        let queue = self.queues.of(which);
        if queue.poll_at.is_none_or(|planned| at < planned) {
            queue.poll_at = Some(at);
            self.agenda.at(at, Event::Poll(which));
        }
    }

    /// Lambda takes what is visible, as far as its concurrency goes.
    pub fn poll_queue(&mut self, which: Which) {
        let now = self.now;
        let queue = self.queues.of(which);
        if queue.poll_at.is_some_and(|planned| planned > now) {
            return;
        }
        queue.poll_at = None;
        if self.lambda.unread.contains(&which) {
            return;
        }
        loop {
            let batch = self.queues.of(which).template.batch;
            let full = self.cloud_config.by_hand || self.queues.full_batches;
            let most = if full { batch } else { 1 + self.rng.below(batch) };
            let queue = self.queues.of(which);
            if queue.running >= queue.template.concurrency {
                return;
            }
            let dead_before = queue.queue.dead.len();
            let batch = queue.receive(most, now);
            let dead = queue.queue.dead.len() - dead_before;
            self.tally.dead_letters += dead as u64;
            if dead > 0 && which != Which::Jobs {
                self.broken("form", || "a wake-up was received a hundred times".to_owned());
            }
            if batch.is_empty() {
                let next = self.queues.of(which).next_visible();
                if let Some(next) = next {
                    self.poll_by(which, next.max(now + 1));
                }
                return;
            }
            let batch = self.bury(which, batch);
            if !batch.is_empty() {
                self.invoke(which, batch);
            }
        }
    }

    /// Some messages end in the dead-letter queue before their time, as after a bad deployment.
    fn bury(&mut self, which: Which, batch: Vec<Received>) -> Vec<Received> {
        let (dead, batch): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|_| self.strikes(Fault::MessageDead));
        for received in dead {
            let queue = &mut self.queues.of(which).queue;
            queue.remove(received.id);
            queue.dead.push(received.body);
            self.tally.dead_letters += 1;
        }
        batch
    }

    fn invoke(&mut self, which: Which, batch: Vec<Received>) {
        if self.is_throttled() {
            // The poller tries for a while, and then the messages come back by themselves.
            let long = self.is_away(Fault::OutageLambda);
            for received in &batch {
                let longest = if long { VISIBILITY } else { MINUTE };
                let again = self.now + self.between(SECOND, longest);
                self.queues.of(which).queue.move_to(received.id, again);
            }
            return;
        }
        let batch = Rc::new(batch);
        let call = match which {
            Which::Jobs => Call::ScaleUp(batch),
            Which::Launch => Call::Launch(batch),
            Which::Reap => Call::Reap(batch),
        };
        if self.failing(consumer_of(which)) == Some(Failing::Throttled) {
            // They return by themselves after the visibility time-out.
            self.is_not_run(&call, Failing::Throttled);
            if let Some(next) = self.queues.of(which).next_visible() {
                self.poll_by(which, next.max(self.now + 1));
            }
            return;
        }
        self.queues.of(which).running += 1;
        let after = self.between(2, 50);
        self.start(Task::Function(call), after);
    }

    /// Lambda hands all that is in the queue over at once, as with a batching window.
    pub fn hand_over_all(&mut self, which: Which) {
        let later = self.now + MINUTE;
        let batch = self.queues.of(which).receive(u64::MAX, later);
        self.invoke(which, batch);
    }

    /// An invocation of the queue's function ended.
    pub fn queue_is_free(&mut self, which: Which) {
        let queue = self.queues.of(which);
        queue.running -= 1;
        let at = self.now;
        self.poll_by(which, at);
    }

    /// A function is done with a message.
    pub fn acknowledge(&mut self, which: Which, received: &Received) {
        self.check_recorded(received);
        if self.strikes(Fault::MessageResurrected) {
            let again = self.now + self.between(SECOND, 5 * MINUTE);
            self.queues.of(which).queue.move_to(received.id, again);
            self.poll_by(which, again);
            return;
        }
        self.queues.of(which).queue.remove(received.id);
    }

    /// An event is done with when its row says what it says. A job that asks for `self-hosted`, or
    /// for what a pool carries, has a row whoever serves it.
    fn check_recorded(&mut self, received: &Received) {
        let Body::Jobs(JobsMessage::JobEvent { event, .. }) = &*received.body else { return };
        let stored = self.tables.jobs.get(&event.key).map(|row| row.last_event.status);
        if stored.is_some_and(|stored| stored >= event.status) {
            return;
        }
        let asks = event.labels.iter().any(|label| label == "self-hosted");
        let row = fold(None, JobEvent::clone(event), self.time());
        // An invocation may have read the pools before the last change; and a job is forgotten
        // whose pool was taken out of the file, once that pool's last machine is gone.
        let is_meant = |pool: &Pool| pool.removed_at.is_none() && pool.is_meant_by(&row);
        if asks || self.is_settled() && self.checker.pools.iter().any(is_meant) {
            let (key, status) = (event.key, event.status);
            self.broken("I8", || format!("{status:?} of job {key} is acknowledged, not recorded"));
        } else if let Some(job) = self.github.job_of_mut(event.key.job) {
            job.turned_away = true;
        }
    }

    /// An operator sends the dead letters back, once whatever broke is mended; or nobody does, and
    /// the events among them are lost.
    pub fn redrive(&mut self) {
        for which in [Which::Jobs, Which::Launch, Which::Reap] {
            for body in std::mem::take(&mut self.queues.of(which).queue.dead) {
                if self.cloud_config.redrives {
                    self.enqueue(which, Body::clone(&body));
                } else {
                    self.message_is_lost(&body);
                }
            }
        }
    }

    /// So is the event that it told of.
    fn message_is_lost(&mut self, body: &Body) {
        match body {
            Body::Jobs(JobsMessage::JobEvent { event, .. }) => self.event_is_lost(event.key.job),
            Body::Jobs(JobsMessage::Unreadable { delivery, .. }) => {
                let event = delivery.parse().ok().and_then(|number| self.delivery(number));
                event.into_iter().for_each(|event| self.event_is_lost(event.key.job));
            }
            Body::Jobs(JobsMessage::Repository { .. } | JobsMessage::WakePool(_))
            | Body::Reap(_) => {}
        }
    }

    /// A fault has taken a job's event, for good.
    fn event_is_lost(&mut self, job: u64) {
        if let Some(job) = self.github.job_of_mut(job) {
            job.event_lost = true;
        }
    }

    fn hide(&mut self, which: Which, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        if self.strikes(Fault::HideFailed) {
            return Err(QueueError(Unavailable::new("not hidden")));
        }
        let parsed = receipt.split_once('/').and_then(|(id, receives)| {
            Some((id.parse::<u64>().ok()?, receives.parse::<u32>().ok()?))
        });
        let Some((id, receives)) = parsed else {
            self.broken("form", || format!("not a receipt: {receipt}"));
            return Ok(());
        };
        let visible_at = self.now + i64::from(wait.0) * SECOND;
        match self.queues.of(which).queue.hide(id, receives, visible_at) {
            Ok(()) => {}
            Err(HideError::OldReceipt) => {
                return Err(QueueError(Unavailable::new("the receipt is too old")));
            }
            Err(HideError::TooLong) => {
                self.broken("form", || {
                    format!("hidden for {wait}: more than 12 hours from the receive")
                });
                return Ok(());
            }
        }
        // A wake-up may be gone at any time; the row and the sweep must not need it.
        if which != Which::Jobs && self.strikes(Fault::MessageExpired) {
            self.queues.of(which).queue.remove(id);
        }
        self.poll_by(which, visible_at);
        Ok(())
    }
}

impl Door {
    async fn send(
        &self,
        which: Which,
        bodies: Vec<Body>,
        delay: Seconds,
    ) -> Result<(), QueueError> {
        if delay > MAX_DELAY {
            let mut world = self.sim.world.borrow_mut();
            world.broken("form", || format!("SQS refuses a delay of {delay}"));
        }
        if bodies.is_empty() {
            return Ok(());
        }
        self.call(|world| {
            if world.lambda.full.contains(&which) || world.strikes(Fault::SendFailed) {
                return Err(QueueError(Unavailable::new("not sent")));
            }
            for body in bodies {
                world.enqueue_later(which, body, i64::from(delay.0) * SECOND);
            }
            if world.strikes(Fault::SendAnswerLost) {
                return Err(QueueError(Unavailable::new("the answer was lost")));
            }
            Ok(())
        })
        .await
    }
}

impl Queue for Door {
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError> {
        self.send(Which::Jobs, messages.iter().cloned().map(Body::Jobs).collect(), Seconds(0)).await
    }

    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError> {
        let bodies = wakes.iter().cloned().map(|wake| Body::Jobs(JobsMessage::WakePool(wake)));
        self.send(Which::Launch, bodies.collect(), delay).await
    }

    async fn send_reap(&self, messages: &[ReapMessage]) -> Result<(), QueueError> {
        self.send(Which::Reap, messages.iter().cloned().map(Body::Reap).collect(), Seconds(0)).await
    }

    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.call(|world| world.hide(Which::Reap, receipt, wait)).await
    }

    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.call(|world| world.hide(Which::Jobs, receipt, wait)).await
    }

    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.call(|world| world.hide(Which::Launch, receipt, wait)).await
    }
}
