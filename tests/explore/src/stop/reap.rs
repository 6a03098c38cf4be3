//! An enumerating scheduler around the real rules of a reap pass: every answer that `decide` may be
//! given, and every writer that may come between two of its verbs. It looks, commits and performs
//! as `control::reaps::reap` does, without ports; the real pass is asked by the disturbed stories
//! (`tests/sim/tests/disturbed.rs`). Beside it, the sweep of the orphan ledger.

use std::sync::Arc;

use muster_domain::audit::AuditKind;
use muster_domain::instance::Instance;
use muster_domain::lifecycle::{Effect, Need, Policy, Record, Step as Decision};
use muster_domain::observation::{Look, Machine, Observation};
use muster_domain::stored::Stored;

use super::state::{Pass, State, Vm, Worker};
use super::{Stop, act};
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
        let unlisted = state.row.state() == muster_domain::instance::State::Running
            && state.machine == Vm::Gone
            && state.now >= settled;
        // A message comes for a row that is due; a second one at the same time is a duplicate.
        let at_work = state.workers.iter().any(|worker| matches!(worker, Worker::Reap(_)));
        let starts = [
            (false, false, due && !at_work),
            (true, false, unlisted && !at_work),
            (false, true, false),
        ];
        for (machine_hint, spot_notice, fair) in starts {
            let pass = Pass {
                at: state.now,
                row: state.row.clone(),
                seen: Observation { machine_hint, spot_notice, ..Observation::default() },
                effect: None,
                corrects: false,
            };
            // Its first read and its first look follow at once: nobody could tell the difference.
            let mut first = Vec::new();
            self.step_pass(state, worker, &pass, &mut first);
            steps.extend(first.into_iter().map(|step| Step { fair: step.fair && fair, ..step }));
        }
    }

    /// One look, one commit, or one effect.
    pub(super) fn step_pass(
        &self,
        state: &State,
        worker: usize,
        pass: &Pass,
        steps: &mut Vec<Step<State>>,
    ) {
        if let Some(effect) = &pass.effect {
            return self.perform(state, worker, pass, effect, steps);
        }
        // A correction counts once a pass goes on with it: one that was stopped has told nobody.
        let denied_since = state.denied_since.filter(|_| !pass.corrects);
        let state = &State { denied_since, ..state.clone() };
        let mut seen = pass.seen.clone();
        let policy = Policy { timings: &self.timings, max_lifetime: super::LIFETIME, min_idle: 0 };
        let decision = loop {
            match (self.rules.decide)(&pass.row, &seen, &policy, pass.at) {
                Decision::Look(Need::Launch) => seen.launch = Look::Seen(None),
                Decision::Look(Need::ClaimedJob) => seen.claimed_job_waits = Look::Seen(false),
                decision => break decision,
            }
        };
        let going_on = Pass { seen, corrects: false, ..pass.clone() };
        match decision {
            Decision::Look(need) => self.look(state, worker, &going_on, need, steps),
            Decision::Act { next, records, effect } => {
                let mut after = state.clone();
                let gives_up = records.iter().any(|own| matches!(own, Record::Orphan(_)));
                let words = if gives_up {
                    "reap pass {} gives the machine up, into the ledger"
                } else {
                    "reap pass {} decides and commits"
                };
                let result = self.commit(&mut after, worker, &pass.row, &next, &records);
                let next = result.map(|committed| {
                    after.workers[worker] = if committed {
                        let row = after.row.clone();
                        Worker::Reap(Arc::new(Pass { row, effect, ..going_on }))
                    } else {
                        Worker::Idle
                    };
                    after
                });
                steps.push(Step { act: act(words, worker), fair: true, next });
            }
            Decision::Rest(next) => {
                let mut after = state.clone();
                after.workers[worker] = Worker::Idle;
                let result = self.commit(&mut after, worker, &pass.row, &next, &[]);
                let next = result.map(|_| after);
                let words = "reap pass {} comes to rest";
                steps.push(Step { act: act(words, worker), fair: true, next });
            }
            Decision::Done => {
                let mut after = state.clone();
                after.workers[worker] = Worker::Idle;
                let words = "reap pass {} has nothing to do";
                steps.push(Step { act: act(words, worker), fair: true, next: Ok(after) });
            }
        }
    }

    fn look(
        &self,
        state: &State,
        worker: usize,
        pass: &Pass,
        need: Need,
        steps: &mut Vec<Step<State>>,
    ) {
        let mut push = |fair, words, mut next: State, seen: Observation| {
            let machine = seen.machine.seen().filter(|_| need == Need::Machine);
            let corrects = next.denied_since.is_some()
                && matches!(machine, Some(Machine::Running | Machine::Stopped));
            if machine == Some(&Machine::Absent) {
                denied_anew(&mut next);
            }
            let pass = Pass { seen, corrects, ..pass.clone() };
            next.workers[worker] = Worker::Reap(Arc::new(pass));
            let act = act("reap pass {} looks", worker).then(crate::act::Act::new(words));
            steps.push(Step { act, fair, next: Ok(next) });
        };
        if need == Need::Machine {
            for (fair, words, next, machine) in self.see_machine(state) {
                push(fair, words, next, Observation { machine, ..pass.seen.clone() });
            }
        } else {
            for (fair, words, next, runner) in self.see_runner(state, &pass.row) {
                push(fair, words, next, Observation { runner, ..pass.seen.clone() });
            }
        }
    }

    fn perform(
        &self,
        state: &State,
        worker: usize,
        pass: &Pass,
        effect: &Effect,
        steps: &mut Vec<Step<State>>,
    ) {
        let mut push = |fair, words, next: Result<State, String>, seen: Observation| {
            let next = next.map(|mut next| {
                let stale =
                    self.rules.versions_are_checked && pass.row.version() != next.row.version();
                let pass = Pass { seen, effect: None, ..pass.clone() };
                // Its next commit would be refused, so its next round begins here.
                next.workers[worker] =
                    if stale { next_round(&pass, &next.row) } else { Worker::Reap(Arc::new(pass)) };
                next
            });
            let act = act("reap pass {} acts", worker).then(crate::act::Act::new(words));
            steps.push(Step { act, fair, next });
        };
        match effect {
            Effect::WakePool => push(true, "wakes the pool", Ok(state.clone()), pass.seen.clone()),
            Effect::Deregister(id) => {
                for (fair, words, next, deregistration) in self.deregister(state, *id) {
                    let next = self.judge_removal(state, next, &pass.row);
                    push(fair, words, next, Observation { deregistration, ..pass.seen.clone() });
                }
            }
            Effect::Terminate(_) => {
                for (fair, words, next, told) in self.terminate(state) {
                    let next = self.judge_end(state, next, &pass.row);
                    let mut seen = pass.seen.clone();
                    seen.terminated(told);
                    push(fair, words, next, seen);
                }
            }
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
        let act = crate::act::Act::new("the sweep ends the machine in the orphan ledger");
        steps.push(Step { act, fair: true, next });
    }

    /// Writes a changed row and what belongs to it. Whether it was written: not when somebody else
    /// was faster.
    fn commit(
        &self,
        state: &mut State,
        worker: usize,
        before: &Stored<Instance>,
        next: &Instance,
        records: &[Record],
    ) -> Result<bool, String> {
        if before.record() == next && records.is_empty() {
            return Ok(true);
        }
        if self.rules.versions_are_checked && before.version() != state.row.version() {
            return Ok(false);
        }
        let mut given_up = false;
        let mut audited = false;
        for record in records {
            match record {
                Record::Audit(audit) => {
                    state.kill_audited |= audit.kind == AuditKind::JobKilled;
                    audited |= audit.kind == AuditKind::GivenUp;
                }
                Record::Orphan(_) => given_up = true,
            }
        }
        if given_up && !audited {
            return Err("I14: a machine is given up without an audit record".to_owned());
        }
        state.ledger |= given_up;
        if before.record() != next {
            self.store(state, Some(worker), next.clone())?;
        }
        Ok(true)
    }
}

/// Another writer was faster: the pass reads the row again and goes on with what it was answered.
/// Without an answer it is like any new pass.
pub(super) fn next_round(pass: &Pass, row: &Arc<Stored<Instance>>) -> Worker {
    let seen = pass.seen.carried_over(pass.row.runner.id == row.runner.id);
    if seen.termination.is_none() && seen.deregistration == Look::Unknown {
        return Worker::Idle;
    }
    let row = Arc::clone(row);
    Worker::Reap(Arc::new(Pass { at: pass.at, row, seen, effect: None, corrects: false }))
}

/// What EC2 said of the machine before is overtaken.
fn denied_anew(state: &mut State) {
    for worker in &mut state.workers {
        if let Worker::Reap(pass) = worker
            && pass.corrects
        {
            Arc::make_mut(pass).corrects = false;
        }
    }
}
