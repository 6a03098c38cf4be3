//! The machines, GitHub, and what happens to both by itself.

use std::sync::Arc;

use muster_domain::ids::RunnerId;
use muster_domain::instance::{Instance, Start, StartReport};
use muster_domain::job::labels::Labels;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::time::Time;

use super::state::{
    Agent, COMPLETED, MachineSide, QUEUED, STARTED, State, Truth, Worker, key, machine_id,
};
use super::table::{Refusal, Write};
use super::{Fault, Triangle};
use crate::act::Act;
use crate::search::Step;

/// What a machine's call came to.
enum Reply {
    /// Go on with this agent.
    Agent(Agent),
    /// Power off.
    Shutdown,
}

/// GitHub's number of the registration of a machine.
#[must_use]
pub(super) fn runner_id(machine: u8) -> RunnerId {
    RunnerId(u64::from(machine))
}

impl Triangle {
    /// Everything that machines and GitHub may do next.
    pub(super) fn machine_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        for machine in state.machines.iter().filter(|machine| machine.alive) {
            let number = machine.number;
            if !machine.hangs {
                self.agent_steps(state, machine, steps);
            }
            if machine.agent == Agent::Boot && !machine.hangs && self.may(state, Fault::Hang) {
                let mut next = fault(state);
                next.machine_mut(number).hangs = true;
                push(steps, "machine {} hangs", number, false, next);
            }
            if self.may(state, Fault::Spot) {
                let mut next = fault(state);
                if let Some(job) = machine.agent.job() {
                    Self::end_job(&mut next, number, job);
                }
                kill(&mut next, number);
                push(steps, "EC2 takes machine {} back", number, false, next);
            }
        }
        for (job, side) in state.jobs.iter().enumerate() {
            let job = u8::try_from(job).expect("few jobs");
            if side.truth == Truth::Queued && self.may(state, Fault::Cancel) {
                let mut next = fault(state);
                next.jobs[usize::from(job)].truth = Truth::Ended;
                Self::send(&mut next, job, COMPLETED);
                push(steps, "job {} is cancelled", job + 1, false, next);
            }
            if side.truth == Truth::Coming {
                let mut next = state.clone();
                next.jobs[usize::from(job)].truth = Truth::Queued;
                Self::send(&mut next, job, QUEUED);
                push(steps, "job {} comes late", job + 1, true, next);
            }
            self.lose_events(state, job, steps);
        }
    }

    /// A delivery that never came. `queued` may not be lost: nothing here would ever hear of the
    /// job, unless another event comes; that gap is reconciliation's.
    fn lose_events(&self, state: &State, job: u8, steps: &mut Vec<Step<State>>) {
        let queue = state.jobs[usize::from(job)].queue;
        for (event, words) in [
            (STARTED, "`in_progress` of job {} is lost"),
            (COMPLETED, "`completed` of job {} is lost"),
        ] {
            if queue & event != 0 && self.may(state, Fault::Lose) {
                let mut next = fault(state);
                next.jobs[usize::from(job)].queue &= !event;
                push(steps, words, job + 1, false, next);
            }
        }
    }

    fn agent_steps(&self, state: &State, machine: &MachineSide, steps: &mut Vec<Step<State>>) {
        let number = machine.number;
        match &machine.agent {
            Agent::Boot => {
                let (words, result) = match &machine.owner {
                    None => {
                        ("machine {} calls runner-api and binds itself", self.bind(state, machine))
                    }
                    Some(_) => ("machine {} asks for its configuration", self.ask(state, machine)),
                };
                steps.push(reply(number, words, result));
            }
            Agent::Asked(name) => {
                // A boot takes longer than the call that launched the machine.
                let Some((before, fair)) =
                    self.unless(state, Fault::Slow, is_called(state, machine))
                else {
                    return;
                };
                let result = self.start(&before, machine, name);
                let words = "machine {} is registered and starts its agent";
                steps.push(Step { fair, ..reply(number, words, result) });
            }
            Agent::Listening(name) if !machine.registered => {
                let mut next = state.clone();
                self.report_exit(&mut next, number);
                let _ = name;
                push(steps, "the removed agent of machine {} exits", number, true, next);
            }
            Agent::Listening(name) => {
                for (job, side) in state.jobs.iter().enumerate() {
                    if side.truth == Truth::Queued {
                        let job = u8::try_from(job).expect("few jobs");
                        let late = side.queue & QUEUED != 0;
                        let Some((mut next, fair)) = self.unless(state, Fault::Late, late) else {
                            continue;
                        };
                        next.machine_mut(number).agent = Agent::Given(name.clone(), job);
                        next.jobs[usize::from(job)].truth = Truth::Taken;
                        next.jobs[usize::from(job)].runner = Some(name.clone());
                        Self::send(&mut next, job, STARTED);
                        let owner = machine.owner.as_ref().and_then(|name| state.row(name));
                        let meant = owner.and_then(|owner| owner.claim()) == Some(key(job));
                        let words = if meant {
                            "GitHub gives job {} to machine {}"
                        } else {
                            "GitHub gives job {} to machine {}, which was meant for another"
                        };
                        let act = Act::with(words, job + 1, number);
                        steps.push(Step { act, fair, next: Ok(next) });
                    }
                }
            }
            Agent::Given(name, job) => {
                // Undecided: it asks again.
                let Some((words, next)) = self.hook(state, number, name, *job) else { return };
                steps.push(Step { act: Act::of(words, number), fair: true, next });
            }
            Agent::Working(_, job) => {
                let late = state.jobs[usize::from(*job)].queue & STARTED != 0;
                let Some((mut next, fair)) = self.unless(state, Fault::Late, late) else { return };
                Self::end_job(&mut next, number, *job);
                if self.may(&next, Fault::Forget) {
                    let silent = fault(&next);
                    push(
                        steps,
                        "the job of machine {} ends; no report arrives",
                        number,
                        false,
                        silent,
                    );
                }
                self.report_exit(&mut next, number);
                push(
                    steps,
                    "the job of machine {} ends, its agent reports and exits",
                    number,
                    fair,
                    next,
                );
            }
            Agent::Exited => {
                let mut next = state.clone();
                kill(&mut next, number);
                push(steps, "machine {} shuts itself down", number, true, next);
            }
        }
    }

    /// The state to go on from: at once, or, where something is out of its usual order, at the
    /// price of a fault.
    fn unless(&self, state: &State, kind: Fault, unusual: bool) -> Option<(State, bool)> {
        if !unusual {
            return Some((state.clone(), true));
        }
        self.may(state, kind).then(|| (fault(state), false))
    }

    /// As in `control::register::bind`.
    fn bind(&self, state: &State, machine: &MachineSide) -> Result<(State, Reply), String> {
        let mut next = state.clone();
        let slots = state.record(&machine.launch).map(|launch| launch.slots.clone());
        let free = slots
            .iter()
            .flatten()
            .filter_map(|name| state.row(name))
            .find(|slot| slot.is_free_slot_of(&machine.launch));
        let Some(slot) = free else { return Ok((next, Reply::Shutdown)) };
        let mut bound = (**slot).clone();
        bound.bind(machine_id(machine.number), state.now, &self.timings);
        let mut writes = vec![Write::Bind { machine: machine.number, owner: slot.name.clone() }];
        writes.extend(Self::changed(slot, &bound));
        match self.commit(&mut next, writes) {
            Err(Refusal::Broken(what)) => Err(what),
            // Read and written in one step here, so nobody came between.
            Err(Refusal::Conflict) => Err("a bind of fresh records met a conflict".to_owned()),
            Ok(()) => Ok((next, Reply::Agent(Agent::Boot))),
        }
    }

    /// As in `control::register::ask`.
    fn ask(&self, state: &State, machine: &MachineSide) -> Result<(State, Reply), String> {
        let mut next = state.clone();
        let row = machine.owner.as_ref().and_then(|name| state.row(name));
        let Some(row) = row else { return Ok((next, Reply::Shutdown)) };
        let mut asked = (**row).clone();
        if asked.ask_configuration(state.now).is_err() {
            return Ok((next, Reply::Shutdown));
        }
        let name: Arc<str> = asked.runner_name().into();
        self.write(&mut next, row, &asked)?;
        Ok((next, Reply::Agent(Agent::Asked(name))))
    }

    /// GitHub registers, the answer goes on record, the agent reports its start.
    fn start(
        &self,
        state: &State,
        machine: &MachineSide,
        name: &Arc<str>,
    ) -> Result<(State, Reply), String> {
        let mut next = state.clone();
        next.machine_mut(machine.number).registered = true;
        let row = machine.owner.as_ref().and_then(|name| state.row(name));
        let Some(row) = row.filter(|row| row.state().is_live()) else {
            return Ok((next, Reply::Shutdown));
        };
        let mut started = (**row).clone();
        started.configured(runner_id(machine.number), state.now);
        let draining = started.drain().is_some();
        if !draining {
            let told = started.runner_started(name, true, state.now, &self.timings);
            told.map_err(|refused| format!("runner-started refused: {refused}"))?;
        }
        self.write(&mut next, row, &started)?;
        let agent = Agent::Listening(name.clone());
        Ok((next, if draining { Reply::Shutdown } else { Reply::Agent(agent) }))
    }

    /// The job-started hook: the compare-and-set.
    fn hook(
        &self,
        state: &State,
        number: u8,
        name: &Arc<str>,
        job: u8,
    ) -> Option<(&'static str, Result<State, String>)> {
        let mut next = state.clone();
        match self.asks_to_start(state, number, name) {
            Some((Start::Undecided, ..)) => None,
            Some((Start::Accepted, row, started)) => {
                next.machine_mut(number).agent = Agent::Working(name.clone(), job);
                let result = self.write(&mut next, row, &started).map(|()| next);
                Some(("the hook of machine {} may start the job", result))
            }
            None => {
                Self::end_job(&mut next, number, job);
                self.report_exit(&mut next, number);
                Some(("the hook of machine {} is refused and fails the job", Ok(next)))
            }
        }
    }

    /// What the job-started hook is answered, with the row before and after. None: it is refused.
    pub(super) fn asks_to_start<'a>(
        &self,
        state: &'a State,
        number: u8,
        name: &str,
    ) -> Option<(Start, &'a Arc<Instance>, Instance)> {
        let owner = state.machine(&machine_id(number)).and_then(|own| own.owner.as_ref());
        let row = owner.and_then(|name| state.row(name))?;
        let report = StartReport { repository: "acme/web".into(), run: 1, name: "j".into() };
        let mut next = (**row).clone();
        let answer = (self.rules.job_started)(&mut next, name, report, state.now);
        answer.ok().map(|answer| (answer, row, next))
    }

    fn report_exit(&self, state: &mut State, number: u8) {
        let owner = state.machine(&machine_id(number)).and_then(|own| own.owner.clone());
        let row = owner.and_then(|name| state.row(&name).cloned());
        // A tombstone is not written again.
        if let Some(row) = row.filter(|row| row.state().is_live()) {
            let mut next = (*row).clone();
            let name = next.runner_name();
            // A report about a job that never started is no error of the agent's.
            let _ = next.job_completed(&name, state.now, &self.timings);
            next.runner_ended(Some(0), None, state.now, &self.timings);
            let _ = self.write(state, &row, &next);
        }
        state.machine_mut(number).agent = Agent::Exited;
        state.machine_mut(number).registered = false;
    }

    fn write(&self, state: &mut State, before: &Instance, next: &Instance) -> Result<(), String> {
        let writes = Self::changed(before, next).into_iter().collect();
        match self.commit(state, writes) {
            Ok(()) => Ok(()),
            Err(Refusal::Conflict) => Err("a fresh record met a conflict".to_owned()),
            Err(Refusal::Broken(what)) => Err(what),
        }
    }

    /// What a delivery says.
    pub(super) fn event(&self, state: &State, job: u8, event: u8) -> JobEvent {
        let side = &state.jobs[usize::from(job)];
        let at = |seconds: i64| Some(Time::from_millis(seconds * 1000));
        JobEvent {
            key: key(job),
            status: match event {
                QUEUED => JobStatus::Queued,
                STARTED => JobStatus::InProgress,
                _ => JobStatus::Completed,
            },
            repository: "acme/web".into(),
            private: true,
            user_owned: false,
            installation: None,
            run: 1,
            attempt: 1,
            name: "j".into(),
            labels: if event == COMPLETED { Labels::default() } else { Labels::new(["linux"]) },
            runner: (event != QUEUED).then(|| side.runner.as_deref().map(str::to_owned)).flatten(),
            conclusion: None,
            queued_at: at(i64::from(job)),
            started_at: None,
            completed_at: None,
        }
    }
}

