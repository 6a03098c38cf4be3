//! The reads of a launch pass, all concurrent: each sequential read would delay a machine.

use futures_util::FutureExt as _;
use futures_util::future::{join3, join4, ready, try_join_all};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::message::WakePool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::ports::{LaunchConditions, ReadError, Table};
use crate::writes;

/// Maximum number of jobs that one round reads: two full launches and a reserve.
pub(super) const MAX_DEMAND: u32 = 120;

/// What was read for a wake-up.
pub struct WakeUpReads {
    /// When reading started, used as the time of the pass, which knows nothing newer.
    pub(super) at: Time,
    /// The jobs named in the wake-up, read by key.
    pub(super) jobs: Vec<Stored<Job>>,
    /// The records that every pass needs.
    pub(super) conditions: LaunchConditions,
    /// The index listings.
    pub(super) listed: Listed,
}

/// Index listings of a pool, which may be stale.
pub(super) struct Listed {
    /// Jobs without a claim.
    pub(super) demand: Vec<Stored<Job>>,
    /// Launches without a recorded answer.
    pub(super) open: Vec<Stored<Launch>>,
    /// Instances that a job may be meant for.
    pub(super) free: Vec<Stored<Instance>>,
    /// Slots in `pending_create`.
    pub(super) retries: Vec<Stored<Instance>>,
}

impl WakeUpReads {
    /// Reads everything concurrently.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn read<T: Table>(table: &T, wake: &WakePool, now: Time) -> Result<Self, ReadError> {
        let jobs = match wake.jobs.is_empty() {
            true => ready(Ok(Vec::new())).left_future(),
            false => readable_jobs(table, &wake.jobs).right_future(),
        };
        let conditions = table.launch_conditions(&wake.pool);
        let listed = Listed::read(table, &wake.pool, MAX_DEMAND);
        let (jobs, conditions, listed) = join3(jobs, conditions, listed).await;
        Ok(Self { at: now, jobs: jobs?, conditions: conditions?, listed: listed? })
    }

    /// Returns whether a job of the wake-up is not on record.
    pub(super) fn is_early(&self, wake: &WakePool) -> bool {
        self.jobs.len() < wake.jobs.len()
    }

    /// Whether one of the wake-up's jobs waits for the pool.
    pub(super) fn waits_for(&self, pool: &PoolName) -> bool {
        self.jobs.iter().any(|job| job.is_demand() && job.pool.as_ref() == Some(pool))
    }
}

/// Reads jobs. One that cannot be read is left out, and keeps no other from its machine.
async fn readable_jobs<T: Table>(
    table: &T,
    keys: &[JobKey],
) -> Result<Vec<Stored<Job>>, ReadError> {
    match table.jobs(keys).await {
        Err(ReadError::Unreadable { .. }) => {}
        read => return read,
    }
    let each = keys.iter().map(|key| async { writes::readable(table.job(*key).await) });
    Ok(try_join_all(each).await?.into_iter().flatten().collect())
}

impl Listed {
    /// Reads the listings, with a maximum number of jobs.
    pub(super) async fn read<T: Table>(
        table: &T,
        pool: &PoolName,
        most: u32,
    ) -> Result<Self, ReadError> {
        let (demand, open, free, retries) = join4(
            table.demand(pool, most),
            table.open_launches(pool),
            table.free_instances(pool),
            table.slots_to_retry(pool),
        )
        .await;
        Ok(Self { demand: demand?, open: open?, free: free?, retries: retries? })
    }
}
