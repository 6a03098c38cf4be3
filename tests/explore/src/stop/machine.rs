//! The machine, its reports, GitHub's events, and the calls behind runner-api.

use muster_domain::ids::{AppName, JobKey, RunnerId};
use muster_domain::instance::{DeleteMark, Instance, ReportError, Start, StartReport};
use muster_domain::pool::Pool;

use super::state::{Agent, COMPLETED, Configure, EXITED, STARTED, State, Vm, Worker, bit};
use super::{Stop, act};
use crate::act::Act;
use crate::search::Step;

/// How often a machine asks for its configuration before it gives up.
const MAX_CALLS: u32 = 2;

/// The job that the runner may be given.
const JOB: JobKey = JobKey { app: AppName::MAIN, repository: 1, job: 1 };

impl Stop {
    /// What the machine and its software may do next.
    pub(super) fn machine_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        if !state.is_alive() {
            return;
        }
        if state.is_up() {
            self.agent_steps(state, steps);
            push(steps, "the machine's software hangs", false, state, |next| next.hangs = true);
        } else if state.agent.has_job() && !state.job_over {
            push(steps, "GitHub gives the job of the silent runner up", true, state, |next| {
                next.job_over = true;
                next.events |= COMPLETED;
                next.registered &= !bit(next.number);
            });
        }
        push(steps, "the machine dies", false, state, |next| next.stop(Vm::Gone));
        if state.machine == Vm::Running {
            push(steps, "the machine is stopped", false, state, |next| next.stop(Vm::Stopped));
        }
    }

    fn agent_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        match state.agent {
            Agent::Boot => {}
            Agent::Asking(_) => {
                let at_work = |worker: &Worker| matches!(worker, Worker::Configure(_));
                let fair = !state.workers.iter().any(at_work);
                push(
                    steps,
                    "the machine waits no longer for its configuration",
                    fair,
                    state,
                    |next| {
                        next.agent = Agent::Boot;
                    },
                );
            }
            Agent::Listening if !state.is_registered(state.number) => {
                push(steps, "the removed agent exits", true, state, State::exit);
            }
            Agent::Listening => {
                push(steps, "GitHub gives the runner a job", false, state, |next| {
                    next.agent = Agent::Given;
                    next.events |= STARTED;
                    next.free();
                });
                push(steps, "the agent ends without a job", false, state, |next| {
                    next.registered &= !bit(next.number);
                    next.exit();
                    next.free();
                });
            }
            Agent::Given if state.hooks => self.hook(state, steps),
            Agent::Given => push(steps, "the job starts; there is no hook", true, state, |next| {
                next.agent = Agent::Working;
            }),
            Agent::Working => {
                push(steps, "the job ends, and with it the agent", true, state, |next| {
                    next.exit();
                    next.reports |= COMPLETED;
                });
            }
            Agent::Exited => {
                push(steps, "the machine shuts itself down", true, state, |next| {
                    next.stop(Vm::Gone);
                });
            }
        }
    }

    /// The job-started hook: the compare-and-set.
    fn hook(&self, state: &State, steps: &mut Vec<Step<State>>) {
        let row = match self.asks_to_start(state) {
            Err(why) => {
                if self.may_be_kept(state) {
                    let next = Err(format!("I9: refused for good ({why}), and GitHub may keep it"));
                    steps.push(Step { act: Act::new("the hook is refused"), fair: true, next });
                    return;
                }
                let words = "the hook is refused and fails the job";
                return push(steps, words, true, state, State::exit);
            }
            Ok((Start::Foreign, _)) => unreachable!("the pool serves every job"),
            Ok((Start::Undecided, _)) => {
                let words = "the hook has asked for ten minutes and fails the job";
                return push(steps, words, state.github_dead, state, State::exit);
            }
            Ok((Start::Accepted, row)) => row,
        };
        let mut stored = state.clone();
        let written =
            if row == *state.row.record() { Ok(()) } else { self.store(&mut stored, row) };
        let lost = Act::new("the hook's report is on record, its answer is lost");
        steps.push(Step { act: lost, fair: false, next: written.clone().map(|()| stored.clone()) });
        let next = written.and_then(|()| {
            stored.agent = Agent::Working;
            if stored.removed {
                return Err("I9: a deregistered runner starts a job".to_owned());
            }
            Ok(stored)
        });
        let words = "the hook reports the job and is told to go on";
        steps.push(Step { act: Act::new(words), fair: true, next });
    }

    /// What the job-started hook is answered, and the row after it.
    pub(super) fn asks_to_start(&self, state: &State) -> Result<(Start, Instance), ReportError> {
        let report = StartReport {
            repository: "acme/web".to_owned(),
            private: None,
            run: 1,
            name: "j".to_owned(),
            pull_request: None,
        };
        let mut row = state.row.record().clone();
        // A tombstone is not written again.
        if !row.state().is_live() {
            return Err(ReportError::Draining);
        }
        let name = muster_domain::ids::runner_name(&row.name, state.number);
        let pool = Pool::named(row.pool.clone());
        let answer = row.job_started(&name, report, &pool, state.now, &self.timings)?;
        Ok((answer, row))
    }

    /// A delete of ours waits for what GitHub says of the runner, and GitHub has not removed it: it
    /// may say that it has a job (422).
    fn may_be_kept(&self, state: &State) -> bool {
        let row = &state.row;
        let is_ours =
            |mark: &DeleteMark| !mark.refuses_jobs() && !mark.deregistered && !mark.kill_told;
        let waits = row.state() == muster_domain::instance::State::PendingDelete
            && row.order().is_none()
            && row.mark().is_some_and(is_ours);
        waits && state.is_registered(state.number) && row.runner.exit.is_none()
    }

    /// Reports and events arrive, in any order, or never.
    pub(super) fn deliveries(&self, state: &State, steps: &mut Vec<Step<State>>) {
        for (report, arrives, lost) in [
            (STARTED, "the agent's start is reported", "the report of the agent's start is lost"),
            (COMPLETED, "the job's end is reported", "the report of the job's end is lost"),
            (EXITED, "the agent's end is reported", "the report of the agent's end is lost"),
        ] {
            if state.reports & report != 0 {
                let mut next = state.clone();
                next.reports &= !report;
                push(steps, lost, false, &next, |_| {});
                let result = self.report(&mut next, report);
                steps.push(Step {
                    act: Act::new(arrives),
                    fair: true,
                    next: result.map(|()| next),
                });
            }
        }
        for (event, arrives, lost) in [
            (STARTED, "`in_progress` arrives", "`in_progress` is lost"),
            (COMPLETED, "`completed` arrives", "`completed` is lost"),
        ] {
            if state.events & event != 0 {
                let mut next = state.clone();
                next.events &= !event;
                push(steps, lost, false, &next, |_| {});
                next.folded |= event == COMPLETED;
                let result = self.fold(&mut next);
                steps.push(Step {
                    act: Act::new(arrives),
                    fair: true,
                    next: result.map(|()| next),
                });
            }
        }
    }

    /// As in `control::runner_api`, `report`.
    fn report(&self, state: &mut State, report: u8) -> Result<(), String> {
        if !state.is_live() {
            return Ok(());
        }
        let mut row = state.row.record().clone();
        let name = muster_domain::ids::runner_name(&row.name, state.number);
        // A refusal is the machine's problem; it has ended, or will be told at its next call.
        let refused = match report {
            STARTED => row.runner_started(&name, state.now, &self.timings).is_err(),
            COMPLETED => row.job_completed(&name, state.now, &self.timings).is_err(),
            _ => {
                row.runner_ended(Some(0), None, state.now, &self.timings);
                false
            }
        };
        if refused || row == *state.row.record() { Ok(()) } else { self.store(state, row) }
    }

    /// As in `control::jobs::ingest`: the runner that took the job claims it.
    fn fold(&self, state: &mut State) -> Result<(), String> {
        if !state.is_live() {
            return Ok(());
        }
        let mut row: Instance = state.row.record().clone();
        if state.folded {
            row.github_completed(JOB, false, state.now, &self.timings);
        } else {
            row.github_started(JOB, state.now);
        }
        if row.claim() != Some(JOB) {
            row.set_claim(JOB, state.now);
        }
        if row == *state.row.record() { Ok(()) } else { self.store(state, row) }
    }

    /// The machine asks runner-api for its configuration.
    pub(super) fn start_configure(
        &self,
        state: &State,
        worker: usize,
        steps: &mut Vec<Step<State>>,
    ) {
        if !state.is_up() || state.agent != Agent::Boot {
            return;
        }
        let mut next = state.clone();
        let mut row = state.row.record().clone();
        if row.runner.n >= MAX_CALLS || !state.is_live() {
            return push(steps, "the boot script gives up", true, state, State::exit);
        }
        match row.ask_configuration(state.now) {
            Err(_) => push(steps, "the machine is told to shut down", true, state, |next| {
                next.agent = Agent::Exited;
            }),
            Ok(earlier) => {
                let number = row.runner.n;
                let result = self.store(&mut next, row);
                next.agent = Agent::Asking(number);
                let call = Configure { at: state.now, number, earlier, answered: false };
                next.workers[worker] = Worker::Configure(call);
                let words = "the machine asks for its configuration (worker {})";
                steps.push(Step {
                    act: act(words, worker),
                    fair: true,
                    next: result.map(|()| next),
                });
            }
        }
    }

    /// GitHub is called, or its answer is stored and handed out.
    pub(super) fn step_configure(
        &self,
        state: &State,
        worker: usize,
        call: Configure,
        steps: &mut Vec<Step<State>>,
    ) {
        if call.answered {
            return self.hand_out(state, worker, call, steps);
        }
        let waits = state.agent == Agent::Asking(call.number);
        let mut ends = |words, fair, change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            next.workers[worker] = Worker::Idle;
            if waits {
                next.agent = Agent::Boot;
            }
            change(&mut next);
            steps.push(Step { act: act(words, worker), fair, next: Ok(next) });
        };
        ends("GitHub does not register the runner (worker {})", state.github_dead, &|_| {});
        if state.github_dead {
            return;
        }
        ends("GitHub registers the runner, its answer is lost (worker {})", false, &|next| {
            next.registered |= bit(call.number);
        });
        let mut next = state.clone();
        if let Some(RunnerId(earlier)) = call.earlier {
            next.registered &= !bit(u32::try_from(earlier).expect("small"));
        }
        next.registered |= bit(call.number);
        next.workers[worker] = Worker::Configure(Configure { answered: true, ..call });
        let words = "GitHub registers the runner (worker {})";
        steps.push(Step { act: act(words, worker), fair: true, next: Ok(next) });
    }

    fn hand_out(
        &self,
        state: &State,
        worker: usize,
        call: Configure,
        steps: &mut Vec<Step<State>>,
    ) {
        let mut next = state.clone();
        next.workers[worker] = Worker::Idle;
        let waits = state.agent == Agent::Asking(call.number);
        let mut row = state.row.record().clone();
        if !state.is_live() || row.runner.n != call.number {
            next.registered &= !bit(call.number);
            if waits {
                next.agent = Agent::Exited;
            }
            let words = "the registration is nobody's and is removed (worker {})";
            return steps.push(Step { act: act(words, worker), fair: true, next: Ok(next) });
        }
        row.configured(RunnerId(u64::from(call.number)), state.now);
        let draining = row.mark().is_some();
        let result = self.store(&mut next, row);
        if !waits || draining {
            if waits {
                next.agent = Agent::Exited;
            }
            let words = "the configuration is on record and not handed out (worker {})";
            return steps.push(Step {
                act: act(words, worker),
                fair: true,
                next: result.map(|()| next),
            });
        }
        let lost = State { agent: Agent::Boot, ..next.clone() };
        let words = "the configuration is lost on its way (worker {})";
        steps.push(Step {
            act: act(words, worker),
            fair: false,
            next: result.clone().map(|()| lost),
        });
        next.agent = Agent::Listening;
        next.number = call.number;
        next.reports |= STARTED;
        let words = "the configuration is handed out, the agent starts (worker {})";
        steps.push(Step { act: act(words, worker), fair: true, next: result.map(|()| next) });
    }
}

fn push(
    steps: &mut Vec<Step<State>>,
    words: &'static str,
    fair: bool,
    state: &State,
    change: impl FnOnce(&mut State),
) {
    let mut next = state.clone();
    change(&mut next);
    steps.push(Step { act: Act::new(words), fair, next: Ok(next) });
}
