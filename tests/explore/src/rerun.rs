//! Every interleaving of two sweeps, a person, a crash and a lost answer around one workflow run of
//! two jobs, on the real rules of `muster_domain::rerun`. EC2 interrupts the first job, and perhaps the
//! second, which may also fail by itself; GitHub and EC2 tell of it in any order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use muster_domain::ids::{InstanceName, PoolName, RunnerId};
use muster_domain::observation::RunSeen;
use muster_domain::pool::{MarketPolicy, Pool};
use muster_domain::rerun::{
    AttemptJob, Interruption, Rerun, RerunAnswer, RerunCall, RerunNeed, RerunOutcome, RerunState,
    RerunStep, RerunView, RunOf, decide,
};
use muster_domain::time::{Seconds, Time};

use crate::act::Act;
use crate::search::{Step, World};

/// What is left out, to see that the search finds what comes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// A job whose machine EC2 has not told of is waited for.
    pub settle_rule: bool,
    /// A call is sent soon after GitHub's report of the run.
    pub fresh_report: bool,
}

/// The world.
#[derive(Clone, Debug)]
pub struct Interrupted {
    without: Without,
    pool: Pool,
}

impl Interrupted {
    /// A world without some of the rules.
    ///
    /// # Panics
    /// Never: the pool's name is a name.
    #[must_use]
    pub fn new(without: Without) -> Self {
        let mut pool = Pool::named(pool_name());
        pool.market = MarketPolicy::Spot;
        Self { without, pool }
    }
}

/// How a job of the last attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum JobIs {
    Running,
    /// EC2 took its machine.
    Cut,
    /// It failed by itself.
    Failed,
    Good,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct JobOf {
    is: JobIs,
    /// The attempt in which it ran: an earlier one for a copy.
    ran_in: u32,
}

/// A sweep that looks at the run.
#[derive(Clone, Debug)]
enum Sweep {
    Idle,
    /// It has read the record, and GitHub as far as the view goes.
    Looks {
        record: Rerun,
        version: u64,
        view: RerunView,
        ended: u32,
    },
    /// It has committed the intent.
    Sends {
        record: Rerun,
        version: u64,
        call: RerunCall,
        ended: u32,
    },
    /// It has an answer, or none.
    Notes {
        record: Rerun,
        version: u64,
    },
}

/// One moment.
#[derive(Clone, Debug)]
pub struct Moment {
    attempt: u32,
    is_by_app: bool,
    jobs: [JobOf; 2],
    /// Attempts that have ended.
    ended: u32,
    /// Whose interruption is on record.
    told: [bool; 2],
    record: Option<(Rerun, u64)>,
    sweeps: [Sweep; 2],
    person: u8,
    crashes: u8,
    losses: u8,
    /// A request that has not arrived yet, and how many attempts had ended when it was sent.
    late: Option<(RerunCall, u32)>,
    /// The attempts that Muster started, by the one that they follow.
    ours: Vec<u32>,
    /// The jobs that were interrupted in attempt 1 and run again since.
    again: [bool; 2],
}

const NOW: Time = Time::from_millis(1_800_000_000_000);

fn pool_name() -> PoolName {
    "linux".parse().unwrap_or_else(|_| unreachable!("a name"))
}

fn instance(job: usize) -> InstanceName {
    format!("a-{job}").parse().unwrap_or_else(|_| unreachable!("a name"))
}

fn interruption(job: usize) -> Interruption {
    Interruption {
        instance: instance(job),
        runner: Some(RunnerId(job as u64)),
        attempt: Some(1),
        at: NOW,
        cut_from: NOW - Seconds(30),
        is_spot: true,
        is_stopped: true,
        worked: Seconds(60),
        actor: None,
    }
}

impl Moment {
    fn is_over(&self) -> bool {
        self.jobs.iter().all(|job| job.is != JobIs::Running)
    }

    fn run(&self) -> RunSeen {
        let is_good = self.jobs.iter().all(|job| job.is == JobIs::Good);
        let conclusion = if is_good { "success" } else { "failure" };
        RunSeen {
            is_over: self.is_over(),
            conclusion: self.is_over().then(|| conclusion.to_owned()),
            attempt: self.attempt,
            is_by_app: self.is_by_app,
            created_at: Some(NOW),
            origin: None,
        }
    }

    fn listed(&self) -> Vec<AttemptJob> {
        let job = |(number, job): (usize, &JobOf)| {
            let runner = number as u64 + 10 * u64::from(job.ran_in - 1);
            AttemptJob {
                id: number as u64 + 10 * u64::from(self.attempt),
                runner_id: Some(RunnerId(runner)),
                runner: (job.ran_in == 1).then(|| format!("a-{number}-1")),
                conclusion: match job.is {
                    JobIs::Running => None,
                    JobIs::Cut | JobIs::Failed => Some("failure".to_owned()),
                    JobIs::Good => Some("success".to_owned()),
                },
                completed_at: (job.is != JobIs::Running).then_some(NOW),
            }
        };
        self.jobs.iter().enumerate().map(job).collect()
    }

