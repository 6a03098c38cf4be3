//! A batch of the reap queue: one pass per message, side by side.

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join};
use muster_domain::backoff;
use muster_domain::hash::fnv1a;
use muster_domain::ids::{MachineId, PoolName};
use muster_domain::message::ReapMessage;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::Loss;

use crate::Settings;
use crate::causes::with_causes;
use crate::context::{Context, Ports};
use crate::metrics::{self, Measure, Metric};
use crate::ports::{Operations, Queue};
use crate::reaps::reap::{MAX_RECEIVES, Pass, Progress, Reap, Settlement, Ticket};
use crate::reaps::terminate;
use crate::writes::PassError;

/// Passes that run at once. With three invocations that is three quarters of what GitHub takes of
/// concurrent requests (100, docs.github.com/rest, "secondary rate limits").
const SIDE_BY_SIDE: usize = 25;
/// A message that is not begun is away for this long, so that others come first. One that failed
/// is away for twice as long each time in a row.
const POSTPONED: Seconds = Seconds(5);
/// Where that ends, so that what nobody can do ends among the dead letters after hours, not
/// minutes.
const MAX_POSTPONED: Seconds = Seconds(360);

/// A message of the reap queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it says.
    pub message: ReapMessage,
    /// Which one it is.
    pub ticket: Ticket,
    /// What it is hidden by.
    pub receipt: String,
}

impl Received {
    /// A message with what SQS says of it. EC2's events carry no nonce of ours, so the message's
    /// own id serves: it is the same at every receive.
    #[must_use]
    pub fn new(message: ReapMessage, message_id: &str, receives: u32, receipt: String) -> Self {
        let nonce = match &message {
            ReapMessage::Reap { nonce, .. } => *nonce,
            ReapMessage::MachineChanged { .. } => fnv1a(message_id.as_bytes()),
        };
        Self { message, ticket: Ticket { nonce, receives }, receipt }
    }
}

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchReport {
    /// For each message, in order: done with it; the others come back.
    pub acked: Vec<bool>,
    /// Passes that were left to a later invocation, because this one's time was running out.
    pub postponed: u32,
    /// The metrics: what was lost with machines, and the messages that keep failing.
    pub measures: Vec<Measure>,
}

/// How the pass of a message ended.
struct Ended {
    /// Done with the message; otherwise it comes back.
    acked: bool,
    /// The pass failed, and not for the first time.
    is_failing: bool,
    /// What was lost with the machine.
    lost: Option<(PoolName, Loss)>,
}

/// How far the pass of a message has come.
enum Stage {
    /// To its end.
    Settled(Ended),
    /// To the end of its machine.
    Terminates(MachineId, Box<Pass>),
}

impl Stage {
    const fn terminates(&self) -> Option<&MachineId> {
        match self {
            Self::Settled(..) => None,
            Self::Terminates(machine, _) => Some(machine),
        }
    }

    fn settled(self) -> Option<Ended> {
        match self {
            Self::Settled(ended) => Some(ended),
            Self::Terminates(..) => None,
        }
    }
}

/// An invocation for the reap queue.
pub struct Batch<'a, P: Ports> {
    /// The world, and the stack as its parameters say.
    pub context: Context<'a, P>,
}

