//! What the lines of some days say of how long things take, what they cost, and how often EC2 takes machines back.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::ec2::Market;
use muster_domain::ids::PoolName;
use muster_domain::launch::record::cooldown::first_market;
use muster_domain::pool::{MarketPolicy, Pool};
use muster_domain::usage::{EarlyEndCause, EndedBy, Line, UsageKind};

use super::jobs;
use crate::agenda::{HOUR, MINUTE, Millis, SECOND};

/// EC2 answers a launch within that time; what took longer was refused before, which is not modelled.
const LONGEST_LAUNCH: Millis = 15 * SECOND;

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pools: BTreeMap<PoolName, Seen>,
    all: Seen,
    /// Until GitHub's first word of a job was heard.
    pub(super) heard: Vec<Millis>,
    /// From the moment in which both are there, a job and a runner, to the job's start.
    pub(super) pick_ups: Vec<Millis>,
    /// What an hour costs.
    pub prices: PriceBook,
    /// How likely EC2 is to take a spot machine of a type back in a minute, in a million.
    interruptions: BTreeMap<Arc<str>, u32>,
}

/// What was seen of the machines of a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) machines: Vec<SeenMachine>,
    pub(super) launches: Vec<Millis>,
    pub(super) ends: Vec<Millis>,
}

/// A machine that came up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenMachine {
    pub(super) kind: Arc<str>,
    pub(super) market: Market,
    /// From EC2's answer until it asked for its configuration.
    pub(super) boot: Millis,
    /// From then until its agent listened.
    pub(super) registration: Millis,
    /// On-Demand was preferred for its job, so its market says little about other jobs.
    pub(super) is_rerun: bool,
}

/// What an hour of a type costs on a market, in millionths of a dollar: the mean of what was paid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceBook(BTreeMap<(Arc<str>, Market), u64>);

impl PriceBook {
    /// Of machines of a type.
    #[must_use]
    pub fn of(&self, kind: &str, market: Market) -> Option<u64> {
        self.0.get(&(kind.into(), market)).copied()
    }

    /// Of lines with their prices.
    #[must_use]
    pub fn learn(lines: &[Line]) -> Self {
        let mut paid: BTreeMap<(Arc<str>, Market), (u128, u128)> = BTreeMap::new();
        let mut listed: BTreeMap<(Arc<str>, Market), u64> = BTreeMap::new();
        for line in lines {
            let Some((machine, price)) = line.machine.as_ref().zip(line.price) else { continue };
            let (Some(kind), Some(market)) = (&machine.make.kind, machine.make.market) else {
                continue;
            };
            let time = u128::from(line.parts.sum());
            let (sum, whole) = paid.entry((kind.clone(), market)).or_default();
            *sum += time * u128::from(price.whole());
            *whole += time;
            if let Some(on_demand) = price.on_demand {
                let on_demand = on_demand + price.disk.unwrap_or(0);
                listed.insert((kind.clone(), Market::OnDemand), on_demand);
            }
        }
        let mean = |(of, (sum, time)): (_, (u128, u128))| {
            Some((of, u64::try_from(sum.checked_div(time)?).ok()?))
        };
        listed.extend(paid.into_iter().filter_map(mean));
        Self(listed)
    }
}

impl Facts {
    /// Of lines with their prices.
    #[must_use]
    pub fn of(lines: &[Line]) -> Self {
        let mut facts = Self {
            prices: PriceBook::learn(lines),
            interruptions: interruptions(lines),
            ..Self::default()
        };
        let reruns = jobs::reruns(lines);
        for line in lines.iter().filter(|line| line.kind == UsageKind::Machine) {
            let pool = line.pool.clone().map(|pool| facts.pools.entry(pool).or_default());
            let is_rerun = line.job.as_ref().is_some_and(|job| reruns.contains_key(&job.key));
            let all = pool.into_iter().chain([&mut facts.all]);
            all.for_each(|seen| seen.note(line, is_rerun));
            let t = &line.t;
            if line.job.is_some() {
                facts.heard.extend(t.heard.map(|heard| heard.max(0)));
                let pick_up = t.started.zip(t.listening);
                facts.pick_ups.extend(pick_up.map(|(start, ready)| (start - ready.max(0)).max(0)));
            }
        }
        facts
    }

    /// What was seen of this pool, or of all where nothing was.
    pub(super) fn seen(&self, pool: &PoolName) -> &Seen {
        self.pools.get(pool).filter(|seen| !seen.machines.is_empty()).unwrap_or(&self.all)
    }