    /// A job of the last attempt ends.
    fn ends(&self, job: usize, is: JobIs) -> Self {
        let mut next = self.clone();
        next.jobs[job].is = is;
        next.ended += u32::from(next.is_over());
        next
    }

    /// GitHub receives a re-run.
    fn receives(&self, call: RerunCall, is_by_app: bool) -> Result<(Self, RerunAnswer), String> {
        let is_of = |number: usize| match call {
            RerunCall::Job(id) => id == number as u64 + 10 * u64::from(self.attempt),
            RerunCall::Failed => self.jobs[number].is != JobIs::Good,
        };
        if !self.is_over() || !(is_of(0) || is_of(1)) {
            return Ok((self.clone(), RerunAnswer::Busy));
        }
        let mut next = self.clone();
        if is_by_app {
            let is_honest = |n: &usize| is_of(*n) && self.jobs[*n].is != JobIs::Cut;
            if let Some(job) = [0, 1].iter().find(|number| is_honest(number)) {
                return Err(format!("job {job} was not interrupted, and Muster re-runs it"));
            }
            if self.ours.contains(&self.attempt) || self.ours.len() == 2 {
                return Err(format!("Muster re-runs attempt {} once more", self.attempt));
            }
            next.ours.push(self.attempt);
        }
        next.attempt += 1;
        next.is_by_app = is_by_app;
        for number in [0, 1] {
            if is_of(number) {
                next.jobs[number] = JobOf { is: JobIs::Running, ran_in: next.attempt };
                next.again[number] = true;
            }
        }
        Ok((next, RerunAnswer::Accepted))
    }

    /// A conditional write of the record.
    fn commits(&self, record: &Rerun, version: u64) -> Option<(Self, u64)> {
        let is_same = self.record.as_ref().is_some_and(|(_, stored)| *stored == version);
        is_same.then(|| {
            let mut next = self.clone();
            next.record = Some((record.clone(), version + 1));
            (next, version + 1)
        })
    }

    /// EC2 tells that it took the machine of a job of attempt 1.
    fn tells(&self, job: usize) -> Self {
        let mut next = self.clone();
        next.told[job] = true;
        let (before, version) = match &self.record {
            Some((record, version)) => (Some(record), version + 1),
            None => (None, 0),
        };
        let of = RunOf {
            run: 1,
            repository: "acme/web".into(),
            repository_id: None,
            installation: None,
        };
        let record = Rerun::with(before, &of, &pool_name(), interruption(job), NOW);
        next.record = record.map(|record| (record, version)).or(next.record);
        next
    }

    fn sweep_hash(&self, number: usize) -> u64 {
        let mut hasher = DefaultHasher::new();
        let is_new = |ended: &u32| *ended == self.ended;
        match &self.sweeps[number] {
            Sweep::Idle => 0.hash(&mut hasher),
            Sweep::Looks { record, view, ended, .. } => {
                let run = view.run.as_ref().and_then(Option::as_ref);
                let run = run.map(|run| (run.attempt, run.is_over, run.is_by_app));
                (1, record, run, &view.jobs, &view.live, &view.interruptions).hash(&mut hasher);
                is_new(ended).hash(&mut hasher);
            }
            Sweep::Sends { record, version, call, ended } => {
                (2, record, self.is_current(*version), call, is_new(ended)).hash(&mut hasher);
            }
            Sweep::Notes { record, .. } => (3, record).hash(&mut hasher),
        }
        hasher.finish()
    }

    fn is_current(&self, version: u64) -> bool {
        self.record.as_ref().is_some_and(|(_, stored)| *stored == version)
    }

    /// Sweeps whose next write is a conflict do nothing any more.
    fn without_overtaken(mut self) -> Self {
        for number in [0, 1] {
            let is_overtaken = match &self.sweeps[number] {
                Sweep::Looks { version, .. } | Sweep::Notes { version, .. } => {
                    !self.is_current(*version)
                }
                Sweep::Idle | Sweep::Sends { .. } => false,
            };
            if is_overtaken {
                self.sweeps[number] = Sweep::Idle;
            }
        }
        self
    }

    fn with(&self, number: usize, sweep: Sweep) -> Self {
        let mut next = self.clone();
        next.sweeps[number] = sweep;
        next
    }
}

