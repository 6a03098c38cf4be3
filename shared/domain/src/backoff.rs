//! The two back-off sequences.

use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// How long after its time the work of a sweep is overdue. More than a minute, the interval of
/// sweeps: an earlier one has probably failed to record that it did the work.
const OVERDUE: Seconds = Seconds(90);

/// Returns whether work that was due at `due` is overdue.
#[must_use]
pub fn is_overdue(due: Time, now: Time) -> bool {
    now.is_past(due, OVERDUE)
}

/// Returns the wait before delete attempt `attempts + 1`, where `attempts` have failed so far: 0,
/// 1, 2, 4, 8 … steps up to the cap (GARM's instance manager uses this sequence).
#[must_use]
pub fn delete_wait(attempts: u32, timings: &Timings) -> Seconds {
    match attempts {
        0 => Seconds(0),
        n => doubled(timings.retry_step_seconds, n - 1, timings.retry_cap_seconds),
    }
}

/// Returns the wait before launch attempt `attempts + 1`.
#[must_use]
pub fn launch_wait(attempts: u32, timings: &Timings) -> Seconds {
    doubled(timings.launch_retry_seconds, attempts.saturating_sub(1), timings.retry_cap_seconds)
}

/// Returns a wait that doubles with each consecutive time, up to a cap. `times` starts at 1.
#[must_use]
pub fn grown(first: Seconds, times: u32, cap: Seconds) -> Seconds {
    doubled(first, times.saturating_sub(1), cap)
}

fn doubled(step: Seconds, times: u32, cap: Seconds) -> Seconds {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    Seconds(step.0.saturating_mul(factor).min(cap.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletes_wait_0_1_2_4_up_to_300_seconds() {
        let waits: Vec<u32> = (0..12).map(|n| delete_wait(n, &Timings::default()).0).collect();
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(delete_wait(u32::MAX, &Timings::default()), Seconds(300));
    }

    #[test]
    fn other_waits_double_from_the_first() {
        let timings = Timings::default();
        let first = timings.launch_retry_seconds.0;
        let launches = [0, 1, 2, 3].map(|n| launch_wait(n, &timings).0);
        assert_eq!(launches, [first, first, 2 * first, 4 * first]);
        let grown = [0, 1, 2, 3, 4, 5].map(|n| grown(Seconds(60), n, Seconds(600)).0);
        assert_eq!(grown, [60, 60, 120, 240, 480, 600]);
    }

    #[test]
    fn waits_never_shrink() {
        let timings = Timings::default();
        for n in 0..200 {
            assert!(delete_wait(n, &timings) <= delete_wait(n + 1, &timings));
            assert!(launch_wait(n, &timings) <= launch_wait(n + 1, &timings));
        }
    }
}
