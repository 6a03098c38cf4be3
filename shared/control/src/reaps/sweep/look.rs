//! What a sweep reads before it does anything: all of it side by side, since a tick is paid for by
//! the time that it waits. What cannot be read is missed by its own part alone.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all, join3, join4, ready};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::{MAX_GATED, MAX_WAITING, PAGE, POOLS_AT_ONCE, RECONCILED};
use crate::Settings;
use crate::metrics::Measures;
use crate::pools::MAX_UNMATCHED;
use crate::ports::{Page, ReadError, Table};

type Read<T> = Result<T, ReadError>;

/// What was read.
pub(super) struct Looked {
    /// The first page of the due rows.
    pub(super) due: Read<Page<Stored<Instance>>>,
    /// The pools, in their order.
    pub(super) pools: Vec<LookedPool>,
    /// Jobs behind an approval.
    pub(super) gated: Read<Vec<Stored<Job>>>,
    /// Jobs that no pool served when they came.
    pub(super) unmatched: Read<Vec<Stored<Job>>>,
    /// What operators have switched off.
    pub(super) switches: Read<Option<Stored<Switches>>>,
    /// The orphan ledger.
    pub(super) orphans: Read<Vec<Stored<Orphan>>>,
    /// When EC2 was last compared with the tables.
    pub(super) reconciled: Read<Option<Time>>,
    /// What EC2 refused lately, and what made machines for nothing.
    pub(super) cooldowns: Read<Option<Stored<Cooldowns>>>,
    /// What the limits of entities count; nothing is read where there is none, or nobody asks.
    pub(super) counted: Read<BTreeMap<Scope, u32>>,
}

/// What was read of a pool.
pub(super) struct LookedPool {
    /// Its jobs that wait, with and without a claim.
    pub(super) waiting: Read<Vec<Stored<Job>>>,
    /// Its runners that a job may be meant for; none are read where it keeps none idle.
    pub(super) free: Read<Vec<Stored<Instance>>>,
    /// The one that has been on its way out for longest.
    pub(super) ending: Read<Vec<Stored<Instance>>>,
    /// Its counter; not read where it is not shown.
    pub(super) capacity: Read<Option<Stored<Capacity>>>,
}

impl Looked {
    pub(super) async fn read<T: Table>(table: &T, settings: &Settings, now: Time) -> Self {
        let rows = join(table.due_instances(now, PAGE, None), read_pools(table, settings));
        let jobs = join3(
            table.gated_jobs(MAX_GATED),
            table.unmatched_jobs(MAX_UNMATCHED),
            count(table, settings),
        );
        let others =
            join4(table.switches(), table.orphans(), table.cursor(RECONCILED), table.cooldowns());
        let ((due, pools), (gated, unmatched, counted), others) = join3(rows, jobs, others).await;
        let (switches, orphans, reconciled, cooldowns) = others;
        Self { due, pools, gated, unmatched, switches, orphans, reconciled, cooldowns, counted }
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

async fn read_pools<T: Table>(table: &T, settings: &Settings) -> Vec<LookedPool> {
    let mut looked = Vec::with_capacity(settings.pools.len());
    for some in settings.pools.chunks(POOLS_AT_ONCE) {
        let read = some.iter().map(|pool| read_pool(table, pool, settings.measures));
        looked.extend(join_all(read).await);
    }
    looked
}

async fn read_pool<T: Table>(table: &T, pool: &Pool, measures: Measures) -> LookedPool {
    let waiting = table.waiting_jobs(&pool.name, MAX_WAITING);
    let free = match pool.idle_wanted() {
        0 => ready(Ok(Vec::new())).left_future(),
        _ => table.free_instances(&pool.name).right_future(),
    };
    let ending = table.ending_instances(&pool.name, 1);
    let capacity = match measures {
        Measures::None => ready(Ok(None)).left_future(),
        Measures::Stack | Measures::Pools => table.capacity(&pool.name).right_future(),
    };
    let (waiting, free, ending, capacity) = join4(waiting, free, ending, capacity).await;
    LookedPool { waiting, free, ending, capacity }
}
