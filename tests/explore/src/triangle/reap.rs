//! The reap pass, verb by verb, as in `control::reaps::reap`. Here EC2 tells the truth, GitHub as well but
//! for the lie about a busy runner, and their answers are committed at once; the other world is
//! about all lies and delays.

use std::sync::Arc;

use muster_domain::backoff;
use muster_domain::ids::JobKey;
use muster_domain::instance::{DeleteReason, Instance, State as Life};
use muster_domain::job::{Hold, Job};
use muster_domain::lifecycle::{Effect, Need, Policy, Step as Decision};
use muster_domain::observation::{
    Deregistration, Look, Machine, Observation, RunnerSeen, Termination,
};
use muster_domain::pool::scale_down::Standing;
use muster_domain::time::{Seconds, Time};

use super::machines::{kill, runner_id};
use super::state::{Agent, State, Worker};
use super::table::{Refusal, Write};
use super::{Fault, Triangle, number_of};
use crate::act::Act;
use crate::key::Key;
use crate::search::Step;

/// A pass at work: between two of its commits.
#[derive(Clone)]
pub struct Reap {
    instance: Arc<Instance>,
    at: Time,
    hint: bool,
    seen: Observation,
    effect: Option<Effect>,
    /// An effect was performed, and its outcome is not on record.
    outcome: bool,
}

/// An effect in words, and what there is and what the pass has seen after it.
type Performed = (&'static str, Result<(State, Observation), String>);

/// Machines of this world do not get old.
pub(super) const LIFETIME: Seconds = Seconds(1_000_000);

impl Reap {
    /// Whether the pass holds a record of this name.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.instance.name.as_str() == name
    }

    pub(super) fn is_at_effect(&self) -> bool {
        self.outcome || matches!(self.effect, Some(Effect::Deregister(_) | Effect::Terminate(_)))
    }

    /// Adds what matters of it.
    pub(super) fn fingerprint(&self, state: &State, key: &mut Key<'_>) {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};

        key.text(self.instance.name.as_str());
        super::snapshot(Some(&self.instance), state, key);
        key.age(self.at, super::SLOW);
        key.bit(self.hint);
        let mut hasher = DefaultHasher::new();
        self.seen.runner.hash(&mut hasher);
        self.seen.machine.hash(&mut hasher);
        self.seen.deregistration.hash(&mut hasher);
        self.seen.claimed_job_waits.hash(&mut hasher);
        self.seen.launch.seen().is_some().hash(&mut hasher);
        self.seen.termination.is_some().hash(&mut hasher);
        self.effect.hash(&mut hasher);
        self.outcome.hash(&mut hasher);
        key.num(hasher.finish());
    }
}

impl Triangle {
    /// A pass starts over a row whose time has come, or whose machine is gone.
    pub(super) fn start_reap(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        for row in state.rows.iter().filter(|row| row.state().is_live()) {
            let at_work = state
                .workers
                .iter()
                .any(|other| matches!(other, Worker::Reap(reap) if reap.instance.name == row.name));
            let gone = row
                .machine()
                .is_some_and(|id| state.machine(id).is_none_or(|machine| !machine.alive));
            let due = row.due_at().is_some_and(|due| due <= state.now);
            if at_work || !(due || gone) {
                continue;
            }
            let seen = Observation { machine_hint: gone, ..Observation::default() };
            let pass = Reap {
                instance: row.clone(),
                at: state.now,
                hint: gone,
                seen,
                effect: None,
                outcome: false,
            };
            // Its first look and commit follow at once: nobody could tell the difference, since
            // the commit is refused when somebody came between.
            self.step_reap(state, worker, &pass, steps);
        }
    }

    /// One commit, or one effect.
    pub(super) fn step_reap(
        &self,
        state: &State,
        worker: usize,
        pass: &Reap,
        steps: &mut Vec<Step<State>>,
    ) {
        let act = |words| Act::of(words, u8::try_from(worker + 1).expect("few workers"));
        if let Some(effect) = &pass.effect {
            let lie = self.lying_delete(state, pass, effect).map(|lie| (false, lie));
            let told = [(true, self.perform(state, pass, effect))].into_iter().chain(lie);
            for (fair, (words, next)) in told {
                let next = next.map(|(mut next, seen)| {
                    let outcome = *effect != Effect::WakePool;
                    let pass = Reap { seen, effect: None, outcome, ..pass.clone() };
                    next.workers[worker] = Worker::Reap(Arc::new(pass));
                    next
                });
                steps.push(Step { act: act(words), fair, next });
            }
            return;
        }
        let (seen, decision) = self.observe(state, pass, None);
        let busy = seen.runner.seen().copied().filter(|_| pass.seen.runner == Look::Unknown);
        steps.push(self.commit_decision(state, worker, pass, (seen, decision), true));
        if let Some(RunnerSeen::Busy(id)) = busy
            && self.may(state, Fault::Lie)
        {
            let told = self.observe(state, pass, Some(RunnerSeen::NotBusy(id)));
            let lied = State { faults: state.faults - 1, ..state.clone() };
            steps.push(self.commit_decision(&lied, worker, pass, told, false));
        }
    }

