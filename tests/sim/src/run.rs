//! One seed from its first moment to the verdict.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::agenda::{HOUR, MINUTE, Millis};
use crate::executor::Executor;
use crate::fault::Counts;
use crate::invariants::Violation;
use crate::liveness::Watch;
use crate::schedule::Plan;
use crate::tally::Tally;

/// What came of a seed.
#[derive(Clone, Debug)]
pub struct SeedOutcome {
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

/// What is left of anything is looked for then at the latest: a pool of one machine may have a
/// queue of hours to work through.
const LAST_LOOK: Millis = 30 * HOUR;

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, keep_trace: bool) -> SeedOutcome {
    play(seed, &Plan::of(seed), keep_trace)
}

/// Runs a plan that may have been changed.
#[must_use]
pub fn play(seed: u64, plan: &Plan, keep_trace: bool) -> SeedOutcome {
    let mut executor = Executor::new(plan.world(), plan.settings.clone());
    if keep_trace {
        executor.sim().world.borrow_mut().keep_trace();
    }
    let played = catch_unwind(AssertUnwindSafe(|| {
        executor.run(plan.faults_end);
        come_to_rest(&mut executor, plan.faults_end);
    }));
    if let Err(panic) = played {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        executor.sim().world.borrow_mut().broken("panic", || text.unwrap_or_default());
    }
    let sim = executor.sim();
    let mut world = sim.world.borrow_mut();
    world.look_for_leftovers();
    world.count_work();
    SeedOutcome {
        seed,
        violation: world.violation.clone(),
        counts: world.counts.clone(),
        tally: world.tally.clone(),
        steps: world.steps,
        trace: world.trace().to_owned(),
    }
}

/// No more faults: whatever is under way comes to its end, in the time that it may take.
pub(crate) fn come_to_rest(executor: &mut Executor, faults_end: Millis) {
    {
        let mut world = executor.sim().world.borrow_mut();
        world.say(|| "no more faults".to_owned());
        world.redrive();
        world.switch_all_on();
    }
    let mut watch = Watch::default();
    let mut now = faults_end;
    while now < faults_end + LAST_LOOK && !executor.sim().world.borrow().is_over() {
        now += MINUTE;
        executor.run(now);
        executor.sim().world.borrow_mut().look(&mut watch);
    }
}
