//! The operator's delete, verb by verb, as in `control::admin::delete`.

use std::sync::Arc;

use muster_domain::instance::Order;
use muster_domain::observation::{Look, RunnerSeen};

use super::state::{Asked, Ordering, State, Worker};
use super::{Stop, act};
use crate::act::Act;
use crate::search::Step;

/// What an operator may ask for: in words, force, bypass, kill.
pub const ORDERS: [(&str, bool, bool, bool); 6] = [
    ("the operator orders a delete (worker {})", false, false, false),
    ("the operator orders a forced delete (worker {})", true, false, false),
    ("the operator orders a delete past 401 (worker {})", false, true, false),
    ("the operator orders a forced delete past 401 (worker {})", true, true, false),
    ("the operator orders a delete that kills the job (worker {})", false, false, true),
    ("the operator forces, past 401 and a running job (worker {})", true, true, true),
];

impl Stop {
    /// The order comes; GitHub is asked, or it is carried out or refused at once.
    pub(super) fn start_order(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        if !state.is_live() || state.orders == 0 {
            return;
        }
        for kind in self.config.kinds {
            let (words, force, bypass_github_unauthorized, kill_running_job) = ORDERS[*kind];
            let order = Order {
                at: state.now,
                by: "operator".to_owned(),
                reason: "reason".to_owned(),
                force,
                bypass_github_unauthorized,
                kill_running_job,
            };
            // When providers are dead for good, only force helps, and an operator gives it as often
            // as it takes.
            let fair = self.config.github.is_some();
            let given = state.row.order().is_some_and(|own| own.joined(&order) == own.joined(own));
            let busy = state.row.runner.is_busy();
            // Refused at once; or given before; or not called for.
            if (busy && !kill_running_job) || (fair && (given || busy != kill_running_job)) {
                continue;
            }
            let mut next = state.clone();
            if !fair {
                next.orders -= 1;
                next.free();
            }
            let runner = &state.row.runner;
            let asks = runner.n > 0
                && runner.exit.is_none()
                && !kill_running_job
                && !state.row.drain().is_some_and(|drain| drain.deregistered);
            let result = if asks {
                next.workers[worker] = Worker::Order(Arc::new(Ordering {
                    at: state.now,
                    row: next.row.clone(),
                    order,
                    asked: None,
                }));
                Ok(())
            } else {
                self.accept(&mut next, worker, &order)
            };
            steps.push(Step { act: act(words, worker), fair, next: result.map(|()| next) });
        }
    }

    /// Asks GitHub, or puts its answer to use.
    pub(super) fn step_order(
        &self,
        state: &State,
        worker: usize,
        own: &Ordering,
        steps: &mut Vec<Step<State>>,
    ) {
        match own.asked {
            None => self.ask(state, worker, own, steps),
            Some(asked) => {
                let mut next = State { ..state.clone() };
                next.workers[worker] = Worker::Idle;
                let (words, result) = match asked {
                    Asked::Busy => ("the order is refused (worker {})", Ok(())),
                    Asked::Quiet => {
                        let result = self.accept(&mut next, worker, &own.order);
                        ("the order is accepted (worker {})", result)
                    }
                };
                steps.push(Step {
                    act: act(words, worker),
                    fair: true,
                    next: result.map(|()| next),
                });
            }
        }
    }

    fn ask(&self, state: &State, worker: usize, own: &Ordering, steps: &mut Vec<Step<State>>) {
        let mut push = |fair, words, mut next: State, asked| {
            let own = Ordering { asked: Some(asked), ..own.clone() };
            next.workers[worker] = Worker::Order(Arc::new(own));
            let act = act("the operator's pass {} asks GitHub", worker).then(Act::new(words));
            steps.push(Step { act, fair, next: Ok(next) });
        };
        if own.row.runner.id.is_none() {
            return push(true, "there is no runner yet", state.clone(), Asked::Quiet);
        }
        for (fair, words, next, told) in self.see_runner(state, &own.row) {
            let busy = matches!(told, Look::Seen(RunnerSeen::Busy(_)));
            push(fair, words, next, if busy { Asked::Busy } else { Asked::Quiet });
        }
    }

    fn accept(&self, state: &mut State, worker: usize, order: &Order) -> Result<(), String> {
        let mut next = state.row.record().clone();
        (self.rules.order)(&mut next, order, order.at);
        if next == *state.row.record() { Ok(()) } else { self.store(state, Some(worker), next) }
    }
}
