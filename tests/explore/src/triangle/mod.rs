//! The triangle launch – binding – claim: two jobs, their events, two Lambdas, and EC2.
//!
//! Lambdas are program counters between the verbs of the passes; each verb calls the functions of
//! the `domain` crate. Between any two verbs anything else may happen. Faults of any kind are drawn
//! from one budget, so a budget of two means every pair of faults, at every pair of moments.

mod check;
mod ec2;
mod fingerprint;
mod ingest;
mod machines;
mod reap;
mod scale_up;
mod state;
mod table;

use std::sync::Arc;

use muster_domain::instance::{Instance, Start};
use muster_domain::job::labels::{LabelRows, Labels};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

use self::machines::kill;
use self::scale_up::number_of;
use self::state::{Agent, JOBS, JobSide, QUEUED, State, Truth, Worker};
use crate::act::Act;
use crate::key::{FAR, Key};
use crate::rules::Rules;
use crate::search::{Step, World};

/// The names under which the Lambdas hold the pool's lease.
pub(crate) const HOLDERS: [&str; 2] = ["one", "two"];

/// A pass older than this is as slow as any.
const SLOW: Seconds = Seconds(16);

/// Something that goes wrong, or that chance or people bring about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A Lambda stops between two verbs.
    Crash,
    /// A message is delivered again.
    Duplicate,
    /// An event never comes.
    Lose,
    /// An event comes only after what it tells of has changed again.
    Late,
    /// A CreateFleet call is not answered, whether it was carried out or not.
    Ambiguous,
    /// A CreateFleet call is carried out after its caller has given up on it.
    UnderWay,
    /// EC2 has capacity for some of the machines or for none.
    NoCapacity,
    /// EC2 refuses the call.
    Throttled,
    /// A look by tag does not see what is there.
    LateTag,
    /// A job is cancelled while it is queued.
    Cancel,
    /// A machine never gets as far as its agent.
    Hang,
    /// EC2 takes a machine back.
    Spot,
    /// The reports of a machine are lost.
    Forget,
    /// Something that takes seconds takes longer than what should outlast it.
    Slow,
    /// GitHub says of a runner that was given a job that it is not busy, or answers the DELETE with
    /// 204.
    Lie,
}

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault::Crash,
    Fault::Duplicate,
    Fault::Lose,
    Fault::Late,
    Fault::Ambiguous,
    Fault::UnderWay,
    Fault::NoCapacity,
    Fault::Throttled,
    Fault::LateTag,
    Fault::Cancel,
    Fault::Hang,
    Fault::Spot,
    Fault::Forget,
    Fault::Slow,
    Fault::Lie,
];

/// The size of a world.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The pool's maximum.
    pub max: u32,
    /// How many faults may happen.
    pub faults: u8,
    /// Which.
    pub kinds: &'static [Fault],
    /// Both jobs arrive, or one.
    pub jobs: usize,
    /// The last job arrives at any time, and not at the start: it may meet a runner on its way out.
    pub late: bool,
    /// How finely time is cut.
    pub grain: Grain,
}

/// How finely time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Anything may come between any two verbs.
    Verb,
    /// Anything may come before and after every effect on the outside, and a crash between any two
    /// verbs. Reads and the commit that checks them are one step: a commit is refused when
    /// somebody came between, and then the pass reads again.
    Effect,
}

/// The world.
pub struct Triangle {
    config: Config,
    rules: Rules,
    pool: Pool,
    timings: Timings,
}

impl Triangle {
    /// A world of this size under these rules.
    #[must_use]
    pub fn new(config: Config, rules: Rules) -> Self {
        Self { config, rules, pool: pool(config.max), timings: timings() }
    }

    fn may(&self, state: &State, fault: Fault) -> bool {
        state.faults > 0 && self.config.kinds.contains(&fault)
    }

