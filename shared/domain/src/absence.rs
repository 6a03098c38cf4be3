//! How long EC2 must deny knowing a machine before the machine counts as ended.
//!
//! A single denial proves nothing: the machine may be new, or the response may come from a part of
//! EC2 that lags behind. AWS documents no bound, only "several minutes". Denials count as the
//! machine's end after a long uninterrupted period. Waiting costs almost no money, because EC2
//! shows an ended machine as terminated for an hour.
//! Source: docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html

use serde::{Deserialize, Serialize};

use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Interval between two checks of such a machine.
const LOOKS_APART: Seconds = Seconds(240);
/// Denials further apart than this do not count as uninterrupted: EC2 may have shown the machine in
/// between.
const MAX_GAP: Seconds = Seconds(600);

/// An uninterrupted series of denials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Absence {
    /// The first denial.
    pub since: Time,
    /// The last denial.
    pub last: Time,
}

impl Absence {
    /// Adds a denial at `now` to the series `before`, or starts a new series.
    #[must_use]
    pub fn denied(before: Option<Self>, now: Time) -> Self {
        let continued = before.filter(|before| now <= before.last + MAX_GAP);
        Self { since: continued.map_or(now, |before| before.since), last: now }
    }

    /// Returns whether the series is long enough to count as the machine's end.
    #[must_use]
    pub fn is_certain(&self, timings: &Timings) -> bool {
        self.last >= self.since + timings.absence_confirm_seconds
    }

    /// Returns when to check next.
    #[must_use]
    pub fn look_again_at(&self, timings: &Timings) -> Time {
        (self.last + LOOKS_APART).min(self.since + timings.absence_confirm_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::from_millis(second * 1000)
    }

    /// Creates the series of denials at these seconds.
    fn denied(seconds: &[i64]) -> Absence {
        let first = Absence::denied(None, at(seconds[0]));
        seconds[1..].iter().fold(first, |before, second| Absence::denied(Some(before), at(*second)))
    }

    #[test]
    fn only_denials_close_together_add_up() {
        let timings = Timings { absence_confirm_seconds: Seconds(1200), ..Timings::default() };
        for (what, seconds, certain, again) in [
            ("one", &[0][..], false, 240),
            ("four looks", &[0, 240, 480, 720], false, 960),
            ("the last look comes when it counts", &[0, 240, 480, 720, 960, 1100], false, 1200),
            ("all of them", &[0, 240, 480, 720, 960, 1200], true, 1200),
            ("looks were late, as far as they may be", &[0, 600, 1200], true, 1200),
            ("two, an hour apart", &[0, 3600], false, 3840),
            ("an old one, and then some", &[0, 3600, 3840], false, 4080),
        ] {
            let absence = denied(seconds);
            assert_eq!(
                (absence.is_certain(&timings), absence.look_again_at(&timings)),
                (certain, at(again)),
                "{what}"
            );
        }
    }
}
