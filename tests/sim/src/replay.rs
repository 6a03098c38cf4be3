//! The jobs of a record of usage once more, under pools that may be others: what it would have cost,
//! and how long they would have waited.
//!
//! The passes are the real ones. What is not in the record is not in the replay: EC2's refusals and
//! interruptions, GitHub's limits, and who else used the account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_control::Settings;
use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::usage::{Kind, Line, Waits};

use crate::agenda::{HOUR, MINUTE, Millis, START};
use crate::executor::Executor;
use crate::fault::FaultRates;
use crate::names::APP_OWNER;
use crate::run::come_to_rest;
use crate::schedule::{Plan, PlannedJob, pool as simulated};
use crate::world::CloudConfig;

/// Where the simulated cloud's machines can be.
const SUBNETS: [&str; 3] = ["subnet-a", "subnet-b", "subnet-c"];
/// What a machine is where a pool says no type.
const USUAL: &str = "m7i.large";
/// How many boots of a type are drawn from at most.
const MOST_BOOTS: usize = 10_000;

/// What a record of usage says of jobs and machines.
#[derive(Clone, Debug, Default)]
pub struct Record {
    jobs: Vec<PlannedJob>,
    boots: BTreeMap<Arc<str>, Vec<Millis>>,
    launch_takes: Millis,
    prices: Prices,
    /// What the record itself amounts to.
    pub real: Outcome,
}

/// What it amounts to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Millionths.
    pub dollars: u64,
    /// Machines.
    pub machines: u64,
    /// Jobs that a machine ran.
    pub jobs: u64,
    /// How long they waited.
    pub waits: Waits,
    /// How long machines took from EC2 to their job, each.
    starts: Vec<Millis>,
}

/// What an hour of machines costs on average, in millionths of a dollar: which type and market EC2
/// gives is its own affair, and a pool's machines are as they were.
#[derive(Clone, Debug, Default)]
struct Prices {
    pools: BTreeMap<PoolName, Average>,
    types: BTreeMap<Arc<str>, Average>,
    all: Average,
}

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    millis: u128,
    /// Millionths of a dollar, by the hour, times milliseconds.
    paid: u128,
}

impl Average {
    fn add(&mut self, millis: u64, an_hour: u64) {
        self.millis += u128::from(millis);
        self.paid += u128::from(millis) * u128::from(an_hour);
    }

    fn get(self) -> Option<u64> {
        u64::try_from(self.paid.checked_div(self.millis)?).ok()
    }
}

impl Prices {
    fn add(&mut self, line: &Line) {
        let (Some(price), millis) = (line.price, line.parts.sum()) else { return };
        let kind = line.machine.as_ref().and_then(|machine| machine.make.kind.clone());
        let own = line.pool.clone().map(|pool| self.pools.entry(pool).or_default());
        let of_type = kind.map(|kind| self.types.entry(kind).or_default());
        let averages = own.into_iter().chain(of_type).chain([&mut self.all]);
        averages.for_each(|average| average.add(millis, price.whole()));
    }

    /// Of a pool that was there: as it was. Of another one: as its type was, or as all were.
    fn of(&self, line: &Line) -> u64 {
        let kind = line.machine.as_ref().and_then(|machine| machine.make.kind.as_ref());
        let own = line.pool.as_ref().and_then(|pool| self.pools.get(pool)?.get());
        let of_type = || kind.and_then(|kind| self.types.get(kind)?.get());
        own.or_else(of_type).or_else(|| self.all.get()).unwrap_or_default()
    }
}

impl Record {
    /// Of lines in any order.
    #[must_use]
    pub fn new(lines: &[Line]) -> Self {
        let mut record = Self::default();
        let first = lines.iter().map(|line| line.since.as_millis()).min().unwrap_or_default();
        let mut launches = Vec::new();
        for line in lines {
            record.jobs.extend(job(line, first));
            record.prices.add(line);
            record.real.add(line, line.cost().map_or(0, muster_domain::usage::Parts::sum));
            let t = &line.t;
            launches
                .extend(t.planned.zip(t.launched).map(|(planned, launched)| launched - planned));
            let kind = line.machine.as_ref().and_then(|machine| machine.make.kind.clone());
            if let (Some(kind), Some(boot)) = (kind, boot(line)) {
                let boots = record.boots.entry(kind).or_default();
                if boots.len() < MOST_BOOTS {
                    boots.push(boot);
                }
            }
        }
        launches.sort_unstable();
        record.launch_takes = launches.get(launches.len() / 2).copied().unwrap_or_default().max(0);
        record.jobs.sort_by_key(|job| job.at);
        record
    }

    /// How many jobs it has.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Runs its jobs under the settings that were in force, and sets the machines to the pace of the
    /// record: what the simulated cloud takes for a registration and a job's way to its runner is
    /// its own, and is in the record's figures once already.
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub fn calibrate(&mut self, settings: &Settings, seed: u64) -> Result<(), String> {
        let slower = self.replay(settings, seed)?.usual_start() - self.real.usual_start();
        for boot in self.boots.values_mut().flatten() {
            *boot = (*boot - slower).max(0);
        }
        Ok(())
    }

