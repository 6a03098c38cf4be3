//! Redelivery of failed webhook deliveries: how far GitHub's list was read, and which attempts are
//! to be redelivered. One record for the whole stack.
//!
//! GitHub lists attempts page by page, the newest first. A round reads the list once from the
//! newest attempt back to where the last round began, however many sweeps that takes. `queued`
//! events go first: where others had to be passed over, the round reads those pages once more.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::time::{Seconds, Time};

/// How often a round begins.
const EVERY: Seconds = Seconds(300);
/// How far back the first round reads. No clock is wrong by so much.
const FIRST: Seconds = Seconds(3600);
/// A round reads this much further back than where the last one began: an attempt is listed when it
/// is over, at most ten seconds after it began.
const OVERLAP: Seconds = Seconds(60);
/// How long GitHub keeps deliveries.
/// Source: docs.github.com/en/webhooks, "Redelivering webhooks"
const KEPT: Seconds = Seconds(3 * 24 * 3600);
/// While this many of the newest attempts all failed, the webhook is taken to be down.
const NEWEST: usize = 20;
/// While the webhook is down, the sweep tries it each minute for an hour, and then each round.
const TRIED_OFTEN: Seconds = Seconds(3600);
/// A sweep that claimed the record has ended by then.
const CLAIM: Seconds = Seconds(90);
/// Maximum number of events whose newest attempt a round remembers. Of others an older attempt may
/// be redelivered as well, which does no harm.
const MAX_NEWER: usize = 6_000;
/// Maximum number of attempts that GitHub did not redeliver.
const MAX_LEFT: usize = 300;
/// Maximum number of redelivered attempts that are remembered after their round.
const MAX_DONE: usize = 500;

/// An attempt to deliver a `workflow_job` event to the App's webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delivery {
    /// Identifies the attempt.
    pub id: u64,
    /// Identifies the event: all its attempts have the same one.
    pub guid: String,
    /// When it began, by GitHub's clock.
    pub at: Time,
    /// Another attempt would not change the answer: it arrived, or was refused for what it is.
    pub is_settled: bool,
    /// It is not the first attempt of its event.
    pub is_again: bool,
    /// The event says that a job is queued.
    pub is_queued: bool,
}

/// A page of GitHub's list of deliveries, the newest attempt first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The attempts to deliver `workflow_job` events.
    pub deliveries: Vec<Delivery>,
    /// When the newest attempt of the page began, of whatever event.
    pub newest: Option<Time>,
    /// When the oldest one began.
    pub oldest: Option<Time>,
    /// Where the next page begins; none on the last page.
    pub next: Option<String>,
}

/// Which events a reading redelivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Those that say that a job is queued.
    #[default]
    Queued,
    /// All others.
    Others,
}

/// A round in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Round {
    /// When it began.
    began_at: Time,
    /// The newest attempt at that time. What is newer belongs to the next round.
    top: Time,
    part: Part,
    /// The page that is read next; none for the first page.
    cursor: Option<String>,
    /// Attempts of that page that were tried.
    tried: Vec<u64>,
    /// The first page of which other events than `queued` were passed over.
    others_from: Option<String>,
    /// The newest attempt of events that have several.
    newer: BTreeMap<String, u64>,
}

/// An attempt that was redelivered and that the next round may meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Done {
    id: u64,
    at: Time,
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Redeliveries {
    /// Version of the record's form.
    pub schema: u16,
    /// What began before this is dealt with. GitHub's clock.
    floor: Time,
    /// When the list is read next.
    due_at: Time,
    /// A sweep is redelivering until then at most.
    busy_until: Option<Time>,
    /// Since when the webhook has been down.
    down_since: Option<Time>,
    round: Option<Round>,
    done: Vec<Done>,
    /// Attempts that GitHub did not redeliver: each round begins with them.
    left: Vec<Delivery>,
}

