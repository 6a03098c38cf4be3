//! Who a machine's time is for: each millisecond that is paid for is in one part.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// EC2 bills by the second, a minute at least
/// (docs.aws.amazon.com/AWSEC2/latest/UserGuide, "On-Demand Instances").
const LEAST: u64 = 60_000;

const HOUR: u128 = 3_600_000;

/// What is paid for, in milliseconds or in millionths of a dollar. The parts add up to the bill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parts {
    /// Until its job began.
    pub start: u64,
    /// While its job ran.
    pub work: u64,
    /// After its job.
    pub end: u64,
    /// Bought for nobody, and no job came.
    pub idle: u64,
    /// Bought for a job, and ran none.
    pub vain: u64,
}

/// What a machine's time was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A job, from its start to its end, as far as they are known.
    Job(Option<Time>, Option<Time>),
    /// Nobody: its pool keeps runners idle.
    Nobody,
    /// A job that it did not run, or nothing that anybody answers for.
    Nothing,
}

impl Parts {
    /// All of it.
    #[must_use]
    pub const fn sum(self) -> u64 {
        let Self { start, work, end, idle, vain } = self;
        start + work + end + idle + vain
    }

    /// The same with each part as `of` has it.
    #[must_use]
    pub fn map(self, of: impl Fn(u64) -> u64) -> Self {
        let Self { start, work, end, idle, vain } = self;
        Self { start: of(start), work: of(work), end: of(end), idle: of(idle), vain: of(vain) }
    }

    /// Of a job: before it, in it and after it.
    #[must_use]
    pub const fn of_job(self) -> u64 {
        self.start + self.work + self.end
    }

    /// What this time costs at so many millionths of a dollar an hour. What is cut off one part is
    /// in the next, so that the parts add up to the price of the whole.
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

    /// The time from a machine's coming to its end. Clocks of GitHub, EC2 and ours differ: what lies
    /// outside counts as its edge.
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
