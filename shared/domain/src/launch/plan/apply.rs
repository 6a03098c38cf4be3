//! Applies EC2's response to a launch and its slots.

use std::collections::{BTreeMap, VecDeque};

use crate::ec2::{ErrorClass, LaunchError, Make};
use crate::ids::MachineId;
use crate::instance::{Instance, State};
use crate::launch::{Launch, LaunchAnswer, LaunchOutcome};
use crate::stored::Stored;
use crate::time::Time;
use crate::timings::Timings;

/// The information after a call: EC2's response and, for a replay, the machines with the launch's
/// tag.
#[derive(Clone, Debug)]
pub struct Answered {
    /// When EC2 had responded. Its machines exist from then on; other conclusions depend on when
    /// the call was made.
    pub at: Time,
    /// The response to this call.
    pub answer: Result<LaunchAnswer, LaunchError>,
    /// Machines found by tag, if they were looked up.
    pub found: BTreeMap<MachineId, Make>,
}

/// Applies a response to a launch. `slots` are the current records of its instances; `owned`
/// returns whether a machine already has an owner.
///
/// A launch is settled only by the first call's response, or by a definite response that a replay
/// cannot get after a success. After an ambiguous call, an empty replay or an empty lookup by tag
/// alone proves nothing; the launch stays open until `launch_lookup_seconds` have passed, and a
/// machine that appears later is an orphan.
#[must_use]
pub fn apply(
    launch: &Stored<Launch>,
    slots: Vec<Stored<Instance>>,
    answered: &Answered,
    owned: impl Fn(&MachineId) -> bool,
    now: Time,
    timings: &Timings,
) -> LaunchOutcome {
    let errors = match &answered.answer {
        Ok(answer) => answer.errors.as_slice(),
        Err(error) => std::slice::from_ref(error),
    };

    let mut free: VecDeque<Stored<Instance>> =
        slots.into_iter().filter(|slot| slot.is_free_slot_of(&launch.id)).collect();
    let mut bound = Vec::new();
    for (machine, make) in launched(launch, answered) {
        if owned(&machine) {
            continue;
        }
        let Some(slot) = free.pop_front() else {
            break;
        };
        let mut next = slot.record().clone();
        next.bind(machine.clone(), answered.at, timings);
        next.record_make(&make);
        bound.push((machine, slot.change(next)));
    }

    let settled = free.is_empty()
        || is_definite(launch, &answered.answer, now, timings)
        || launch.is_given_up(now, timings);
    if !settled {
        let again_at = now + timings.launch_retry_seconds;
        let is_refused = matches!(&answered.answer, Err(error) if error.class.is_definite());
        let waiting = free
            .iter()
            .filter(|slot| slot.state() == State::Creating)
            .filter_map(|slot| {
                let mut next = slot.record().clone();
                next.set_due(again_at);
                slot.changed(next)
            })
            .collect();
        return LaunchOutcome {
            launch: launch.change(launch.released(again_at, is_refused)),
            bound,
            failed: Vec::new(),
            waiting,
        };
    }
    let error = worst(errors);
    let failed = free
        .iter()
        .map(|slot| {
            let mut next = slot.record().clone();
            next.launch_failed(&error, now, timings);
            slot.change(next)
        })
        .collect();
    LaunchOutcome { launch: launch.change(launch.settled()), bound, failed, waiting: Vec::new() }
}

/// Returns the machines in the response or the lookup, with their combined descriptions. All
/// machines of a fleet request have one market.
fn launched(launch: &Launch, answered: &Answered) -> BTreeMap<MachineId, Make> {
    let asked = Make { market: Some(launch.request.market), ..Make::default() };
    let mut machines = answered.found.clone();
    for (machine, make) in answered.answer.iter().flat_map(|answer| &answer.machines) {
        let known = machines.entry(machine.clone()).or_default();
        *known = known.or(make);
    }
    machines.values_mut().for_each(|make| *make = make.or(&asked));
    machines
}

/// Returns whether the response proves how many machines exist.
fn is_definite(
    launch: &Launch,
    answer: &Result<LaunchAnswer, LaunchError>,
    now: Time,
    timings: &Timings,
) -> bool {
    let first = !launch.is_replay();
    match answer {
        // A replay that lists machines or errors repeats the first response; an empty one may have
        // omitted the machines.
        Ok(answer) => first || !answer.machines.is_empty() || !answer.errors.is_empty(),
        Err(error) if first => error.class.is_definite(),
        // A replay refused for capacity proves that EC2 does not know the token: the earlier call
        // was never executed, unless it is still in flight. EC2 refuses for any other reason
        // (throttling, permissions) before it checks the token.
        Err(error) => error.class == ErrorClass::Capacity && !launch.may_be_under_way(now, timings),
    }
}

/// Returns the most important error: the one least likely to resolve on its own.
fn worst(errors: &[LaunchError]) -> LaunchError {
    errors.iter().max_by_key(|error| weight(error.class)).cloned().unwrap_or_else(|| {
        LaunchError::new(
            ErrorClass::Ambiguous,
            "NoAnswer",
            "EC2 did not report whether it launched a machine, and none was found",
        )
    })
}

const fn weight(class: ErrorClass) -> u8 {
    match class {
        ErrorClass::Authorization => 8,
        ErrorClass::Configuration => 7,
        ErrorClass::Quota => 6,
        ErrorClass::Blocked => 5,
        ErrorClass::Idempotency => 4,
        ErrorClass::Consistency => 3,
        ErrorClass::Capacity => 2,
        ErrorClass::Throttle => 1,
        ErrorClass::Ambiguous => 0,
    }
}
