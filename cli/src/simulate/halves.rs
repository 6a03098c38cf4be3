//! The changes that `rightsize` proposes, as input of a simulation: the past days and the pool file with half the machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::ids::PoolName;
use muster_domain::job::labels::{LabelRows, Labels};
use muster_domain::pool::Pool;
use muster_domain::pool_file::PoolFile;
use muster_domain::usage::{
    JobSize, Line, OfJob, Price, SizeVerdict, UsageKind, half_type, without_matrix,
};
use muster_sim::replay::PriceBook;
use serde::Serialize;

/// The changes to simulate.
#[derive(Clone, Debug, Serialize)]
pub struct Halves {
    /// Pools with only jobs that fit half their machine: they get the types of half the size.
    pub pools: Vec<PoolName>,
    /// Pools that get jobs of other pools, which fit half their machine there, with the number of these jobs.
    pub moved: BTreeMap<PoolName, usize>,
    /// Types without a measured price, with the type that costs twice as much.
    pub assumed: BTreeMap<Arc<str>, Arc<str>>,
    /// The records, as if the changes had been made before them.
    #[serde(skip)]
    pub lines: Vec<Line>,
    /// The pool file with the changes.
    #[serde(skip)]
    pub file: PoolFile,
}

impl Halves {
    /// Creates the changes from records with their prices. `jobs`: each job's size, and the pool of the file that has
    /// machines of half the size and serves it.
    #[must_use]
    pub fn new<'a>(
        lines: &[Line],
        jobs: impl IntoIterator<Item = (&'a JobSize, Option<&'a PoolName>)>,
        file: &PoolFile,
    ) -> Self {
        let fits = |(size, _): &(&JobSize, _)| size.verdict == SizeVerdict::Half;
        let name = |size: &'a JobSize| (&*size.repository, size.workflow.as_deref(), &*size.job);
        let fits: BTreeMap<_, Option<&PoolName>> =
            jobs.into_iter().filter(fits).map(|(size, pool)| (name(size), pool)).collect();
        let fit = |job: &OfJob| {
            let stem = without_matrix(&job.name);
            fits.get(&(&*job.repository, job.workflow.as_deref(), &*stem)).copied()
        };
        let pools = whole_pools(lines, file, |job| fit(job).is_some());
        let mut halves = Self {
            pools: pools.iter().cloned().collect(),
            moved: BTreeMap::new(),
            assumed: BTreeMap::new(),
            lines: lines.to_vec(),
            file: file.clone(),
        };
        let prices = PriceBook::learn(lines);
        let mut moved: BTreeMap<PoolName, BTreeSet<_>> = BTreeMap::new();
        for line in &mut halves.lines {
            if line.pool.as_ref().is_some_and(|pool| pools.contains(pool)) {
                halve(line, &prices, &mut halves.assumed);
                continue;
            }
            let Some(job) = &mut line.job else { continue };
            // The machines of a pool that is halved are too small for it.
            let Some(to) = fit(job).flatten().filter(|to| !pools.contains(*to)) else { continue };
            let stem = without_matrix(&job.name);
            let name = (job.repository.clone(), job.workflow.clone(), stem);
            moved.entry(to.clone()).or_default().insert(name);
            job.labels = moves_to(to);
            line.pool = Some(to.clone());
            halve(line, &prices, &mut halves.assumed);
        }
        halves.moved = moved.into_iter().map(|(pool, jobs)| (pool, jobs.len())).collect();
        for pool in &mut halves.file.pools {
            if pools.contains(&pool.name) {
                let half = |kind: &Arc<str>| half_type(kind).map(Arc::from);
                pool.instance_types = pool.instance_types.iter().filter_map(half).collect();
            }
            if halves.moved.contains_key(&pool.name) {
                let mut rows: Vec<Labels> = pool.labels.clone().into();
                rows.push(moves_to(&pool.name));
                pool.labels = LabelRows::new(rows);
            }
        }
        halves
    }

    /// Returns whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.moved.is_empty()
    }
}

/// Returns the pools whose jobs all fit half their machine, and whose types all have half a type.
fn whole_pools(
    lines: &[Line],
    file: &PoolFile,
    fits: impl Fn(&OfJob) -> bool,
) -> BTreeSet<PoolName> {
    let mut served: BTreeMap<&PoolName, bool> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.kind == UsageKind::Machine) {
        if let Some((pool, job)) = line.pool.as_ref().zip(line.job.as_ref()) {
            let all_fit = served.entry(pool).or_insert(true);
            *all_fit = *all_fit && fits(job);
        }
    }
    let has_half = |kind: &Arc<str>| half_type(kind).is_some();
    let is_whole = |pool: &&Pool| {
        served.get(&pool.name) == Some(&true) && pool.instance_types.iter().all(has_half)
    };
    file.pools.iter().filter(is_whole).map(|pool| pool.name.clone()).collect()
}

/// Returns the labels that only jobs have that move to this pool.
fn moves_to(pool: &PoolName) -> Labels {
    Labels::new([format!("muster-rightsize-{pool}")])
}

/// Replaces the machine of a record by one of half the size. If that has no measured price, it costs half, without the
/// disk.
fn halve(line: &mut Line, prices: &PriceBook, assumed: &mut BTreeMap<Arc<str>, Arc<str>>) {
    let Some(make) = line.machine.as_mut().map(|machine| &mut machine.make) else { return };
    let Some(kind) = make.kind.clone() else { return };
    let Some(half) = half_type(&kind).map(Arc::<str>::from) else { return };
    make.kind = Some(half.clone());
    let measured = make.market.and_then(|market| prices.of(&half, market));
    line.price = line.price.map(|price| match measured {
        Some(machine) => Price { machine, on_demand: None, disk: None, ..price },
        None => {
            assumed.insert(half, kind);
            let on_demand = price.on_demand.map(|price| price / 2);
            Price { machine: price.machine / 2, on_demand, ..price }
        }
    });
}
