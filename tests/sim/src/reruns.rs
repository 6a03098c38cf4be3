//! R1 to R6 and R9: what may be run again, checked before each call that re-runs jobs; what must have
//! been, and what it cost, checked at the end of the day.

use std::collections::BTreeSet;

use muster_control::ports::Write;
use muster_domain::ec2::{CooldownScope, Market};
use muster_domain::ids::{RunKey, instance_of_runner};
use muster_domain::launch::Launch;
use muster_domain::launch::record::cooldown::Cooldown;
use muster_domain::pool::MarketPolicy;
use muster_domain::rerun::{RerunCall, RerunOutcome, RerunState, RunOf};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::{self, Line};

use crate::world::World;

/// Attempts of ours that a run may have.
const MAX_RERUNS: usize = 2;

impl World {
    /// R1: only what EC2 interrupted, and what fail-fast cancelled for that. R2: at most two attempts
    /// of ours a run. R3: the intent is on record, with the attempt. R5: no newer run is cancelled.
    pub(crate) fn check_rerun(&mut self, of: &RunOf, call: RerunCall) {
        let (owner, name) = of.repository.split_once('/').unwrap_or_default();
        let truth = &self.github.truth;
        let attempt = truth.last_attempt(of.run);
        let Some(view) = truth.run_in(owner, name, of.run).filter(|view| view.is_over) else {
            // GitHub refuses it.
            return;
        };
        let bad = |conclusion: Option<&str>| !matches!(conclusion, Some("success" | "skipped"));
        let jobs = truth.attempt_jobs(owner, name, of.run, attempt);
        let again = jobs.iter().filter(|job| match call {
            RerunCall::Job(id) => job.id == id,
            RerunCall::Failed => bad(job.conclusion.as_deref()),
        });
        let honest = again.filter(|job| {
            // A job whose runner was silent did not fail by itself.
            let planned = self.github.job_of(job.id);
            let is_cut = planned.is_some_and(|job| job.interrupted.is_some() || job.given_up);
            // A later attempt lists an interrupted job that was not part of it, with its runner.
            let runner = job.runner.as_ref().map(|runner| &runner.name);
            let is_copy_of_cut = runner.is_some()
                && self.github.known().any(|(other, of)| {
                    let is_its = of.runner.as_ref().map(|runner| &runner.name) == runner;
                    is_its && of.run_id == job.run_id && other.interrupted.is_some()
                });
            let is_sibling = truth.is_fail_fast(of.run)
                && job.conclusion.as_deref() == Some("cancelled")
                && view.conclusion.as_deref() == Some("failure");
            !is_cut && !is_copy_of_cut && !is_sibling
        });
        let honest: Vec<u64> = honest.map(|job| job.id).collect();
        let ours = truth.attempts_of_app(of.run);
        let newer = truth.run_facts(of.run).map(|facts| truth.runs_like(owner, name, facts));
        let replaced =
            newer.is_some_and(|runs| runs.iter().any(|(run, over)| *run > of.run && !over));
        let is_sent = jobs.iter().any(|job| matches!(call, RerunCall::Job(id) if id == job.id))
            || call == RerunCall::Failed;
        if !is_sent {
            return;
        }
        let intended = self.tables.reruns.get(&of.key()).is_some_and(|record| {
            record.ordered(attempt + 1)
                && match record.state {
                    RerunState::Intended { attempt: of, call: intended, .. } => {
                        of == attempt && intended == call
                    }
                    // An overtaken pass: another has found out that an attempt begins.
                    RerunState::Open(_) | RerunState::Done { .. } => true,
                }
        });
        let run = of.run;
        if !honest.is_empty() {
            self.broken("R1", || format!("jobs {honest:?} of run {run} were not interrupted"));
        }
        if ours >= MAX_RERUNS {
            self.broken("R2", || format!("run {run} is re-run a third time"));
        }
        if !intended {
            self.broken("R3", || format!("attempt {attempt} of run {run} has no intent on record"));
        }
        if replaced {
            self.broken("R5", || format!("run {run} is re-run although a newer run goes on"));
        }
    }

    /// R6: the machine for a job that Muster runs again is On-Demand at first, where its pool and EC2
    /// allow that.
    pub(crate) fn check_market(&mut self, launch: &Launch, writes: &[Write]) {
        let pool = self.checker.pool(&launch.pool);
        let is_mixed = pool.is_some_and(|pool| pool.market == MarketPolicy::SpotThenOnDemand);
        if launch.request.market != Market::Spot || !is_mixed || launch.calls > 1 {
            return;
        }
        let is_refused = self.tables.cooldowns.as_ref().is_some_and(|all| {
            let on_demand = |one: &Cooldown| match &one.closed {
                CooldownScope::Place { market, .. } | CooldownScope::Quota { market, .. } => {
                    *market == Market::OnDemand
                }
                CooldownScope::Calls | CooldownScope::Pool(_) | CooldownScope::Unknown { .. } => {
                    true
                }
            };
            all.list.iter().any(on_demand)
        });
        let claims = writes.iter().filter_map(|write| match write {
            Write::Instance(next) if next.replaces().is_none() => next.claim(),
            _ => None,
        });
        let jobs = claims.filter_map(|key| self.tables.jobs.get(&key));
        let ours = jobs
            .filter(|job| self.github.truth.is_by_app(job.last_event.run, job.last_event.attempt));
        let ours: Vec<String> = ours.map(|job| job.key().to_string()).collect();
        if !ours.is_empty() && !is_refused {
            let id = launch.id.clone();
            self.broken("R6", || {
                format!("launch {id} on Spot for {ours:?}, which Spot interrupted")
            });
        }
    }

