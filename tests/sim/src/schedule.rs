//! What a seed makes of a day: pools, jobs, cancellations, orders of operators, outages.

use control::Settings;
use domain::labels::Labels;
use domain::pool::Pool;
use serde_json::{Value, json};

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND, START};
use crate::fault::{Fault, Odds};
use crate::github::Job;
use crate::rng::Rng;
use crate::world::{Manner, Window, World};

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Which of the live rows, by chance.
    pub pick: u64,
    /// Provider errors do not hold it up.
    pub force: bool,
    /// Neither do refused credentials.
    pub bypass: bool,
    /// Neither does a job.
    pub kill: bool,
}

/// A day under a seed.
#[derive(Debug)]
pub struct Plan {
    /// The stack.
    pub settings: Settings,
    /// The world, with everything entered in its agenda.
    pub world: World,
    /// When the last job is queued and the last fault strikes.
    pub faults_end: Millis,
}

/// How long the busy part of a day is, from first to last job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Half an hour: for many seeds.
    Short,
    /// A day.
    Day,
}

const ORG: &str = "acme";

/// A pool.
#[must_use]
pub fn pool(name: &str, labels: &[&str], max: u32, market: &str, entity: Option<&str>) -> Pool {
    let value = json!({
        "name": name,
        "entity": entity,
        "labels": labels,
        "launch_template_id": "lt-0123456789abcdef0",
        "launch_template_version": "3",
        "instance_types": ["m7i.large", "m7a.large"],
        "subnets": ["subnet-a", "subnet-b"],
        "market": market,
        "max": max,
        "max_lifetime_seconds": 4 * 3600,
    });
    match serde_json::from_value(value) {
        Ok(pool) => pool,
        Err(error) => unreachable!("a valid pool: {error}"),
    }
}

/// The stack of the schedules: pools whose labels overlap, so that runners of one take jobs of another.
#[must_use]
pub fn settings(rng: &mut Rng) -> Settings {
    let markets = ["spot", "on-demand", "spot-then-on-demand"];
    let mut max = || [1, 2, 5, 20][rng.index(4)];
    let (small, large, own) = (max(), max(), max());
    let mut pools = vec![pool("default", &["linux", "x64"], small, markets[rng.index(3)], None)];
    if rng.chance(500_000) {
        pools.push(pool("gpu", &["linux", "x64", "gpu"], large, markets[rng.index(3)], None));
    }
    if rng.chance(300_000) {
        let entity = Some("acme/web");
        pools.push(pool("web", &["linux", "x64"], own, markets[rng.index(3)], entity));
    }
    Settings { stack: "sim".to_owned(), pools, timings: domain::timings::Timings::default() }
}

impl Plan {
    /// The day of a seed.
    #[must_use]
    pub fn of(seed: u64, length: Length) -> Self {
        let mut rng = Rng::new(seed);
        let settings = settings(&mut rng);
        let odds = if rng.chance(50_000) { Odds::none() } else { Odds::swarm(&mut rng) };
        let manner = Manner {
            replay_shows_machines: rng.chance(500_000),
            slowest_call: [5, 40, 400, 3_000][rng.index(4)],
            by_hand: false,
        };
        let mut world = World::new(rng.next(), &settings.pools, odds, manner);
        world.checker.know(&settings.pools);
        let busy = match length {
            Length::Short => rng.between(10 * MINUTE, 40 * MINUTE),
            Length::Day => 24 * HOUR,
        };
        let faults_end = START + busy;
        world.faults_end = faults_end;
        plan_jobs(&mut rng, &mut world, busy);
        plan_orders(&mut rng, &mut world, busy);
        plan_outages(&mut rng, &mut world, busy);
        // Somebody else's machines: never to be touched.
        for _ in 0..rng.below(3) {
            world.make_machine(None, false);
        }
        world.agenda.at(START + rng.between(0, MINUTE), Event::Tick);
        Self { settings, world, faults_end }
    }
}

fn plan_jobs(rng: &mut Rng, world: &mut World, busy: Millis) {
    let count = match busy > HOUR {
        true => rng.between(10, 60),
        false => [1, 3, 8, 25][rng.index(4)],
    };
    let sets: [&[&str]; 5] = [
        &["self-hosted", "linux"],
        &["self-hosted", "linux", "x64"],
        &["linux", "gpu"],
        &["ubuntu-latest"],
        &["self-hosted", "arm64"],
    ];
    // In bursts and one by one.
    let mut at = START;
    for number in 0..count {
        at = if rng.chance(400_000) { at } else { START + rng.between(0, busy) };
        let labels = sets[if rng.chance(930_000) { rng.index(3) } else { 3 + rng.index(2) }];
        let repository = format!("{ORG}/{}", ["web", "api"][rng.index(2)]);
        let length = match rng.index(4) {
            0 => rng.between(5 * SECOND, MINUTE),
            1 => rng.between(10 * MINUTE, 40 * MINUTE),
            _ => rng.between(MINUTE, 10 * MINUTE),
        };
        let private = rng.chance(980_000);
        let number = u32::try_from(number).unwrap_or_default();
        let labels = Labels::new(labels);
        world.github.jobs.push(Job::planned(number, &repository, private, labels, Some(length)));
        world.agenda.at(at, Event::Queue(number));
        if rng.chance(80_000) {
            let longest = [MINUTE, 20 * MINUTE][rng.index(2)];
            let after = rng.between(0, longest);
            world.agenda.at(at + after, Event::Cancel(number));
        }
    }
}

fn plan_orders(rng: &mut Rng, world: &mut World, busy: Millis) {
    if !rng.chance(500_000) {
        return;
    }
    for number in 0..rng.between(1, 12) {
        let (force, bypass) = (rng.chance(500_000), rng.chance(300_000));
        let order = Order { pick: rng.next(), force, bypass, kill: rng.chance(200_000) };
        world.orders.push(order);
        let at = START + rng.between(MINUTE, busy);
        world.agenda.at(at, Event::Operator(u32::try_from(number).unwrap_or_default()));
    }
}

fn plan_outages(rng: &mut Rng, world: &mut World, busy: Millis) {
    for fault in [Fault::OutageEc2, Fault::OutageGithub, Fault::OutageTable] {
        if !rng.chance(world.odds.of(fault)) {
            continue;
        }
        let from = START + rng.between(0, busy);
        let longest = if fault == Fault::OutageTable { 5 * MINUTE } else { HOUR };
        let until = (from + rng.between(MINUTE, longest)).min(START + busy);
        let number = u32::try_from(world.windows.len()).unwrap_or_default();
        world.windows.push(Window { fault, from, until });
        world.agenda.at(from, Event::Window(number));
        world.agenda.at(until, Event::Window(number));
    }
}

impl World {
    /// The request of an operator's order, about a row that lives right now.
    pub fn order(&mut self, number: u32) -> Option<Value> {
        if let Some(request) = self.requests.get_mut(number as usize) {
            return request.take();
        }
        let order = *self.orders.get(number as usize)?;
        let count = self.tables.live.len();
        if count == 0 {
            return None;
        }
        let name = self.tables.live.iter().nth((order.pick % count as u64) as usize)?.clone();
        self.tally.orders += 1;
        if order.force {
            self.checker.forced.insert(name.clone());
        }
        Some(json!({
            "version": 1,
            "action": "delete",
            "name": name.as_str(),
            "reason": "by the schedule",
            "by": format!("operator-{number}"),
            "force": order.force,
            "bypass_github_unauthorized": order.bypass,
            "kill_running_job": order.kill,
        }))
    }
}
