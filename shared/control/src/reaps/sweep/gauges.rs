//! What a sweep counts to be shown, beside what alarms watch: why jobs wait, and what machines there
//! are.

use std::collections::BTreeMap;

use muster_domain::ids::MachineId;
use muster_domain::instance::Instance;
use muster_domain::launch::verdict::{Conditions, WaitReason};
use muster_domain::observation::Machine;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Headroom, Scope};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Prices;
use strum::VariantArray as _;

use super::look::Looked;
use crate::Settings;
use crate::metrics::{self, Measure, Measures, Metric, Of};
use crate::ports::ListedMachine;

/// What is shown. What could not be read has no value, rather than a wrong one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Waiting jobs of each pool, and live instances.
    pools: BTreeMap<Of, (usize, u32)>,
    /// Waiting jobs by reasons.
    reasons: Option<BTreeMap<WaitReason, usize>>,
    /// Jobs behind an approval.
    gated: Option<usize>,
    /// By the last comparison, where this sweep made one.
    pub(super) fleet: Option<Fleet>,
}

impl Gauges {
    /// What the reads of a sweep show.
    pub(super) fn of(looked: &Looked, settings: &Settings, now: Time) -> Self {
        let gated = looked.gated.as_ref().ok().map(Vec::len);
        let mut gauges = Self { gated, ..Self::default() };
        if settings.measures != Measures::None {
            gauges.reasons = gauges.count_waiting(looked, settings, now);
        }
        gauges
    }

    /// None where something could not be read: a sum of the rest would be wrong.
    fn count_waiting(
        &mut self,
        looked: &Looked,
        settings: &Settings,
        now: Time,
    ) -> Option<BTreeMap<WaitReason, usize>> {
        let mut pools = Vec::new();
        for (pool, looked) in settings.pools.iter().zip(&looked.pools) {
            let (Ok(waiting), Ok(capacity)) = (&looked.waiting, &looked.capacity) else { continue };
            let live = capacity.as_ref().map_or(0, |capacity| capacity.live);
            let counts = self.pools.entry(metrics::pool(settings, &pool.name)).or_default();
            *counts = (counts.0 + waiting.len(), counts.1 + live);
            pools.push((pool, waiting, looked.free.as_deref().unwrap_or_default(), live));
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
        counted.insert(Scope::Stack, pools.iter().map(|(_, _, _, live)| live).sum());
        let headroom = Headroom::new(settings.limits.clone(), counted);
        let mut reasons: BTreeMap<WaitReason, usize> =
            WaitReason::VARIANTS.iter().map(|reason| (*reason, 0)).collect();
        for (pool, waiting, free, live) in pools {
            let switches = switches.as_deref().cloned().unwrap_or_default();
            let cooldowns = cooldowns.as_deref().cloned().unwrap_or_default();
            let demand: Vec<_> = waiting.iter().filter(|job| job.is_demand()).collect();
            // Its live instances are not read for this: of a trouble one machine may find out, then.
            let none: [Stored<Instance>; 0] = [];
            let mut conditions = Conditions::new(switches, cooldowns, live, headroom.clone())
                .judged_by(pool, &demand, free, &none, now, &settings.timings);
            for job in waiting {
                *reasons.entry(WaitReason::of(job, pool, &mut conditions, now)).or_default() += 1;
            }
        }
        Some(reasons)
    }

    /// What CloudWatch is told.
    pub(super) fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let mut all = Vec::new();
        for (pool, (waiting, live)) in &self.pools {
            all.push(Measure { of: pool.clone(), ..Measure::count(Metric::JobsWaiting, *waiting) });
            all.push(Measure::of(pool.clone(), Metric::MachinesLive, f64::from(*live)));
        }
        for (reason, count) in self.reasons.iter().flatten() {
            let of = Of::Reason(*reason);
            all.push(Measure { of, ..Measure::count(Metric::JobsWaiting, *count) });
        }
        all.extend(self.gated.map(|count| Measure::count(Metric::JobsGated, count)));
        all.extend(self.fleet.iter().flat_map(|fleet| fleet.measures(settings)));
        all
    }
}

/// What a comparison with EC2 shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fleet {
    /// Machines at work, of each pool.
    busy: BTreeMap<Of, usize>,
    /// Millionths of a dollar an hour.
    price: u64,
    /// Machines without a price.
    unpriced: usize,
}

impl Fleet {
    /// Of EC2's list and the records that live.
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
