//! EC2, as far as a launch needs it.

use std::sync::Arc;

use muster_domain::ec2::ErrorClass;
use muster_domain::launch::plan::Answered;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchError};

use super::state::{Agent, Fleet, LaunchSide, MachineSide, Replay, State, machine_id};
use super::{Fault, Triangle};
use crate::act::Act;

/// A call's outcome: in words, whether it is EC2's normal answer, the state after it, and the
/// answer.
type Called = (Act, bool, State, Answered);

impl Triangle {
    /// CreateFleet, and for a replay the look by tag: everything that EC2 may do and say.
    pub(super) fn call_ec2(&self, state: &State, worker: usize, launch: &Launch) -> Vec<Called> {
        let mut called = match &self.fleet_of(state, launch) {
            Fleet::Launched { machines, short } => self.replay(state, machines, *short),
            Fleet::Unseen | Fleet::UnderWay => self.first_time(state, launch),
        };
        if launch.calls > 1 {
            self.look_by_tag(launch, &mut called);
        }
        let worker = u8::try_from(worker + 1).expect("few workers");
        called
            .into_iter()
            .map(|(words, fair, state, answered)| (Act::of(words, worker), fair, state, answered))
            .collect()
    }

    fn fleet_of(&self, state: &State, launch: &Launch) -> Fleet {
        state.launch(&launch.id).map_or(Fleet::Unseen, |side| side.fleet.clone())
    }

    /// EC2 knows the token. What it answers is not documented: see [`Replay`].
    fn replay(
        &self,
        state: &State,
        machines: &[u8],
        short: bool,
    ) -> Vec<(&'static str, bool, State, Answered)> {
        let modes = match state.replay {
            Some(mode) => vec![mode],
            None => vec![Replay::Whole, Replay::Bare, Replay::ErrorsOnly],
        };
        let mut called: Vec<_> = modes
            .into_iter()
            .map(|mode| {
                let next = State { replay: Some(mode), ..state.clone() };
                let words = match mode {
                    Replay::Whole => "EC2 answers a replayed token as the first time (worker {})",
                    Replay::Bare => "EC2 answers a replayed token with nothing (worker {})",
                    Replay::ErrorsOnly => {
                        "EC2 answers a replayed token with its errors (worker {})"
                    }
                };
                (words, true, next, told(Ok(replayed(mode, machines, short))))
            })
            .collect();
        self.add_fault(&mut called, state, Fault::Ambiguous, ErrorClass::Ambiguous, |_| {});
        called
    }

    fn first_time(
        &self,
        state: &State,
        launch: &Launch,
    ) -> Vec<(&'static str, bool, State, Answered)> {
        let capacity = launch.request.capacity;
        let mut whole = state.clone();
        let machines = fleet(&mut whole, launch, capacity, false);
        let mut called = vec![(
            "EC2 launches all machines (worker {})",
            true,
            whole,
            told(Ok(LaunchAnswer { machines, errors: Vec::new() })),
        )];
        if self.may(state, Fault::NoCapacity) {
            for machines in 0..capacity {
                let mut next = spend(state);
                let machines = fleet(&mut next, launch, machines, true);
                let errors = vec![error(ErrorClass::Capacity)];
                called.push((
                    "EC2 has not capacity for all (worker {})",
                    false,
                    next,
                    told(Ok(LaunchAnswer { machines, errors })),
                ));
            }
        }
        self.add_fault(&mut called, state, Fault::Throttled, ErrorClass::Throttle, |_| {});
        self.add_fault(&mut called, state, Fault::Ambiguous, ErrorClass::Ambiguous, |_| {});
        self.add_fault(&mut called, state, Fault::Ambiguous, ErrorClass::Ambiguous, |next| {
            fleet(next, launch, capacity, false);
        });
        self.add_fault(&mut called, state, Fault::UnderWay, ErrorClass::Ambiguous, |next| {
            set_fleet(next, launch, Fleet::UnderWay);
        });
        if self.may(state, Fault::Ambiguous) && self.may(state, Fault::NoCapacity) && capacity > 1 {
            let mut next = spend(state);
            fleet(&mut next, launch, capacity - 1, true);
            let words = "EC2 has not capacity for all, and its answer is lost (worker {})";
            called.push((words, false, next, told(Err(error(ErrorClass::Ambiguous)))));
        }
        called
    }

