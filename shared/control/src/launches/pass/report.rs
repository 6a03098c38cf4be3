//! The results of a launch pass, and what happens to its messages.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::{ErrorClass, LaunchError};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::launch::plan::Plan;
use muster_domain::launch::verdict::Brake;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchOutcome, LaunchState};
use muster_domain::message::WakePool;
use muster_domain::time::{Seconds, Time};

use crate::metrics::{Measure, Metric};
use crate::ports::{Queue, QueueError, again_after};
use crate::woken::Woken;
use crate::writes::PassError;

/// Maximum duration of a call to EC2 (20 seconds) and the commit of its answer.
const CALL: Seconds = Seconds(25);

/// The results of a launch pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// A different pass holds the lease, and was asked for one more round.
    pub held_by_other: bool,
    /// Jobs assigned to existing runners.
    pub claimed: usize,
    /// Machines bound to instances.
    pub launched: usize,
    /// Slots that EC2 refused.
    pub failed: usize,
    /// Launches without an answer yet.
    pub open: usize,
    /// Jobs and slots for which nothing was launched, by reason.
    pub blocked: BTreeMap<Brake, usize>,
    /// Launch calls that EC2 refused, in part or entirely, by class.
    pub refusals: BTreeMap<ErrorClass, usize>,
    /// Jobs moved to other pools, which get a wake-up for them.
    pub moved_to: BTreeMap<PoolName, Vec<JobKey>>,
    /// There may be more to do: send a new wake-up.
    pub unfinished: bool,
    /// The wake-up's request is neither done nor known to a different pass, so it must return.
    pub again: bool,
    /// The wake-up lists a job that is not on record yet: it must be redelivered.
    pub is_early: bool,
    /// Delay after which to wake the pool, because something waits.
    pub later: Option<Seconds>,
}

impl LaunchReport {
    /// Returns the metrics.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        if self.failed > 0 {
            measures.push(Measure::count(Metric::LaunchFailed, self.failed));
        }
        if !self.refusals.is_empty() {
            // Includes the other classes with zero, so that each class has a line once there is
            // any.
            let of = |class| self.refusals.get(&class).copied().unwrap_or(0);
            measures.extend(
                ErrorClass::ALL.iter().copied().filter_map(|class| {
                    Some(Measure::count(Metric::for_refusal(class)?, of(class)))
                }),
            );
        }
        measures
    }

    /// Counts the reasons for which a plan launches nothing.
    pub(super) fn counts(&mut self, plan: &Plan) {
        self.blocked.clear();
        for block in plan.blocks() {
            *self.blocked.entry(block.brake).or_default() += 1;
        }
    }

    /// Counts the refusals of a call, once for each class of its errors.
    pub(super) fn refused(&mut self, launch: &Launch, answer: &Result<LaunchAnswer, LaunchError>) {
        let errors = match answer {
            Ok(answer) => answer.errors.as_slice(),
            Err(error) => std::slice::from_ref(error),
        };
        let mut classes = BTreeSet::new();
        for error in errors {
            tracing::warn!(launch.id = %launch.id, class = ?error.class,
                error = error.to_string(), "EC2 refused a launch");
            classes.insert(error.class);
        }
        for class in classes {
            *self.refusals.entry(class).or_default() += 1;
        }
    }

    /// Counts and logs the outcome of a launch.
    pub(super) fn settled(&mut self, outcome: &LaunchOutcome) {
        self.launched += outcome.bound.len();
        self.failed += outcome.failed.len();
        self.open += usize::from(outcome.launch.state == LaunchState::Open);
        for (machine, instance) in &outcome.bound {
            tracing::info!(instance.id = %instance.name, machine.id = %machine, "bound a machine");
        }
        for instance in &outcome.failed {
            tracing::warn!(instance.id = %instance.name, instance.state = %instance.state(),
                error = instance.last_error.as_ref().map(ToString::to_string),
                "failed to launch a slot");
        }
    }

    /// Records that a different pass holds the lease. That pass reads an index that may not show
    /// the jobs of this wake-up in time: if one of them `waits`, the wake-up returns.
    pub(super) const fn found_held(&mut self, waits: bool) {
        self.held_by_other = true;
        self.again = waits;
    }
}

