//! GitHub and EC2: what they may answer. The first answers are the truth; the others happen, but
//! nobody may lean on them.

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::{RunnerId, runner_name};
use muster_domain::observation::{Deregistration, Machine, RunnerSeen, Termination};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::time::{Seconds, Time};

use super::state::{State, Vm, bit};
use super::{MOMENT, Stop};
use crate::passes::{Answer, Call};

/// An answer: whether it is the truth, in words, the state after it, and what is told.
pub(super) type Told = (bool, &'static str, State, Answer);

/// Collects answers.
struct Answers<'a> {
    state: &'a State,
    all: Vec<Told>,
}

impl Answers<'_> {
    fn add(&mut self, fair: bool, words: &'static str, told: Answer) {
        self.all.push((fair, words, self.state.clone(), told));
    }

    fn change(
        &mut self,
        fair: bool,
        words: &'static str,
        told: Answer,
        change: impl FnOnce(&mut State),
    ) {
        let mut next = self.state.clone();
        change(&mut next);
        self.all.push((fair, words, next, told));
    }
}

impl Stop {
    /// Whatever GitHub or EC2 may answer to a call. Nothing to a commit: the table does not lie.
    pub(super) fn answers(&self, state: &State, call: &Call) -> Vec<Told> {
        let number = |name: &str| {
            let numbers = 1..=state.row.runner.n;
            let mut names = numbers.filter(|n| runner_name(&state.row.name, *n) == name);
            names.next().expect("a runner of this world")
        };
        match call {
            Call::Machine => self.see_machine(state),
            Call::Runner(id) => self.see_runner(state, number_of(*id), false),
            Call::RunnerNamed(name) => self.see_runner(state, number(name), true),
            Call::Deregister(id) => self.deregister(state, *id),
            Call::Terminate => self.terminate(state),
            Call::Row | Call::Commit(_) => Vec::new(),
        }
    }

    /// GitHub is asked about a runner, by its id or from a list.
    fn see_runner(&self, state: &State, number: u32, listed: bool) -> Vec<Told> {
        let mut answers = Answers { state, all: Vec::new() };
        if !state.github_dead {
            let id = RunnerId(u64::from(number));
            let seen = |seen| Answer::Runner(Ok(seen));
            match (state.is_registered(number), state.is_busy(number)) {
                (false, _) => {
                    answers.add(true, "GitHub has no such runner", seen(RunnerSeen::Absent));
                }
                (true, true) => {
                    answers.add(true, "GitHub says: busy", seen(RunnerSeen::Busy(id)));
                    if self.config.lies {
                        let words = "GitHub says not busy, and it is";
                        answers.change(false, words, seen(RunnerSeen::NotBusy(id)), |next| {
                            next.lied = true;
                            next.free();
                        });
                    }
                }
                (true, false) => {
                    answers.add(true, "GitHub says: not busy", seen(RunnerSeen::NotBusy(id)));
                    let words = "GitHub says busy, and it is not";
                    answers.add(false, words, seen(RunnerSeen::Busy(id)));
                    if listed {
                        let words = "GitHub's list does not have the runner yet";
                        answers.add(false, words, seen(RunnerSeen::Absent));
                    }
                }
            }
        }
        troubles(&mut answers, state.github_dead, self.config.github, |trouble| {
            Answer::Runner(Err(trouble))
        });
        answers.all
    }

    /// GitHub is asked to remove a registration.
    fn deregister(&self, state: &State, id: RunnerId) -> Vec<Told> {
        let number = number_of(id);
        let remove = |next: &mut State| {
            next.registered &= !bit(number);
            next.removed |= number == next.number;
        };
        let lie = |next: &mut State| {
            remove(next);
            next.lied = true;
            next.free();
        };
        let mut answers = Answers { state, all: Vec::new() };
        if !state.github_dead {
            let seen = |seen| Answer::Deregistered(Ok(seen));
            match (state.is_registered(number), state.is_busy(number)) {
                (false, _) => {
                    answers.add(true, "GitHub answers 404", seen(Deregistration::NotFound));
                }
                (true, true) => {
                    answers.add(true, "GitHub answers 422: busy", seen(Deregistration::Busy));
                    if self.config.lies {
                        let words = "GitHub answers 204 though a job runs";
                        answers.change(false, words, seen(Deregistration::Done), lie);
                    }
                }
                (true, false) => {
                    let words = "GitHub answers 204";
                    answers.change(true, words, seen(Deregistration::Done), remove);
                    let words = "GitHub answers 422 though no job runs";
                    answers.add(false, words, seen(Deregistration::Busy));
                    let words = "GitHub removes the runner, and its answer is lost";
                    answers.change(false, words, Answer::Deregistered(Err(unavailable())), remove);
                }
            }
        }
        troubles(&mut answers, state.github_dead, self.config.github, |trouble| {
            Answer::Deregistered(Err(trouble))
        });
        answers.all
    }

