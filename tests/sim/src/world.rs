//! The whole simulated cloud as one value: tables, queues, EC2, GitHub, the faults and the trace.

use std::collections::BTreeMap;
use std::rc::Rc;

use muster_control::metrics::Measure;
use muster_control::settings_cache::SettingsCache;
use muster_domain::app::AppFacts;
use muster_domain::ids::{InstanceName, JobKey};
use muster_domain::job::Job;
use muster_domain::pool_file::Answers;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Stored, Version};
use muster_domain::time::Time;

use crate::agenda::{Agenda, Event, HOUR, MINUTE, Millis, SECOND, START, TaskId, Which};
use crate::calls::Calls;
use crate::chosen::ChosenAnswers;
use crate::ec2::Ec2;
use crate::executor::Wakers;
use crate::fault::{Counts, Fault, FaultRates, FaultStreams};
use crate::github::Github;
use crate::invariants::{Checker, Violation};
use crate::invocations::{ApiCall, Call};
use crate::lambda::{Lambda, function_of};
use crate::naive::PeerPolicy;
use crate::names::{APP_OWNER, right_app};
use crate::queue::Queues;
use crate::replay::Drawn;
use crate::rng::Rng;
use crate::scenario::{Disturbed, Way};
use crate::setup::Secrets;
use crate::summary::Noted;
use crate::table::{Expiring, Tables};
use crate::tally::Tally;

/// A thing that the executor runs.
#[derive(Clone, Debug)]
pub enum Task {
    /// An invocation of a function.
    Function(Call),
    /// A machine's boot script and agent.
    Machine(u32),
}

/// What the simulated cloud is like under a seed, besides its faults.
#[derive(Clone, Debug)]
pub struct CloudConfig {
    /// A replayed fleet is answered with its machines. AWS does not document it; both must hold.
    pub replay_shows_machines: bool,
    /// Longest time a call takes.
    pub slowest_call: Millis,
    /// Somebody sends dead letters back at the end of the day.
    pub redrives: bool,
    /// Machines wait for the scenario's word at each step.
    pub by_hand: bool,
}

/// Everything that changes.
#[derive(Debug)]
pub struct World {
    /// The time.
    pub now: Millis,
    /// Chance.
    pub rng: Rng,
    /// What comes.
    pub agenda: Agenda,
    /// How likely each fault is now.
    pub fault_rates: FaultRates,
    /// How likely each will be, when the weather changes.
    pub weathers: Vec<FaultRates>,
    /// When each fault strikes.
    pub fault_streams: FaultStreams,
    /// How often each struck.
    pub counts: Counts,
    /// What runs now is a function that was stopped: its calls arrive, and it makes no others.
    pub is_landing: bool,
    /// No faults from here on.
    pub faults_end: Millis,
    /// How often the stack was deployed anew, each time with a new version of its launch template.
    pub deployments: u32,
    /// The settings that scale-up has cached, and the deployment that cached them.
    pub(crate) settings_cache: (u32, Rc<SettingsCache>),
    /// What the cloud is like.
    pub cloud_config: CloudConfig,
    /// The tables.
    pub tables: Tables,
    /// The queues.
    pub queues: Queues,
    /// EC2 and the machines.
    pub ec2: Ec2,
    /// GitHub.
    pub github: Github,
    /// What was learned about the invariants.
    pub checker: Checker,
    /// The first that broke.
    pub violation: Option<Violation>,
    /// Running calls of machines to runner-api.
    pub api_calls: Vec<ApiCall>,
    /// Orders that operators give.
    pub orders: Vec<crate::schedule::Order>,
    /// Requests of operators about switches. Their numbers follow those of the orders.
    pub flips: Vec<serde_json::Value>,
    /// The row of the last of them.
    pub ordered: Option<InstanceName>,
    /// Requests of a scenario's operators.
    pub requests: Vec<Option<serde_json::Value>>,
    /// The last explanation of a job, with the findings that the command shows below it.
    pub explained: Vec<String>,
    /// Outages.
    pub windows: Vec<Window>,
    /// What GitHub and EC2 know behind the names of a pool file.
    pub names: Answers,
    /// The App as GitHub has it; its runner groups are among the names.
    pub app: AppFacts,
    /// What the stack keeps of it.
    pub secrets: Secrets,
    /// A job whose item the table refuses, and every transaction with it, as it does with one of
    /// more than 400 KB.
    pub refused_item: Option<JobKey>,
    /// Until when commits that touch a counter are likely to meet others.
    pub contended_until: Millis,
    /// How long ended records are kept, where that is short enough to see their end.
    pub kept: Option<Millis>,
    /// Records that expire.
    pub expiring: Vec<Expiring>,
    /// Calls at the doors.
    pub calls: Calls,
    /// Calls of GitHub, and of EC2 for other things than launches and ends, by operation.
    pub operations: BTreeMap<String, u64>,
    /// What a summary needs besides.
    pub(crate) noted: Noted,
    /// Numbers for the report.
    pub tally: Tally,
    /// The task that runs right now.
    pub current: Option<TaskId>,
    /// The wakers of whoever waits.
    pub wakers: Wakers,
    /// Events so far.
    pub steps: u64,
    /// No tick after this.
    pub ticks_end: Millis,
    pending: Vec<Option<(Task, bool)>>,
    trace: Option<String>,
    /// The timeline of a scenario.
    pub story: Option<Vec<(Millis, String)>>,
    /// A peer's way of doing one thing, in place of ours.
    pub naive: Option<PeerPolicy>,
    /// The calls that go wrong, in a disturbed scenario.
    pub(crate) disturbed: Option<Disturbed>,
    /// What one invocation's calls are answered, where a test chooses.
    pub chosen: Option<ChosenAnswers>,
    /// What takes how long, where that is known of a real stack.
    pub(crate) replayed: Option<Box<Drawn>>,
    /// What job events, ends and sweeps told CloudWatch, and when; where a test wants to see it.
    pub measures: Option<Vec<(Millis, Measure)>>,
    /// What AWS counts of the functions.
    pub lambda: Lambda,
}

