//! Redelivery of failed webhook deliveries: how far GitHub's list was read, and which attempts to
//! redeliver. One record for each App.
//!
//! GitHub lists attempts in pages, newest first. A round reads the list once, from the newest
//! attempt back to the start of the last round, over as many sweeps as necessary. It redelivers
//! `queued` events first; if it skipped other events for that, it reads those pages again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::backoff;
use crate::ids::AppName;
use crate::time::{Seconds, Time};

/// Interval between the starts of two rounds: every fifth sweep, also if it begins some seconds early.
const EVERY: Seconds = Seconds(290);
/// How far back the first round reads. Larger than any clock error.
const FIRST: Seconds = Seconds(3600);
/// How much further back than the start of the last round a round reads: an attempt is listed when
/// it ends, at most ten seconds after it began.
const OVERLAP: Seconds = Seconds(60);
/// How long GitHub keeps deliveries.
/// Source: docs.github.com/en/webhooks, "Redelivering webhooks"
const KEPT: Seconds = Seconds(3 * 24 * 3600);
/// Number of newest attempts that must all have failed for the webhook to count as down.
const NEWEST: usize = 20;
/// While the webhook is down, how long the sweep probes it every minute; after that, once per
/// round.
const TRIED_OFTEN: Seconds = Seconds(3600);
/// Longest wait before an event whose redelivery keeps failing is redelivered once more.
const MAX_WAIT: Seconds = Seconds(3600);
/// Time after which a sweep that claimed the record has certainly ended.
const CLAIM: Seconds = Seconds(90);
/// Maximum number of events whose newest attempt a round remembers. Beyond that, an older attempt
/// may be redelivered too, which is harmless.
const MAX_NEWER: usize = 6_000;
/// Maximum number of attempts that GitHub failed to redeliver and that are kept for the next round.
const MAX_LEFT: usize = 300;
/// Maximum number of events with a known failed redelivery. The others are redelivered in each round.
const MAX_FAILING: usize = 100;
/// Maximum number of redelivered attempts that are remembered after their round.
const MAX_DONE: usize = 500;

/// An attempt to deliver a `workflow_job` event to the App's webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delivery {
    /// The ID of the attempt.
    pub id: u64,
    /// The ID of the event, common to all its attempts.
    pub guid: String,
    /// When it began, according to GitHub's clock.
    pub at: Time,
    /// Whether a further attempt would get the same response: the event arrived, or was rejected
    /// because of its contents.
    pub is_settled: bool,
    /// Whether it is not the event's first attempt.
    pub is_again: bool,
    /// Whether the event reports that a job is queued.
    pub is_queued: bool,
}

/// A page of GitHub's list of deliveries, newest attempt first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The attempts to deliver `workflow_job` events.
    pub deliveries: Vec<Delivery>,
    /// When the newest attempt of the page began, for any event.
    pub newest: Option<Time>,
    /// When the oldest attempt of the page began.
    pub oldest: Option<Time>,
    /// The cursor of the next page. `None` on the last page.
    pub next: Option<String>,
}

/// Which events a reading redelivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Events that report a queued job.
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
    /// The newest attempt at that time. Newer attempts belong to the next round.
    top: Time,
    part: Part,
    /// The page to read next. `None` for the first page.
    cursor: Option<String>,
    /// Attempts of that page that were already handled.
    tried: Vec<u64>,
    /// The first page with skipped events other than `queued`.
    others_from: Option<String>,
    /// The newest attempt of each event that has several.
    newer: BTreeMap<String, u64>,
}

/// A redelivered attempt that the next round may read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct RedeliveredAttempt {
    id: u64,
    at: Time,
}

/// The record of redeliveries.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Redeliveries {
    /// The record's schema version.
    pub schema: u16,
    /// The App whose deliveries these are.
    #[serde(default)]
    pub app: AppName,
    /// Attempts that began before this time are handled. GitHub's clock.
    floor: Time,
    /// When to read the list next.
    due_at: Time,
    /// The end of the claim of a sweep that is redelivering.
    busy_until: Option<Time>,
    /// When the webhook went down.
    down_since: Option<Time>,
    round: Option<Round>,
    done: Vec<RedeliveredAttempt>,
    /// Attempts that GitHub failed to redeliver: each round starts with them.
    left: Vec<Delivery>,
    /// Events whose redelivery failed, by GUID. Those are redelivered less and less often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    failing: BTreeMap<String, Failing>,
}

/// An event whose redelivery failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Failing {
    /// How many of its failed redeliveries were redelivered.
    times: u32,
    /// Start of the round that redelivered the last one.
    at: Time,
}

impl Failing {
    fn due_at(self) -> Time {
        self.at + backoff::grown(EVERY, self.times, MAX_WAIT)
    }
}

impl Redeliveries {
    /// Creates the first record of an App.
    #[must_use]
    pub fn new(app: AppName, now: Time) -> Self {
        Self {
            schema: SCHEMA,
            app,
            floor: now - FIRST,
            due_at: now,
            busy_until: None,
            down_since: None,
            round: None,
            done: Vec::new(),
            left: Vec::new(),
            failing: BTreeMap::new(),
        }
    }

    /// The record of an App whose record cannot be read: everything that GitHub keeps is read once
    /// more. An event whose newest attempt arrived is not redelivered.
    #[must_use]
    pub fn renewed(app: AppName, now: Time) -> Self {
        Self { floor: now - KEPT, ..Self::new(app, now) }
    }

