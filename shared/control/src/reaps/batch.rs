//! Runs a batch of the reap queue: one pass per message, concurrently.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use futures_util::future::{join_all, try_join};
use muster_domain::backoff;
use muster_domain::causes::with_causes;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::message::{ReapMessage, SPOT_INTERRUPTION};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::Loss;

use crate::Settings;
use crate::context::{Context, Ports};
use crate::metrics::{self, Measure, Metric};
use crate::ports::{Instances, Operations, Queue, ReadError};
use crate::reaps::reap::{MAX_RECEIVES, Pass, Progress, Reap, Settlement, Ticket};
use crate::reaps::sweep::owners::owners_of;
use crate::reaps::terminate;
use crate::writes::{Before, PassError};

/// Number of concurrent passes. Three invocations use three quarters of the concurrent requests
/// that GitHub allows (100, docs.github.com/rest, "secondary rate limits").
const SIDE_BY_SIDE: usize = 25;
/// How long a message is hidden whose pass was not started, so that others come first. After
/// failures the delay starts here and doubles each time.
const POSTPONED: Seconds = Seconds(5);
/// Maximum of that delay. It makes a message that keeps failing reach the dead-letter queue after
/// hours, not minutes.
const MAX_POSTPONED: Seconds = Seconds(360);

/// A message of the reap queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedReap {
    /// Its content.
    pub message: ReapMessage,
    /// Its nonce and receive count.
    pub ticket: Ticket,
    /// The receipt handle, for hiding it.
    pub receipt: String,
}

impl ReceivedReap {
    /// Creates a message from SQS's attributes. EC2's events carry no nonce of ours, so the message
    /// ID serves as nonce: it stays the same across receives.
    #[must_use]
    pub fn new(message: ReapMessage, message_id: &str, receives: u32, receipt: String) -> Self {
        let nonce = match &message {
            ReapMessage::Reap { nonce, .. } => *nonce,
            ReapMessage::MachineChanged { .. } => fnv1a(message_id.as_bytes()),
        };
        Self { message, ticket: Ticket { nonce, receives }, receipt }
    }
}

/// The results of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchReport {
    /// Whether each message, in order, is done; the others return.
    pub acked: Vec<bool>,
    /// Passes left to a later invocation because this one was running out of time.
    pub postponed: u32,
    /// Metrics: jobs interrupted and machines wasted, and messages that keep failing.
    pub measures: Vec<Measure>,
}

/// The result of a message's pass.
struct MessageResult {
    /// Whether the message is done; otherwise it returns.
    acked: bool,
    /// Whether the pass failed, and not for the first time.
    is_failing: bool,
    /// What the end of the machine cost: an interrupted job, or a machine that never ran one.
    lost: Option<(PoolName, Loss)>,
}

/// How far the pass of a message has progressed.
enum Stage {
    /// Finished.
    Settled(MessageResult),
    /// Waiting for its machine's termination.
    Terminates(MachineId, Box<Pass>),
}

impl Stage {
    const fn terminates(&self) -> Option<&MachineId> {
        match self {
            Self::Settled(..) => None,
            Self::Terminates(machine, _) => Some(machine),
        }
    }

    fn settled(self) -> Option<MessageResult> {
        match self {
            Self::Settled(ended) => Some(ended),
            Self::Terminates(..) => None,
        }
    }
}

/// An invocation for the reap queue.
pub struct Batch<'a, P: Ports> {
    /// The ports, and the settings from the stack's parameters.
    pub context: Context<'a, P>,
}

impl BatchReport {
    /// Adds the report on later messages.
    fn append(&mut self, later: Self) {
        self.acked.extend(later.acked);
        self.postponed += later.postponed;
        self.measures.extend(later.measures);
    }
}

