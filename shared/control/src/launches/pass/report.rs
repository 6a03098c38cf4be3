//! What a launch pass did, and what becomes of the messages around it.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::launch::plan::{LaunchOutcome, Plan};
use muster_domain::launch::verdict::Brake;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchError, LaunchState};
use muster_domain::message::WakePool;
use muster_domain::time::{Seconds, Time};

use crate::metrics::{Measure, Metric};
use crate::ports::{Queue, QueueError};
use crate::woken::Woken;
use crate::writes::PassError;

/// What a call of EC2 may take, 20 seconds, and the commit of its answer.
const CALL: Seconds = Seconds(25);

/// What a launch pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// Another pass holds the pool; it will see that it was asked to run again.
    pub held_by_other: bool,
    /// Jobs given to runners that were there.
    pub claimed: usize,
    /// Machines bound.
    pub launched: usize,
    /// Slots that EC2 refused.
    pub failed: usize,
    /// Launches whose answer is not known yet.
    pub open: usize,
    /// Jobs and slots for which nothing was launched, by what stands in the way.
    pub blocked: BTreeMap<Brake, usize>,
    /// Launch calls that EC2 refused, in part or whole, by class.
    pub refusals: BTreeMap<ErrorClass, usize>,
    /// Jobs that were moved to other pools: each pool is sent a wake-up for them.
    pub moved_to: BTreeMap<PoolName, Vec<JobKey>>,
    /// There may be more to do: send another wake-up.
    pub unfinished: bool,
    /// What the wake-up asked for is not done, and nobody else knows of it: it must come again.
    pub again: bool,
    /// Something waits: wake the pool after this time.
    pub later: Option<Seconds>,
}

impl LaunchReport {
    /// What CloudWatch is told.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let mut measures = Vec::new();
        if self.failed > 0 {
            measures.push(Measure::count(Metric::LaunchFailed, self.failed));
        }
        if !self.refusals.is_empty() {
            // The others as none, so that each class has a line once there is any.
            let of = |class| self.refusals.get(&class).copied().unwrap_or(0);
            measures.extend(
                ErrorClass::ALL.iter().copied().filter_map(|class| {
                    Some(Measure::count(Metric::for_refusal(class)?, of(class)))
                }),
            );
        }
        measures
    }

    /// Notes what stands in the way of a plan.
    pub(super) fn counts(&mut self, plan: &Plan) {
        self.blocked.clear();
        for block in plan.blocks() {
            *self.blocked.entry(block.brake).or_default() += 1;
        }
    }

    /// The refusals of a call: it counts once for each class of its errors.
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

    /// What became of a launch.
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

    /// The pool is another pass's. That one reads an index, which may not show the jobs of this
    /// wake-up before it is done: if one `waits`, it comes again.
    pub(super) const fn found_held(&mut self, waits: bool) {
        self.held_by_other = true;
        self.again = waits;
    }
}

/// A launch pass that was stopped by an error, and what it had done until then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the launch pass stopped")]
pub struct LaunchStopped {
    /// What was done, and is to be told all the same: pools may have been given jobs.
    pub report: Box<LaunchReport>,
    /// What stopped it.
    #[source]
    pub error: PassError,
}

impl<E: Into<PassError>> From<E> for LaunchStopped {
    fn from(error: E) -> Self {
        Self { report: Box::default(), error: error.into() }
    }
}

/// When an invocation that ends at `deadline` begins no more calls of EC2: what it had in hand when
/// it is stopped waits for leases, and the batch for its visibility. A function with little time
/// has the first half of it.
#[must_use]
pub fn last_call(begun: Time, deadline: Time) -> Time {
    let half = deadline.since(begun).0 / 2;
    deadline - CALL.min(Seconds(half))
}

/// How long a wake-up waits whose pool is held by another pass: about as long as a call of
/// `CreateFleet`, after which the holder looks again, in an index that shows by then what it did
/// not show before.
const HELD: Seconds = Seconds(2);

/// After this many receives a wake-up is let go, and the sweep sends another one: only poison is
/// ever in the dead-letter queue.
const MAX_RECEIVES: u32 = 50;

/// How long a message waits whose event was not folded, or whose pass failed: what fails is mostly
/// over in seconds, and the queue's own time-out is minutes.
#[must_use]
pub fn again_after(receives: u32) -> Seconds {
    Seconds(receives.saturating_mul(5).clamp(5, 30))
}

/// How long a wake-up waits before it comes again; none when it is done with.
#[must_use]
pub fn comes_again<E>(passed: &Result<LaunchReport, E>, receives: u32) -> Option<Seconds> {
    let wait = match passed {
        Ok(report) if report.again => HELD,
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
