//! The launch pass, verb by verb, as in `control::launches::scale_up`.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::instance::{Instance, State as Life};
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::plan::{self, Answered, Outcome, Plan, PlannedLaunch, View};
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::pool::limits::Headroom;
use muster_domain::time::Time;

use super::state::{LaunchSide, State, Worker};
use super::table::{Refusal, Write};
use super::{Fault, HOLDERS, Triangle};
use crate::act::Act;
use crate::key::Key;
use crate::search::Step;

/// A pass at work. It holds the pool's lease, or held it when it started.
#[derive(Clone)]
pub struct ScaleUp {
    /// When it started.
    pub at: Time,
    /// The pool's wake count when it last looked.
    pub wakes: u64,
    /// Open launches that it has yet to look at.
    pub todo: Vec<LaunchId>,
    /// What it decided to do.
    pub plan: Option<Arc<Plan>>,
    /// How many claims and launches of the plan are committed.
    pub done: usize,
    /// The launch it is busy with.
    pub call: Option<Call>,
}

/// A launch between its commit and the commit of EC2's answer.
#[derive(Clone)]
pub struct Call {
    /// The launch as read or committed.
    pub launch: Arc<Launch>,
    /// Its slots as read or committed.
    pub slots: Vec<Arc<Instance>>,
    /// What EC2 said, once it did.
    pub answered: Option<Arc<Answered>>,
    /// Machines with an owner, once that was looked at.
    pub owned: Vec<MachineId>,
}

impl ScaleUp {
    /// Whether the pass holds a record of this name.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        let planned = self.plan.iter().any(|plan| {
            plan.claims.iter().any(|(_, instance)| instance.name.as_str() == name)
                || plan.launches.iter().any(|launch| {
                    launch.launch.id.as_str() == name
                        || launch.launch.slots.iter().any(|slot| slot.as_str() == name)
                })
        });
        planned
            || self.todo.iter().any(|id| id.as_str() == name)
            || self.call.as_ref().is_some_and(|call| {
                call.launch.id.as_str() == name
                    || call.slots.iter().any(|slot| slot.name.as_str() == name)
            })
    }

    /// Whether the pass was told of this machine.
    #[must_use]
    pub fn knows(&self, machine: &MachineId) -> bool {
        let answered = self.call.as_ref().and_then(|call| call.answered.as_ref());
        answered.is_some_and(|answered| {
            answered.found.contains(machine)
                || answered.answer.iter().any(|answer| answer.machines.contains(machine))
        })
    }

    /// Adds what matters of it.
    pub(super) fn fingerprint(&self, state: &State, holder: &str, key: &mut Key<'_>) {
        key.age(self.at, super::SLOW);
        key.bit(state.capacity.is_held_by(holder));
        key.bit(self.wakes == state.capacity.wakes);
        for id in &self.todo {
            key.text(id.as_str());
        }
        match &self.plan {
            None => key.num(1),
            Some(plan) => self.plan_fingerprint(plan, state, key),
        }
        let Some(call) = &self.call else { return key.num(2) };
        key.text(call.launch.id.as_str());
        let stored = state.record(&call.launch.id);
        match stored {
            Some(stored) if stored.generation == call.launch.generation => key.num(1),
            // A conflict is certain. What comes then depends on who holds the launch now.
            Some(stored) => key.num(2 + u64::from(stored.calls == call.launch.calls)),
            None => key.num(4),
        }
        for slot in &call.slots {
            let stored = state.row(&slot.name).map(|row| row.generation());
            // A stale slot can only meet a conflict, or it had a machine already.
            key.bit(stored == Some(slot.generation()));
            key.bit(slot.is_free_slot_of(&call.launch.id));
        }
        if let Some(answered) = &call.answered {
            match &answered.answer {
                Ok(answer) => {
                    answer.machines.iter().for_each(|machine| key.text(machine.as_str()));
                    key.num(answer.errors.len() as u64);
                }
                Err(error) => key.num(100 + error.class as u64),
            }
            answered.found.iter().for_each(|machine| key.text(machine.as_str()));
        }
        for machine in &call.owned {
            key.text(machine.as_str());
        }
    }

    /// What is left of a plan. A stale part can only meet a conflict, so only its staleness counts.
    fn plan_fingerprint(&self, plan: &Plan, state: &State, key: &mut Key<'_>) {
        key.num((plan.claims.len() + plan.launches.len() - self.done) as u64);
        for (job, instance) in plan.claims.iter().skip(self.done) {
            let fresh =
                state.job(job.key()).is_some_and(|own| own.generation + 1 == job.generation)
                    && state
                        .row(&instance.name)
                        .is_some_and(|own| own.generation() + 1 == instance.generation());
            key.num(job.key().job);
            key.text(instance.name.as_str());
            key.bit(fresh);
        }
        for planned in plan.launches.iter().skip(self.done.saturating_sub(plan.claims.len())) {
            key.text(planned.launch.id.as_str());
            for (_, job) in &planned.fresh {
                let stored = state.job(job.key());
                key.num(job.key().job);
                key.bit(stored.is_some_and(|own| own.generation + 1 == job.generation));
            }
            for again in &planned.again {
                let stored = state.row(&again.name);
                key.text(again.name.as_str());
                key.bit(stored.is_some_and(|own| own.generation() + 1 == again.generation()));
            }
        }
    }
}