    /// R4: each interrupted job of a run that ended was run again, or its record says why not.
    pub(crate) fn close_the_reruns(&mut self) {
        let mut wrong = None;
        for (job, truth) in self.github.known() {
            let is_copy = truth.completed_at.is_some_and(|at| at < truth.queued_at);
            let is_failed = truth.conclusion.as_deref() == Some("failure");
            let is_owed = is_failed && !is_copy && !job.deploys;
            let Some(machine) = job.interrupted.filter(|_| is_owed) else { continue };
            let run = truth.run_id;
            let (owner, name) = job.repository.split_once('/').unwrap_or_default();
            let is_over = self.github.truth.run_in(owner, name, run).is_some_and(|run| run.is_over);
            // EC2 may forget a machine before it says why it ended, and a supervisor without hooks stops
            // an agent as soon as it sees the notice.
            let row = truth.runner.as_ref().and_then(|runner| instance_of_runner(&runner.name));
            let row = row.and_then(|name| self.tables.instances.get(&name));
            let machine = self.ec2.at(machine);
            let is_told = row.is_some_and(|row| usage::interruption(row).is_some());
            let is_evident = !machine.behaviour.no_hooks && (machine.is_explained || is_told);
            // Its hook reported its end, somebody killed it, or it had ended before.
            let is_other = row.is_some_and(|row| {
                let hook = row.runner.started.as_ref().and_then(|job| job.completed_at);
                let last = usage::end_of(row).0 - Seconds(60);
                let is_before = truth.completed_at.is_some_and(|at| Time::from_millis(at) < last);
                hook.is_some() || row.may_kill_job() || is_before
            });
            // Neither its hook nor an event of GitHub arrived that names its machine.
            let is_heard = row.is_some_and(|row| row.runner.started.is_some())
                || self.tables.jobs.get(&job.key).is_some_and(|job| job.ran_on().is_some());
            if !is_over || !is_evident || is_other || !is_heard {
                continue;
            }
            let is_again = self.github.known().any(|(other, of)| {
                let is_copy = of.completed_at.is_some_and(|at| at < of.queued_at);
                let is_later = of.run_id == run && of.run_attempt > truth.run_attempt;
                is_later && other.name == job.name && !is_copy
            });
            let record = self.tables.reruns.get(&RunKey { app: job.key.app, run });
            let is_too_often = record.is_some_and(|record| record.too_often_since().is_some());
            let why = match record.map(|record| &record.state) {
                _ if is_again || is_too_often => None,
                None => Some("is on no record"),
                Some(RerunState::Done { outcome: RerunOutcome::InTime, .. }) => {
                    Some("counts as not interrupted")
                }
                Some(RerunState::Done { outcome: RerunOutcome::Rerun { .. }, .. }) => {
                    Some("was left out")
                }
                Some(RerunState::Done { .. }) => None,
                Some(RerunState::Open(_) | RerunState::Intended { .. }) => Some("is still open"),
            };
            wrong = wrong.or(why.map(|why| (truth.id, run, why)));
        }
        if let Some((job, run, why)) = wrong {
            self.broken("R4", || format!("interrupted job {job} of run {run} {why}"));
        }
    }

    /// R9: the machines that `costs` counts as lost work are those that EC2 reclaimed during a job, and
    /// those of re-runs are the machines of attempts that Muster caused.
    pub(crate) fn close_the_losses(&mut self) {
        let (mut lost, mut again) = (BTreeSet::new(), BTreeSet::new());
        for (job, truth) in self.github.known() {
            let is_copy = truth.completed_at.is_some_and(|at| at < truth.queued_at);
            let Some(machine) = self.machine_with(truth).filter(|_| !is_copy) else { continue };
            let id = self.ec2.at(machine).id.as_str();
            let end = self.ec2.instance(machine).reason.as_ref();
            if job.interrupted == Some(machine)
                && end.is_some_and(|end| end.code.ends_with("SpotInstanceTermination"))
                && truth.conclusion.as_deref() != Some("success")
            {
                lost.insert(id);
            }
            if self.github.truth.is_by_app(truth.run_id, truth.run_attempt) {
                again.insert(id);
            }
        }
        let told = |is: fn(&Line) -> bool| -> BTreeSet<&str> {
            let lines = self.tables.usage.values().filter(|line| is(line));
            lines.filter_map(|line| Some(line.machine.as_ref()?.id.as_str())).collect()
        };
        let is_again = |line: &Line| line.job.as_ref().is_some_and(|job| job.rerun.is_some());
        let wrong = [("lost", lost, told(Line::is_interrupted)), ("again", again, told(is_again))];
        let wrong = wrong.into_iter().find_map(|(what, own, told)| {
            let differs: Vec<&str> = own.symmetric_difference(&told).copied().collect();
            (!differs.is_empty()).then(|| format!("{what}: {differs:?} of {own:?} and {told:?}"))
        });
        if let Some(wrong) = wrong {
            self.broken("R9", || wrong);
        }
    }
}