impl<P: Ports> Batch<'_, P> {
    /// Runs a pass for each message. `deadline` is when Lambda stops the invocation. No pass starts
    /// in the second half of the remaining time, because a pass may have to wait for a slow GitHub.
    pub async fn run(
        &self,
        messages: &[ReceivedReap],
        deadline: Time,
        now: &dyn Fn() -> Time,
    ) -> BatchReport {
        let start = now();
        let begin_until = start + Seconds(deadline.since(start).0 / 2);
        let (mut report, mut known, mut failing) = (BatchReport::default(), None, 0);
        for group in messages.chunks(SIDE_BY_SIDE) {
            if now() > begin_until {
                for received in group {
                    report.postponed += 1;
                    report.acked.push(self.settle(received, postpone(received)).await);
                }
                continue;
            }
            let passes = match self.begin(group, &mut known, start).await {
                Ok(passes) => passes,
                Err(error) => {
                    tracing::error!(
                        error = with_causes(&error),
                        "cannot read owners, pools or switches"
                    );
                    report.append(self.leave_all(group).await);
                    continue;
                }
            };
            let Some((settings, deletes_off)) = &known else {
                report.acked.extend(group.iter().map(|_| true));
                continue;
            };
            let reap = &Reap { context: self.context.with(settings), deletes_off: *deletes_off };
            for ended in self.side_by_side(reap, group, passes, now).await {
                failing += usize::from(ended.is_failing);
                report.acked.push(ended.acked);
                report.measures.extend(ended.lost.map(|lost| measure(settings, lost)));
            }
        }
        report.measures.extend(Measure::failing(failing));
        report
    }

    /// Returns the passes of a group; none for a message without work. `known` is what all passes need:
    /// the settings, and whether deletes are paused. It is read once, before the first pass.
    async fn begin<'b>(
        &'b self,
        group: &[ReceivedReap],
        known: &mut Option<(Cow<'b, Settings>, bool)>,
        start: Time,
    ) -> Result<Vec<Option<Pass>>, ReadError> {
        let mut events = self.events(group).await?;
        let passes = group.iter().enumerate().map(|(number, received)| {
            events.remove(&number).unwrap_or_else(|| Self::pass_of(received))
        });
        let passes: Vec<Option<Pass>> = passes.collect();
        if known.is_none() && passes.iter().any(Option::is_some) {
            let Context { table, settings, .. } = self.context;
            let switches = table.switches().map(Before::of);
            let (settings, switches) = try_join(settings.current(table), switches).await?;
            let deletes_off = match &switches {
                Before::Read(switches) => {
                    switches.as_ref().is_some_and(|all| all.deletes_off(start).is_some())
                }
                // An operator may have paused deletes. A machine that EC2 has ended is still recorded.
                Before::Unreadable => true,
            };
            *known = Some((settings, deletes_off));
        }
        Ok(passes)
    }

    /// Runs the passes of some messages until they need a termination, terminates all those
    /// machines in one call, and runs the rest of the passes.
    async fn side_by_side(
        &self,
        reap: &Reap<'_, P>,
        group: &[ReceivedReap],
        passes: Vec<Option<Pass>>,
        now: &dyn Fn() -> Time,
    ) -> Vec<MessageResult> {
        let work = group.iter().zip(passes);
        let begun = work.map(async |(received, pass)| match pass {
            Some(pass) => self.advance(reap, received, pass, now()).await,
            None => Stage::Settled(MessageResult { acked: true, is_failing: false, lost: None }),
        });
        let mut stages = join_all(begun).await;
        loop {
            let machines: BTreeSet<MachineId> =
                stages.iter().filter_map(Stage::terminates).cloned().collect();
            if machines.is_empty() {
                return stages.into_iter().filter_map(Stage::settled).collect();
            }
            let answers = terminate::all(self.context.compute, machines, now()).await;
            let work = stages.into_iter().zip(group);
            stages = join_all(work.map(async |(stage, received)| match stage {
                Stage::Settled(..) => stage,
                Stage::Terminates(machine, mut pass) => {
                    if let Some(answer) = answers.get(&machine) {
                        pass.terminated(answer.clone());
                    }
                    self.advance(reap, received, *pass, now()).await
                }
            }))
            .await;
        }
    }

    /// Returns the passes for EC2's events, by the number of the message. None means no work: no instance
    /// owns the machine or its owner cannot be read, which is left to the sweep, or the instance has ended. The records are read
    /// together and before the set of pools, because EC2 reports each end twice.
    async fn events(
        &self,
        messages: &[ReceivedReap],
    ) -> Result<BTreeMap<usize, Option<Pass>>, ReadError> {
        let events = messages.iter().enumerate().filter_map(|(number, received)| {
            let ReapMessage::MachineChanged { machine, what, at } = &received.message else {
                return None;
            };
            tracing::info!(machine.id = %machine, what, "EC2 reported a change of a machine");
            Some((number, &received.ticket, machine, what, *at))
        });
        let events: Vec<_> = events.collect();
        let machines: BTreeSet<MachineId> = events.iter().map(|event| event.2.clone()).collect();
        if machines.is_empty() {
            return Ok(BTreeMap::new());
        }
        let table = self.context.table;
        let machines: Vec<MachineId> = machines.into_iter().collect();
        let (owners, _) = owners_of(table, &machines).await?;
        let names: Vec<InstanceName> = owners.values().cloned().collect();
        if names.is_empty() {
            return Ok(events.into_iter().map(|event| (event.0, None)).collect());
        }
        let read = match table.instances(&names).await {
            // Each pass reads its own record.
            Err(ReadError::Unreadable { .. }) => Vec::new(),
            read => read?,
        };
        let read: BTreeMap<InstanceName, Stored<Instance>> =
            read.into_iter().map(|one| (one.name.clone(), one)).collect();
        let pass = |(number, ticket, machine, what, at): (_, &Ticket, &MachineId, &String, _)| {
            let pass = owners.get(machine).and_then(|name| {
                let pass = Pass::of_event(name.clone(), ticket.clone(), what, at);
                match read.get(name) {
                    // A late notice may explain the end of its job.
                    Some(instance) if !instance.state().is_live() && what != SPOT_INTERRUPTION => {
                        None
                    }
                    Some(instance) => Some(pass.over(instance.clone())),
                    None => Some(pass),
                }
            });
            (number, pass)
        };
        Ok(events.into_iter().map(pass).collect())
    }

    /// Returns the pass of a message that Muster has sent.
    fn pass_of(received: &ReceivedReap) -> Option<Pass> {
        match &received.message {
            ReapMessage::Reap { name, .. } => {
                Some(Pass::new(name.clone(), received.ticket.clone()))
            }
            ReapMessage::MachineChanged { .. } => None,
        }
    }

    async fn advance(
        &self,
        reap: &Reap<'_, P>,
        received: &ReceivedReap,
        mut pass: Pass,
        now: Time,
    ) -> Stage {
        match reap.advance(&mut pass, now).await {
            Ok(Progress::Terminates(machine)) => Stage::Terminates(machine, Box::new(pass)),
            Ok(Progress::Settled(settlement)) => {
                let acked = self.settle(received, settlement).await;
                Stage::Settled(MessageResult { acked, is_failing: false, lost: pass.lost })
            }
            Err(error) => Stage::Settled(self.failed(received, &error, pass.lost).await),
        }
    }

    /// Leaves the message of a failed pass in the queue for a later attempt.
    async fn failed(
        &self,
        received: &ReceivedReap,
        error: &PassError,
        lost: Option<(PoolName, Loss)>,
    ) -> MessageResult {
        let (message, error) = (&received.message, with_causes(error));
        tracing::error!(?message, error, "reap pass failed; it will be retried");
        let acked = self.settle(received, comes_again(received)).await;
        MessageResult { acked, is_failing: metrics::keeps_failing(received.ticket.receives), lost }
    }

    async fn leave_all(&self, messages: &[ReceivedReap]) -> BatchReport {
        let mut report = BatchReport::default();
        for received in messages {
            report.acked.push(self.settle(received, comes_again(received)).await);
        }
        let is_failing = |one: &&ReceivedReap| metrics::keeps_failing(one.ticket.receives);
        report.measures.extend(Measure::failing(messages.iter().filter(is_failing).count()));
        report
    }

    /// Settles a message. Returns whether it is done.
    async fn settle(&self, received: &ReceivedReap, settlement: Settlement) -> bool {
        match settlement {
            Settlement::Ack => true,
            Settlement::Hide(wait) => {
                // If hiding fails, it returns after the queue's visibility timeout: later, but not
                // lost.
                if let Err(error) = self.context.queue.hide(&received.receipt, wait).await {
                    tracing::warn!(
                        error = with_causes(&error),
                        "failed to hide a message; it returns after the queue's visibility timeout"
                    );
                }
                false
            }
        }
    }
}