    fn worker_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        for index in 0..state.workers.len() {
            if !state.workers[index].is_idle() {
                self.step_worker(state, index, steps);
                steps.extend(self.crash(state, index));
            }
        }
        // Idle Lambdas are alike: only the first takes something up.
        if let Some(idle) = state.workers.iter().position(Worker::is_idle) {
            let mut starts = Vec::new();
            self.start_ingest(state, idle, &mut starts);
            self.start_scale_up(state, idle, &mut starts);
            self.start_reap(state, idle, &mut starts);
            starts.into_iter().for_each(|start| self.run_on(start, idle, steps));
        }
    }

    fn step_worker(&self, state: &State, index: usize, steps: &mut Vec<Step<State>>) {
        let mut verbs = Vec::new();
        match &state.workers[index] {
            Worker::Idle => {}
            Worker::Ingest(pass) => self.step_ingest(state, index, pass, &mut verbs),
            Worker::ScaleUp(pass) => self.step_scale_up(state, index, pass, &mut verbs),
            Worker::Reap(pass) => self.step_reap(state, index, pass, &mut verbs),
        }
        verbs.into_iter().for_each(|verb| self.run_on(verb, index, steps));
    }

    /// In the coarse grain a pass runs on until its next effect.
    fn run_on(&self, step: Step<State>, index: usize, steps: &mut Vec<Step<State>>) {
        let runs_on = |state: &State| {
            self.config.grain == Grain::Effect && !state.workers[index].is_at_effect()
        };
        match &step.next {
            Ok(next) if runs_on(next) => {
                let mut verbs = Vec::new();
                self.step_worker(next, index, &mut verbs);
                verbs.extend(self.crash(next, index));
                let first = step.act;
                steps.extend(verbs.into_iter().map(|verb| Step {
                    act: first.then(verb.act),
                    fair: step.fair && verb.fair,
                    next: verb.next,
                }));
            }
            _ => steps.push(step),
        }
    }

    fn crash(&self, state: &State, index: usize) -> Option<Step<State>> {
        if !self.may(state, Fault::Crash) {
            return None;
        }
        let mut next = state.clone();
        next.faults -= 1;
        next.workers[index] = Worker::Idle;
        if state.capacity.is_held_by(HOLDERS[index]) {
            // Nobody of this name will ever come back.
            Arc::make_mut(&mut next.capacity).holder = Some("stopped".to_owned());
        }
        let act = Act::of("worker {} is stopped", u8::try_from(index + 1).expect("few"));
        Some(Step { act, fair: false, next: Ok(next) })
    }

    /// What happens by itself, outside of machines: time, the sweep, and losses.
    fn other_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        if state.wake && self.may(state, Fault::Lose) {
            let next = State { wake: false, faults: state.faults - 1, ..state.clone() };
            steps.push(Step { act: Act::new("a wake-up is lost"), fair: false, next: Ok(next) });
        }
        for index in 0..state.launches.len() {
            if let Some(next) = self.late_launch(state, index) {
                let act = Act::new("the launch that was under way reaches EC2");
                steps.push(Step { act, fair: true, next: Ok(next) });
            }
        }
        self.sweep(state, steps);
        self.pass_time(state, steps);
    }

    /// The sweep ends strays, and expires jobs whose end nobody reported.
    fn sweep(&self, state: &State, steps: &mut Vec<Step<State>>) {
        for machine in state.machines.iter().filter(|machine| machine.alive) {
            let old = state.now.is_past(machine.launched_at, self.timings.orphan_age_seconds);
            if old && !state.is_owned(machine) && !state.is_wanted(&machine.launch) {
                let mut next = state.clone();
                if let Some(job) = machine.agent.job() {
                    Self::end_job(&mut next, machine.number, job);
                }
                kill(&mut next, machine.number);
                let act = Act::of("the sweep ends stray machine {}", machine.number);
                steps.push(Step { act, fair: true, next: Ok(next) });
            }
        }
        for (index, job) in state.jobs.iter().enumerate() {
            if job.truth != Truth::Ended || job.queue != 0 {
                continue;
            }
            if let Some(row) = job.row.as_ref().filter(|row| row.is_waiting()) {
                let mut expired = (**row).clone();
                expired.expired = true;
                expired.generation += 1;
                let mut next = state.clone();
                next.jobs[index].row = Some(Arc::new(expired));
                let act = Act::of("job {} expires", u8::try_from(index + 1).expect("few jobs"));
                steps.push(Step { act, fair: true, next: Ok(next) });
            }
        }
    }

    /// Something is under way that takes seconds, while every wait of the rules is longer.
    fn is_urgent(&self, state: &State) -> bool {
        let working = state.wake || state.workers.iter().any(|worker| !worker.is_idle());
        let due = || state.rows.iter().any(|row| row.due_at().is_some_and(|due| due <= state.now));
        let coming = || state.jobs.iter().any(|job| job.queue != 0);
        let queued = || state.jobs.iter().any(|job| job.truth == Truth::Queued);
        let moving = || {
            state.machines.iter().filter(|machine| machine.alive && !machine.hangs).any(|machine| {
                match &machine.agent {
                    Agent::Listening(_) => !machine.registered || queued(),
                    Agent::Working(..) => false,
                    // It waits for GitHub's answer to a pass, and asks again.
                    Agent::Given(name, _) => !matches!(
                        self.asks_to_start(state, machine.number, name),
                        Some((Start::Undecided, ..))
                    ),
                    _ => true,
                }
            })
        };
        working || due() || coming() || moving()
    }

    /// Time jumps to the next moment that some rule waits for. While something quick is under way,
    /// that is a fault.
    fn pass_time(&self, state: &State, steps: &mut Vec<Step<State>>) {
        let soon =
            |at: &Time| *at > state.now && at.as_millis() - state.now.as_millis() < FAR * 1000;
        let rows = state.rows.iter().filter_map(|row| row.due_at());
        let launches = state.launches.iter().filter_map(|launch| launch.record.as_ref());
        let leases = launches
            .filter(|launch| launch.state == muster_domain::launch::LaunchState::Open)
            .map(|launch| launch.lease_until);
        let holds = state.jobs.iter().flat_map(|job| &job.row).filter(|job| job.is_waiting());
        let holds = holds.filter_map(|job| job.hold.as_ref().map(|hold| hold.until));
        let strays = state
            .machines
            .iter()
            .filter(|machine| machine.alive && !state.is_owned(machine))
            .map(|machine| machine.launched_at + self.timings.orphan_age_seconds);
        let times = rows.chain(leases).chain(state.capacity.lease_until).chain(holds).chain(strays);
        let Some(now) = times.filter(soon).min() else { return };

        let slow = self.is_urgent(state);
        if slow && !self.may(state, Fault::Slow) {
            return;
        }
        let next = State { now, faults: state.faults - u8::from(slow), ..state.clone() };
        let words = if slow { "time passes while there is work" } else { "time passes" };
        steps.push(Step { act: Act::new(words), fair: !slow, next: Ok(next) });
    }
}

