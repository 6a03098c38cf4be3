//! What EC2's answer means for a launch and its slots.

use std::collections::{BTreeMap, VecDeque};

use crate::ec2::{ErrorClass, Make};
use crate::ids::MachineId;
use crate::instance::{Instance, State};
use crate::launch::{Launch, LaunchAnswer, LaunchError};
use crate::stored::{Change, Stored};
use crate::time::Time;
use crate::timings::Timings;

/// What EC2's answer, or the look by tag, makes of a launch and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOutcome {
    /// The launch, settled or still open.
    pub launch: Change<Launch>,
    /// Slots that got a machine.
    pub bound: Vec<(MachineId, Change<Instance>)>,
    /// Slots that certainly got none.
    pub failed: Vec<Change<Instance>>,
    /// Slots of a launch that stays open: due when it is to be looked for again.
    pub waiting: Vec<Change<Instance>>,
}

/// What is known after a call: EC2's answer, and for a replay what carries the launch's tag.
#[derive(Clone, Debug)]
pub struct Answered {
    /// When EC2 had answered. Its machines are there from then on; what else an answer proves hangs
    /// on when it was asked.
    pub at: Time,
    /// The answer to this call.
    pub answer: Result<LaunchAnswer, LaunchError>,
    /// Machines found by tag, where that was looked at.
    pub found: BTreeMap<MachineId, Make>,
}

/// Applies an answer to a launch. `slots` are its instances as they stand now; `owned` says which
/// machines have an owner already.
///
/// Only the first call's answer, or a definite one that a replay cannot get after a success,
/// settles a launch. After an ambiguous call neither an empty replay nor an empty look by tag
/// proves anything alone; the launch stays open until `launch_lookup_seconds` have passed, and what
/// shows up later is an orphan.
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
        next.note_make(&make);
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

/// The machines that the answer or the look shows, and what both say of each. A fleet is of one
/// market.
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

/// Whether the answer says for certain how many machines there are.
fn is_definite(
    launch: &Launch,
    answer: &Result<LaunchAnswer, LaunchError>,
    now: Time,
    timings: &Timings,
) -> bool {
    let first = !launch.is_replay();
    match answer {
        // A replay that lists machines or errors repeats the first answer; one that lists nothing
        // may have left the machines out.
        Ok(answer) => first || !answer.machines.is_empty() || !answer.errors.is_empty(),
        Err(error) if first => error.class.is_definite(),
        // A replay refused for capacity shows that the token is unknown: the earlier call never
        // happened, unless it is still under way. Any other refusal (throttling, permissions) comes
        // before EC2 looks at the token.
        Err(error) => error.class == ErrorClass::Capacity && !launch.may_be_under_way(now, timings),
    }
}

/// The error that says most about what to do: the one that will not heal by itself first.
fn worst(errors: &[LaunchError]) -> LaunchError {
    errors.iter().max_by_key(|error| weight(error.class)).cloned().unwrap_or_else(|| {
        LaunchError::new(
            ErrorClass::Ambiguous,
            "NoAnswer",
            "EC2 did not say whether it launched; nothing was found",
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
