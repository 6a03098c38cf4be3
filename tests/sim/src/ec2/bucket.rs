//! EC2's token buckets: each kind of call has its own, and the whole account draws from them.

use crate::agenda::{Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

/// A kind of call with a bucket of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Launch,
    Describe,
    Terminate,
    Image,
}

impl Call {
    /// What others in the account leave us: tokens at most, and how long one takes to come.
    const fn share(self) -> (i64, Millis) {
        match self {
            Self::Launch => (2, 15 * SECOND),
            Self::Describe => (6, 2 * SECOND),
            Self::Terminate => (3, 5 * SECOND),
            Self::Image => (2, 10 * SECOND),
        }
    }
}

/// What AWS documents for launches, requests and machines, and for requests of TerminateInstances.
/// Source: docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html (RunInstances; fleets
/// launch through it)
const LAUNCHES: (i64, Millis) = (5, SECOND / 2);
const MACHINES: (i64, Millis) = (1000, SECOND / 2);
const TERMINATIONS: (i64, Millis) = (100, SECOND / 5);

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: i64,
    filled_at: Millis,
}

impl Bucket {
    fn take(&mut self, now: Millis, share: (i64, Millis)) -> bool {
        self.take_all(1, now, share)
    }

    /// All or none.
    fn take_all(&mut self, count: i64, now: Millis, (most, interval): (i64, Millis)) -> bool {
        let more = (now - self.filled_at) / interval;
        if more > 0 {
            self.tokens = (self.tokens + more).min(most);
            self.filled_at = now;
        }
        let has = self.tokens >= count;
        if has {
            self.tokens -= count;
        }
        has
    }
}

/// The buckets of all kinds.
#[derive(Debug, Default)]
pub(super) struct Buckets([Bucket; 4], Bucket);

impl World {
    /// Draws a token, in a weather in which others in the account leave few of them.
    pub(super) fn is_bucket_empty(&mut self, call: Call) -> bool {
        if self.ec2.real_buckets {
            let share = match call {
                Call::Launch => LAUNCHES,
                Call::Terminate => TERMINATIONS,
                Call::Describe | Call::Image => return false,
            };
            return !self.ec2.buckets.0[call as usize].take(self.now, share);
        }
        if self.fault_rates.of(Fault::BucketEmpty) == 0 || self.now >= self.faults_end {
            return false;
        }
        let empty = !self.ec2.buckets.0[call as usize].take(self.now, call.share());
        if empty {
            self.strike(Fault::BucketEmpty);
        }
        empty
    }
}

impl World {
    /// Draws a token for each machine, where that counts.
    pub(super) fn has_resource_tokens(&mut self, machines: u32) -> bool {
        let now = self.now;
        !self.ec2.real_buckets || self.ec2.buckets.1.take_all(i64::from(machines), now, MACHINES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_holds_and_fills_up_again() {
        let mut bucket = Bucket::default();
        let takes = |bucket: &mut Bucket, now, most| bucket.take(now, (most, 10));
        let first: Vec<bool> = (0..3).map(|_| takes(&mut bucket, 1_000, 2)).collect();
        assert_eq!(first, [true, true, false]);
        assert!(!takes(&mut bucket, 1_009, 2), "nine of ten milliseconds");
        assert!(takes(&mut bucket, 1_010, 2));
        assert!(!takes(&mut bucket, 1_010, 2));
    }
}