impl Redeliveries {
    /// The record of a stack that has none.
    #[must_use]
    pub fn new(now: Time) -> Self {
        Self {
            schema: SCHEMA,
            floor: now - FIRST,
            due_at: now,
            busy_until: None,
            down_since: None,
            round: None,
            done: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Whether a sweep is to read the list now. A time that lies too far ahead was written by a
    /// clock that was wrong.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        let is_ahead = |at: Time, wait: Seconds| now < at && at <= now + Seconds(2 * wait.0);
        !self.busy_until.is_some_and(|until| is_ahead(until, CLAIM))
            && !is_ahead(self.due_at, EVERY)
    }

    /// The page to read next; none for the first one, which each sweep reads.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.round.as_ref()?.cursor.as_deref()
    }

    /// Whether a round was cut off and continues with the next sweep.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.round.is_some()
    }

    /// Keeps other sweeps from redelivering at the same time.
    pub fn claim(&mut self, now: Time) {
        self.busy_until = Some(now + CLAIM);
    }

    /// Ends the work of a sweep. `limited_until` is when GitHub's rate limit ends.
    pub fn release(&mut self, limited_until: Option<Time>, now: Time) {
        self.busy_until = None;
        self.due_at = match (limited_until, self.down_since) {
            (Some(until), _) => until.min(now + EVERY),
            (None, Some(since)) if now.is_past(since, TRIED_OFTEN) => now + EVERY,
            (None, Some(_)) => now,
            (None, None) if self.is_reading() => now,
            (None, None) => now + EVERY,
        };
    }

    /// Begins a round. True when GitHub no longer keeps what was not read.
    pub fn begin(&mut self, first: &DeliveryPage, now: Time) -> bool {
        let top = first.newest.unwrap_or(self.floor).max(self.floor);
        self.round = Some(Round {
            began_at: now,
            top,
            part: Part::default(),
            cursor: None,
            tried: Vec::new(),
            others_from: None,
            newer: BTreeMap::new(),
        });
        now.is_past(self.floor, KEPT)
    }

    /// GitHub no longer knows where the next page begins: another round begins where this one did.
    /// By then GitHub lists what this one redelivered.
    pub fn give_up(&mut self) {
        self.round = None;
    }

    /// Attempts with which to find out whether the webhook works again; none while it does. It is
    /// down while the newest attempts all failed. `queued` events go first.
    pub fn probes<'a>(&mut self, first: &'a DeliveryPage, now: Time) -> Vec<&'a Delivery> {
        let is_done = |one: &Delivery| self.done.iter().any(|done| done.id == one.id);
        let newest = || first.deliveries.iter().filter(|one| !is_done(one)).take(NEWEST);
        if newest().any(|one| one.is_settled) {
            self.down_since = None;
            return Vec::new();
        }
        let mut seen = BTreeSet::new();
        let mut failed: Vec<&Delivery> = first
            .deliveries
            .iter()
            .filter(|one| one.at >= self.floor && seen.insert(one.guid.as_str()))
            .filter(|one| !one.is_settled && !is_done(one))
            .collect();
        failed.sort_by_key(|one| !one.is_queued);
        self.down_since = (!failed.is_empty()).then(|| self.down_since.unwrap_or(now));
        failed
    }

    /// Since when the webhook has been down, if it is.
    #[must_use]
    pub const fn down_since(&self) -> Option<Time> {
        self.down_since
    }

    /// Attempts of the first page that are newer than the round in progress, and that say that a
    /// job is queued: no job waits until the round has ended.
    #[must_use]
    pub fn fresh<'a>(&self, first: &'a DeliveryPage) -> Vec<&'a Delivery> {
        let Some(round) = &self.round else { return Vec::new() };
        let again: BTreeSet<&str> = first
            .deliveries
            .iter()
            .filter(|one| one.is_again)
            .map(|one| one.guid.as_str())
            .collect();
        first
            .deliveries
            .iter()
            .filter(|one| one.at > round.top && one.is_queued && !one.is_settled)
            .filter(|one| !again.contains(one.guid.as_str()))
            .filter(|one| !self.done.iter().any(|done| done.id == one.id))
            .collect()
    }

    /// Attempts of the next page that are to be redelivered, in this order.
    pub fn choose<'a>(&mut self, page: &'a DeliveryPage) -> Vec<&'a Delivery> {
        let (floor, done, left) = (self.floor, &self.done, &self.left);
        let Some(round) = &mut self.round else { return Vec::new() };
        let mut seen = BTreeSet::new();
        let mut failed = Vec::new();
        for one in &page.deliveries {
            // The newest attempt of an event decides. Those since the round began are the next one's.
            if !seen.insert(one.guid.as_str()) || one.at > round.top || one.at < floor {
                continue;
            }
            if round.newer.get(&one.guid).is_some_and(|newest| *newest != one.id) {
                continue;
            }
            if one.is_again && round.newer.len() < MAX_NEWER {
                round.newer.insert(one.guid.clone(), one.id);
            }
            let is_tried = round.tried.contains(&one.id)
                || done.iter().any(|done| done.id == one.id)
                || left.iter().any(|left| left.id == one.id);
            if !one.is_settled && !is_tried {
                failed.push(one);
            }
        }
        let is_first = round.cursor.is_none();
        match round.part {
            // The first page is not read again.
            Part::Queued if is_first => failed.sort_by_key(|one| !one.is_queued),
            Part::Queued => {
                if failed.iter().any(|one| !one.is_queued) && round.others_from.is_none() {
                    round.others_from.clone_from(&round.cursor);
                }
                failed.retain(|one| one.is_queued);
            }
            Part::Others => failed.retain(|one| !one.is_queued),
        }
        failed
    }

    /// GitHub redelivers an attempt, or does not keep it any more.
    pub fn done(&mut self, one: &Delivery) {
        self.tried(one);
        let top = self.round.as_ref().map_or(one.at, |round| round.top);
        let was_left = self.left.iter().any(|left| left.id == one.id);
        self.left.retain(|left| left.id != one.id);
        let is_met_again = one.at >= top - OVERLAP || (was_left && one.at >= self.floor);
        if is_met_again && self.done.len() < MAX_DONE {
            self.done.push(Done { id: one.id, at: one.at });
        }
    }

    /// GitHub did not redeliver an attempt: the next round tries it again. False when there are too
    /// many of them, and this one stays where the list has it.
    pub fn failed(&mut self, one: &Delivery) -> bool {
        if self.round.as_ref().is_some_and(|round| one.at > round.top) {
            // The next round finds it in the list.
            return true;
        }
        self.left.retain(|left| left.id != one.id);
        if self.left.len() >= MAX_LEFT {
            return false;
        }
        self.tried(one);
        self.left.push(one.clone());
        true
    }

    /// Attempts that GitHub did not redeliver in earlier rounds and may keep still.
    pub fn left(&mut self, now: Time) -> Vec<Delivery> {
        self.left.retain(|one| !now.is_past(one.at, KEPT));
        self.left.clone()
    }

    fn tried(&mut self, one: &Delivery) {
        if let Some(round) = &mut self.round {
            round.tried.push(one.id);
        }
    }

    /// The attempt was redelivered to find out whether the webhook works.
    pub fn probed(&mut self, one: &Delivery) {
        self.done(one);
        if let Some(round) = &mut self.round {
            // No attempt has this number. The next round reads what became of it.
            round.newer.insert(one.guid.clone(), 0);
        }
    }

    /// Turns to the next page: all attempts of this one were tried. The end of the list, or of what
    /// is not dealt with, ends the part, and the last part ends the round.
    pub fn turn(&mut self, page: &DeliveryPage) {
        let Some(round) = &mut self.round else { return };
        round.tried.clear();
        let is_last = page.oldest.is_none_or(|oldest| oldest < self.floor);
        round.cursor = page.next.clone().filter(|_| !is_last);
        if round.cursor.is_some() {
            return;
        }
        if let Some(from) = round.others_from.take() {
            (round.part, round.cursor) = (Part::Others, Some(from));
            return;
        }
        // A webhook may have nothing to deliver for days.
        let next = (round.top - OVERLAP).max(round.began_at - FIRST);
        let floor = next.max(self.floor);
        self.floor = floor;
        self.done.retain(|done| done.at >= floor);
        self.round = None;
    }
}

#[cfg(test)]
mod tests;
