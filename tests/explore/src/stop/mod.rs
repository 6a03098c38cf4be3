//! The way out of one instance, from the moment its machine is bound: the graceful stop, the kill
//! gate, force, and an operator, against a GitHub and an EC2 that may answer anything.
//!
//! Lost and late reports, crashes, duplicate and slow passes, late and missing answers are drawn
//! from one budget; a GitHub that lies about a running job does so whenever it likes. Time is cut
//! into ticks that stand for the waits of the rules; a pass lasts over one tick at most, as a
//! Lambda ends before the shortest lease does.

mod check;
mod machine;
mod operator;
mod outside;
mod pass;
mod state;

use std::sync::Arc;

use muster_control::Settings;
use muster_domain::instance::{Instance, Slot, Start};
use muster_domain::stored::{Committed, Stored, Version};
use muster_domain::time::{Seconds, Time};
use muster_domain::timings::Timings;

pub use self::operator::ORDERS;
pub use self::outside::DeadGithub;
use self::state::{Agent, State, Vm, Worker};
use crate::act::Act;
use crate::search::{Step, World};

/// Older machines are ended, whatever runs on them.
const LIFETIME: Seconds = Seconds(5);
/// EC2 denies a machine that it has for less than this. Shorter than the rules' wait by the time
/// that a pass lasts.
const MOMENT: Seconds = Seconds(1);
/// A forced order with dead providers ends in this time, or never.
const FORCE_ENDS: Seconds = Seconds(6);

/// What may happen in this world.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many faults may happen.
    pub faults: u8,
    /// How many orders the operator may give.
    pub orders: u8,
    /// Which: numbers of [`ORDERS`].
    pub kinds: &'static [usize],
    /// How many Lambdas work at a time, up to two.
    pub workers: usize,
    /// GitHub may call a busy runner not busy at any time, and answer a DELETE of it with 204.
    pub lies: bool,
    /// GitHub and EC2 may die for good; GitHub answers like this then. Force must help, and soon:
    /// an operator gives the order, and time does not pass over work that is due.
    pub github: Option<DeadGithub>,
}

/// The world.
pub struct Stop {
    config: Config,
    timings: Timings,
    settings: Settings,
}

impl Stop {
    /// A world of this kind.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let timings = timings();
        // No pool is known, so none asks for anything of its own.
        let settings = Settings {
            longest_life: LIFETIME,
            ..Settings::from_parameters("s".to_owned(), Vec::new(), timings.clone())
        };
        Self { config, timings, settings }
    }

    /// Writes the row.
    fn store(&self, state: &mut State, mut next: Instance) -> Result<(), String> {
        if !state.is_live() {
            return Err("I5: the tombstone is written".to_owned());
        }
        next.events = Arc::default();
        state.row = Arc::new(state.row.change(next).stored(&Committed::by_table()));
        for worker in 0..state.workers.len() {
            self.overtake(state, worker);
        }
        Ok(())
    }

    fn worker_steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        for (index, worker) in state.workers.iter().enumerate() {
            match worker {
                Worker::Idle => continue,
                Worker::Pass(running) => self.step_pass(state, index, running, steps),
                Worker::Configure(call) => self.step_configure(state, index, *call, steps),
            }
            let mut next = state.clone();
            next.workers[index] = Worker::Idle;
            let act = act("worker {} is stopped", index);
            steps.push(Step { act, fair: false, next: Ok(next) });
        }
        // Idle Lambdas are alike: only the first takes something up.
        let idle = state.workers.iter().take(self.config.workers).position(Worker::is_idle);
        if let Some(idle) = idle {
            self.start_reap(state, idle, steps);
            self.start_order(state, idle, steps);
            self.start_configure(state, idle, steps);
        }
    }

    fn providers_die(&self, state: &State, steps: &mut Vec<Step<State>>) {
        if self.config.github.is_none() {
            return;
        }
        if !state.github_dead {
            let next = State { github_dead: true, faults: state.faults + 1, ..state.clone() };
            let act = Act::new("GitHub answers no more");
            steps.push(Step { act, fair: false, next: Ok(next) });
        }
        if state.ec2_dead && state.ledger {
            let next = State { ec2_dead: false, faults: state.faults + 1, ..state.clone() };
            let act = Act::new("EC2 answers again");
            steps.push(Step { act, fair: false, next: Ok(next) });
        }
        if !state.ec2_dead {
            let next = State { ec2_dead: true, faults: state.faults + 1, ..state.clone() };
            let act = Act::new("EC2 answers no more");
            steps.push(Step { act, fair: false, next: Ok(next) });
        }
    }

    fn pass_time(&self, state: &State, steps: &mut Vec<Step<State>>) {
        let old = |worker: &Worker| worker.at().is_some_and(|at| at < state.now);
        let slow = self.is_urgent(state);
        if (slow && self.config.github.is_some()) || state.workers.iter().any(old) {
            return;
        }
        let next = State { now: state.now + Seconds(1), ..state.clone() };
        let words = if slow { "time passes while there is work" } else { "time passes" };
        steps.push(Step { act: Act::new(words), fair: !slow, next: Ok(next) });
    }

    /// Something is under way that takes seconds, while every wait of the rules is longer.
    fn is_urgent(&self, state: &State) -> bool {
        let due = state.row.due_at().is_some_and(|due| due <= state.now);
        let working = state.workers.iter().any(|worker| !worker.is_idle());
        let moving = state.is_up()
            && match state.agent {
                Agent::Boot | Agent::Asking(_) | Agent::Exited => true,
                Agent::Given => !matches!(self.asks_to_start(state), Ok((Start::Undecided, _))),
                Agent::Listening => !state.is_registered(state.number),
                Agent::Working => false,
            };
        let coming = state.reports != 0 || state.events != 0;
        due || working || moving || coming || (state.ledger && !state.ec2_dead)
    }
}

