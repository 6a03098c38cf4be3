//! A batch of the reap queue: one pass per message, side by side.

use std::cell::Cell;

use crate::ports::{Instances, Queue};
use muster_domain::backoff;
use muster_domain::hash::fnv1a;
use muster_domain::message::ReapMessage;
use muster_domain::time::{Seconds, Time};

use crate::causes::with_causes;
use crate::context::{Context, Ports};
use crate::reaps::reap::{BatchCache, MAX_RECEIVES, Reap, Settlement, Ticket};
use crate::reaps::terminate_batch::TerminateBatcher;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchReport {
    /// For each message, in order: done with it; the others come back.
    pub acked: Vec<bool>,
    /// Passes that were left to a later invocation, because this one's time was running out.
    pub postponed: u32,
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
        let settings = match self.context.settings.current(self.context.table).await {
            Ok(settings) => settings,
            Err(error) => {
                // Nothing is known of any pool: all messages stay.
                tracing::error!(error = with_causes(&error), "cannot read the set of pools");
                return self.leave_all(messages).await;
            }
        };
        let postponed = Cell::new(0);
        let together = &TerminateBatcher::new(self.context.compute, now);
        let known = &self.known(messages).await;
        let context = self.context.with(&settings);
        let reap = &Reap { context, together, known };
        let acked: Vec<Cell<bool>> = messages.iter().map(|_| Cell::new(false)).collect();
        let mut left = messages.iter().zip(&acked);
        let (postponed_ref, begins) = (&postponed, || now() <= begin_until);
        together
            .run(|| {
                let (received, acked) = left.next()?;
                let begins = begins();
                Some(async move {
                    let settlement = match begins {
                        true => one(reap, received, now()).await,
                        false => {
                            postponed_ref.set(postponed_ref.get() + 1);
                            postpone(received)
                        }
                    };
                    acked.set(self.settle(received, settlement).await);
                })
            })
            .await;
        let acked = acked.iter().map(Cell::get).collect();
        BatchReport { acked, postponed: postponed.get() }
    }

    /// The rows of a batch in two reads at most. Without them each pass reads its own: one row of
    /// another version fails them all.
    async fn known(&self, messages: &[Received]) -> BatchCache {
        let known = BatchCache::default();
        if messages.len() < 2 {
            return known;
        }
        let (mut names, mut machines) = (Vec::new(), Vec::new());
        for received in messages {
            match &received.message {
                ReapMessage::Reap { name, .. } => names.push(name.clone()),
                ReapMessage::MachineChanged { machine, .. } => machines.push(machine.clone()),
            }
        }
        if !machines.is_empty()
            && let Ok(owners) = self.context.table.owners_of(&machines).await
        {
            names.extend(owners.values().cloned());
            known.owners.replace(owners);
        }
        if !names.is_empty()
            && let Ok(rows) = self.context.table.instances(&names).await
        {
            known.rows.borrow_mut().extend(rows.into_iter().map(|row| (row.name.clone(), row)));
        }
        known
    }

    async fn leave_all(&self, messages: &[Received]) -> BatchReport {
        let mut report = BatchReport::default();
        for received in messages {
            report.acked.push(self.settle(received, comes_again(received)).await);
        }
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

/// The pass of a message. One that fails comes again.
async fn one<P: Ports>(reap: &Reap<'_, P>, received: &Received, now: Time) -> Settlement {
    let ticket = &received.ticket;
    let settlement = match &received.message {
        ReapMessage::Reap { name, .. } => reap.pass(name, ticket, now).await,
        ReapMessage::MachineChanged { machine, what } => {
            tracing::info!(machine.id = %machine, what, "EC2 reported a change of a machine");
            reap.machine_changed(machine, what, ticket, now).await
        }
    };
    settlement.unwrap_or_else(|error| {
        let (message, error) = (&received.message, with_causes(&error));
        tracing::error!(?message, error, "reap pass failed; it runs again");
        comes_again(received)
    })
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
            let message = ReapMessage::MachineChanged { machine, what: "terminated".to_owned() };
            Received::new(message, id, receives, String::new()).ticket.nonce
        };
        assert_eq!(nonce("a-1", 1), nonce("a-1", 2));
        assert_ne!(nonce("a-1", 1), nonce("a-2", 1));
        let name = "default-l1-0".parse().expect("an instance");
        let own = Received::new(ReapMessage::Reap { name, nonce: 7 }, "a-1", 1, String::new());
        assert_eq!(own.ticket.nonce, 7);
    }
}