    /// Runs its jobs under these settings. The same seed gives the same outcome.
    ///
    /// # Errors
    /// A rule that the simulator watches was broken, in a sentence.
    pub fn replay(&self, settings: &Settings, seed: u64) -> Result<Outcome, String> {
        let settings = simulated_settings(settings);
        let last = self.jobs.last().map_or(START, |job| job.at);
        let plan = Plan {
            seed,
            settings: settings.clone(),
            cloud_config: CloudConfig {
                replay_shows_machines: true,
                slowest_call: 40,
                redrives: true,
                by_hand: false,
            },
            weathers: vec![(START, FaultRates::none())],
            jobs: self.jobs.clone(),
            orders: Vec::new(),
            flips: Vec::new(),
            windows: Vec::new(),
            strangers: 0,
            kept: Some(5 * HOUR),
            first_tick: START + MINUTE,
            faults_end: last + MINUTE,
        };
        let mut world = plan.world();
        world.ec2.boots = self.boots.clone();
        world.ec2.launch_takes = self.launch_takes;
        let mut executor = Executor::new(world, settings);
        executor.run(plan.faults_end);
        come_to_rest(&mut executor, plan.faults_end);
        let world = executor.sim().world.borrow();
        if let Some(broken) = &world.violation {
            return Err(format!("{broken:?}"));
        }
        let mut outcome = Outcome::default();
        for line in world.tables.usage.values() {
            let cost = line.parts.at(self.prices.of(line)).sum();
            outcome.add(line, cost);
        }
        Ok(outcome)
    }
}

impl Outcome {
    fn add(&mut self, line: &Line, cost: u64) {
        self.dollars += cost;
        self.machines += u64::from(line.kind == Kind::Machine);
        self.jobs += u64::from(line.wait().is_some());
        self.waits.add_line(line);
        self.starts.extend(boot(line));
    }

    /// Half of the machines took no longer to their job.
    fn usual_start(&self) -> Millis {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        starts.get(starts.len() / 2).copied().unwrap_or_default()
    }
}

/// A job as it was asked for. One that no pool was to serve is nobody's, and one whose length nobody
/// has told cannot be run again.
fn job(line: &Line, first: i64) -> Option<PlannedJob> {
    let of = line.job.as_ref()?;
    line.pool.as_ref()?;
    let t = &line.t;
    let at = START + (line.since.as_millis() - first);
    let is_cut = t.started.is_none();
    let length = match (t.started, t.completed) {
        (Some(started), Some(completed)) => completed - started,
        _ if is_cut && line.kind == Kind::Job => MINUTE,
        _ => return None,
    };
    // All of one owner: the simulated GitHub has one App, and it is that owner's.
    let (_, name) = of.repository.split_once('/')?;
    Some(PlannedJob {
        at,
        cancelled_at: is_cut.then(|| at + t.completed.unwrap_or(t.ended).max(0)),
        gate: None,
        repository: format!("{APP_OWNER}/{name}").into(),
        private: of.private,
        labels: of.labels.clone(),
        length: length.max(0),
    })
}

/// From EC2's machine to its job, or to its agent that listens where the machine was there before.
fn boot(line: &Line) -> Option<Millis> {
    let t = &line.t;
    let launched = t.launched?;
    let until = t.started.filter(|_| launched >= 0).or(t.listening)?;
    Some((until - launched).max(0))
}

/// The pools as the simulated cloud can serve them: its subnets, its App, and no image to look for.
fn simulated_settings(settings: &Settings) -> Settings {
    let usual = simulated("usual", &["usual"], 1, "spot", None);
    let owned =
        |name: &str| format!("{APP_OWNER}/{}", name.split_once('/').map_or(name, |(_, own)| own));
    let pools = settings.pools.iter().map(|pool| {
        let types: BTreeSet<Arc<str>> = pool.instance_types.iter().cloned().collect();
        let mut types: Vec<Arc<str>> = types.into_iter().collect();
        if types.is_empty() {
            types.push(USUAL.into());
        }
        let zones = pool.subnets.len().clamp(1, SUBNETS.len());
        let entity = pool.entity.as_ref().map(ToString::to_string);
        let entity = entity.map(|entity| match entity.contains('/') {
            true => owned(&entity),
            false => APP_OWNER.to_owned(),
        });
        Pool {
            entity: entity.and_then(|entity| entity.parse().ok()),
            launch_template_id: usual.launch_template_id.clone(),
            launch_template_version: usual.launch_template_version.clone(),
            app_owner: usual.app_owner.clone(),
            own_template: None,
            arch: None,
            requirements: None,
            placement: None,
            reserved_first: false,
            image: None,
            disk: None,
            max_price: None,
            boot_hook: None,
            agent_mirror: None,
            instance_types: types,
            subnets: SUBNETS[..zones].iter().map(|subnet| Arc::from(*subnet)).collect(),
            repositories: pool.repositories.iter().map(|name| owned(name)).collect(),
            ..pool.clone()
        }
    });
    Settings {
        stack: crate::schedule::STACK.to_owned(),
        pools: pools.collect(),
        ..settings.clone()
    }
}