/// A time in which one service is away.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Which outage.
    pub fault: Fault,
    /// From then.
    pub from: Millis,
    /// Until then.
    pub until: Millis,
}

impl Window {
    pub(crate) const fn is_open(&self, now: Millis) -> bool {
        self.from <= now && now < self.until
    }
}

impl World {
    /// A world at its first moment.
    #[must_use]
    pub fn new(
        seed: u64,
        pools: &[muster_domain::pool::Pool],
        fault_rates: FaultRates,
        cloud_config: CloudConfig,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut tables = Tables::new(pools);
        // The stack has run before: it knows whose its App is.
        let known = APP_OWNER.parse().ok().and_then(|owner| PoolSet::owned_by(None, &owner));
        // Each App that a pool names is one of the stack's.
        let apps = pools.iter().filter_map(|pool| Some(pool.entity.as_ref()?.app()));
        let known = apps
            .fold(known, |known, app| PoolSet::with_other_app(known.as_ref(), app, true).or(known));
        tables.pools = known.map(|set| Stored::read(set, Version(0)));
        let github = Github::new(rng.next(), pools);
        Self {
            now: START,
            rng,
            agenda: Agenda::default(),
            fault_rates,
            weathers: Vec::new(),
            fault_streams: FaultStreams::new(seed),
            counts: Counts::default(),
            faults_end: Millis::MAX,
            cloud_config,
            tables,
            queues: Queues::default(),
            ec2: Ec2::default(),
            github,
            checker: Checker::default(),
            violation: None,
            api_calls: Vec::new(),
            deployments: 0,
            settings_cache: <_>::default(),
            orders: Vec::new(),
            flips: Vec::new(),
            ordered: None,
            requests: Vec::new(),
            explained: Vec::new(),
            windows: Vec::new(),
            names: Answers::default(),
            app: right_app(),
            secrets: Secrets::default(),
            refused_item: None,
            contended_until: 0,
            kept: None,
            expiring: Vec::new(),
            calls: Calls::default(),
            operations: BTreeMap::new(),
            noted: Noted::default(),
            tally: Tally::default(),
            current: None,
            wakers: Wakers::default(),
            is_landing: false,
            steps: 0,
            ticks_end: Millis::MAX,
            pending: Vec::new(),
            trace: None,
            story: None,
            naive: None,
            disturbed: None,
            chosen: None,
            replayed: None,
            measures: None,
            lambda: Lambda::default(),
        }
    }

    /// The time in the domain's words.
    #[must_use]
    pub const fn time(&self) -> Time {
        Time::from_millis(self.now)
    }

    /// Keeps a trace from here on.
    pub fn keep_trace(&mut self) {
        self.trace = Some(String::new());
    }