impl<P: Ports> Batch<'_, P> {
    /// Runs a pass for each message. `deadline` is when Lambda stops the invocation; no pass begins
    /// in the second half of the time until then, since one that meets a slow GitHub needs it.
    pub async fn run(
        &self,
        messages: &[Received],
        deadline: Time,
        now: &dyn Fn() -> Time,
    ) -> BatchReport {
        let start = now();
        let begin_until = start + Seconds(deadline.since(start).0 / 2);
        let known = try_join(
            self.context.settings.current(self.context.table),
            self.context.table.switches(),
        );
        let (settings, switches) = match known.await {
            Ok(known) => known,
            Err(error) => {
                // Nothing is known of any pool, or of the operator's switches: all messages stay.
                tracing::error!(error = with_causes(&error), "cannot read pools and switches");
                return self.leave_all(messages).await;
            }
        };
        let context = self.context.with(&settings);
        let deletes_off = switches.is_some_and(|all| all.deletes_off(start).is_some());
        let reap = &Reap { context, deletes_off };
        let mut report = BatchReport::default();
        let mut failing = 0;
        for group in messages.chunks(SIDE_BY_SIDE) {
            if now() <= begin_until {
                for ended in self.side_by_side(reap, group, now).await {
                    failing += usize::from(ended.is_failing);
                    report.acked.push(ended.acked);
                    report.measures.extend(ended.lost.map(|lost| measure(&settings, lost)));
                }
                continue;
            }
            for received in group {
                report.postponed += 1;
                report.acked.push(self.settle(received, postpone(received)).await);
            }
        }
        report.measures.extend(Measure::failing(failing));
        report
    }

    /// Runs the passes of some messages up to the ends of their machines, ends all of those in one
    /// call, and runs the rest of the passes.
    async fn side_by_side(
        &self,
        reap: &Reap<'_, P>,
        group: &[Received],
        now: &dyn Fn() -> Time,
    ) -> Vec<Ended> {
        let begun = group.iter().map(|received| self.begin(reap, received, now()));
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

    async fn begin(&self, reap: &Reap<'_, P>, received: &Received, now: Time) -> Stage {
        let ticket = &received.ticket;
        let pass = match &received.message {
            ReapMessage::Reap { name, .. } => Ok(Some(Pass::new(name.clone(), ticket.clone()))),
            ReapMessage::MachineChanged { machine, what, at } => {
                tracing::info!(machine.id = %machine, what, "EC2 reported a change of a machine");
                reap.machine_changed(machine, what, *at, ticket).await
            }
        };
        match pass {
            Ok(Some(pass)) => self.advance(reap, received, pass, now).await,
            Ok(None) => Stage::Settled(Ended { acked: true, is_failing: false, lost: None }),
            Err(error) => Stage::Settled(self.failed(received, &error, None).await),
        }
    }

    async fn advance(
        &self,
        reap: &Reap<'_, P>,
        received: &Received,
        mut pass: Pass,
        now: Time,
    ) -> Stage {
        match reap.advance(&mut pass, now).await {
            Ok(Progress::Terminates(machine)) => Stage::Terminates(machine, Box::new(pass)),
            Ok(Progress::Settled(settlement)) => {
                let acked = self.settle(received, settlement).await;
                Stage::Settled(Ended { acked, is_failing: false, lost: pass.lost })
            }
            Err(error) => Stage::Settled(self.failed(received, &error, pass.lost).await),
        }
    }

    /// Leaves the message of a failed pass in the queue, to be tried again later.
    async fn failed(
        &self,
        received: &Received,
        error: &PassError,
        lost: Option<(PoolName, Loss)>,
    ) -> Ended {
        let (message, error) = (&received.message, with_causes(error));
        tracing::error!(?message, error, "reap pass failed; it runs again");
        let acked = self.settle(received, comes_again(received)).await;
        Ended { acked, is_failing: metrics::keeps_failing(received.ticket.receives), lost }
    }

    async fn leave_all(&self, messages: &[Received]) -> BatchReport {
        let mut report = BatchReport::default();
        for received in messages {
            report.acked.push(self.settle(received, comes_again(received)).await);
        }
        let is_failing = |one: &&Received| metrics::keeps_failing(one.ticket.receives);
        report.measures.extend(Measure::failing(messages.iter().filter(is_failing).count()));
        report
    }

    /// Whether the message is done with.
    async fn settle(&self, received: &Received, settlement: Settlement) -> bool {
        match settlement {
            Settlement::Ack => true,
            Settlement::Hide(wait) => {
                // Not hidden, it comes back after the queue's own time-out: later, but not lost.
                if let Err(error) = self.context.queue.hide(&received.receipt, wait).await {
                    tracing::warn!(
                        error = with_causes(&error),
                        "failed to hide a message; it comes again after the queue's time-out"
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

/// What failed comes again soon, and later each time.
fn comes_again(received: &Received) -> Settlement {
    Settlement::Hide(backoff::grown(POSTPONED, received.ticket.receives, MAX_POSTPONED))
}

/// Let go after many receives, as by a pass: the sweep sends a new one.
fn postpone(received: &Received) -> Settlement {
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
            Received::new(message, id, receives, String::new()).ticket.nonce
        };
        assert_eq!(nonce("a-1", 1), nonce("a-1", 2));
        assert_ne!(nonce("a-1", 1), nonce("a-2", 1));
        let name = "default-l1-0".parse().expect("an instance");
        let own = Received::new(ReapMessage::Reap { name, nonce: 7 }, "a-1", 1, String::new());
        assert_eq!(own.ticket.nonce, 7);
    }
}