    /// Returns whether a sweep should read the list now. Ignores recorded times too far in the
    /// future, which a wrong clock wrote.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        let is_ahead = |at: Time, wait: Seconds| now < at && at <= now + Seconds(2 * wait.0);
        !self.busy_until.is_some_and(|until| is_ahead(until, CLAIM))
            && !is_ahead(self.due_at, EVERY)
    }

    /// Returns whether an earlier sweep should have read the list, and recorded that.
    #[must_use]
    pub fn is_overdue(&self, now: Time) -> bool {
        backoff::is_overdue(self.busy_until.map_or(self.due_at, |busy| busy.max(self.due_at)), now)
    }

    /// Returns the page to read next. `None` for the first page, which every sweep reads.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.round.as_ref()?.cursor.as_deref()
    }

    /// Returns whether a round was interrupted and continues with the next sweep.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.round.is_some()
    }

    /// Claims the record, which keeps other sweeps from redelivering concurrently.
    pub fn claim(&mut self, now: Time) {
        self.busy_until = Some(now + CLAIM);
    }

    /// Releases the claim at the end of a sweep. `limited_until`: the end of GitHub's rate limit.
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

    /// Begins a round. Returns true if GitHub has already dropped attempts that were not read.
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

    /// Ends a round because GitHub rejected its cursor. The next round starts at the same point; by
    /// then GitHub lists the redeliveries of this one.
    pub fn give_up(&mut self) {
        self.round = None;
    }

    /// Returns attempts to redeliver as probes of whether the webhook works again, `queued` events
    /// first. Empty while it works. The webhook is down while its newest attempts all failed.
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

    /// Returns when the webhook went down, if it is down.
    #[must_use]
    pub const fn down_since(&self) -> Option<Time> {
        self.down_since
    }

    /// Returns attempts of the first page that are newer than the round in progress and report a
    /// queued job, so that no job waits for the end of the round.
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

    /// Returns the attempts of the next page to redeliver, in order.
    pub fn choose<'a>(&mut self, page: &'a DeliveryPage) -> Vec<&'a Delivery> {
        let (floor, done, left, failing) = (self.floor, &self.done, &self.left, &self.failing);
        let Some(round) = &mut self.round else { return Vec::new() };
        let mut seen = BTreeSet::new();
        let (mut failed, mut early, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
        for one in &page.deliveries {
            // The newest attempt of an event decides. Attempts since the start of the round belong
            // to the next one.
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
            let due_at = failing.get(&one.guid).map(|failing| failing.due_at());
            match due_at.filter(|_| one.is_again) {
                Some(_) if one.is_settled => arrived.push(&one.guid),
                Some(at) if !is_tried && round.began_at < at => early.push(one),
                _ if !one.is_settled && !is_tried => failed.push(one),
                _ => {}
            }
        }
        self.failing.retain(|guid, _| !arrived.contains(&guid));
        self.left.retain(|left| !arrived.contains(&&left.guid));
        for one in early {
            // Without space, it is redelivered early.
            match self.left.len() < MAX_LEFT {
                true => self.left.push(one.clone()),
                false => failed.push(one),
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

    /// Records that GitHub redelivered an attempt, or has dropped it.
    pub fn done(&mut self, one: &Delivery) {
        self.sent(one);
        let Some(round) = self.round.as_ref().filter(|_| one.is_again) else { return };
        let times = self.failing.get(&one.guid).map_or(0, |failing| failing.times) + 1;
        if times > 1 || self.failing.len() < MAX_FAILING {
            self.failing.insert(one.guid.clone(), Failing { times, at: round.began_at });
        }
    }

    fn sent(&mut self, one: &Delivery) {
        self.tried(one);
        let top = self.round.as_ref().map_or(one.at, |round| round.top);
        let was_left = self.left.iter().any(|left| left.id == one.id);
        self.left.retain(|left| left.id != one.id);
        let is_met_again = one.at >= top - OVERLAP || (was_left && one.at >= self.floor);
        if is_met_again && self.done.len() < MAX_DONE {
            self.done.push(RedeliveredAttempt { id: one.id, at: one.at });
        }
    }

    /// Records that GitHub did not redeliver an attempt, so that the next round retries it. Returns
    /// false if there are too many: the attempt must then be found in the list again.
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

    /// Returns attempts that GitHub did not redeliver in earlier rounds and may still keep.
    pub fn left(&mut self, now: Time) -> Vec<Delivery> {
        self.left.retain(|one| !now.is_past(one.at, KEPT));
        let failing = |one: &&Delivery| self.failing.get(&one.guid);
        let is_due = |one: &&Delivery| failing(one).is_none_or(|failing| now >= failing.due_at());
        self.left.iter().filter(is_due).cloned().collect()
    }

    fn tried(&mut self, one: &Delivery) {
        if let Some(round) = &mut self.round {
            round.tried.push(one.id);
        }
    }

    /// Records that an attempt was redelivered as a probe.
    pub fn probed(&mut self, one: &Delivery) {
        self.sent(one);
        if let Some(round) = &mut self.round {
            // No attempt has the ID 0, so this round ignores the event; the next one reads the
            // outcome.
            round.newer.insert(one.guid.clone(), 0);
        }
    }

    /// Moves to the next page after all attempts of this one were handled. The end of the list, or
    /// of its unhandled attempts, ends the part; the last part ends the round.
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
        // Bounded by the start time: a webhook may have no deliveries for days.
        let next = (round.top - OVERLAP).max(round.began_at - FIRST);
        let floor = next.max(self.floor);
        self.floor = floor;
        self.done.retain(|done| done.at >= floor);
        let began_at = round.began_at;
        self.failing.retain(|_, failing| !began_at.is_past(failing.at, KEPT));
        self.round = None;
    }
}

#[cfg(test)]
mod tests;
