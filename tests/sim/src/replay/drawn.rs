//! What is drawn for a machine, a launch or a webhook. A machine's own comes of its number, so that two replays with
//! other pools differ by little else.

use std::collections::BTreeMap;

use muster_domain::ec2::Market;
use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::pool::{MarketPolicy, Pool};

use super::facts::{Facts, SeenMachine};
use crate::agenda::{MINUTE, Millis, SECOND};
use crate::rng::Rng;
use crate::world::World;

/// No machine is older.
const OLDEST: Millis = 12 * 60 * MINUTE;
/// What a webhook's way through the gateway and the queue takes besides.
const WAY: Millis = 100;

/// What is known, and what was drawn so far.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(super) facts: Facts,
    /// What the machines of each pool may be like, by the market that a launch requests. After Spot,
    /// some are On-Demand: EC2 had no Spot capacity for them.
    of_pools: BTreeMap<(PoolName, Market), Vec<SeenMachine>>,
    seed: u64,
    /// Each machine, by its number.
    machines: BTreeMap<u32, Of>,
}

#[derive(Clone, Debug)]
struct Of {
    machine: SeenMachine,
    /// From the job's end to the machine's.
    end: Option<Millis>,
    interrupted_after: Option<Millis>,
    launched_at: Millis,
    done_at: Option<Millis>,
}

impl Drawn {
    pub(super) fn new(facts: Facts, pools: &[Pool], seed: u64) -> Self {
        let of_pool = |pool: &Pool| {
            let on_demand = Pool { market: MarketPolicy::OnDemand, ..pool.clone() };
            [(Market::Spot, pool), (Market::OnDemand, &on_demand)]
                .map(|(market, of)| ((pool.name.clone(), market), facts.machines(of)))
        };
        let of_pools = pools.iter().flat_map(of_pool).collect();
        Self { facts, of_pools, seed, machines: BTreeMap::new() }
    }

    fn draw(&mut self, number: u32, launch: &(PoolName, Market), now: Millis) {
        let mut rng = Rng::new(self.seed ^ (u64::from(number) << 20));
        let Some(machine) = one_of(self.of_pools.get(launch), &mut rng).cloned() else { return };
        let end = one_of(Some(&self.facts.seen(&launch.0).ends), &mut rng).copied();
        let odds = self.facts.interrupted(&machine);
        let minutes = (0..OLDEST / MINUTE).find(|_| odds > 0 && rng.chance(odds));
        let interrupted_after = minutes.map(|minutes| minutes * MINUTE + rng.between(0, MINUTE));
        let of = Of { machine, end, interrupted_after, launched_at: now, done_at: None };
        self.machines.insert(number, of);
    }

    /// What a machine is.
    pub(super) fn machine(&self, number: u32) -> Option<&SeenMachine> {
        self.machines.get(&number).map(|of| &of.machine)
    }
}

fn one_of<'a, T>(these: Option<&'a Vec<T>>, rng: &mut Rng) -> Option<&'a T> {
    let these = these.filter(|these| !these.is_empty())?;
    these.get(rng.index(these.len()))
}

impl World {
    fn drawn(&self, number: u32) -> Option<&Of> {
        self.replayed.as_ref()?.machines.get(&number)
    }

    /// EC2 has launched a machine.
    pub(crate) fn draw_machine(&mut self, number: u32, launch: Option<&LaunchId>) {
        let launch = launch.and_then(|launch| self.tables.launches.get(launch));
        let launch = launch.map(|launch| (launch.pool.clone(), launch.request.market));
        let Some(launch) = launch else { return };
        let now = self.now;
        self.replayed.iter_mut().for_each(|drawn| drawn.draw(number, &launch, now));
    }

    /// How long a machine still boots, where that is known.
    pub(crate) fn boot_takes(&self, number: u32) -> Option<Millis> {
        let of = self.drawn(number)?;
        Some((of.launched_at + of.machine.boot - self.now).max(0))
    }

    /// When its agent listens that asked for its configuration then.
    pub(crate) fn listens_at(&self, number: u32, asked: Millis) -> Option<Millis> {
        Some(asked + self.drawn(number)?.machine.registration)
    }

    /// How much of a job is left when its first step begins: its length is from its start, by GitHub's word.
    pub(crate) fn left_of(&self, job: u32, length: Millis) -> Millis {
        let started = self.github.truth_of(job).and_then(|truth| truth.started_at);
        match started.filter(|_| self.replayed.is_some()) {
            Some(started) => (started + length - self.now).max(0),
            None => length,
        }
    }

    /// Whether it is known how long a job runs: then only its wait is cut short.
    pub(crate) fn runs_to_its_end(&self, job: u32) -> bool {
        self.replayed.is_some() && self.github.job(job).length.is_some()
    }

    /// A machine's job is over.
    pub(crate) fn note_done(&mut self, number: u32) {
        let now = self.now;
        let of = self.replayed.as_mut().and_then(|drawn| drawn.machines.get_mut(&number));
        of.into_iter().for_each(|of| of.done_at = Some(now));
    }

    /// How long a machine is still there whose agent has ended.
    pub(crate) fn goes_after(&self, number: u32) -> Option<Millis> {
        let of = self.drawn(number)?;
        Some((of.done_at? + of.end? - self.now).max(0))
    }

    /// When EC2 takes a machine back, if it does.
    pub(crate) fn interrupted_after(&self, number: u32) -> Option<Millis> {
        self.drawn(number)?.interrupted_after
    }

    /// How long EC2 takes to answer a launch.
    pub(crate) fn launch_takes(&mut self, launch: &LaunchId) -> Millis {
        let pool = self.tables.launches.get(launch).map(|launch| launch.pool.clone());
        let known = self.replayed.as_ref().zip(pool).and_then(|(drawn, pool)| {
            one_of(Some(&drawn.facts.seen(&pool).launches), &mut self.rng).copied()
        });
        known.unwrap_or(self.ec2.launch_takes)
    }

    /// How long a webhook is on its way.
    pub(crate) fn webhook_takes(&mut self) -> Millis {
        let heard = self.replayed.as_ref();
        let heard = heard.and_then(|drawn| one_of(Some(&drawn.facts.heard), &mut self.rng));
        match heard.copied() {
            Some(heard) => (heard - WAY).max(0),
            None => self.between(50, 1_500),
        }
    }

    /// How long GitHub takes to give a job to a runner.
    pub(crate) fn pick_up_takes(&mut self) -> Millis {
        let known = self.replayed.as_ref();
        let known = known.and_then(|drawn| one_of(Some(&drawn.facts.pick_ups), &mut self.rng));
        match known.copied() {
            Some(known) => known,
            None => self.between(200, 3 * SECOND),
        }
    }
}