    /// Looks until the rules decide; `runner` is what GitHub says of it, where that is not the
    /// truth.
    fn observe(
        &self,
        state: &State,
        pass: &Reap,
        runner: Option<RunnerSeen>,
    ) -> (Observation, Decision) {
        let mut seen = pass.seen.clone();
        let policy = Policy { timings: &self.timings, max_lifetime: LIFETIME, min_idle: 0 };
        loop {
            match ((self.rules.decide)(&pass.instance, &seen, &policy, pass.at), runner) {
                (Decision::Look(Need::Runner), Some(lie)) => seen.runner = Look::Seen(lie),
                (Decision::Look(need), _) => self.look(state, &pass.instance, need, &mut seen),
                (decision, _) => return (seen, decision),
            }
        }
    }

    fn commit_decision(
        &self,
        state: &State,
        worker: usize,
        pass: &Reap,
        (seen, decision): (Observation, Decision),
        fair: bool,
    ) -> Step<State> {
        let act = |words| Act::of(words, u8::try_from(worker + 1).expect("few workers"));
        let mut next = state.clone();
        let (words, result) = match decision {
            Decision::Act { next: record, effect, .. } => {
                let result = self.commit_row(&mut next, &pass.instance, &record, pass.at);
                let ended = pass.instance.state().is_live() && !record.state().is_live();
                let gave_back = pass.instance.claim().is_some() && record.claim().is_none();
                next.wake |= ended || gave_back;
                let stored = next.row(&record.name).cloned().unwrap_or_else(|| Arc::new(*record));
                let pass = pass.clone();
                let pass = Reap { instance: stored, seen, effect, outcome: false, ..pass };
                next.workers[worker] = Worker::Reap(Arc::new(pass));
                let words = if fair {
                    "reap pass (worker {}) decides and commits"
                } else {
                    "reap pass (worker {}) is told not busy of a busy runner, and commits"
                };
                (words, result)
            }
            Decision::Rest(record) => {
                let result = self.commit_row(&mut next, &pass.instance, &record, pass.at);
                next.workers[worker] = Worker::Idle;
                let words = if fair {
                    "reap pass (worker {}) comes to rest"
                } else {
                    "reap pass (worker {}) is told not busy of a busy runner, and rests"
                };
                (words, result)
            }
            Decision::Done | Decision::Look(_) => {
                next.workers[worker] = Worker::Idle;
                ("reap pass (worker {}) is done", Ok(()))
            }
        };
        let next = match result {
            Ok(()) => Ok(next),
            // It would read again and decide again, as any later pass does.
            Err(Refusal::Conflict) => {
                let mut next = state.clone();
                next.workers[worker] = Worker::Idle;
                Ok(next)
            }
            Err(Refusal::Broken(what)) => Err(what),
        };
        Step { act: act(words), fair, next }
    }

    fn look(&self, state: &State, instance: &Instance, need: Need, seen: &mut Observation) {
        match need {
            Need::Machine => {
                let machine = instance.machine().and_then(|id| state.machine(id));
                let alive = machine.is_some_and(|machine| machine.alive);
                seen.machine = Look::Seen(if alive { Machine::Running } else { Machine::Gone });
            }
            Need::Runner => {
                let machine = instance.machine().and_then(|id| state.machine(id));
                seen.runner = Look::Seen(match machine {
                    Some(machine) if machine.registered => match machine.agent.job() {
                        Some(_) => RunnerSeen::Busy(runner_id(machine.number)),
                        None => RunnerSeen::NotBusy(runner_id(machine.number)),
                    },
                    _ => RunnerSeen::Absent,
                });
            }
            Need::Launch => {
                let launch = state.record(&instance.launch);
                seen.launch = Look::Seen(launch.map(|own| (own.state, own.lease_until)));
            }
            // Asked of pools alone that keep runners idle.
            Need::Standing => seen.standing = Look::Seen(Standing::default()),
            Need::ClaimedJob => {
                let job = instance.claim().and_then(|key| state.job(key));
                let waits = job.is_some_and(|job| {
                    job.is_waiting() && job.claim.as_ref() == Some(&instance.name)
                });
                seen.claimed_job_waits = Look::Seen(waits);
            }
        }
    }

