//! Histograms of durations, which can be merged over many days.

use serde::{Deserialize, Serialize};

/// Number of steps per doubling. A step's width is a sixteenth of its lower bound, so its middle is
/// at most 3.1 % off.
const STEPS: u64 = 16;

/// The step (bin) of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct DurationBin(u16);

impl DurationBin {
    /// Returns the step of a duration in milliseconds.
    #[must_use]
    pub(super) fn of(millis: u64) -> Self {
        let step = if millis < STEPS {
            millis
        } else {
            let doubling = u64::from(millis.ilog2());
            let within = (millis >> (doubling - 4)) - STEPS;
            (doubling - 3) * STEPS + within
        };
        Self(u16::try_from(step).unwrap_or(u16::MAX))
    }

    /// Returns its middle, in milliseconds.
    #[must_use]
    pub(super) fn millis(self) -> u64 {
        let step = u64::from(self.0);
        if step < STEPS {
            return step;
        }
        let width = 1_u64 << (step / STEPS - 1).min(58);
        (STEPS + step % STEPS) * width + width / 2
    }
}

/// The number of durations in each step, shortest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Distribution(Vec<(DurationBin, u32)>);

impl Distribution {
    /// Adds a duration, in milliseconds.
    pub(super) fn add(&mut self, millis: u64) {
        self.put(DurationBin::of(millis), 1);
    }

    /// Adds the durations of a different distribution.
    pub(super) fn join(&mut self, other: &Self) {
        other.0.iter().for_each(|(step, count)| self.put(*step, *count));
    }

    fn put(&mut self, step: DurationBin, count: u32) {
        match self.0.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (step, count)),
        }
    }

    /// Returns the number of durations.
    #[must_use]
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns a percentile, in milliseconds. `None` if the distribution is empty.
    #[must_use]
    pub(super) fn percentile(&self, of_hundred: u64) -> Option<u64> {
        let rank = (self.count() * of_hundred).div_ceil(100).max(1);
        let mut seen = 0;
        let step = self.0.iter().find(|(_, count)| {
            seen += u64::from(*count);
            seen >= rank
        });
        step.map(|(step, _)| step.millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_at_most_a_thirtieth_off() {
        let mut before = DurationBin(0);
        for millis in (0..70_000).chain([u64::from(u32::MAX), 1 << 40]) {
            let step = DurationBin::of(millis);
            assert!(step >= before, "{millis}");
            before = step;
            let off = step.millis().abs_diff(millis);
            assert!(off * 32 <= millis, "{millis} is told as {}", step.millis());
        }
    }

    #[test]
    fn a_percentile_is_of_those_that_are_there() {
        let of = |all: &[u64]| {
            let mut these = Distribution::default();
            all.iter().for_each(|one| these.add(*one));
            these
        };
        assert_eq!(Distribution::default().percentile(50), None);
        assert_eq!(of(&[5]).percentile(99), Some(5));
        let ten = of(&[10, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!([50, 90, 91, 99].map(|part| ten.percentile(part)), [5, 9, 10, 10].map(Some));
        let mut all = of(&[1, 2, 2]);
        all.join(&of(&[2, 3]));
        assert_eq!((all.count(), all), (5, of(&[1, 2, 2, 2, 3])));
    }
}