impl Triangle {
    /// A Lambda is woken, counts the wake-up, and takes the pool's lease if that is free.
    pub(super) fn start_scale_up(
        &self,
        state: &State,
        worker: usize,
        steps: &mut Vec<Step<State>>,
    ) {
        let swept = state.jobs.iter().flat_map(|job| &job.row).any(|job| job.is_due(state.now));
        let twice = !state.wake && !swept;
        if twice && !self.may(state, Fault::Duplicate) {
            return;
        }
        let mut next = state.clone();
        if twice {
            next.faults -= 1;
        }
        next.wake = false;
        let capacity = next.capacity.woken(HOLDERS[worker], state.now, &self.timings);
        next.capacity = Arc::new(capacity);
        if next.capacity.is_held_by(HOLDERS[worker]) {
            let pass = self.next_round(&next, state.now, next.capacity.wakes);
            next.workers[worker] = Worker::ScaleUp(Arc::new(pass));
        }
        let act =
            Act::of("launch pass starts (worker {}) and asks for the pool's lease", number(worker));
        steps.push(Step { act, fair: !twice, next: Ok(next) });
    }

    fn next_round(&self, state: &State, at: Time, wakes: u64) -> ScaleUp {
        let open = |launch: &&Arc<LaunchSide>| {
            launch.record.as_ref().is_some_and(|own| own.state == LaunchState::Open)
        };
        let todo = state.launches.iter().filter(open).map(|launch| launch.id.clone()).collect();
        ScaleUp { at, wakes, todo, plan: None, done: 0, call: None }
    }

    /// One verb of the pass.
    pub(super) fn step_scale_up(
        &self,
        state: &State,
        worker: usize,
        pass: &ScaleUp,
        steps: &mut Vec<Step<State>>,
    ) {
        match &pass.call {
            Some(call) if call.answered.is_none() => {
                for (act, fair, state, answered) in self.call_ec2(state, worker, &call.launch) {
                    let call = Call { answered: Some(Arc::new(answered)), ..call.clone() };
                    let next = with(state, worker, ScaleUp { call: Some(call), ..pass.clone() });
                    steps.push(Step { act, fair, next: Ok(next) });
                }
            }
            Some(call) => self.commit_answer(state, worker, pass, call, steps),
            None => match (&pass.plan, pass.todo.split_first()) {
                (None, Some((id, rest))) => {
                    self.lease_open(state, worker, pass, (id, rest), steps);
                }
                (None, None) => {
                    let plan = Arc::new(self.plan(state, pass.at));
                    let pass = ScaleUp { plan: Some(plan), done: 0, ..pass.clone() };
                    let act = Act::of(
                        "launch pass (worker {}) reads demand and supply, plans",
                        number(worker),
                    );
                    let next = Ok(with(state.clone(), worker, pass));
                    steps.push(Step { act, fair: true, next });
                }
                (Some(plan), _) => self.carry_out(state, worker, pass, plan, steps),
            },
        }
    }

