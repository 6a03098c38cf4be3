//! The real passes at work: when one begins, what its calls may be answered, and what its commits
//! do. Beside it, the sweep of the orphan ledger.

use std::sync::Arc;

use muster_control::ports::Write;
use muster_domain::audit::AuditKind;
use muster_domain::instance::State as InstanceState;
use muster_domain::message::SPOT_INTERRUPTION;
use muster_domain::observation::Machine;

use super::state::{Running, State, Vm, Worker};
use super::{Stop, act};
use crate::act::Act;
use crate::passes::{Answer, Call, Cause, Pass, writes_row};
use crate::search::Step;

impl Stop {
    /// A pass starts because the row is due, or because a message about it came, or came twice.
    pub(super) fn start_reap(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        if !state.is_live() {
            return;
        }
        let due = state.row.due_at().is_some_and(|due| due <= state.now);
        let settled =
            state.row.bound_at.unwrap_or(state.row.created_at) + self.timings.absence_limit_seconds;
        // The comparison with EC2's list finds running rows whose machine is gone.
        let unlisted = state.row.state() == InstanceState::Running
            && state.machine == Vm::Gone
            && state.now >= settled;
        // A message comes for a row that is due; a second one at the same time is a duplicate.
        let at_work = state.workers.iter().any(Worker::reaps);
        let starts = [
            (Cause::Row, due && !at_work),
            (Cause::Machine("not listed"), unlisted && !at_work),
            (Cause::Machine(SPOT_INTERRUPTION), false),
        ];
        for (cause, fair) in starts {
            if !fair && state.faults == 0 {
                continue;
            }
            // Its first read and its first call follow at once: nobody could tell the difference.
            let mut first = Vec::new();
            self.begin(state, worker, cause, &mut first);
            steps.extend(first.into_iter().map(|step| Step { fair: step.fair && fair, ..step }));
        }
    }

    /// A pass begins, and its first call is answered.
    pub(super) fn begin(
        &self,
        state: &State,
        worker: usize,
        cause: Cause,
        steps: &mut Vec<Step<State>>,
    ) {
        match Pass::begin(cause, state.now, &state.row, &self.settings) {
            Some(pass) => {
                let running = Running { pass, corrects: false };
                self.step_pass(state, worker, &running, steps);
            }
            None => {
                let act = act("pass {} has nothing to do", worker);
                steps.push(Step { act, fair: true, next: Ok(state.clone()) });
            }
        }
    }

    /// The call of a pass is answered.
    pub(super) fn step_pass(
        &self,
        state: &State,
        worker: usize,
        running: &Running,
        steps: &mut Vec<Step<State>>,
    ) {
        // A correction counts once a pass goes on with it: one that was stopped has told nobody.
        let denied_since = state.denied_since.filter(|_| !running.corrects);
        let state = &State { denied_since, ..state.clone() };
        let pass = &running.pass;
        if let Call::Commit(writes) = &*pass.call {
            return steps.push(self.step_commit(state, worker, pass, writes));
        }
        for (fair, words, mut next, answer) in self.answers(state, &pass.call) {
            if !fair && next.faults == 0 {
                continue;
            }
            let next = match &*pass.call {
                Call::Deregister(_) => self.judge_removal(state, next, &pass.row),
                Call::Terminate => self.judge_end(state, next, &pass.row),
                Call::Row
                | Call::Machine
                | Call::Runner(_)
                | Call::RunnerNamed(_)
                | Call::Commit(_) => {
                    let corrects = hears_of_machine(&mut next, &answer);
                    self.go_on(&mut next, worker, pass, answer.clone(), corrects);
                    Ok(next)
                }
            };
            let effect = matches!(*pass.call, Call::Deregister(_) | Call::Terminate);
            let next = next.map(|mut next| {
                if effect {
                    self.go_on(&mut next, worker, pass, answer, false);
                }
                next
            });
            let asks = match (&pass.cause, effect) {
                (Cause::Order(_), _) => "the operator's pass {} asks GitHub",
                (_, true) => "reap pass {} acts",
                (_, false) => "reap pass {} looks",
            };
            steps.push(Step { act: act(asks, worker).then(Act::new(words)), fair, next });
        }
    }

