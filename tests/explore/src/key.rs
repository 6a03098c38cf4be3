//! Fingerprints of what can matter later.
//!
//! Stories and error texts are left out, and a time counts only as far as some rule
//! looks at it: as an age up to the longest wait that is measured from it, or as the time that is
//! left. Two states with one fingerprint therefore have the same future, only shifted in time.

use std::hash::{Hash, Hasher};

use muster_domain::absence::Absence;
use muster_domain::instance::{
    DeleteMark, DeleteOrder, Exit, Instance, Runner, RunnerState, StartedJob, State,
};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

/// What is left of a wait counts exactly up to here; later is "some day".
pub const FAR: i64 = 64;

/// Builds a fingerprint.
pub struct Key<'a> {
    hash: u64,
    /// Ages are measured from here.
    pub now: Time,
    timings: &'a Timings,
    /// None: no machine of this world gets too old, and EC2 never denies knowing one.
    lifetime: Option<Seconds>,
}

impl<'a> Key<'a> {
    /// An empty one.
    #[must_use]
    pub const fn new(now: Time, timings: &'a Timings, lifetime: Option<Seconds>) -> Self {
        Self { hash: 0x9e37_79b9_7f4a_7c15, now, timings, lifetime }
    }

    /// Another empty one of the same moment.
    #[must_use]
    pub const fn emptied(&self) -> Self {
        Self::new(self.now, self.timings, self.lifetime)
    }

    /// The fingerprint.
    #[must_use]
    pub const fn finish(&self) -> u64 {
        fold(self.hash, 0xe703_7ed1_a0b4_28db)
    }

    /// Adds a number.
    pub const fn num(&mut self, number: u64) {
        self.hash = mixed(self.hash, number);
    }

    /// Adds a value whole.
    pub fn hashed(&mut self, value: &impl Hash) {
        let mut whole = Whole(self.hash);
        value.hash(&mut whole);
        self.hash = whole.0;
    }