    /// Takes the lease of an open launch, and reads its slots for the replay.
    fn lease_open(
        &self,
        state: &State,
        worker: usize,
        pass: &ScaleUp,
        (id, rest): (&LaunchId, &[LaunchId]),
        steps: &mut Vec<Step<State>>,
    ) {
        let mut next = state.clone();
        let mut pass = ScaleUp { todo: rest.to_vec(), ..pass.clone() };
        let leased = state.record(id).and_then(|own| own.leased_again(pass.at, &self.timings));
        let mut words = "launch pass (worker {}) finds an open launch leased, leaves it";
        if let Some(leased) = leased {
            let write = Write::Launch {
                next: Box::new(leased.clone()),
                replaces: state.record(id).map(|own| own.generation),
            };
            // Reading and leasing is one record under one condition: nobody can come between.
            if self.commit(&mut next, vec![write]).is_ok() {
                words = "launch pass (worker {}) leases an open launch for a replay";
                let slots: Vec<Arc<Instance>> =
                    leased.slots.iter().filter_map(|name| state.row(name).cloned()).collect();
                if slots.iter().any(|slot| slot.is_free_slot_of(id)) {
                    let launch = Arc::new(leased);
                    pass.call = Some(Call { launch, slots, answered: None, owned: Vec::new() });
                } else {
                    words = "launch pass (worker {}) settles an open launch that has no free slot";
                    let write = Write::Launch {
                        next: Box::new(leased.settled()),
                        replaces: Some(leased.generation),
                    };
                    // A conflict would mean that somebody settled it before.
                    let _ = self.commit(&mut next, vec![write]);
                }
            }
        }
        let act = Act::of(words, number(worker));
        steps.push(Step { act, fair: true, next: Ok(with(next, worker, pass)) });
    }

    fn plan(&self, state: &State, now: Time) -> Plan {
        let jobs = state.jobs.iter().flat_map(|job| &job.row);
        let demand: Vec<_> =
            jobs.filter(|job| job.is_due(now)).map(|job| (**job).clone()).collect();
        let live_rows = || state.rows.iter().map(|row| &**row);
        let supply = live_rows().filter(|row| !demand.is_empty() && row.is_free_supply());
        let retries = live_rows().filter(|row| {
            row.state() == Life::PendingCreate
                && row.claim().is_some()
                && row.is_retry_due(now, &self.timings)
        });
        plan::plan(View {
            stack: "stack",
            pool: &self.pool,
            room: Headroom::default(),
            idle_hold: None,
            held: None,
            live: if demand.is_empty() { 0 } else { state.capacity.live },
            supply: supply.cloned().collect(),
            retries: retries.cloned().collect(),
            cooldowns: &Cooldowns::default(),
            allowances: BTreeMap::new(),
            demand,
            seed: self.fresh_seed(state),
            now,
            timings: &self.timings,
        })
    }