fn measure(settings: &Settings, (pool, loss): (PoolName, Loss)) -> Measure {
    let metric = match loss {
        Loss::Job => Metric::JobsInterrupted,
        Loss::Machine => Metric::MachinesInVain,
    };
    Measure::of(metrics::pool(settings, &pool), metric, 1.0)
}

/// Returns when a failed message should return: later after each failure.
fn comes_again(received: &ReceivedReap) -> Settlement {
    Settlement::Hide(backoff::grown(POSTPONED, received.ticket.receives, MAX_POSTPONED))
}

/// Postpones a message, or drops it after many receives as a pass does: the sweep sends a new one.
fn postpone(received: &ReceivedReap) -> Settlement {
    match received.ticket.receives {
        MAX_RECEIVES.. => Settlement::Ack,
        _ => Settlement::Hide(POSTPONED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_nonce_is_the_same_at_every_receive_and_differs_from_others() {
        let nonce = |id: &str, receives| {
            let machine = "i-0a1b2c3d4e5f60718".parse().expect("a machine");
            let what = "terminated".to_owned();
            let message = ReapMessage::MachineChanged { machine, what, at: None };
            ReceivedReap::new(message, id, receives, String::new()).ticket.nonce
        };
        assert_eq!(nonce("a-1", 1), nonce("a-1", 2));
        assert_ne!(nonce("a-1", 1), nonce("a-2", 1));
        let name = "default-l1-0".parse().expect("an instance");
        let own = ReceivedReap::new(ReapMessage::Reap { name, nonce: 7 }, "a-1", 1, String::new());
        assert_eq!(own.ticket.nonce, 7);
    }
}