impl World for Triangle {
    type State = State;

    fn initial(&self) -> Vec<State> {
        let job = |number: usize| {
            let comes = number < self.config.jobs;
            let later = self.config.late && number + 1 == self.config.jobs;
            let event = if comes && !later { QUEUED } else { 0 };
            let truth = match (comes, later) {
                (false, _) => Truth::Ended,
                (true, true) => Truth::Coming,
                (true, false) => Truth::Queued,
            };
            JobSide { row: None, truth, runner: None, sent: event, queue: event }
        };
        let jobs: [JobSide; JOBS] = std::array::from_fn(job);
        vec![State {
            now: Time::from_millis(1_000_000),
            faults: self.config.faults,
            wake: false,
            replay: None,
            jobs,
            rows: Vec::new(),
            launches: Vec::new(),
            capacity: Arc::new(Capacity::empty(self.pool.name.clone())),
            machines: Vec::new(),
            workers: [Worker::Idle, Worker::Idle],
        }]
    }

    fn fingerprint(&self, state: &State) -> u64 {
        self.fingerprint_of(state)
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        self.worker_steps(state, steps);
        self.machine_steps(state, steps);
        self.other_steps(state, steps);
        for step in steps {
            if let Ok(next) = &mut step.next {
                table::forget(next);
            }
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        self.violation_of(state)
    }

    fn is_goal(&self, state: &State) -> bool {
        state.workers.iter().all(Worker::is_idle)
            && state.machines.iter().all(|machine| !machine.alive)
            && state.rows.iter().all(|row| !row.state().is_live())
            && state.launches.iter().all(|launch| {
                // A record may stay open: once its machines have bound themselves no slot waits for
                // it, and the pool's next pass settles it without a call, whenever that is.
                launch.fleet != state::Fleet::UnderWay
            })
            && state.jobs.iter().all(|job| {
                matches!(job.truth, Truth::Ended | Truth::Coming)
                    && job.queue == 0
                    && job.row.as_ref().is_none_or(|row| !row.is_waiting())
            })
    }

    fn describe(&self, state: &State) -> String {
        check::describe(state)
    }
}

/// Adds a record as read: whether it is still what is stored, and what it is where it is not.
fn snapshot(read: Option<&Arc<Instance>>, state: &State, key: &mut Key<'_>) {
    match read {
        None => key.num(1),
        Some(read) => {
            key.text(read.name.as_str());
            let stored = state.row(&read.name).map(|row| row.generation());
            if stored == Some(read.generation()) {
                key.num(2);
            } else {
                key.instance(read);
            }
        }
    }
}

fn pool(max: u32) -> Pool {
    Pool {
        labels: LabelRows::one(Labels::new(["linux"])),
        launch_template_id: "lt".into(),
        launch_template_version: "1".into(),
        instance_types: vec!["m".into()],
        subnets: vec!["s".into()],
        max,
        max_lifetime_seconds: reap::LIFETIME,
        ..Pool::named("p".parse().expect("valid"))
    }
}

/// Small waits, in the order of the real ones.
fn timings() -> Timings {
    Timings {
        boot_deadline_seconds: Seconds(5),
        creating_lease_seconds: Seconds(2),
        deleting_lease_seconds: Seconds(2),
        launch_lookup_seconds: Seconds(4),
        claim_idle_seconds: Seconds(1),
        busy_reads_apart_seconds: Seconds(2),
        busy_reads_apart_without_hook_seconds: Seconds(4),
        busy_poll_seconds: Seconds(1),
        absence_confirm_seconds: Seconds(1),
        absence_limit_seconds: Seconds(5),
        orphan_age_seconds: Seconds(7),
        idle_limit_seconds: Seconds(3),
        shutdown_grace_seconds: Seconds(1),
        completed_grace_seconds: Seconds(2),
        register_lease_seconds: Seconds(1),
        pool_lease_seconds: Seconds(1),
        retry_step_seconds: Seconds(1),
        retry_cap_seconds: Seconds(2),
        launch_retry_seconds: Seconds(1),
        ..Timings::default()
    }
}
