//! The operator's orders.

use muster_domain::instance::DeleteOrder;

use super::state::State;
use super::{Stop, act};
use crate::passes::{Cause, Flags};
use crate::search::Step;

const NONE: Flags =
    Flags { force: false, bypass_github_unauthorized: false, kill_running_job: false };
const FORCE: Flags = Flags { force: true, ..NONE };
const BYPASS: Flags = Flags { bypass_github_unauthorized: true, ..NONE };
const KILL: Flags = Flags { kill_running_job: true, ..NONE };

/// What an operator may ask for, in words and as flags.
pub const ORDERS: [(&str, Flags); 6] = [
    ("the operator orders a delete (worker {})", NONE),
    ("the operator orders a forced delete (worker {})", FORCE),
    ("the operator orders a delete past 401 (worker {})", BYPASS),
    ("the operator orders a forced delete past 401 (worker {})", Flags { force: true, ..BYPASS }),
    ("the operator orders a delete that kills the job (worker {})", KILL),
    (
        "the operator forces, past 401 and a running job (worker {})",
        Flags { force: true, bypass_github_unauthorized: true, kill_running_job: true },
    ),
];

impl Stop {
    /// An order comes. Its pass begins with its first call: nobody could tell the difference.
    pub(super) fn start_order(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        if !state.is_live() || state.orders == 0 {
            return;
        }
        for kind in self.config.kinds {
            let (words, flags) = ORDERS[*kind];
            // When providers are dead for good, only force helps, and an operator gives it as often
            // as it takes.
            let fair = self.config.github.is_some();
            let busy = state.row.runner.is_busy();
            // Refused at once; or given before; or not called for.
            if (busy && !flags.kill_running_job)
                || (fair && (is_given(state, flags) || busy != flags.kill_running_job))
            {
                continue;
            }
            let mut ordered = state.clone();
            if !fair {
                ordered.orders -= 1;
            }
            let mut first = Vec::new();
            self.begin(&ordered, worker, Cause::Order(flags), &mut first);
            steps.extend(first.into_iter().map(|mut step| {
                // An order is no fault.
                if let (true, false, Ok(next)) = (step.fair, fair, &mut step.next) {
                    next.free();
                }
                Step { act: act(words, worker).then(step.act), fair: step.fair && fair, ..step }
            }));
        }
    }
}

/// The row has an order that says as much.
fn is_given(state: &State, flags: Flags) -> bool {
    let Flags { force, bypass_github_unauthorized, kill_running_job } = flags;
    state.row.order().is_some_and(|own: &DeleteOrder| {
        own.force >= force
            && own.bypass_github_unauthorized >= bypass_github_unauthorized
            && own.kill_running_job >= kill_running_job
    })
}