/// The machine is gone, and with it the agent's connection.
pub(super) fn kill(state: &mut State, number: u8) {
    let machine = state.machine_mut(number);
    machine.alive = false;
    machine.registered = false;
    machine.agent = Agent::Exited;
}

/// The CreateFleet call that launched the machine is not on record yet.
pub(super) fn is_called(state: &State, machine: &MachineSide) -> bool {
    state.workers.iter().any(|worker| match worker {
        Worker::ScaleUp(pass) => {
            pass.call.as_ref().is_some_and(|call| call.launch.id == machine.launch)
        }
        _ => false,
    })
}

fn fault(state: &State) -> State {
    State { faults: state.faults - 1, ..state.clone() }
}

fn push(steps: &mut Vec<Step<State>>, words: &'static str, of: u8, fair: bool, next: State) {
    steps.push(Step { act: Act::of(words, of), fair, next: Ok(next) });
}

fn reply(number: u8, words: &'static str, result: Result<(State, Reply), String>) -> Step<State> {
    let next = result.map(|(mut next, reply)| {
        match reply {
            Reply::Agent(agent) => next.machine_mut(number).agent = agent,
            Reply::Shutdown => kill(&mut next, number),
        }
        next
    });
    Step { act: Act::of(words, number), fair: true, next }
}
