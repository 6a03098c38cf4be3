//! The ingest pass, verb by verb, as in `control::jobs::ingest`.

use std::sync::Arc;

use muster_domain::instance::Instance;
use muster_domain::job::claim::{self, Started};
use muster_domain::job::{Job, JobStatus};
use muster_domain::time::Time;

use super::state::{Agent, COMPLETED, QUEUED, STARTED, State, Worker};
use super::table::{Refusal, Write};
use super::{Fault, Triangle};
use crate::act::Act;
use crate::key::Key;
use crate::search::Step;

/// A pass at work.
#[derive(Clone)]
pub struct Ingest {
    /// The job.
    pub job: u8,
    /// The event, as a bit.
    pub event: u8,
    /// When the pass started.
    pub at: Time,
    before: Option<Arc<Job>>,
    touched: Option<Touched>,
}

/// Everybody that the event touches, as read.
#[derive(Clone, Default)]
struct Touched {
    taker: Option<Arc<Instance>>,
    spared: Option<Arc<Instance>>,
    /// None: not read yet.
    left: Option<Option<Arc<Job>>>,
}

impl Ingest {
    /// Whether the pass holds a record of this name.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        let touched = self.touched.as_ref();
        let held =
            |row: &Option<Arc<Instance>>| row.as_ref().is_some_and(|row| row.name.as_str() == name);
        touched.is_some_and(|touched| held(&touched.taker) || held(&touched.spared))
    }

    /// Adds what matters of it.
    pub(super) fn fingerprint(&self, state: &State, key: &mut Key<'_>) {
        key.num(u64::from(self.job));
        key.num(u64::from(self.event));
        key.age(self.at, super::SLOW);
        job_snapshot(self.before.as_ref(), state, self.job, key);
        let Some(touched) = &self.touched else { return key.num(1) };
        for row in [&touched.taker, &touched.spared] {
            super::snapshot(row.as_ref(), state, key);
        }
        match &touched.left {
            None => key.num(2),
            Some(None) => key.num(3),
            Some(Some(left)) => {
                let number = u8::try_from(super::state::number(left.key())).expect("small");
                job_snapshot(Some(left), state, number, key);
            }
        }
    }
}

/// A job as read: whether that is still what is stored, and what it is where it is not.
fn job_snapshot(read: Option<&Arc<Job>>, state: &State, job: u8, key: &mut Key<'_>) {
    let stored = state.jobs[usize::from(job)].row.as_ref().map(|row| row.generation);
    match read {
        read if read.map(|read| read.generation) == stored => key.num(4),
        None => key.num(5),
        Some(read) => key.job(read),
    }
}

impl Triangle {
    /// A Lambda takes an event from the queue and reads the job. A second one takes the same event
    /// only when SQS delivers it twice.
    pub(super) fn start_ingest(&self, state: &State, worker: usize, steps: &mut Vec<Step<State>>) {
        for job in 0..2 {
            let side = &state.jobs[usize::from(job)];
            for event in [QUEUED, STARTED, COMPLETED] {
                if side.sent & event == 0 {
                    continue;
                }
                let at_work = state.workers.iter().any(|worker| {
                    matches!(worker, Worker::Ingest(own) if own.job == job && own.event == event)
                });
                let first = side.queue & event != 0 && !at_work;
                if !first && !self.may(state, Fault::Duplicate) {
                    continue;
                }
                let mut next = state.clone();
                if !first {
                    next.faults -= 1;
                }
                next.workers[worker] = Worker::Ingest(Arc::new(Ingest {
                    job,
                    event,
                    at: state.now,
                    before: side.row.clone(),
                    touched: None,
                }));
                let words = match (first, event) {
                    (true, QUEUED) => "ingest takes `queued` of job {} and reads its row",
                    (true, STARTED) => "ingest takes `in_progress` of job {} and reads its row",
                    (true, _) => "ingest takes `completed` of job {} and reads its row",
                    (false, QUEUED) => "ingest takes `queued` of job {} once more",
                    (false, STARTED) => "ingest takes `in_progress` of job {} once more",
                    (false, _) => "ingest takes `completed` of job {} once more",
                };
                steps.push(Step { act: Act::of(words, job + 1), fair: first, next: Ok(next) });
            }
        }
    }

    /// One verb of the pass.
    pub(super) fn step_ingest(
        &self,
        state: &State,
        worker: usize,
        pass: &Ingest,
        steps: &mut Vec<Step<State>>,
    ) {
        let event = self.event(state, pass.job, pass.event);
        let mut job = (self.rules.fold)(pass.before.as_deref().cloned(), event, pass.at);
        if job.pool.is_none() {
            job.pool = Some(self.pool.name.clone());
        }
        let starts = job.status() >= JobStatus::InProgress;
        let touched = pass.touched.clone();
        let read = |touched: Touched, words| {
            let mut next = state.clone();
            let pass = Ingest { touched: Some(touched), ..pass.clone() };
            next.workers[worker] = Worker::Ingest(Arc::new(pass));
            Step { act: Act::of(words, pass_number(worker)), fair: true, next: Ok(next) }
        };
        match touched {
            None if starts => {
                let touched = read_rows(state, &job);
                steps.push(read(touched, "ingest (worker {}) reads taker and spared instance"));
            }
            Some(touched) if touched.left.is_none() => {
                let left = match touched.taker.as_ref().and_then(|taker| taker.claim()) {
                    Some(other) if other != job.key() => state.job(other).cloned(),
                    _ => None,
                };
                let touched = Touched { left: Some(left), ..touched };
                steps.push(read(touched, "ingest (worker {}) reads the job that the taker left"));
            }
            touched => {
                let touched = touched.unwrap_or_default();
                self.commit_fold(state, worker, pass, (job, touched), steps);
            }
        }
    }

