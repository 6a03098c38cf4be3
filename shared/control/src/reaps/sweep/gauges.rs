//! Values that a sweep publishes for dashboards, in addition to those with an alarm: why jobs wait,
//! and which machines exist.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, ready, try_join};
use muster_domain::ids::MachineId;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::verdict::{Conditions, WaitReason};
use muster_domain::observation::Machine;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Headroom, Scope};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::timings::Timings;
use muster_domain::usage::Prices;

use super::POOLS_AT_ONCE;
use super::look::SweepReads;
use crate::Settings;
use crate::launches::conditions;
use crate::metrics::{self, Measure, Measures, Metric, MetricSubject};
use crate::ports::{ListedMachine, ReadError, Table};

/// Values for dashboards. A failed read leaves a value out rather than publishing a wrong one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Waiting jobs and live instances by pool.
    pools: BTreeMap<MetricSubject, (usize, u32)>,
    /// Waiting jobs by reason. Leaves out reasons without jobs, except `starting`.
    reasons: Option<BTreeMap<WaitReason, usize>>,
    /// Jobs that wait for an approval.
    gated: Option<usize>,
    /// The fleet as of this sweep's comparison with EC2, if it made one.
    pub(super) fleet: Option<Fleet>,
}

impl Gauges {
    /// Counts what a sweep has read. For the reasons of waiting jobs, the instances of their pools
    /// are read as well.
    pub(super) async fn of<T: Table>(
        table: &T,
        looked: &SweepReads,
        settings: &Settings,
        now: Time,
    ) -> Self {
        let gated = looked.gated.as_ref().ok().map(Vec::len);
        let mut gauges = Self { gated, ..Self::default() };
        if settings.measures != Measures::None {
            gauges.reasons = gauges.count_waiting(table, looked, settings, now).await;
        }
        gauges
    }

    /// Counts waiting jobs by reasons. Returns none where something could not be read: a sum of the
    /// rest would be wrong.
    async fn count_waiting<T: Table>(
        &mut self,
        table: &T,
        looked: &SweepReads,
        settings: &Settings,
        now: Time,
    ) -> Option<BTreeMap<WaitReason, usize>> {
        let mut pools = Vec::new();
        for (pool, looked) in settings.pools.iter().zip(&looked.pools) {
            let (Ok(waiting), Ok(capacity)) = (&looked.waiting, &looked.capacity) else { continue };
            let live = capacity.as_ref().map_or(0, |capacity| capacity.live);
            let counts = self.pools.entry(metrics::pool(settings, &pool.name)).or_default();
            *counts = (counts.0 + waiting.len(), counts.1 + live);
            pools.push((pool, waiting, live));
        }
        let (Ok(switches), Ok(cooldowns), Ok(counted), true) = (
            &looked.switches,
            &looked.cooldowns,
            &looked.counted,
            pools.len() == settings.pools.len(),
        ) else {
            return None;
        };
        let mut counted = counted.clone();
        counted.insert(Scope::Stack, pools.iter().map(|(_, _, live)| live).sum());
        let headroom = Headroom::new(settings.limits.clone(), counted);
        // At least one value, so that the sum on the dashboard is 0 when no job waits.
        let mut reasons = BTreeMap::from([(WaitReason::Starting, 0)]);
        let switches = switches.as_deref().cloned().unwrap_or_default();
        let cooldowns = cooldowns.as_deref().cloned().unwrap_or_default();
        pools.retain(|(_, waiting, _)| !waiting.is_empty());
        for some in pools.chunks(POOLS_AT_ONCE) {
            let read = some.iter().map(|(pool, waiting, live)| {
                let conditions =
                    Conditions::new(switches.clone(), cooldowns.clone(), *live, headroom.clone());
                with_instances(table, pool, conditions, waiting, now, &settings.timings)
            });
            for ((pool, waiting, _), conditions) in some.iter().zip(join_all(read).await) {
                let mut conditions = conditions.ok()?;
                for job in *waiting {
                    let reason = WaitReason::of(job, pool, &mut conditions, now);
                    *reasons.entry(reason).or_default() += 1;
                }
            }
        }
        Some(reasons)
    }

