//! What must hold in every state and at every effect, what tells states apart, and a state in
//! words.

use std::fmt::Write as _;

use muster_domain::instance::Instance;
use muster_domain::provider::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::Seconds;

use super::state::{Agent, Configure, Running, State, Vm, Worker};
use super::{DeadGithub, FORCE_ENDS, LIFETIME, MOMENT, Stop};
use crate::key::Key;
use crate::passes::{Answer, Call, Pass};

/// Longer than any pass lasts.
const PASS: Seconds = Seconds(2);

impl Stop {
    pub(super) fn violation_of(&self, state: &State) -> Option<String> {
        let row = &state.row;
        if !state.is_live() {
            if state.is_alive() && !state.ledger {
                return Some(
                    "I2: the row is deleted, the machine lives, nobody owns it".to_owned(),
                );
            }
            let clean =
                row.due_at().is_none() && row.claim().is_none() && row.wake_nonce().is_none();
            return (!clean).then(|| "I5: the tombstone has a due time or a claim".to_owned());
        }
        if row.due_at().is_none() {
            return Some("I11: nothing is due for a live row".to_owned());
        }
        let forced = row.order().filter(|order| order.force)?;
        let overdue = state.now >= forced.at + FORCE_ENDS;
        (self.config.github.is_some() && overdue && self.force_must_end(state))
            .then(|| format!("I6: forced {} s ago, and still {}", FORCE_ENDS.0, row.state()))
    }

    /// Force never passes a job that may run nor GitHub's silence, and 401 only by order. All else
    /// ends with the machine's lifetime.
    fn force_must_end(&self, state: &State) -> bool {
        let bypasses = state.row.order().is_some_and(|order| order.bypass_github_unauthorized);
        let answered = match self.config.github {
            Some(DeadGithub::Unauthorized) => bypasses,
            Some(DeadGithub::Unavailable) => !state.github_dead,
            None => true,
        };
        answered && !state.row.runner.has_taken_job() && !state.agent.has_job()
    }

    /// A DELETE was performed, with this row as its intent.
    pub(super) fn judge_removal(
        &self,
        before: &State,
        after: State,
        row: &Instance,
    ) -> Result<State, String> {
        let removed = after.removed && !before.removed && before.runs_started_job();
        if removed && !may_kill(before, row) {
            return Err("I1: the runner of a started job is deregistered".to_owned());
        }
        Ok(after)
    }

    /// A TerminateInstances call was performed, with this row as its intent.
    pub(super) fn judge_end(
        &self,
        before: &State,
        after: State,
        row: &Instance,
    ) -> Result<State, String> {
        if before.machine != Vm::Running || after.machine != Vm::Gone {
            return Ok(after);
        }
        if before.runs_started_job() {
            if !may_kill(before, row) {
                return Err("I1: the machine of a started job is terminated".to_owned());
            }
            if !before.kill_audited {
                return Err("I14: a job is killed without an audit record".to_owned());
            }
        }
        // Without a hook there is GitHub's word alone.
        let unseen = before.agent == Agent::Working && !before.hooks && !before.job_over;
        let bypassed = row.order().is_some_and(|order| order.bypass_github_unauthorized);
        if unseen && !before.lied && !bypassed && !may_kill(before, row) {
            return Err("I1: a job is killed that GitHub has told the truth about".to_owned());
        }
        Ok(after)
    }

    pub(super) fn fingerprint_of(&self, state: &State) -> u64 {
        let mut key = Key::new(state.now, &self.timings, Some(LIFETIME));
        key.instance(&state.row);
        if self.config.github.is_some() {
            let forced = state.row.order().filter(|order| order.force);
            key.maybe_age(forced.map(|order| order.at), FORCE_ENDS);
        }
        let State {
            now: _,
            row: _,
            ledger,
            kill_audited,
            machine,
            denied_since,
            agent,
            hangs,
            hooks,
            number,
            registered,
            job_over,
            lied,
            removed,
            reports,
            events,
            folded,
            faults,
            orders,
            ec2_dead,
            github_dead,
            workers: _,
        } = state;
        for flag in [
            ledger,
            kill_audited,
            hangs,
            hooks,
            job_over,
            lied,
            removed,
            folded,
            ec2_dead,
            github_dead,
        ] {
            key.bit(*flag);
        }
        key.num(*machine as u64);
        key.maybe_age(*denied_since, MOMENT);
        key.num(match agent {
            Agent::Boot => 0,
            Agent::Listening => 1,
            Agent::Given => 2,
            Agent::Working => 3,
            Agent::Exited => 4,
            Agent::Asking(number) => 5 + u64::from(*number),
        });
        key.num(u64::from(*number));
        key.num(u64::from(*faults));
        for bits in [registered, reports, events, orders] {
            key.num(u64::from(*bits));
        }
        // The Lambdas are alike.
        let mut workers = [0, 1].map(|index: usize| self.worker_fingerprint(state, index));
        workers.sort_unstable();
        workers.iter().for_each(|worker| key.num(*worker));
        key.finish()
    }