impl World for Stop {
    type State = State;

    fn initial(&self) -> Vec<State> {
        let now = Time::from_millis(1_000_000);
        let slot = Slot {
            name: "p-l-0".parse().expect("valid"),
            pool: "p".parse().expect("valid"),
            entity: "acme".parse().expect("valid"),
            installation: None,
            launch: "p-l".parse().expect("valid"),
            claim: None,
        };
        let mut row = Instance::planned(slot, now, &self.timings);
        row.bind("i-00000001".parse().expect("valid"), now, &self.timings);
        row.events = Arc::default();
        let state = |hooks| State {
            now,
            row: Arc::new(Stored::read(row.clone(), Version(0))),
            ledger: false,
            kill_audited: false,
            machine: Vm::Running,
            denied_since: None,
            agent: Agent::Boot,
            hangs: false,
            hooks,
            number: 0,
            registered: 0,
            job_over: false,
            lied: false,
            removed: false,
            reports: 0,
            events: 0,
            folded: false,
            faults: self.config.faults,
            orders: self.config.orders,
            ec2_dead: false,
            github_dead: false,
            workers: [Worker::Idle, Worker::Idle],
        };
        vec![state(true), state(false)]
    }

    fn fingerprint(&self, state: &State) -> u64 {
        self.fingerprint_of(state)
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step<State>>) {
        self.worker_steps(state, steps);
        self.machine_steps(state, steps);
        self.deliveries(state, steps);
        self.sweep(state, steps);
        self.providers_die(state, steps);
        self.pass_time(state, steps);
        steps.retain_mut(|step| match &mut step.next {
            Ok(next) if !step.fair && next.faults == 0 => false,
            Ok(next) => {
                next.faults -= u8::from(!step.fair);
                forget(next);
                true
            }
            Err(_) => step.fair || state.faults > 0,
        });
    }

    fn violation(&self, state: &State) -> Option<String> {
        self.violation_of(state)
    }

    fn is_goal(&self, state: &State) -> bool {
        let ended = !state.is_live() && state.workers.iter().all(Worker::is_idle);
        // What EC2 does not end stays in the ledger, until EC2 is back.
        ended && (!state.is_alive() && !state.ledger || state.ec2_dead)
    }

    fn describe(&self, state: &State) -> String {
        check::describe(state)
    }
}

/// Forgets what nobody can ask for again.
fn forget(state: &mut State) {
    if !state.is_live() {
        state.reports = 0;
        state.events = 0;
        state.orders = 0;
    }
    if !state.is_alive() {
        state.hangs = false;
        state.denied_since = None;
        state.kill_audited = false;
    }
    if !state.agent.has_job() {
        state.lied = false;
        state.job_over = false;
    }
    if state.agent == Agent::Exited {
        state.removed = false;
    }
    // It tells a late `in_progress` from one in time.
    state.folded &= state.events != 0;
}

fn act(words: &'static str, worker: usize) -> Act {
    Act::of(words, u8::try_from(worker + 1).expect("few workers"))
}

/// The waits of the rules as ticks, in the order of the real ones.
fn timings() -> Timings {
    Timings {
        boot_deadline_seconds: Seconds(2),
        deleting_lease_seconds: Seconds(2),
        claim_idle_seconds: Seconds(1),
        busy_reads_apart_seconds: Seconds(1),
        busy_poll_seconds: Seconds(1),
        absence_confirm_seconds: Seconds(2),
        absence_limit_seconds: Seconds(2),
        idle_limit_seconds: Seconds(1),
        shutdown_grace_seconds: Seconds(1),
        completed_grace_seconds: Seconds(1),
        unauthorized_retry_seconds: Seconds(1),
        force_give_up_seconds: Seconds(2),
        register_lease_seconds: Seconds(1),
        retry_step_seconds: Seconds(1),
        retry_cap_seconds: Seconds(2),
        launch_retry_seconds: Seconds(1),
        ..Timings::default()
    }
}