    fn add_fault(
        &self,
        called: &mut Vec<(&'static str, bool, State, Answered)>,
        state: &State,
        fault: Fault,
        class: ErrorClass,
        effect: impl FnOnce(&mut State),
    ) {
        if self.may(state, fault) {
            let mut next = spend(state);
            effect(&mut next);
            let words = match (fault, next.machines.len() > state.machines.len()) {
                (Fault::Throttled, _) => "EC2 throttles the launch (worker {})",
                (Fault::UnderWay, _) => "no answer: the launch is still under way (worker {})",
                (_, true) => "EC2 launches, and its answer is lost (worker {})",
                (_, false) => "the launch does not reach EC2, or its answer is lost (worker {})",
            };
            called.push((words, false, next, told(Err(error(class)))));
        }
    }

    /// What carries the launch's tag, or, where tags are late, nothing.
    fn look_by_tag(
        &self,
        launch: &Launch,
        called: &mut Vec<(&'static str, bool, State, Answered)>,
    ) {
        let mut late = Vec::new();
        for (words, _, state, answered) in called.iter_mut() {
            let tagged = state
                .machines
                .iter()
                .filter(|machine| machine.alive && machine.launch == launch.id)
                .map(|machine| machine_id(machine.number));
            answered.found = tagged.collect();
            if !answered.found.is_empty() && self.may(state, Fault::LateTag) {
                let blind = Answered { found: Vec::new(), ..answered.clone() };
                late.push((*words, false, spend(state), blind));
            }
        }
        called.extend(late);
    }

    /// A request that nobody waits for any more arrives.
    pub(super) fn late_launch(&self, state: &State, launch: usize) -> Option<State> {
        let side = &state.launches[launch];
        let record = side.record.clone()?;
        if side.fleet != Fleet::UnderWay {
            return None;
        }
        let mut next = state.clone();
        fleet(&mut next, &record, record.request.capacity, false);
        Some(next)
    }
}

fn replayed(mode: Replay, machines: &[u8], short: bool) -> LaunchAnswer {
    let machines = match mode {
        Replay::Whole => machines.iter().map(|number| machine_id(*number)).collect(),
        Replay::Bare | Replay::ErrorsOnly => Vec::new(),
    };
    let errors = match mode {
        Replay::Whole | Replay::ErrorsOnly if short => vec![error(ErrorClass::Capacity)],
        _ => Vec::new(),
    };
    LaunchAnswer { machines, errors }
}

fn spend(state: &State) -> State {
    State { faults: state.faults - 1, ..state.clone() }
}

fn told(answer: Result<LaunchAnswer, LaunchError>) -> Answered {
    Answered { answer, found: Vec::new() }
}

fn error(class: ErrorClass) -> LaunchError {
    LaunchError::new(class, "Code", "sentence")
}

fn set_fleet(state: &mut State, launch: &Launch, fleet: Fleet) {
    match state.launches.iter_mut().find(|side| side.id == launch.id) {
        Some(side) => Arc::make_mut(side).fleet = fleet,
        None => state.launches.push(Arc::new(LaunchSide {
            record: None,
            id: launch.id.clone(),
            fleet,
            given_up: false,
        })),
    }
}

/// Launches `count` machines for a token.
fn fleet(
    state: &mut State,
    launch: &Launch,
    count: u32,
    short: bool,
) -> Vec<muster_domain::ids::MachineId> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let free = |number: &u8| !state.machines.iter().any(|known| known.number == *number);
        let number = (1..=u8::MAX).find(free).expect("few machines");
        numbers.push(number);
        state.machines.push(Arc::new(MachineSide {
            number,
            launch: launch.id.clone(),
            alive: true,
            hangs: false,
            launched_at: state.now,
            owner: None,
            agent: Agent::Boot,
            registered: false,
        }));
    }
    let ids = numbers.iter().map(|number| machine_id(*number)).collect();
    set_fleet(state, launch, Fleet::Launched { machines: numbers, short });
    ids
}