    /// The trace, if one was kept.
    #[must_use]
    pub fn trace(&self) -> &str {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Adds a line to the trace. Costs nothing when none is kept.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let since = self.now - START;
            let (hours, minutes) = (since / HOUR, since / MINUTE % 60);
            let (seconds, millis) = (since / SECOND % 60, since % SECOND);
            let task = self.current.map(|task| format!("[{}.{}]", task.place, task.age));
            let task = task.unwrap_or_default();
            trace.push_str(&format!(
                "{hours:02}:{minutes:02}:{seconds:02}.{millis:03} {task:>8} {}\n",
                line()
            ));
        }
    }

    /// Whether anybody reads what happens.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        self.trace.is_some() || self.story.is_some()
    }

    /// Adds a line to the trace and to a scenario's timeline.
    pub fn narrate(&mut self, line: impl FnOnce() -> String) {
        if !self.is_told() {
            return;
        }
        let line = line();
        if let Some(story) = &mut self.story {
            story.push((self.now, line.clone()));
        }
        self.say(|| format!("  {line}"));
    }

    /// Whether a fault strikes at this opportunity.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        if self.is_chosen(fault) {
            self.strike(fault);
            return true;
        }
        let fault_rates = self.fault_rates.of(fault);
        if fault_rates == 0
            || self.now >= self.faults_end
            || !self.fault_streams.strikes(fault, fault_rates)
        {
            return false;
        }
        self.strike(fault);
        true
    }

    /// A fault strikes.
    pub fn strike(&mut self, fault: Fault) {
        self.counts.add(fault);
        self.say(|| format!("  ! {}", fault.as_str()));
    }

    /// Whether an invocation may be stopped for its time-out.
    #[must_use]
    pub fn may_stall(&self) -> bool {
        let all = self.weathers.iter().chain([&self.fault_rates]);
        self.now < self.faults_end
            && all.into_iter().any(|fault_rates| fault_rates.of(Fault::Stall) > 0)
    }

    /// What befalls the next call of a function, where a disturbed scenario has it go wrong.
    pub(crate) fn disturb(&mut self) -> Option<Way> {
        let way = self.disturbed.as_mut()?.next()?;
        self.say(|| format!("  ! {way:?}"));
        Some(way)
    }

    /// Whether an outage is on.
    pub fn is_away(&mut self, fault: Fault) -> bool {
        let now = self.now;
        let away = self.windows.iter().any(|window| window.fault == fault && window.is_open(now));
        if away {
            self.counts.add(fault);
        }
        away
    }

    /// How long something takes: by chance, or the shortest where a scenario is told by hand.
    pub fn between(&mut self, shortest: Millis, longest: Millis) -> Millis {
        if self.cloud_config.by_hand { shortest } else { self.rng.between(shortest, longest) }
    }

    /// How long a call takes.
    pub fn latency(&mut self) -> Millis {
        let slowest = self.cloud_config.slowest_call;
        self.between(1, slowest)
    }

    /// Whether Lambda has no room for an invocation now.
    pub fn is_throttled(&mut self) -> bool {
        self.is_away(Fault::OutageLambda) || self.strikes(Fault::InvokeThrottled)
    }

    /// How far the clock of an invocation is off.
    pub fn skew(&mut self) -> Millis {
        if self.strikes(Fault::ClockSkewed) { self.between(-4_000, 4_000) } else { 0 }
    }

    /// Has a task started after a moment.
    pub fn start(&mut self, task: Task, after: Millis) {
        let cold = matches!(task, Task::Function(_)) && self.strikes(Fault::ColdStart);
        let wait = if cold { self.between(300, 6 * SECOND) } else { 0 };
        let number = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        self.pending.push(Some((task, cold)));
        self.agenda.at(self.now + after + wait, Event::Start(number));
    }

    /// The task that waits under this number, and whether it starts with empty caches.
    pub fn take_pending(&mut self, number: u32) -> Option<(Task, bool)> {
        let (task, cold) = self.pending.get_mut(number as usize)?.take()?;
        if let Task::Function(call) = &task {
            self.tally.invocations += 1;
            let name = call.name();
            // A minute in which nothing happens is not told.
            if !matches!(call, Call::Sweep) {
                self.say(|| format!("{name} starts"));
            }
        }
        Some((task, cold))
    }

    /// A task came to its end, or was stopped.
    pub fn ended(&mut self, task: &Task, killed: bool) {
        match task {
            Task::Machine(machine) => self.ec2.at_mut(*machine).task = None,
            Task::Function(call) if killed && !matches!(call, Call::Api(_)) => {
                self.count_error(function_of(call));
                self.ended_function(call, killed);
            }
            Task::Function(call) => self.ended_function(call, killed),
        }
    }

    fn ended_function(&mut self, call: &Call, killed: bool) {
        match call {
            Call::ScaleUp(_) => self.queue_is_free(Which::Jobs),
            Call::Launch(_) => self.queue_is_free(Which::Launch),
            Call::Reap(_) => self.queue_is_free(Which::Reap),
            Call::Webhook(number) if killed => self.delivered(*number, false),
            Call::Api(number) if killed => {
                self.reply(*number, crate::invocations::Reply::Broken);
            }
            _ => {}
        }
    }

    /// Something on the agenda that is no task.
    pub fn happen(&mut self, event: Event) {
        match event {
            Event::Poll(which) => self.poll_queue(which),
            Event::Tick => self.tick(),
            Event::Queue(job) => self.queue_job(job),
            Event::Cancel(job) => self.cancel_job(job),
            Event::Gate(job) => self.gate_job(job),
            Event::Approve(job) => self.approve_job(job),
            Event::Reject(job) => self.reject_job(job),
            Event::Dispatch => self.dispatch(),
            Event::LostRunner(job) => self.lost_runner(job),
            Event::RerunComesAgain(run) => self.rerun_comes_again(run),
            Event::Noticed(runner) => self.github.truth.notice_end(runner),
            Event::OfferLapses(runner) => self.offer_lapses(runner),
            // The gateway answers with an error, and GitHub notes a failed delivery.
            Event::Webhook(delivery) if self.is_throttled() => self.delivered(delivery, false),
            Event::Webhook(delivery) => self.start(Task::Function(Call::Webhook(delivery)), 0),
            Event::Machine(machine, arrival) => self.machine_arrives(machine, arrival),
            Event::LateLaunch(number) => self.late_launch(number),
            Event::Notice(machine) => self.notice(machine),
            Event::StateEvent(machine, what, at) => self.state_event(machine, what, at),
            Event::Operator(number) => self.start(Task::Function(Call::Operator(number)), 0),
            Event::Window(number) => self.window(number),
            Event::Weather(number) => self.fault_rates = self.weathers[number as usize].clone(),
            Event::Expire(number) => self.expire(number),
            Event::Wake(_) | Event::Kill(_) | Event::Start(_) => {}
        }
    }

    fn window(&mut self, number: u32) {
        let Some(window) = self.windows.get(number as usize).copied() else { return };
        let open = self.now < window.until;
        self.say(|| format!("{} {}", window.fault.as_str(), if open { "begins" } else { "ends" }));
        if open && window.fault == Fault::OutageZone {
            self.hang_machines_in_away_zone();
        }
    }

    /// The schedule's minute.
    fn tick(&mut self) {
        if self.now < self.ticks_end {
            self.agenda.at(self.now + MINUTE, Event::Tick);
        }
        self.count_age();
        self.look_at_forced();
        // A sweep that finds nothing due changes nothing; a day has 1,440 of them.
        let wants_idle = self.checker.pools.iter().any(|pool| pool.most_idle() > 0);
        let is_served = |job: &Rc<Stored<Job>>| self.is_served(job);
        let is_quiet = self.tables.is_quiet()
            && self.ec2.live() == 0
            && !self.tables.index.unmatched.values().any(is_served);
        let is_quiet =
            is_quiet && !wants_idle && self.undelivered().is_none() && self.tables.images.is_none();
        if is_quiet && !self.has_unannounced() {
            return;
        }
        if self.strikes(Fault::TickMissed) {
            return;
        }
        let jitter = self.between(0, 2 * SECOND);
        // A throttled tick is tried again a minute later.
        let late = if self.is_throttled() { MINUTE } else { 0 };
        self.start(Task::Function(Call::Sweep), jitter + late);
        if self.strikes(Fault::TickDoubled) {
            let later = self.between(0, 5 * SECOND);
            self.start(Task::Function(Call::Sweep), later);
        }
    }

    /// The first broken invariant ends the run.
    pub fn broken(&mut self, rule: &'static str, what: impl FnOnce() -> String) {
        // How things are done is ours; a peer is held to what comes of it.
        let counts = self.naive.is_none() || matches!(rule, "I1" | "I2") || rule.starts_with('R');
        if self.violation.is_none() && counts {
            let violation = Violation { rule, what: what(), at: self.now };
            self.say(|| format!("VIOLATION {}: {}", violation.rule, violation.what));
            self.violation = Some(violation);
        }
    }
}