    fn step_commit(
        &self,
        state: &State,
        worker: usize,
        pass: &Pass,
        writes: &[Write],
    ) -> Step<State> {
        let given_up = writes.iter().any(|write| matches!(write, Write::Orphan(_)));
        let words = match pass.cause {
            Cause::Order(_) if writes_row(&pass.call) => "the order is accepted (worker {})",
            Cause::Order(_) => "the order is refused (worker {})",
            _ if given_up => "reap pass {} gives the machine up, into the ledger",
            _ => "reap pass {} commits",
        };
        let mut after = state.clone();
        after.workers[worker] = Worker::Idle;
        let next = self.commit(&mut after, writes).map(|committed| {
            self.go_on(&mut after, worker, pass, Answer::Committed(committed), false);
            after
        });
        Step { act: act(words, worker), fair: true, next }
    }

    /// Takes a pass to its next call, or to its end.
    fn go_on(&self, state: &mut State, worker: usize, pass: &Pass, answer: Answer, corrects: bool) {
        let row = Arc::clone(&state.row);
        let conflict = answer == Answer::Committed(false);
        match pass.answered(answer, &row, &self.settings) {
            Some(pass) if conflict && pass.is_like_new(&row, &self.settings) => {
                self.begins_anew(state, worker, pass.cause);
            }
            Some(pass) => {
                state.workers[worker] = Worker::Pass(Arc::new(Running { pass, corrects }));
            }
            None => state.workers[worker] = Worker::Idle,
        }
    }

    /// A pass has read the row again, and is as if it had yet to begin. So it begins again, now or
    /// at any other time.
    fn begins_anew(&self, state: &mut State, worker: usize, cause: Cause) {
        let again = matches!(cause, Cause::Order(_)) && self.config.github.is_none();
        state.orders += u8::from(again);
        state.workers[worker] = Worker::Idle;
    }

    /// Somebody else has written the row that a pass works with. Nobody can tell when it finds that
    /// out, so it does at once where it was about to commit. One that was about to look, and has
    /// done nothing yet, is left out: it would find out with that look's answer, and be like any
    /// new pass.
    pub(super) fn overtake(&self, state: &mut State, worker: usize) {
        let Worker::Pass(running) = &state.workers[worker] else { return };
        let running = Arc::clone(running);
        let pass = &running.pass;
        match &*pass.call {
            Call::Commit(_) if writes_row(&pass.call) => {
                self.go_on(state, worker, pass, Answer::Committed(false), false);
            }
            Call::Machine | Call::Runner(_) | Call::RunnerNamed(_) if !pass.has_acted() => {
                self.begins_anew(state, worker, pass.cause);
            }
            _ => {}
        }
    }

    /// Goes on killing what force gave up.
    pub(super) fn sweep(&self, state: &State, steps: &mut Vec<Step<State>>) {
        if !state.ledger || state.ec2_dead {
            return;
        }
        let mut next = state.clone();
        next.ledger = false;
        next.stop(Vm::Gone);
        let next = self.judge_end(state, next, &state.row);
        let act = Act::new("the sweep ends the machine in the orphan ledger");
        steps.push(Step { act, fair: true, next });
    }

    /// Writes all or nothing. Whether it was written: not when somebody else was faster.
    fn commit(&self, state: &mut State, writes: &[Write]) -> Result<bool, String> {
        let change = writes.iter().find_map(|write| match write {
            Write::Instance(change) => Some(change),
            _ => None,
        });
        let is_stale = change.is_some_and(|change| change.replaces() != Some(state.row.version()));
        if is_stale {
            return Ok(false);
        }
        let mut given_up = false;
        let mut audited = false;
        for write in writes {
            match write {
                Write::Audit(audit) => {
                    state.kill_audited |= audit.kind == AuditKind::JobKilled;
                    audited |= audit.kind == AuditKind::GivenUp;
                }
                Write::Orphan(_) => given_up = true,
                _ => {}
            }
        }
        if given_up && !audited {
            return Err("I14: a machine is given up without an audit record".to_owned());
        }
        state.ledger |= given_up;
        if let Some(change) = change {
            self.store(state, change.next().clone())?;
        }
        Ok(true)
    }
}

/// EC2 has told of the machine. Whether that corrects what it has told before.
fn hears_of_machine(state: &mut State, answer: &Answer) -> bool {
    let Answer::Machine(Ok(seen)) = answer else { return false };
    if seen.state == Machine::Absent {
        // What EC2 said of the machine before is overtaken.
        for worker in &mut state.workers {
            if let Worker::Pass(running) = worker
                && running.corrects
            {
                Arc::make_mut(running).corrects = false;
            }
        }
    }
    state.denied_since.is_some() && matches!(seen.state, Machine::Running | Machine::Stopped)
}