    /// Returns the machines that this pool may have: its own, on a different market if the pool's has changed; those of
    /// other pools; or else machines that were not seen.
    pub(super) fn machines(&self, pool: &Pool) -> Vec<SeenMachine> {
        let fits = |one: &&SeenMachine| {
            (pool.instance_types.is_empty() || pool.instance_types.contains(&one.kind))
                && (!one.is_rerun || pool.market == MarketPolicy::OnDemand)
        };
        let of = |seen: &Seen| seen.machines.iter().filter(fits).cloned().collect();
        let market = first_market(pool.market);
        let on_market = |mut machines: Vec<SeenMachine>| {
            // A pool that requests Spot had some, unless it did not request it then.
            if pool.market != MarketPolicy::SpotThenOnDemand
                || machines.iter().all(|one| one.market != market)
            {
                machines.retain(|one| one.market == market);
            }
            machines
        };
        let own: Vec<SeenMachine> = self.pools.get(&pool.name).map(of).unwrap_or_default();
        let moved = |mut own: Vec<SeenMachine>| {
            own.iter_mut().for_each(|one| one.market = market);
            own
        };
        let choices = [on_market(own.clone()), moved(own), on_market(of(&self.all))];
        let found = choices.into_iter().find(|machines| !machines.is_empty());
        found.unwrap_or_else(|| self.like(pool))
    }

    /// Machines of types or of a market that nobody has seen: as fast as those that were.
    fn like(&self, pool: &Pool) -> Vec<SeenMachine> {
        let market = first_market(pool.market);
        let as_fast = |one: &SeenMachine| {
            let kind = if pool.instance_types.contains(&one.kind) {
                &one.kind
            } else {
                pool.instance_types.first().unwrap_or(&one.kind)
            };
            SeenMachine { kind: kind.clone(), market, ..one.clone() }
        };
        self.seen(&pool.name).machines.iter().map(as_fast).collect()
    }

    /// How likely a spot machine of this type is to be taken back in a minute, in a million.
    pub(super) fn interrupted(&self, machine: &SeenMachine) -> u32 {
        let spot = machine.market == Market::Spot;
        self.interruptions.get(&machine.kind).copied().filter(|_| spot).unwrap_or(0)
    }
}

impl Seen {
    fn note(&mut self, line: &Line, is_rerun: bool) {
        let (Some(machine), t) = (&line.machine, &line.t) else { return };
        let make = (machine.make.kind.clone(), machine.make.market);
        // Where a machine does not say when it was ready to ask: when it was registered.
        let asked = t.asked.or(t.registered).or(t.listening);
        if let ((Some(kind), Some(market)), Some(launched), Some(asked), Some(listening)) =
            (make, t.launched, asked, t.listening)
        {
            let (boot, registration) = ((asked - launched).max(0), (listening - asked).max(0));
            self.machines.push(SeenMachine { kind, market, boot, registration, is_rerun });
        }
        let launch = t.planned.zip(t.launched).map(|(planned, launched)| launched - planned);
        self.launches.extend(launch.map(|launch| launch.clamp(0, LONGEST_LAUNCH)));
        let is_told = line.at_by == EndedBy::Event && machine.cause.is_none();
        let end = t.completed.filter(|_| is_told).map(|done| t.ended - done);
        self.ends.extend(end.map(|end| end.max(0)));
    }
}

/// By type, of the time that its spot machines ran.
fn interruptions(lines: &[Line]) -> BTreeMap<Arc<str>, u32> {
    let mut seen: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
    for (line, machine) in lines.iter().filter_map(|line| Some((line, line.machine.as_ref()?))) {
        let Some(kind) = machine.make.kind.clone() else { continue };
        if machine.make.market == Some(Market::Spot) && line.kind == UsageKind::Machine {
            let (times, time) = seen.entry(kind).or_default();
            // A job that succeeds in the two minutes after EC2's notice is not interrupted.
            let is_noticed = machine.cause == Some(EarlyEndCause::SpotNotice);
            let is_early = line.is_interrupted() || is_noticed && line.job.is_none();
            *times += u64::from(is_early);
            *time += line.parts.sum();
        }
    }
    let minute = MINUTE.unsigned_abs();
    let rate = |(times, time): (u64, u64)| {
        let ppm = (times * 1_000_000 * minute).checked_div(time.max(HOUR.unsigned_abs()));
        u32::try_from(ppm.unwrap_or(0)).unwrap_or(u32::MAX).min(1_000_000)
    };
    seen.into_iter().map(|(kind, seen)| (kind, rate(seen))).collect()
}