    /// EC2 is asked about the machine.
    fn see_machine(&self, state: &State) -> Vec<Told> {
        let mut answers = Answers { state, all: Vec::new() };
        let seen = |seen: Machine| Answer::Machine(Ok(seen.into()));
        if !state.ec2_dead {
            match state.machine {
                Vm::Running => answers.add(true, "EC2 says: running", seen(Machine::Running)),
                Vm::Stopped => answers.add(true, "EC2 says: stopped", seen(Machine::Stopped)),
                Vm::Gone => {
                    answers.add(true, "EC2 says: terminated", seen(Machine::Gone));
                    answers.add(true, "EC2 has forgotten the machine", seen(Machine::Absent));
                    answers.add(false, "EC2 shows the machine as it was", seen(Machine::Running));
                }
            }
            if state.is_alive() && self.may_deny(state) {
                let words = "EC2 does not know the machine, and has it";
                answers.change(false, words, seen(Machine::Absent), |next| {
                    next.denied_since = next.denied_since.or(Some(next.now));
                });
            }
        }
        let words = "EC2 does not answer";
        answers.add(state.ec2_dead, words, Answer::Machine(Err(unavailable())));
        answers.all
    }

    /// EC2 is eventually consistent: it may not know a young machine, or deny one for a moment, but
    /// not twice with some time and no better answer between.
    fn may_deny(&self, state: &State) -> bool {
        let timings = &self.timings;
        let born = state.row.bound_at.unwrap_or(state.row.created_at);
        let young = state.now < born + timings.absence_limit_seconds;
        let moment = state.denied_since.is_none_or(|since| state.now < since + MOMENT);
        young || moment
    }

    /// EC2 is asked to terminate the machine.
    fn terminate(&self, state: &State) -> Vec<Told> {
        let told = Answer::Terminated;
        let mut answers = Answers { state, all: Vec::new() };
        if !state.ec2_dead {
            let gone = || told(Termination::Accepted(Machine::Gone));
            let words = "EC2 terminates the machine";
            if state.is_alive() {
                answers.change(true, words, gone(), |next| next.stop(Vm::Gone));
                let words = "EC2 accepts, and the machine stays as it is";
                answers.add(false, words, told(Termination::Accepted(Machine::Running)));
                let words = "EC2 does not know the machine to terminate, and has it";
                answers.add(false, words, told(Termination::NotFound(fault())));
                let words = "EC2 terminates the machine, and its answer is lost";
                let lost = told(Termination::Failed(ErrorClass::Ambiguous, fault()));
                answers.change(false, words, lost, |next| next.stop(Vm::Gone));
            } else {
                answers.add(true, "EC2 says that it is terminated already", gone());
                let words = "EC2 has forgotten the machine to terminate";
                answers.add(true, words, told(Termination::NotFound(fault())));
            }
        }
        let words = "EC2 fails to terminate";
        let failed = told(Termination::Failed(ErrorClass::Throttle, fault()));
        answers.add(state.ec2_dead, words, failed);
        answers.all
    }
}

/// No answer: 401, a rate limit, 5xx. For good when GitHub is dead, of one kind then.
fn troubles(
    answers: &mut Answers<'_>,
    dead: bool,
    only: Option<DeadGithub>,
    told: fn(ProviderError) -> Answer,
) {
    let now = answers.state.now;
    let is = |kind| only.is_none_or(|only| only == kind);
    if is(DeadGithub::Unauthorized) {
        let told = told(ProviderError::Unauthorized(fault()));
        answers.add(dead, "GitHub answers 401", told);
    }
    if is(DeadGithub::Unavailable) {
        answers.add(dead, "GitHub answers 500", told(unavailable()));
    }
    if !dead {
        let told = told(ProviderError::RateLimited(now + Seconds(1)));
        answers.add(false, "GitHub answers 429", told);
    }
}

/// How a dead GitHub answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadGithub {
    /// 401
    Unauthorized,
    /// 5xx
    Unavailable,
}

fn unavailable() -> ProviderError {
    ProviderError::Unavailable(fault())
}

fn fault() -> ErrorDetail {
    ErrorDetail {
        at: Time::default(),
        operation: "Call".to_owned(),
        code: "Code".to_owned(),
        message: "sentence".to_owned(),
    }
}

/// GitHub's id of a registration is its number here.
pub(super) fn number_of(id: RunnerId) -> u32 {
    u32::try_from(id.0).expect("a runner of this world")
}