    /// The next claim or launch of the plan, or, when all are committed, the lease back.
    fn carry_out(
        &self,
        state: &State,
        worker: usize,
        pass: &ScaleUp,
        plan: &Plan,
        steps: &mut Vec<Step<State>>,
    ) {
        let mut next = state.clone();
        let mut pass = ScaleUp { done: pass.done + 1, ..pass.clone() };
        let (words, result) = if let Some((job, instance)) = plan.claims.get(pass.done - 1) {
            let writes = vec![
                Write::Job { next: Box::new(job.clone()), replaces: Some(job.generation - 1) },
                Write::Instance {
                    next: Box::new(instance.clone()),
                    replaces: Some(instance.generation() - 1),
                },
            ];
            ("launch pass (worker {}) gives a job to a free runner", self.commit(&mut next, writes))
        } else if let Some(planned) = plan.launches.get(pass.done - 1 - plan.claims.len()) {
            let result = if self.rules.intent_comes_first {
                self.commit(&mut next, launch_writes(worker, planned))
            } else {
                Ok(())
            };
            let fresh = planned.fresh.iter().map(|(instance, _)| instance);
            let slots = fresh.chain(&planned.again).map(|slot| {
                // As stored: without its story.
                next.row(&slot.name).cloned().unwrap_or_else(|| Arc::new(slot.clone()))
            });
            let (launch, slots) = (Arc::new(planned.launch.clone()), slots.collect());
            pass.call = Some(Call { launch, slots, answered: None, owned: Vec::new() });
            ("launch pass (worker {}) commits a launch with its slots", result)
        } else {
            return steps.push(self.release(state, worker, &pass));
        };
        let act = Act::of(words, number(worker));
        let next = match result {
            Ok(()) => Ok(with(next, worker, pass)),
            Err(Refusal::Conflict) => {
                let again = self.next_round(state, pass.at, pass.wakes);
                Ok(with(state.clone(), worker, again))
            }
            Err(Refusal::Broken(what)) => Err(what),
        };
        steps.push(Step { act, fair: true, next });
    }

    /// Gives the lease back, unless somebody asked for another round.
    fn release(&self, state: &State, worker: usize, pass: &ScaleUp) -> Step<State> {
        let mut next = state.clone();
        let mut words = "launch pass (worker {}) gives the lease back";
        next.workers[worker] = Worker::Idle;
        if state.capacity.is_held_by(HOLDERS[worker]) {
            if state.capacity.wakes == pass.wakes {
                next.capacity = Arc::new(state.capacity.released());
            } else {
                let again = self.next_round(state, pass.at, state.capacity.wakes);
                next.workers[worker] = Worker::ScaleUp(Arc::new(again));
                words = "launch pass (worker {}) was asked to run once more";
            }
        }
        Step { act: Act::of(words, number(worker)), fair: true, next: Ok(next) }
    }

    /// Puts EC2's answer on record; after a conflict reads again.
    fn commit_answer(
        &self,
        state: &State,
        worker: usize,
        pass: &ScaleUp,
        call: &Call,
        steps: &mut Vec<Step<State>>,
    ) {
        let Some(answered) = &call.answered else { return };
        let slots: Vec<Instance> = call.slots.iter().map(|slot| (**slot).clone()).collect();
        let owned = |machine: &MachineId| call.owned.contains(machine);
        let outcome =
            (self.rules.apply)(&call.launch, slots, answered, &owned, pass.at, &self.timings);
        let mut next = state.clone();
        let act = Act::of("launch pass (worker {}) puts EC2's answer on record", number(worker));
        let late = pass.plan.iter().flat_map(|plan| &plan.launches).find(|planned| {
            planned.launch.id == call.launch.id && state.record(&call.launch.id).is_none()
        });
        let result = match late {
            Some(planned) => self.commit(&mut next, launch_writes(worker, planned)),
            None => Ok(()),
        };
        let result = result.and_then(|()| self.commit(&mut next, outcome_writes(call, &outcome)));
        let next = match result {
            Ok(()) => {
                if call.launch.is_given_up(pass.at, &self.timings)
                    && let Some(side) =
                        next.launches.iter_mut().find(|side| side.id == call.launch.id)
                {
                    Arc::make_mut(side).given_up = outcome.launch.state == LaunchState::Settled;
                }
                Ok(with(next, worker, ScaleUp { call: None, ..pass.clone() }))
            }
            Err(Refusal::Conflict) => {
                let call = reread(state, call);
                Ok(with(state.clone(), worker, ScaleUp { call, ..pass.clone() }))
            }
            Err(Refusal::Broken(what)) => Err(what),
        };
        steps.push(Step { act, fair: true, next });
    }