    fn worker_fingerprint(&self, state: &State, index: usize) -> u64 {
        let mut key = Key::new(state.now, &self.timings, Some(LIFETIME));
        match &state.workers[index] {
            Worker::Idle => {}
            Worker::Pass(running) => {
                let Running { pass, corrects } = &**running;
                key.num(1);
                key.bit(*corrects);
                pass_key(&mut key, pass, &state.row);
            }
            Worker::Configure(call) => {
                let Configure { at, number, earlier, answered } = call;
                key.num(2);
                key.age(*at, PASS);
                key.num(u64::from(*number));
                key.hashed(earlier);
                key.bit(*answered);
            }
        }
        key.finish()
    }
}

/// What a pass does next follows from its cause, the row as it knows it, and what it was told since
/// it has read that. A commit says nothing beyond that. How many rounds it has lost to others is
/// left out: there are fewer of them than it would take.
fn pass_key(key: &mut Key<'_>, pass: &Pass, row: &Stored<Instance>) {
    key.hashed(&pass.cause);
    key.age(pass.at, PASS);
    match &*pass.call {
        call @ (Call::Row | Call::Machine | Call::Terminate | Call::Commit(_)) => {
            key.hashed(&std::mem::discriminant(call));
        }
        Call::Runner(id) | Call::Deregister(id) => key.num(id.0),
        Call::RunnerNamed(name) => key.text(name),
    }
    let is_fresh = pass.row.version() == row.version();
    key.bit(is_fresh);
    if !is_fresh {
        key.instance(&pass.row);
    }
    // In an order of their own, so that it does not matter which came first.
    let mut heard: Vec<_> = pass.heard.iter().map(|answer| answer_key(key, answer)).collect();
    heard.sort_unstable();
    heard.into_iter().for_each(|answer| key.num(answer));
}

fn answer_key(own: &Key<'_>, answer: &Answer) -> u64 {
    let mut key = own.emptied();
    match answer {
        Answer::Runner(Err(ProviderError::RateLimited(until)))
        | Answer::Deregistered(Err(ProviderError::RateLimited(until))) => {
            key.hashed(&std::mem::discriminant(answer));
            key.until(*until);
        }
        other => key.hashed(other),
    }
    key.finish()
}

/// An order to kill, or the machine's age, allows it.
fn may_kill(state: &State, row: &Instance) -> bool {
    row.may_kill_job() || state.now >= row.launched_at() + LIFETIME
}

/// A state in one line.
pub(super) fn describe(state: &State) -> String {
    let row = &state.row;
    let runner = &row.runner;
    let mut text = format!(
        "t={} | row {}/{}, configuration {}",
        state.now.as_secs() - 1000,
        row.state(),
        runner.state.as_str(),
        runner.n
    );
    if let Some(due) = row.due_at() {
        let _ = write!(text, ", due {}", due.as_secs() - 1000);
    }
    let started = runner.started.as_ref().map(|job| job.completed_at.is_some());
    for (flag, words) in [
        (started == Some(false), ", job started"),
        (started == Some(true), ", job started and ended"),
        (runner.github_job.is_some(), ", `in_progress`"),
        (runner.github_completed_at.is_some(), ", `completed`"),
        (runner.exit.is_some(), ", exited"),
        (row.is_forced(), ", forced"),
    ] {
        text.push_str(if flag { words } else { "" });
    }
    if let Some(mark) = row.mark() {
        let _ = write!(text, ", marked ({}", mark.reason.as_str());
        text.push_str(if mark.deregistered { ", deregistered" } else { "" });
        if let Some(waiting) = &mark.waiting {
            let _ = write!(text, ", waits: {waiting:?}");
        }
        text.push(')');
    }
    let _ = write!(text, " | machine {:?}, agent {:?}", state.machine, state.agent);
    for (flag, words) in [
        (!state.hooks, ", no hooks"),
        (state.hangs, ", hangs"),
        (state.is_registered(state.number), ", registered"),
        (state.job_over, ", GitHub gave its job up"),
        (state.ledger, " | in the ledger"),
    ] {
        text.push_str(if flag { words } else { "" });
    }
    text
}