/// A launch pass stopped by an error, with its results until then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the launch pass stopped")]
pub struct LaunchStopped {
    /// The results: pools may have been given jobs, so they must be reported nevertheless.
    pub report: Box<LaunchReport>,
    /// The error.
    #[source]
    pub error: PassError,
}

impl<E: Into<PassError>> From<E> for LaunchStopped {
    fn from(error: E) -> Self {
        Self { report: Box::default(), error: error.into() }
    }
}

/// Returns the time after which an invocation that ends at `deadline` starts no more calls to EC2:
/// work that is interrupted waits for the lease to expire, and its messages for their visibility
/// timeout. An invocation with little time gets the first half of it.
#[must_use]
pub fn last_call(begun: Time, deadline: Time) -> Time {
    let half = deadline.since(begun).0 / 2;
    deadline - CALL.min(Seconds(half))
}

/// Delay of a wake-up whose pool is held by a different pass: about the duration of `CreateFleet`,
/// after which the holder reads the index again, which is up to date by then.
const HELD: Seconds = Seconds(2);

/// The redelivery delay of a wake-up that was received before the commit of its jobs.
const EARLY: Seconds = Seconds(1);

/// The maximum number of receives of such a wake-up. A commit that takes longer has failed, or is
/// followed by a second wake-up ([`crate::jobs::batch`]).
const MAX_EARLY: u32 = 3;

/// Number of receives after which a wake-up is dropped and the sweep sends a new one, so that only
/// messages that cannot be processed reach the dead-letter queue.
const MAX_RECEIVES: u32 = 50;

/// Returns the delay after which a wake-up returns, or none if it is done.
#[must_use]
pub fn comes_again<E>(passed: &Result<LaunchReport, E>, receives: u32) -> Option<Seconds> {
    let wait = match passed {
        Ok(report) if report.again => HELD,
        Ok(report) if report.is_early && receives < MAX_EARLY => EARLY,
        Ok(_) => return None,
        Err(_) => again_after(receives),
    };
    (receives < MAX_RECEIVES).then_some(wait)
}

/// Sends the wake-ups that follow from a pass of `pool`.
///
/// # Errors
/// When the queue does not answer: the rest waits for the sweep.
pub async fn send_wakes<Q: Queue>(
    queue: &Q,
    pool: &PoolName,
    report: &LaunchReport,
) -> Result<(), QueueError> {
    let mut woken = Woken::default();
    if report.unfinished {
        woken.whole(pool.clone());
    }
    for (pool, jobs) in &report.moved_to {
        jobs.iter().for_each(|job| woken.for_job(pool.clone(), *job));
    }
    let now = woken.messages();
    if !now.is_empty() {
        queue.send_wakes(&now, Seconds(0)).await?;
    }
    match report.later {
        Some(delay) => queue.send_wakes(&[WakePool::whole(pool.clone())], delay).await,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    /// Columns: whether the request is not done, and whether a job is not on record yet; the receives; the delay.
    #[test]
    fn a_wake_up_returns_as_often_as_it_can_help() {
        for (again, is_early, receives, wait) in [
            (false, false, 1, None),
            (true, false, 1, Some(2)),
            (true, true, 1, Some(2)),
            (true, false, 49, Some(2)),
            (true, false, 50, None),
            (false, true, 1, Some(1)),
            (false, true, 2, Some(1)),
            (false, true, 3, None),
        ] {
            let report = LaunchReport { again, is_early, ..LaunchReport::default() };
            let passed = Ok::<_, ()>(report);
            let found = comes_again(&passed, receives);
            assert_eq!(found, wait.map(Seconds), "{again}, {is_early}, {receives}");
        }
        for (receives, returns) in [(1, true), (49, true), (50, false)] {
            assert_eq!(comes_again(&Err(()), receives).is_some(), returns, "failed, {receives}");
        }
    }

    #[test]
    fn an_invocation_leaves_time_for_its_last_call() {
        for (begun, deadline, last) in [(0, 60, 35), (0, 50, 25), (0, 20, 10), (9, 19, 14)] {
            assert_eq!(last_call(at(begun), at(deadline)), at(last), "{begun} to {deadline}");
        }
    }
}
