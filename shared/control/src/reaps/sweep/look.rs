//! The reads that a sweep starts with: all concurrent, because Lambda bills the waiting time. A
//! failed read affects only the part that needs it.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all, join3, join4, join5, ready};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::record::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool::warm::Warm;
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::{MAX_GATED, MAX_RERUNS, MAX_WAITING, PAGE, POOLS_AT_ONCE, RECONCILED};
use crate::Settings;
use crate::metrics::Measures;
use crate::pools::MAX_UNMATCHED;
use crate::ports::{Page, ReadError, Table};

type Read<T> = Result<T, ReadError>;

/// The results of the reads.
pub(super) struct SweepReads {
    /// The first page of due rows.
    pub(super) due: Read<Page<Stored<Instance>>>,
    /// The pools, in the order of the settings.
    pub(super) pools: Vec<PoolReads>,
    /// Jobs that wait for an approval.
    pub(super) gated: Read<Vec<Stored<Job>>>,
    /// Jobs that no pool served when they arrived.
    pub(super) unmatched: Read<Vec<Stored<Job>>>,
    /// The switches.
    pub(super) switches: Read<Option<Stored<Switches>>>,
    /// The orphan ledger.
    pub(super) orphans: Read<Vec<Stored<Orphan>>>,
    /// Workflow runs with interrupted jobs that are not re-run yet.
    pub(super) reruns: Read<Vec<Stored<Rerun>>>,
    /// When EC2 was last compared with the tables.
    pub(super) reconciled: Read<Option<Time>>,
    /// EC2's recent refusals, and the causes of wasted machines.
    pub(super) cooldowns: Read<Option<Stored<Cooldowns>>>,
    /// The counters of entity limits; not read if there are none or the metric is off.
    pub(super) counted: Read<BTreeMap<Scope, u32>>,
}

/// The reads of one pool.
pub(super) struct PoolReads {
    /// Waiting jobs, with and without a claim.
    pub(super) waiting: Read<Vec<Stored<Job>>>,
    /// Runners that a job may be meant for; not read if the pool keeps none idle now.
    pub(super) free: Read<Vec<Stored<Instance>>>,
    /// The instance that has been ending for longest.
    pub(super) ending: Read<Vec<Stored<Instance>>>,
    /// The pool's counter; not read if its metric is off and no event can warm it.
    pub(super) capacity: Read<Option<Stored<Capacity>>>,
}

impl SweepReads {
    pub(super) async fn read<T: Table>(table: &T, settings: &Settings, now: Time) -> Self {
        let rows = join(table.due_instances(now, PAGE, None), read_pools(table, settings, now));
        let jobs = join3(
            table.gated_jobs(MAX_GATED),
            table.unmatched_jobs(MAX_UNMATCHED),
            count(table, settings),
        );
        let others = join5(
            table.switches(),
            table.orphans(),
            table.open_reruns(MAX_RERUNS),
            table.cursor(RECONCILED),
            table.cooldowns(),
        );
        let ((due, pools), (gated, unmatched, counted), others) = join3(rows, jobs, others).await;
        let (switches, orphans, reruns, reconciled, cooldowns) = others;
        Self {
            due,
            pools,
            gated,
            unmatched,
            switches,
            orphans,
            reruns,
            reconciled,
            cooldowns,
            counted,
        }
    }
}

async fn count<T: Table>(table: &T, settings: &Settings) -> Read<BTreeMap<Scope, u32>> {
    let mut scopes = settings.limits.scopes();
    scopes.retain(|scope| *scope != Scope::Stack);
    match scopes.is_empty() || settings.measures == Measures::None {
        true => Ok(BTreeMap::new()),
        false => table.counts(&scopes).await,
    }
}

async fn read_pools<T: Table>(table: &T, settings: &Settings, now: Time) -> Vec<PoolReads> {
    let mut looked = Vec::with_capacity(settings.pools.len());
    for some in settings.pools.chunks(POOLS_AT_ONCE) {
        let read = some.iter().map(|pool| read_pool(table, pool, settings.measures, now));
        looked.extend(join_all(read).await);
    }
    looked
}

async fn read_pool<T: Table>(table: &T, pool: &Pool, measures: Measures, now: Time) -> PoolReads {
    let waiting = table.waiting_jobs(&pool.name, MAX_WAITING);
    let free = match pool.idle_wanted() {
        0 => ready(Ok(Vec::new())).left_future(),
        _ => table.free_instances(&pool.name).right_future(),
    };
    let ending = table.ending_instances(&pool.name, 1);
    let capacity = match measures {
        Measures::None if pool.warm_on.is_empty() => ready(Ok(None)).left_future(),
        Measures::None | Measures::Stack | Measures::Pools => {
            table.capacity(&pool.name).right_future()
        }
    };
    let (waiting, mut free, ending, capacity) = join4(waiting, free, ending, capacity).await;
    // Only after an event, so that a pool that waits for one costs no listing.
    if pool.idle_wanted() == 0 && pool.while_warm(warm(&capacity), now).idle_wanted() > 0 {
        free = table.free_instances(&pool.name).await;
    }
    PoolReads { waiting, free, ending, capacity }
}

/// Returns what recent events require of a pool. Nothing if that cannot be read: an event is only a
/// forecast.
pub(super) fn warm(capacity: &Read<Option<Stored<Capacity>>>) -> &[Warm] {
    let read = capacity.as_ref().ok().and_then(Option::as_ref);
    read.map_or(&[], |capacity| &capacity.warm)
}