    /// The smallest number that nothing names: a launch id of its own, in a world that closes.
    fn fresh_seed(&self, state: &State) -> u64 {
        (0..)
            .find(|seed| {
                let prefix = format!("{}-{seed:08x}-", self.pool.name);
                let named = |text: &str| text.starts_with(&prefix);
                !state.launches.iter().any(|launch| named(launch.id.as_str()))
                    && !state.rows.iter().any(|row| named(row.name.as_str()))
                    && !state.machines.iter().any(|machine| {
                        named(machine.launch.as_str())
                            || machine.owner.as_ref().is_some_and(|own| named(own.as_str()))
                    })
                    && !state.jobs.iter().any(|job| {
                        let claim = job.row.as_ref().and_then(|row| row.claim.as_ref());
                        job.runner.as_ref().is_some_and(|runner| named(runner))
                            || claim.is_some_and(|claim| named(claim.as_str()))
                    })
                    && !state.workers.iter().any(|worker| match worker {
                        Worker::ScaleUp(other) => other.plan.iter().any(|plan| {
                            plan.launches.iter().any(|own| named(own.launch.id.as_str()))
                        }),
                        _ => false,
                    })
            })
            .unwrap_or_default()
    }
}

/// After a conflict: the launch, its slots and the owners once more. None: somebody else settled
/// it.
fn reread(state: &State, call: &Call) -> Option<Call> {
    let stored = state.record(&call.launch.id)?;
    if stored.state == LaunchState::Settled || stored.calls != call.launch.calls {
        return None;
    }
    let answered = call.answered.as_ref()?;
    let told = answered.answer.iter().flat_map(|answer| &answer.machines).chain(&answered.found);
    let is_owned =
        |id: &&MachineId| state.machine(id).is_some_and(|machine| machine.owner.is_some());
    Some(Call {
        launch: stored.clone(),
        slots: stored.slots.iter().filter_map(|name| state.row(name).cloned()).collect(),
        answered: call.answered.clone(),
        owned: told.filter(is_owned).cloned().collect(),
    })
}

fn launch_writes(worker: usize, planned: &PlannedLaunch) -> Vec<Write> {
    let mut writes = vec![Write::Launch { next: Box::new(planned.launch.clone()), replaces: None }];
    let count = u32::try_from(planned.fresh.len()).expect("few slots");
    if count > 0 {
        writes.push(Write::CapacityUp { count, holder: HOLDERS[worker] });
    }
    for (instance, job) in &planned.fresh {
        writes.push(Write::Instance { next: Box::new(instance.clone()), replaces: None });
        writes.push(Write::Job { next: Box::new(job.clone()), replaces: Some(job.generation - 1) });
    }
    for again in &planned.again {
        let replaces = Some(again.generation() - 1);
        writes.push(Write::Instance { next: Box::new(again.clone()), replaces });
    }
    writes
}

fn outcome_writes(call: &Call, outcome: &Outcome) -> Vec<Write> {
    let mut writes = vec![Write::Launch {
        next: Box::new(outcome.launch.clone()),
        replaces: Some(call.launch.generation),
    }];
    let changed = |next: &Instance| {
        let before = call.slots.iter().find(|slot| slot.name == next.name);
        before.and_then(|before| Triangle::changed(before, next))
    };
    for (machine, next) in &outcome.bound {
        writes.push(Write::Bind { machine: number_of(machine), owner: next.name.clone() });
        writes.extend(changed(next));
    }
    writes.extend(outcome.failed.iter().chain(&outcome.waiting).filter_map(changed));
    writes
}

/// The number of a machine by its id.
pub(super) fn number_of(machine: &MachineId) -> u8 {
    u8::from_str_radix(&machine.as_str()[2..], 16).expect("a machine of this world")
}

fn with(mut state: State, worker: usize, pass: ScaleUp) -> State {
    state.workers[worker] = Worker::ScaleUp(Arc::new(pass));
    state
}

fn number(worker: usize) -> u8 {
    u8::try_from(worker + 1).expect("few workers")
}
