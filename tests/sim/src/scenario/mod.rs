//! Scenarios in plain text: a few words a line, told by hand, against the same world.
//!
//! Disturbed, it is told again for each call that its functions make (`disturb_each`).
//!
//! A short scenario's timeline, one line for every transition, effect and call, stands beside it and
//! is compared word for word, so that a reviewer sees in a diff what a change does to the story.

mod command;
mod disturbed;
mod expect;
mod failures;
mod interrupted;
mod narrate;
mod operator;
mod stage;
mod timeline;

use muster_control::Settings;
use muster_domain::ids::InstanceName;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::timings::Timings;

use crate::agenda::{Event, Millis, SECOND, START};
use crate::executor::Executor;
use crate::fault::FaultRates;
use crate::naive::PeerPolicy;
use crate::schedule::STACK;
use crate::summary::Summary;
use crate::world::{CloudConfig, World};

pub use self::disturbed::{Broken, Disturbance, calls_of, disturb_each, undisturbed};
pub(crate) use self::disturbed::{Disturbed, Way};
pub use self::interrupted::{InterruptedRun, interrupted};
pub use self::stage::Stage;
pub use self::timeline::render;

/// How much time passes after each command.
const BEAT: Millis = 5 * SECOND;

/// A scenario while it is told.
pub struct Scenario {
    executor: Option<Executor>,
    pools: Vec<muster_domain::pool::Pool>,
    limits: Limits,
    balance: Balance,
    timeline: Vec<(Millis, String)>,
    replay_shows_machines: bool,
    naive: Option<PeerPolicy>,
    disturbed: Option<Disturbed>,
}

/// Tells a scenario, under our passes or under a peer's policy. Returns its timeline and its
/// outcome.
///
/// # Errors
/// The line at fault and what is wrong with it: a word that is not known, or an expectation that
/// failed.
pub fn tell(text: &str, naive: Option<PeerPolicy>) -> Result<(String, Summary), String> {
    let mut scenario = Scenario::under(naive);
    for (number, line) in (1..).zip(text.lines()) {
        for command in commands(line) {
            scenario.obey(command).map_err(|problem| {
                let timeline = render(&scenario);
                format!("line {number}: {command}: {problem}\n{timeline}")
            })?;
        }
    }
    let outcome = scenario.change(Summary::of);
    Ok((render(&scenario), outcome))
}

/// What a policy must break in a scenario, as its line `naive POLICY breaks …` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakage {
    /// The policy.
    pub naive: PeerPolicy,
    /// The expectation, word for word, or the invariant.
    pub breaks: String,
}

/// The policies that a scenario names.
///
/// # Errors
/// A line that names none.
pub fn breakages(text: &str) -> Result<Vec<Breakage>, String> {
    let lines = commands(text).filter_map(|line| line.strip_prefix("naive "));
    let breakage = |line: &str| {
        let (word, breaks) = line.split_once(" breaks ").ok_or("naive POLICY breaks …")?;
        let naive = PeerPolicy::named(word).ok_or_else(|| format!("{word}: no such policy"))?;
        Ok(Breakage { naive, breaks: breaks.trim().to_owned() })
    };
    lines.map(breakage).collect()
}

/// The commands of a text, without its comments.
pub fn commands(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let all = lines.flat_map(|line| line.split(';'));
    all.map(str::trim).filter(|command| !command.is_empty())
}

impl Scenario {
    /// An empty one, under our passes or under a peer's policy.
    fn under(naive: Option<PeerPolicy>) -> Self {
        Self {
            executor: None,
            pools: Vec::new(),
            limits: Limits::default(),
            balance: Balance::default(),
            timeline: Vec::new(),
            replay_shows_machines: true,
            naive,
            disturbed: None,
        }
    }

    /// The world, made at the first command that needs it.
    fn executor(&mut self) -> &mut Executor {
        let (pools, replay) = (&self.pools, self.replay_shows_machines);
        let (naive, disturbed) = (self.naive, &self.disturbed);
        let (limits, balance) = (&self.limits, self.balance);
        self.executor.get_or_insert_with(|| {
            let cloud_config = CloudConfig {
                replay_shows_machines: replay,
                slowest_call: 1,
                redrives: true,
                by_hand: true,
            };
            let mut world = World::new(1, pools, FaultRates::none(), cloud_config);
            let timings = naive.map_or_else(Timings::default, PeerPolicy::timings);
            let settings = Settings {
                limits: limits.clone(),
                balance,
                ..Settings::from_parameters(STACK.to_owned(), pools.clone(), timings)
            };
            world.checker.know(&settings);
            world.naive = naive;
            world.disturbed.clone_from(disturbed);
            if disturbed.as_ref().is_some_and(|one| one.is_traced) {
                world.keep_trace();
            }
            world.story = Some(Vec::new());
            // The schedule's minute begins a little later, so that no command meets it by accident.
            world.agenda.at(START + 58 * SECOND, Event::Tick);
            Executor::new(world, settings)
        })
    }

    /// Changes the world.
    fn change<R>(&mut self, change: impl FnOnce(&mut World) -> R) -> R {
        let executor = self.executor();
        change(&mut executor.sim().world.borrow_mut())
    }

    /// Lets time pass, and collects what happens in it.
    fn pass(&mut self, length: Millis) -> Result<(), String> {
        let executor = self.executor();
        let now = executor.sim().world.borrow().now;
        executor.run(now + length);
        let (story, violation) = {
            let mut world = executor.sim().world.borrow_mut();
            (world.story.replace(Vec::new()), world.violation.clone())
        };
        self.timeline.extend(story.unwrap_or_default());
        match violation {
            Some(violation) => Err(format!("{} broken: {}", violation.rule, violation.what)),
            None => Ok(()),
        }
    }

    /// Instances in the order in which they were planned.
    fn instances(&mut self) -> Vec<InstanceName> {
        let mut rows: Vec<_> = self.change(|world| {
            let rows = world.tables.instances.values();
            rows.map(|row| (row.created_at, row.name.clone())).collect()
        });
        rows.sort();
        rows.into_iter().map(|(_, name)| name).collect()
    }

    fn instance(&mut self, number: usize) -> Result<InstanceName, String> {
        let instances = self.instances();
        let count = instances.len();
        let found = number.checked_sub(1).and_then(|index| instances.into_iter().nth(index));
        found.ok_or_else(|| format!("there are {count} instances"))
    }

    /// A machine's number in the world; scenarios count from one.
    fn machine(&mut self, number: usize) -> Result<u32, String> {
        let count = self.change(|world| world.ec2.machines.len());
        if number == 0 || number > count {
            return Err(format!("there are {count} machines"));
        }
        u32::try_from(number - 1).map_err(|error| error.to_string())
    }
}
