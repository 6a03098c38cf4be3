//! Splits a machine's billed time by purpose: every millisecond belongs to exactly one part.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// EC2 bills per second, with a minimum of one minute (docs.aws.amazon.com/AWSEC2/latest/UserGuide,
/// "On-Demand Instances").
const LEAST: u64 = 60_000;

const HOUR: u128 = 3_600_000;

/// Billed time in milliseconds, or its cost in millionths of a dollar, by purpose. The parts add up
/// to the bill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parts {
    /// Before its job started.
    pub start: u64,
    /// During its job.
    pub work: u64,
    /// After its job.
    pub end: u64,
    /// Launched for no particular job, and never got one.
    pub idle: u64,
    /// Launched for a job, but never ran one.
    pub vain: u64,
}

/// The purpose of a machine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A job, with its start and end, if known.
    Job(Option<Time>, Option<Time>),
    /// Kept idle by its pool.
    Nobody,
    /// A job that it did not run, or no known purpose.
    Nothing,
}

impl Parts {
    /// Returns the sum of the parts.
    #[must_use]
    pub const fn sum(self) -> u64 {
        let Self { start, work, end, idle, vain } = self;
        start + work + end + idle + vain
    }

    /// Returns the parts with `of` applied to each.
    #[must_use]
    pub fn map(self, of: impl Fn(u64) -> u64) -> Self {
        let Self { start, work, end, idle, vain } = self;
        Self { start: of(start), work: of(work), end: of(end), idle: of(idle), vain: of(vain) }
    }

    /// Returns the parts of a job: before, during and after it.
    #[must_use]
    pub const fn of_job(self) -> u64 {
        self.start + self.work + self.end
    }

    /// Returns the cost of this time at a price in millionths of a dollar per hour. What rounding
    /// cuts off one part goes to the next, so that the parts add up to the price of the whole.
    #[must_use]
    pub fn at(self, micros_an_hour: u64) -> Self {
        let (mut time, mut paid) = (0, 0);
        let mut cost = |part: u64| {
            time += part;
            let whole = u128::from(time) * u128::from(micros_an_hour) / HOUR;
            let whole = u64::try_from(whole).unwrap_or(u64::MAX);
            let own = whole - paid;
            paid = whole;
            own
        };
        Self {
            start: cost(self.start),
            work: cost(self.work),
            end: cost(self.end),
            idle: cost(self.idle),
            vain: cost(self.vain),
        }
    }

    /// Splits the time from a machine's launch to its end. The clocks of GitHub, EC2 and Muster
    /// differ, so times outside this range are clamped to it.
    pub(super) fn split(from: Time, to: Time, of: For) -> Self {
        let billed = millis(from, to).max(LEAST);
        match of {
            For::Nobody => Self { idle: billed, ..Self::default() },
            For::Nothing => Self { vain: billed, ..Self::default() },
            For::Job(started, completed) => {
                let start = started.map_or(0, |at| millis(from, at)).min(billed);
                let done = completed.map_or(billed, |at| millis(from, at)).clamp(start, billed);
                Self { start, work: done - start, end: billed - done, ..Self::default() }
            }
        }
    }
}

fn millis(from: Time, to: Time) -> u64 {
    u64::try_from(to.as_millis() - from.as_millis()).unwrap_or(0)
}

impl std::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        self.start += other.start;
        self.work += other.work;
        self.end += other.end;
        self.idle += other.idle;
        self.vain += other.vain;
    }
}
