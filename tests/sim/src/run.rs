//! One seed from its first moment to the verdict.

use crate::agenda::{HOUR, MINUTE, Millis, SECOND};
use crate::executor::Executor;
use crate::fault::Counts;
use crate::invariants::Violation;
use crate::schedule::{Length, Plan};
use crate::world::Tally;

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The first broken invariant.
    pub violation: Option<Violation>,
    /// How often each fault struck.
    pub counts: Counts,
    /// Numbers.
    pub tally: Tally,
    /// Events.
    pub steps: u64,
    /// The trace, if one was kept.
    pub trace: String,
}

/// After the last fault: a look at the delays.
const FIRST_LOOK: Millis = 12 * MINUTE;
/// … at the jobs.
const SECOND_LOOK: Millis = 13 * MINUTE;
/// … and at what is left of anything. A pool of one machine may have a queue of hours to work through.
const LAST_LOOK: Millis = 30 * HOUR;

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, length: Length, keep_trace: bool) -> Outcome {
    play(seed, Plan::of(seed, length), keep_trace)
}

/// Runs a plan that may have been changed.
#[must_use]
pub fn play(seed: u64, plan: Plan, keep_trace: bool) -> Outcome {
    let end = plan.faults_end;
    let mut executor = Executor::new(plan.world, plan.settings);
    if keep_trace {
        executor.sim().world.borrow_mut().keep_trace();
    }
    executor.run(end);
    executor.sim().world.borrow_mut().say(|| "no more faults".to_owned());
    executor.sim().world.borrow_mut().redrive();
    executor.run(end + FIRST_LOOK);
    executor.sim().world.borrow_mut().look_for_stuck_rows(end);
    let mut now = end + SECOND_LOOK;
    let mut suspects = None;
    for _ in 0..4 {
        executor.run(now);
        suspects = Some(executor.sim().world.borrow().unexplained_jobs(suspects.as_ref()));
        now += 75 * SECOND;
    }
    executor.sim().world.borrow_mut().accuse(&suspects.unwrap_or_default());
    while now < end + LAST_LOOK && !executor.sim().world.borrow().is_over() {
        now += HOUR;
        executor.run(now);
    }
    let sim = executor.sim();
    let mut world = sim.world.borrow_mut();
    world.look_for_leftovers();
    Outcome {
        seed,
        violation: world.violation.clone(),
        counts: world.counts.clone(),
        tally: world.tally.clone(),
        steps: world.steps,
        trace: world.trace().to_owned(),
    }
}