impl Interrupted {
    fn outside(&self, now: &Moment, steps: &mut Vec<Step<Moment>>) {
        let mut add = |words, fair, next| {
            steps.push(Step { act: Act::new(words), fair, next: Ok(next) });
        };
        for job in [0, 1] {
            if now.jobs[job].is != JobIs::Running {
                continue;
            }
            if now.attempt > 1 {
                add("a job of a later attempt succeeds", true, now.ends(job, JobIs::Good));
                add("a job of a later attempt fails", false, now.ends(job, JobIs::Failed));
                continue;
            }
            add("GitHub ends an interrupted job", true, now.ends(job, JobIs::Cut));
            if job == 1 && !now.told[1] {
                add("the other job fails by itself", false, now.ends(1, JobIs::Failed));
                add("the other job succeeds", false, now.ends(1, JobIs::Good));
            }
        }
        for job in [0, 1] {
            let of = now.jobs[job];
            let may_be =
                job == 0 || of.is == JobIs::Cut || (of.is == JobIs::Running && of.ran_in == 1);
            // The record of a machine ends, however late, before anything else is possible for it.
            let is_first = of.ran_in == 1 || now.again[job];
            if !now.told[job] && may_be && is_first {
                add("EC2 tells that it took the machine", true, now.tells(job));
            }
        }
        if let Some((call, ended)) = now.late {
            let mut gone = now.clone();
            gone.late = None;
            let is_stale = now.ended > ended && !self.without.fresh_report;
            let next = if is_stale { Ok(gone) } else { gone.receives(call, true).map(|(n, _)| n) };
            steps.push(Step { act: Act::new("a late request arrives"), fair: true, next });
        }
        if now.person > 0 && now.is_over() && now.jobs.iter().any(|job| job.is != JobIs::Good) {
            let calls = [RerunCall::Failed, RerunCall::Job(1 + 10 * u64::from(now.attempt))];
            for call in calls {
                let next = now.receives(call, false).map(|(mut next, _)| {
                    next.person -= 1;
                    next
                });
                steps.push(Step { act: Act::new("a person re-runs"), fair: false, next });
            }
        }
    }

    /// What a sweep finds out.
    fn look(&self, now: &Moment, need: &RerunNeed, view: &mut RerunView) {
        match need {
            RerunNeed::Run => view.run = Some(Some(now.run())),
            RerunNeed::Newer(_) => view.newer = Some(Vec::new()),
            RerunNeed::Jobs(_) => {
                view.jobs = Some(now.listed());
                if !self.without.settle_rule {
                    let live = [0, 1].into_iter().filter(|job| !now.told[*job]);
                    // The machine of a job that ended by itself ends too, and its record with it.
                    let live = live.filter(|job| now.jobs[*job].is == JobIs::Cut);
                    view.live = live.map(instance).collect::<BTreeSet<_>>();
                    let told = [0, 1].into_iter().filter(|job| now.told[*job]);
                    view.interruptions = told.map(interruption).collect();
                }
            }
        }
    }

    fn sweep(&self, now: &Moment, number: usize, steps: &mut Vec<Step<Moment>>) {
        let idle = now.with(number, Sweep::Idle);
        let mut add = |words, fair, next| steps.push(Step { act: Act::new(words), fair, next });
        match &now.sweeps[number] {
            Sweep::Idle => {
                let open = now.record.as_ref().filter(|(record, _)| record.due().is_some());
                let Some((record, version)) = open.cloned() else { return };
                let view = RerunView::default();
                let looks = Sweep::Looks { record, version, view, ended: now.ended };
                add("a sweep reads the record", true, Ok(now.with(number, looks)));
                return;
            }
            Sweep::Looks { record, version, view, ended } => {
                let next = match decide(record, Some(&self.pool), view, NOW) {
                    RerunStep::Look(need) => {
                        let (mut view, mut ended) = (view.clone(), *ended);
                        if need == RerunNeed::Run {
                            ended = now.ended;
                        }
                        self.look(now, &need, &mut view);
                        let (record, version) = (record.clone(), *version);
                        now.with(number, Sweep::Looks { record, version, view, ended })
                    }
                    // It waits: time is not part of this world.
                    RerunStep::Rest(next) if matches!(next.state, RerunState::Open(_)) => {
                        idle.clone()
                    }
                    RerunStep::Rest(next) => {
                        idle.commits(&next, *version).map_or_else(|| idle.clone(), |(next, _)| next)
                    }
                    RerunStep::Call(next, call) => match idle.commits(&next, *version) {
                        None => idle.clone(),
                        Some((after, version)) => {
                            let sends = Sweep::Sends { record: next, version, call, ended: *ended };
                            after.with(number, sends)
                        }
                    },
                };
                add("a sweep looks or decides", true, Ok(next));
            }
            Sweep::Sends { record, version, call, ended } => {
                let notes = |of: &Moment, answer| {
                    let record = record.answered(answer, NOW);
                    of.with(number, Sweep::Notes { record, version: *version })
                };
                if now.ended > *ended && !self.without.fresh_report {
                    add("it is too late to send", true, Ok(notes(now, RerunAnswer::NotSent)));
                } else {
                    let done = now.receives(*call, true);
                    let told = done.clone().map(|(after, answer)| notes(&after, answer));
                    add("GitHub answers", true, told);
                    if now.losses > 0 {
                        let lost = done.map(|(mut after, _)| {
                            after.losses -= 1;
                            notes(&after, RerunAnswer::Unanswered)
                        });
                        add("the answer is lost", false, lost);
                        let mut late = now.clone();
                        (late.losses, late.late) = (late.losses - 1, Some((*call, now.ended)));
                        add(
                            "the request is late",
                            false,
                            Ok(notes(&late, RerunAnswer::Unanswered)),
                        );
                    }
                }
            }
            Sweep::Notes { record, version } => {
                let done = idle.commits(record, *version);
                add(
                    "a sweep notes the answer",
                    true,
                    Ok(done.map_or(idle.clone(), |(next, _)| next)),
                );
            }
        }
        if now.crashes > 0 {
            let mut next = idle;
            next.crashes -= 1;
            add("a sweep is stopped", false, Ok(next));
        }
    }
}