    /// Returns the metrics.
    pub(super) fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let mut all = Vec::new();
        for (pool, (waiting, live)) in &self.pools {
            all.push(Measure { of: pool.clone(), ..Measure::count(Metric::JobsWaiting, *waiting) });
            all.push(Measure::of(pool.clone(), Metric::MachinesLive, f64::from(*live)));
        }
        for (reason, count) in self.reasons.iter().flatten() {
            let of = MetricSubject::Reason(*reason);
            all.push(Measure { of, ..Measure::count(Metric::JobsWaiting, *count) });
        }
        all.extend(self.gated.map(|count| Measure::count(Metric::JobsGated, count)));
        all.extend(self.fleet.iter().flat_map(|fleet| fleet.measures(settings)));
        all
    }
}

/// Adds what the instances of a pool say of its waiting jobs, as `jobs` and `explain` read them.
async fn with_instances<T: Table>(
    table: &T,
    pool: &Pool,
    conditions: Conditions,
    waiting: &[Stored<Job>],
    now: Time,
    timings: &Timings,
) -> Result<Conditions, ReadError> {
    let (claimed, demand): (Vec<&Stored<Job>>, Vec<&Stored<Job>>) =
        waiting.iter().partition(|job| job.claim.is_some());
    let free = match demand.is_empty() {
        true => ready(Ok(Vec::new())).left_future(),
        false => table.free_instances(&pool.name).right_future(),
    };
    let slots = match claimed.is_empty() {
        true => ready(Ok(Vec::new())).left_future(),
        false => table.slots_to_retry(&pool.name).right_future(),
    };
    let (free, slots) = try_join(free, slots).await?;
    let judged = conditions::judged(table, pool, conditions, &demand, &free, now, timings).await?;
    Ok(judged.with_slots(&slots))
}

/// The fleet as compared with EC2.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fleet {
    /// Machines with a running job, by pool.
    busy: BTreeMap<MetricSubject, usize>,
    /// Cost per hour, in millionths of a dollar.
    price: u64,
    /// Number of machines without a known price.
    unpriced: usize,
}

impl Fleet {
    /// Computes the fleet from EC2's list and the live records.
    pub(super) fn of(
        machines: &[ListedMachine],
        records: &[Stored<Instance>],
        prices: &Prices,
        settings: &Settings,
    ) -> Self {
        let mut fleet = Self::default();
        for pool in &settings.pools {
            fleet.busy.entry(metrics::pool(settings, &pool.name)).or_default();
        }
        for record in records.iter().filter(|record| record.runner.is_busy()) {
            *fleet.busy.entry(metrics::pool(settings, &record.pool)).or_default() += 1;
        }
        let owners: BTreeMap<&MachineId, &Instance> = records
            .iter()
            .filter_map(|record| Some((record.machine()?, record.record())))
            .collect();
        for machine in machines {
            if !matches!(machine.state, Machine::Pending | Machine::Running) {
                continue;
            }
            let owner = owners.get(&machine.id).and_then(|owner| settings.pool(&owner.pool));
            let disk = owner.and_then(|pool| pool.disk.as_ref());
            let disk = disk.map_or(Pool::TEMPLATE_DISK_GIB, |disk| disk.size_gib);
            match prices.of(&machine.make, disk) {
                Some(price) => fleet.price += price.whole(),
                None => fleet.unpriced += 1,
            }
        }
        fleet
    }

    #[expect(clippy::cast_precision_loss, reason = "sums of money stay far below 2^52")]
    fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let mut all = vec![
            Measure::new(Metric::DollarsAnHour, self.price as f64 / 1e6),
            Measure::count(Metric::MachinesUnpriced, self.unpriced),
        ];
        if settings.measures != Measures::None {
            all.extend(self.busy.iter().map(|(pool, count)| Measure {
                of: pool.clone(),
                ..Measure::count(Metric::MachinesBusy, *count)
            }));
        }
        all
    }
}