    fn commit_fold(
        &self,
        state: &State,
        worker: usize,
        pass: &Ingest,
        (job, touched): (Job, Touched),
        steps: &mut Vec<Step<State>>,
    ) {
        let (mut job, changes) = self.settle(job, &touched, pass.at);
        if let Some(before) = pass.before.as_deref().filter(|before| **before != job) {
            job.generation = before.generation + 1;
        }
        let mut writes: Vec<Write> =
            Self::changed_job(pass.before.as_deref(), &job).into_iter().collect();
        writes.extend(changes);
        let mut next = state.clone();
        let result = if writes.is_empty() { Ok(()) } else { self.commit(&mut next, writes) };
        let act = |words| Act::with(words, pass_number(worker), pass.job + 1);
        match result {
            Ok(()) => {
                let left = touched.left.as_ref().is_some_and(Option::is_some);
                let wakes = job.is_demand() || left || touched.spared.is_some();
                next.workers[worker] = Worker::Idle;
                if self.may(state, Fault::Crash) {
                    let mut crashed = next.clone();
                    crashed.faults -= 1;
                    let act =
                        act("ingest (worker {}) commits job {} and is stopped before its ack");
                    steps.push(Step { act, fair: false, next: Ok(crashed) });
                }
                next.jobs[usize::from(pass.job)].queue &= !pass.event;
                next.wake |= wakes;
                let act = act("ingest (worker {}) commits job {}, acks, wakes the pool");
                steps.push(Step { act, fair: true, next: Ok(next) });
            }
            Err(Refusal::Conflict) => {
                let again = Ingest {
                    before: state.jobs[usize::from(pass.job)].row.clone(),
                    touched: None,
                    ..pass.clone()
                };
                let mut next = state.clone();
                next.workers[worker] = Worker::Ingest(Arc::new(again));
                let act = act("ingest (worker {}) meets a conflict at job {} and reads again");
                steps.push(Step { act, fair: true, next: Ok(next) });
            }
            Err(Refusal::Broken(what)) => {
                let act = act("ingest (worker {}) commits job {}");
                steps.push(Step { act, fair: true, next: Err(what) });
            }
        }
    }

    /// As in `control::jobs::ingest::settle`.
    fn settle(&self, job: Job, touched: &Touched, now: Time) -> (Job, Vec<Write>) {
        let live = touched.taker.as_deref().filter(|taker| taker.state().is_live());
        let Some(mut taker) = live.cloned() else {
            return Self::settle_without_taker(job, touched, now);
        };
        if job.status() == JobStatus::Completed {
            taker.github_completed(job.key(), now, &self.timings);
        } else {
            taker.github_started(job.key(), now);
        }
        let left = touched.left.clone().flatten();
        let started = Started {
            job,
            taker,
            left: left.as_deref().cloned(),
            spared: touched.spared.as_deref().cloned(),
        };
        let can_serve =
            |instance: &Instance, job: &Job| claim::can_serve(&self.pool, instance, job);
        let settled = (self.rules.settle_started)(started, &can_serve, now);
        let mut changes = Vec::new();
        if let Some(taker) = &touched.taker {
            changes.extend(Self::changed(taker, &settled.taker));
        }
        if let (Some(before), Some(next)) = (&touched.spared, &settled.spared) {
            changes.extend(Self::changed(before, next));
        }
        if let Some(next) = &settled.left {
            changes.extend(Self::changed_job(left.as_deref(), next));
        }
        (settled.job, changes)
    }

    fn settle_without_taker(mut job: Job, touched: &Touched, now: Time) -> (Job, Vec<Write>) {
        let mut changes = Vec::new();
        if let Some(spared) = &touched.spared {
            let mut next = (**spared).clone();
            if next.claim() == Some(job.key()) {
                next.clear_claim(now, "the job needs no runner any more");
            }
            changes.extend(Self::changed(spared, &next));
            claim::set_job_claim(&mut job, None);
        }
        (job, changes)
    }

    /// Sends an event of a job at GitHub.
    pub(super) fn send(state: &mut State, job: u8, event: u8) {
        let side = &mut state.jobs[usize::from(job)];
        side.sent |= event;
        side.queue |= event;
    }

    /// A job is over at GitHub; its runner's registration goes with it.
    pub(super) fn end_job(state: &mut State, machine: u8, job: u8) {
        state.jobs[usize::from(job)].truth = super::state::Truth::Ended;
        Self::send(state, job, COMPLETED);
        let machine = state.machine_mut(machine);
        machine.registered = false;
        machine.agent = Agent::Exited;
    }
}

fn read_rows(state: &State, job: &Job) -> Touched {
    let taker = job.ran_on().and_then(|name| state.row(&name).cloned());
    let spared = job
        .claim
        .as_ref()
        .filter(|name| taker.as_ref().is_none_or(|taker| taker.name != **name))
        .and_then(|name| state.row(name).cloned());
    // Without a taker nobody left a job.
    let left = if taker.is_none() { Some(None) } else { None };
    Touched { taker, spared, left }
}

fn pass_number(worker: usize) -> u8 {
    u8::try_from(worker + 1).expect("few workers")
}
