//! SQS: one queue with visibility, receive counts and a dead-letter queue. Plain data; who polls
//! it, and what goes wrong on the way, is the driver's matter.

use std::collections::{BTreeMap, BTreeSet};

use crate::Millis;

/// Longest time that a message is hidden, counted from its receive: twelve hours.
/// Source: docs.aws.amazon.com/AWSSimpleQueueService, "Amazon SQS visibility timeout"
const MAX_HIDDEN: Millis = 12 * 3_600_000;

/// A message as a consumer got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<B> {
    /// Its number.
    pub id: u64,
    /// Which of its receives this is. Only the last one's receipt hides it.
    pub receives: u32,
    /// What it says.
    pub body: B,
}

/// Why SQS does not hide a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HideError {
    /// It was received again since, or is gone.
    OldReceipt,
    /// It would be hidden for more than twelve hours from its receive.
    TooLong,
}

#[derive(Debug)]
struct Message<B> {
    body: B,
    receives: u32,
    received_at: Millis,
    visible_at: Millis,
}

/// One queue.
#[derive(Debug)]
pub struct Queue<B> {
    messages: BTreeMap<u64, Message<B>>,
    order: BTreeSet<(Millis, u64)>,
    /// Messages that were received too often.
    pub dead: Vec<B>,
    /// How often each message that enters was received before: an old one.
    pub received_before: u32,
    visibility: Millis,
    max_receives: u32,
}

impl<B: Clone> Queue<B> {
    /// An empty queue. A message that was received `max_receives` times is dead at the next one.
    #[must_use]
    pub const fn new(visibility: Millis, max_receives: u32) -> Self {
        Self {
            messages: BTreeMap::new(),
            order: BTreeSet::new(),
            dead: Vec::new(),
            received_before: 0,
            visibility,
            max_receives,
        }
    }

    /// How many messages there are, hidden ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// When the next message is seen, or is seen again.
    #[must_use]
    pub fn next_visible(&self) -> Option<Millis> {
        self.order.first().map(|(visible_at, _)| *visible_at)
    }

    /// All messages, hidden ones included.
    pub fn bodies(&self) -> impl Iterator<Item = &B> {
        self.messages.values().map(|message| &message.body)
    }

    /// When each message is seen.
    pub fn visible_times(&self) -> impl Iterator<Item = Millis> {
        self.order.iter().map(|(visible_at, _)| *visible_at)
    }

    /// A message arrives, and is seen from then on.
    pub fn enter(&mut self, id: u64, body: B, visible_at: Millis) {
        self.messages.insert(
            id,
            Message { body, receives: self.received_before, received_at: 0, visible_at },
        );
        self.order.insert((visible_at, id));
    }

    /// A message is seen from then on, and not before. Nothing happens to one that is gone.
    pub fn move_to(&mut self, id: u64, visible_at: Millis) {
        if let Some(message) = self.messages.get_mut(&id) {
            self.order.remove(&(message.visible_at, id));
            message.visible_at = visible_at;
            self.order.insert((visible_at, id));
        }
    }

    /// A consumer hides the message of a receive until then.
    ///
    /// # Errors
    /// What SQS refuses.
    pub fn hide(&mut self, id: u64, receives: u32, until: Millis) -> Result<(), HideError> {
        let message = self.messages.get(&id).filter(|message| message.receives == receives);
        let message = message.ok_or(HideError::OldReceipt)?;
        if until > message.received_at + MAX_HIDDEN {
            return Err(HideError::TooLong);
        }
        self.move_to(id, until);
        Ok(())
    }

    /// A consumer is done with a message. None if it is gone already.
    pub fn remove(&mut self, id: u64) -> Option<B> {
        let message = self.messages.remove(&id)?;
        self.order.remove(&(message.visible_at, id));
        Some(message.body)
    }

    /// Hands out up to so many visible messages, and hides them.
    pub fn receive(&mut self, most: u64, now: Millis) -> Vec<Received<B>> {
        let mut batch = Vec::new();
        while (batch.len() as u64) < most {
            let Some((visible_at, id)) = self.order.first().copied() else { break };
            if visible_at > now {
                break;
            }
            let max_receives = self.max_receives;
            if self.messages.get(&id).is_some_and(|one| one.receives >= max_receives) {
                let dead = self.remove(id);
                self.dead.extend(dead);
                continue;
            }
            self.move_to(id, now + self.visibility);
            if let Some(message) = self.messages.get_mut(&id) {
                message.receives += 1;
                message.received_at = now;
                let (receives, body) = (message.receives, message.body.clone());
                batch.push(Received { id, receives, body });
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(batch: &[Received<&str>]) -> Vec<(u64, u32)> {
        batch.iter().map(|one| (one.id, one.receives)).collect()
    }

    #[test]
    fn a_message_is_hidden_while_somebody_has_it_and_dead_after_its_receives() {
        let mut queue = Queue::new(100, 2);
        queue.enter(1, "a", 10);
        queue.enter(2, "b", 20);
        assert_eq!(ids(&queue.receive(10, 15)), [(1, 1)]);
        assert_eq!(ids(&queue.receive(10, 114)), [(2, 1)]);
        assert_eq!(ids(&queue.receive(10, 115)), [(1, 2)]);
        assert_eq!(queue.remove(2), Some("b"));
        assert_eq!((ids(&queue.receive(10, 300)), queue.dead.as_slice()), (vec![], &["a"][..]));
        assert!(queue.is_empty());
    }

    #[test]
    fn only_the_last_receipt_hides_and_for_twelve_hours_at_most() {
        let mut queue = Queue::new(100, 9);
        queue.enter(1, "a", 0);
        queue.receive(1, 0);
        queue.receive(1, 100);
        assert_eq!(queue.hide(1, 1, 500), Err(HideError::OldReceipt));
        assert_eq!(queue.hide(1, 2, 100 + MAX_HIDDEN + 1), Err(HideError::TooLong));
        assert_eq!(queue.hide(1, 2, 500), Ok(()));
        assert_eq!(queue.next_visible(), Some(500));
        assert_eq!(queue.hide(7, 1, 500), Err(HideError::OldReceipt));
    }
}