    /// Adds a yes or no.
    pub const fn bit(&mut self, bit: bool) {
        self.num(bit as u64);
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.num(text.len() as u64);
        for part in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.num(u64::from_le_bytes(word));
        }
    }

    /// Adds a text that may be missing.
    pub fn maybe_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.num(u64::MAX),
        }
    }

    /// Adds how long ago something was; older than `horizon` is all the same.
    pub fn age(&mut self, at: Time, horizon: Seconds) {
        let millis = self.now.as_millis() - at.as_millis();
        let millis = millis.min(i64::from(horizon.0) * 1000);
        self.num(millis.cast_unsigned());
    }

    /// Adds an age that may be missing.
    pub fn maybe_age(&mut self, at: Option<Time>, horizon: Seconds) {
        match at {
            Some(at) => self.age(at, horizon),
            None => self.num(u64::MAX),
        }
    }

    /// Adds how long something is away; the past is all the same, and so is the far future.
    pub fn until(&mut self, at: Time) {
        let millis = (at.as_millis() - self.now.as_millis()).clamp(0, FAR * 1000);
        self.num(millis.cast_unsigned());
    }

    /// Adds a wait that may be missing.
    pub fn maybe_until(&mut self, at: Option<Time>) {
        match at {
            Some(at) => self.until(at),
            None => self.num(u64::MAX),
        }
    }

    fn maybe_nonce(&mut self, nonce: Option<u64>) {
        self.num(nonce.unwrap_or(u64::MAX));
    }

    /// Adds an instance. Its private fields keep it from being taken apart by a pattern; a test
    /// below holds the list of its fields.
    pub fn instance(&mut self, instance: &Instance) {
        self.text(instance.name.as_str());
        self.text(instance.launch.as_str());
        self.num(instance.state() as u64);
        self.maybe_text(instance.machine().map(muster_domain::ids::MachineId::as_str));
        self.num(instance.claim().map_or(0, |job| job.job + 1));
        self.maybe_until(instance.due_at());
        self.maybe_nonce(instance.wake_nonce());
        if instance.state() == State::Deleted {
            return;
        }
        if instance.state() == State::PendingCreate {
            self.age(instance.since(), self.timings.retry_cap_seconds);
        }
        match self.lifetime {
            Some(lifetime) => {
                self.age(instance.launched_at(), lifetime);
                self.maybe_age(instance.bound_at, self.timings.absence_limit_seconds);
            }
            // Nothing asks for the age of a machine whose agent has ended, but its lifetime.
            None if instance.runner.exit.is_none() => {
                self.age(instance.launched_at(), self.timings.boot_deadline_seconds);
            }
            None => {}
        }
        self.bit(instance.passed_over);
        self.bit(instance.spot_notice_at.is_some());
        // Failed launches are counted to five, failed terminations to three; then waits grow no
        // more.
        let most = if instance.machine().is_some() { 3 } else { 7 };
        self.num(u64::from(instance.attempts.min(most)));
        // The last denial is never as old here as it would have to be to make a difference.
        let absent_since = instance.absence.map(|Absence { since, last: _ }| since);
        self.maybe_age(absent_since, self.timings.absence_confirm_seconds);
        self.runner(&instance.runner, instance.claimed_at);
        match instance.mark() {
            Some(mark) => self.mark(mark),
            None => self.num(u64::MAX),
        }
        match instance.order() {
            Some(order) => self.order(order),
            None => self.num(u64::MAX),
        }
    }

    fn runner(&mut self, runner: &Runner, claimed_at: Option<Time>) {
        let timings = self.timings;
        let taken = runner.has_taken_job();
        let Runner {
            state,
            since,
            n,
            asking_since,
            id,
            // Its version decides nothing here: none is refused.
            agent: _,
            started,
            github_job,
            // For the record of usage.
            ran: _,
            ran_title: _,
            github_completed_at,
            // No pool of these worlds keeps the machine of a failed job.
            failed: _,
            // For people, and for the record of usage.
            interrupted_at: _,
            used: _,
            exit,
        } = runner;
        self.num(*state as u64);
        self.num(u64::from(*n));
        // Its code and its last words are for people; a refusal too, in a world that has none.
        if let Some(Exit { at, code: _, log: _, refused: _, foreign: _, stopped_for: _ }) = exit {
            self.bit(taken);
            return self.age(*at, timings.shutdown_grace_seconds);
        }
        match state {
            RunnerState::Idle => {
                // The two waits of an idle runner: beside its job since the later of both, and
                // alone.
                let claimed = claimed_at.map(|at| at.max(*since));
                self.maybe_age(claimed, timings.claim_idle_seconds);
                self.age(*since, timings.idle_limit_seconds);
            }
            RunnerState::Active => self.age(*since, timings.completed_grace_seconds),
            _ => {}
        }
        self.maybe_age(*asking_since, timings.register_lease_seconds);
        self.num(id.map_or(0, |id| id.0 + 1));
        self.bit(started.is_some());
        // There is one job here. When it started is asked by nobody.
        let ended = started.as_ref().and_then(|job| {
            // An hour of silence is longer than any life here.
            let StartedJob {
                at: _,
                repository: _,
                run: _,
                name: _,
                pull_request: _,
                completed_at,
                written_off_at: _,
            } = job;
            *completed_at
        });
        self.maybe_age(ended, timings.completed_grace_seconds);
        self.num(github_job.map_or(0, |job| job.job + 1));
        self.maybe_age(*github_completed_at, timings.completed_grace_seconds);
    }

    fn mark(&mut self, mark: &DeleteMark) {
        let timings = self.timings;
        let DeleteMark {
            // For the order of a listing.
            at: _,
            reason,
            not_busy_since,
            gate_passed,
            removing_until,
            deregistered,
            waiting,
            silences,
            kill_told,
        } = mark;
        self.text(reason.as_str());
        self.maybe_age(*not_busy_since, timings.busy_reads_apart_seconds);
        self.bit(*gate_passed);
        self.bit(removing_until.is_some());
        if let Some(until) = removing_until {
            self.until(*until);
        }
        self.bit(*deregistered);
        self.bit(*kill_told);
        self.hashed(waiting);
        self.num(u64::from((*silences).min(3)));
    }

    fn order(&mut self, order: &DeleteOrder) {
        // Who gave it, and why, is for people.
        let DeleteOrder {
            at,
            by: _,
            reason: _,
            force,
            bypass_github_unauthorized,
            kill_running_job,
        } = order;
        self.bit(*force);
        self.bit(*bypass_github_unauthorized);
        self.bit(*kill_running_job);
        if *force {
            self.age(*at, self.timings.force_give_up_seconds);
        }
    }
}

/// Takes a value in through its own `Hash`.
struct Whole(u64);

impl Hasher for Whole {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0, number);
    }
}

const fn mixed(hash: u64, number: u64) -> u64 {
    fold(hash ^ number, 0xa076_1d64_78bd_642f) ^ hash.rotate_left(23)
}

/// Multiplies to twice the width and folds: every bit of the input reaches every bit of the output.
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests;