    fn perform(&self, state: &State, pass: &Reap, effect: &Effect) -> Performed {
        let mut next = state.clone();
        let mut seen = pass.seen.clone();
        match effect {
            Effect::WakePool => {
                next.wake = true;
                ("reap pass (worker {}) wakes the pool", Ok((next, seen)))
            }
            Effect::Deregister(id) => {
                let number = u8::try_from(id.0).expect("a runner of this world");
                let machine = next.machines.iter_mut().find(|machine| machine.number == number);
                seen.deregistration = Look::Seen(match machine {
                    Some(machine) if machine.registered && machine.agent.job().is_some() => {
                        Deregistration::Busy
                    }
                    Some(machine) if machine.registered => {
                        Arc::make_mut(machine).registered = false;
                        Deregistration::Done
                    }
                    _ => Deregistration::NotFound,
                });
                ("reap pass (worker {}) deregisters the runner", Ok((next, seen)))
            }
            Effect::Terminate(id) => {
                let machine = state.machine(id).filter(|machine| machine.alive);
                if machine.is_some_and(|machine| matches!(machine.agent, Agent::Working(..))) {
                    let what = "I1: a machine with a started job is terminated".to_owned();
                    return ("reap pass (worker {}) terminates", Err(what));
                }
                if let Some(job) = machine.and_then(|machine| machine.agent.job()) {
                    // Given, not started: its hook would have been refused.
                    Self::end_job(&mut next, number_of(id), job);
                }
                if machine.is_some() {
                    kill(&mut next, number_of(id));
                }
                seen.machine = Look::Unknown;
                seen.termination = Some(Termination::Accepted(Machine::Gone));
                ("reap pass (worker {}) terminates the machine", Ok((next, seen)))
            }
        }
    }

    /// The DELETE of a runner that was given a job removes it, and is answered with 204.
    fn lying_delete(&self, state: &State, pass: &Reap, effect: &Effect) -> Option<Performed> {
        let Effect::Deregister(id) = effect else { return None };
        let number = u8::try_from(id.0).expect("a runner of this world");
        let machine = state.machines.iter().find(|machine| machine.number == number)?;
        let busy = machine.registered && machine.agent.job().is_some();
        if !busy || !self.may(state, Fault::Lie) {
            return None;
        }
        let words = "reap pass (worker {}) removes a busy runner, answered with 204";
        if matches!(machine.agent, Agent::Working(..)) {
            // Its hook has reported, so nobody may lean on GitHub here.
            return Some((
                words,
                Err("I1: the runner of a started job is deregistered".to_owned()),
            ));
        }
        let mut next = State { faults: state.faults - 1, ..state.clone() };
        next.machine_mut(number).registered = false;
        let done = Look::Seen(Deregistration::Done);
        let seen = Observation { deregistration: done, ..pass.seen.clone() };
        Some((words, Ok((next, seen))))
    }

    /// As in `control::writes::of_instance`.
    fn commit_row(
        &self,
        state: &mut State,
        before: &Instance,
        next: &Instance,
        now: Time,
    ) -> Result<(), Refusal> {
        let mut writes: Vec<Write> = Self::changed(before, next).into_iter().collect();
        if let Some(key) = before.claim().filter(|_| next.claim() != before.claim()) {
            writes.extend(self.released_job(state, key, before, next, now));
        }
        if before.state().is_live() && next.state() == Life::Deleted {
            writes.push(Write::CapacityDown);
        }
        self.commit(state, writes)
    }

    fn released_job(
        &self,
        state: &State,
        key: JobKey,
        before: &Instance,
        next: &Instance,
        now: Time,
    ) -> Option<Write> {
        let stored: &Job = state.job(key)?;
        let mut released = (self.rules.release)(stored, &before.name)?;
        let passed_over = next.passed_over && !before.passed_over;
        let failed = next.drain().is_some_and(|drain| {
            matches!(drain.reason, DeleteReason::LaunchFailed | DeleteReason::BootTimeout)
        });
        if passed_over || failed {
            let failures = stored.hold.as_ref().map_or(0, |hold| hold.failures) + 1;
            let until = now + backoff::hold_wait(failures, &self.timings);
            released.hold =
                Some(Hold { until, reason: "failed".to_owned(), failures, closed: None });
        }
        Self::changed_job(Some(stored), &released)
    }
}