impl World for Interrupted {
    type State = Moment;

    fn initial(&self) -> Vec<Moment> {
        let job = JobOf { is: JobIs::Running, ran_in: 1 };
        vec![Moment {
            attempt: 1,
            is_by_app: false,
            jobs: [job; 2],
            ended: 0,
            told: [false; 2],
            record: None,
            sweeps: [Sweep::Idle, Sweep::Idle],
            person: 1,
            crashes: 1,
            losses: 1,
            late: None,
            ours: Vec::new(),
            again: [false; 2],
        }]
    }

    /// Without versions, and with the sweeps in any order: only what a sweep may still do matters.
    fn fingerprint(&self, state: &Moment) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Moment { attempt, is_by_app, jobs, told, person, crashes, losses, .. } = state;
        (attempt, is_by_app, jobs, told, person, crashes, losses).hash(&mut hasher);
        let late = state.late.map(|(call, ended)| (call, ended == state.ended));
        (state.record.as_ref().map(|(record, _)| record), late).hash(&mut hasher);
        (&state.ours, state.again).hash(&mut hasher);
        let mut sweeps = [0, 1].map(|number| state.sweep_hash(number));
        sweeps.sort_unstable();
        sweeps.hash(&mut hasher);
        hasher.finish()
    }

    fn steps(&self, state: &Moment, steps: &mut Vec<Step<Moment>>) {
        self.outside(state, steps);
        self.sweep(state, 0, steps);
        self.sweep(state, 1, steps);
        for step in steps {
            step.next = std::mem::replace(&mut step.next, Err(String::new()))
                .map(Moment::without_overtaken);
        }
    }

    /// An interrupted job is missed if its record is closed and nobody has run it again, unless an
    /// honest failure stands beside two interrupted jobs, or a person chose which jobs to run again.
    fn violation(&self, state: &Moment) -> Option<String> {
        if !self.is_goal(state) {
            return None;
        }
        let Some((record, _)) = &state.record else { return None };
        let RerunState::Done { outcome, .. } = &record.state else { return None };
        let is_persons = matches!(outcome, RerunOutcome::ByOthers { .. }) || state.person == 0;
        let cut = |job: &usize| state.told[*job] && state.jobs[*job].is == JobIs::Cut;
        let missed = [0, 1].into_iter().find(|job| cut(job) && !state.again[*job]);
        missed.filter(|_| !is_persons).map(|job| format!("job {job} is missed: {outcome:?}"))
    }

    fn is_goal(&self, state: &Moment) -> bool {
        let is_idle = |sweep: &Sweep| matches!(sweep, Sweep::Idle);
        let is_closed = |record: &Option<(Rerun, u64)>| {
            record.as_ref().is_some_and(|(record, _)| record.due().is_none())
        };
        let is_told = |job: usize| state.told[job] || state.jobs[job].is != JobIs::Cut;
        state.is_over()
            && state.late.is_none()
            && state.sweeps.iter().all(is_idle)
            && state.told[0]
            && is_told(1)
            && is_closed(&state.record)
    }

    fn describe(&self, state: &Moment) -> String {
        let record = state.record.as_ref().map(|(record, version)| (&record.state, version));
        format!("attempt {} {:?} told {:?} {record:?}", state.attempt, state.jobs, state.told)
    }
}
