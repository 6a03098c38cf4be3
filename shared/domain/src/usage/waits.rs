//! How long jobs waited for their first step, and for what.

use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use super::distribution::{Distribution, Step};
use super::line::{Kind, Line};

/// What a job waits for, in this order. The parts of its wait are what passes until then.
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
    /// GitHub tells of the job.
    Github,
    /// A machine is planned for it: limits, switches and brakes allow one, or one becomes free.
    Limits,
    /// EC2 launches the machine.
    Ec2,
    /// The machine boots, and has its agent.
    Boot,
    /// Its agent is registered and listens.
    Registration,
    /// GitHub gives the job to it.
    PickUp,
}

impl WaitsFor {
    /// All of them, in order.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// The waits of some jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// From the time at which it could first have had a runner until its first step.
    whole: Distribution,
    /// The longest, milliseconds.
    pub longest: u64,
    /// The parts of the waits, as [`WaitsFor`] has them.
    parts: [Distribution; WaitsFor::ALL.len()],
    /// The part that took longest, of the jobs of each step.
    longest_parts: Vec<(Step, WaitsFor, u32)>,
}

impl Waits {
    /// A line's job. One that no machine of ours ran did not wait for one.
    pub fn add_line(&mut self, line: &Line) {
        let Some((whole, parts)) = line.wait() else { return };
        self.whole.add(whole);
        self.longest = self.longest.max(whole);
        let mut longest = (0, WaitsFor::Github);
        for ((what, part), own) in WaitsFor::ALL.iter().zip(parts).zip(&mut self.parts) {
            // A phase that nobody has told of is in the next one.
            let Some(part) = part else { continue };
            own.add(part);
            if part > longest.0 {
                longest = (part, *what);
            }
        }
        self.note_longest(Step::of(whole), longest.1, 1);
    }

    /// Those of other jobs.
    pub fn join(&mut self, other: &Self) {
        self.whole.join(&other.whole);
        self.longest = self.longest.max(other.longest);
        self.parts.iter_mut().zip(&other.parts).for_each(|(own, other)| own.join(other));
        for (step, what, count) in &other.longest_parts {
            self.note_longest(*step, *what, *count);
        }
    }

    fn note_longest(&mut self, step: Step, what: WaitsFor, count: u32) {
        let place = |(step, what, _): &(Step, WaitsFor, u32)| (*step, *what);
        match self.longest_parts.binary_search_by_key(&(step, what), place) {
            Ok(at) => self.longest_parts[at].2 += count,
            Err(at) => self.longest_parts.insert(at, (step, what, count)),
        }
    }

    /// How many jobs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.whole.count()
    }

    /// Milliseconds that so many of a hundred jobs waited at most.
    #[must_use]
    pub fn percentile(&self, of_hundred: u64) -> Option<u64> {
        // A step's middle may lie above all that is in it.
        Some(self.whole.percentile(of_hundred)?.min(self.longest))
    }

    /// The same of a part of the wait.
    #[must_use]
    pub fn percentile_of(&self, what: WaitsFor, of_hundred: u64) -> Option<u64> {
        self.parts[what as usize].percentile(of_hundred)
    }

    /// What the longest twentieth waited for most of their time, the most frequent first.
    #[must_use]
    pub fn reasons_of_longest(&self) -> Vec<(WaitsFor, u64)> {
        let Some(least) = self.whole.percentile(95).map(Step::of) else { return Vec::new() };
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
    /// Returns how long its job waited for its first step, and the parts of that wait, which add up to
    /// it: milliseconds. None for a job that no machine of ours ran, and for one whose wait is not
    /// known (see [`crate::job::Job::waited`]).
    #[must_use]
    pub fn wait(&self) -> Option<(u64, [Option<u64>; WaitsFor::ALL.len()])> {
        let t = &self.t;
        let is_ours = self.kind == Kind::Machine && self.job.is_some();
        let started = t.started.filter(|started| is_ours && *started >= 0)?;
        let mut before = 0;
        let mut until = |at: Option<i64>| {
            // Clocks differ, and a machine may be there before its job.
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
