//! How long jobs waited for their first step, and for what.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use super::distribution::{Distribution, DurationBin};
use super::line::{Line, UsageKind};

/// The phases of a job's wait, in order.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::VariantArray,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// GitHub's event for the job.
    Github,
    /// The plan of a machine: limits, pauses and brakes must allow one, or a runner must become
    /// free.
    Limits,
    /// EC2's launch of the machine.
    Ec2,
    /// The machine's boot, until it has its agent.
    Boot,
    /// The agent's registration, until it listens.
    Registration,
    /// GitHub's assignment of the job.
    PickUp,
}

impl WaitsFor {
    /// All phases, in order.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// The waits of a set of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// The whole wait: from when a job could first have had a runner until its first step.
    whole: Distribution,
    /// The longest wait, in milliseconds.
    pub longest: u64,
    /// The phases of the waits, indexed by [`WaitsFor`].
    parts: [Distribution; WaitsFor::ALL.len()],
    /// The longest phase of each job, counted by the step of its whole wait.
    longest_parts: Vec<(DurationBin, WaitsFor, u32)>,
}

impl Waits {
    /// Adds a record's job. Ignores jobs that did not run on our machine.
    pub fn add_line(&mut self, line: &Line) {
        let Some((whole, parts)) = line.wait() else { return };
        self.whole.add(whole);
        self.longest = self.longest.max(whole);
        let mut longest = (0, WaitsFor::Github);
        for ((what, part), own) in WaitsFor::ALL.iter().zip(parts).zip(&mut self.parts) {
            // A phase without a known end is included in the next one.
            let Some(part) = part else { continue };
            own.add(part);
            if part > longest.0 {
                longest = (part, *what);
            }
        }
        self.count_longest_phase(DurationBin::of(whole), longest.1, 1);
    }

    /// Adds the waits of other jobs.
    pub fn join(&mut self, other: &Self) {
        self.whole.join(&other.whole);
        self.longest = self.longest.max(other.longest);
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.join(other));
        for (step, what, count) in &other.longest_parts {
            self.count_longest_phase(*step, *what, *count);
        }
    }

    fn count_longest_phase(&mut self, step: DurationBin, what: WaitsFor, count: u32) {
        let place = |(step, what, _): &(DurationBin, WaitsFor, u32)| (*step, *what);
        match self.longest_parts.binary_search_by_key(&(step, what), place) {
            Ok(at) => self.longest_parts[at].2 += count,
            Err(at) => self.longest_parts.insert(at, (step, what, count)),
        }
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// Returns a percentile of the whole wait, in milliseconds.
    #[must_use]
    pub fn percentile(&self, of_hundred: u64) -> Option<u64> {
        // A step's middle can exceed every value in it.
        Some(self.whole.percentile(of_hundred)?.min(self.longest))
    }

    /// Returns a percentile of a phase, in milliseconds.
    #[must_use]
    pub fn percentile_of(&self, what: WaitsFor, of_hundred: u64) -> Option<u64> {
        self.parts[what as usize].percentile(of_hundred)
    }

    /// Returns the phases that dominated the longest 5 % of the waits, most frequent first.
    #[must_use]
    pub fn reasons_of_longest(&self) -> Vec<(WaitsFor, u64)> {
        let Some(least) = self.whole.percentile(95).map(DurationBin::of) else { return Vec::new() };
        let mut reasons: Vec<(WaitsFor, u64)> = Vec::new();
        for (_, what, count) in self.longest_parts.iter().filter(|(step, ..)| *step >= least) {
            match reasons.iter_mut().find(|(known, _)| known == what) {
                Some((_, known)) => *known += u64::from(*count),
                None => reasons.push((*what, u64::from(*count))),
            }
        }
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }
}

impl Line {
    /// Returns how long its job waited for its first step, and the phases of that wait, which add
    /// up to it, in milliseconds. `None` for a job that did not run on our machine, or whose wait
    /// is unknown (see [`crate::job::Job::waited`]).
    #[must_use]
    pub fn wait(&self) -> Option<(u64, [Option<u64>; WaitsFor::ALL.len()])> {
        let t = &self.t;
        let is_ours = self.kind == UsageKind::Machine && self.job.is_some();
        let started = t.started.filter(|started| is_ours && *started >= 0)?;
        let mut before = 0;
        let mut until = |at: Option<i64>| {
            // Clocks differ, and a machine may exist before its job.
            let at = at?.clamp(before, started);
            let part = at - before;
            before = at;
            u64::try_from(part).ok()
        };
        let parts = [
            until(t.heard),
            until(t.planned),
            until(t.launched),
            until(t.asked),
            until(t.listening),
            until(Some(started)),
        ];
        Some((u64::try_from(started).ok()?, parts))
    }
}
