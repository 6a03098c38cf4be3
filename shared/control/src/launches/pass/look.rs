//! What a launch pass reads: all of it at the same moment, since each read that waits for another
//! one stands between a job and its machine.

use futures_util::FutureExt as _;
use futures_util::future::{join3, join4, ready};
use muster_domain::ids::PoolName;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::message::WakePool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::ports::{LaunchConditions, ReadError, Table};

/// Most jobs that one round reads: two full launches and some to spare.
pub(super) const MAX_DEMAND: u32 = 120;

/// The pool of a wake-up, as it was read.
pub struct Looked {
    /// When the reading began: the time of the pass, which knows nothing that came later.
    pub(super) at: Time,
    /// The jobs that the wake-up names, by key.
    pub(super) jobs: Vec<Stored<Job>>,
    /// The records that every pass asks for.
    pub(super) conditions: LaunchConditions,
    /// What the indexes list.
    pub(super) listed: Listed,
}

/// What the indexes list of a pool: it may be late.
pub(super) struct Listed {
    /// Jobs without a claim.
    pub(super) demand: Vec<Stored<Job>>,
    /// Launches whose answer is not on record.
    pub(super) open: Vec<Stored<Launch>>,
    /// Instances that a job may be meant for.
    pub(super) free: Vec<Stored<Instance>>,
    /// Slots in `pending_create`.
    pub(super) retries: Vec<Stored<Instance>>,
}

impl Looked {
    /// Reads it.
    ///
    /// # Errors
    /// When the tables do not answer.
    pub async fn read<T: Table>(table: &T, wake: &WakePool, now: Time) -> Result<Self, ReadError> {
        let jobs = match wake.jobs.is_empty() {
            true => ready(Ok(Vec::new())).left_future(),
            false => table.jobs(&wake.jobs).right_future(),
        };
        let conditions = table.launch_conditions(&wake.pool);
        let listed = Listed::read(table, &wake.pool, MAX_DEMAND);
        let (jobs, conditions, listed) = join3(jobs, conditions, listed).await;
        Ok(Self { at: now, jobs: jobs?, conditions: conditions?, listed: listed? })
    }

    /// Whether one of the jobs that the wake-up names waits for the pool.
    pub(super) fn waits_for(&self, pool: &PoolName) -> bool {
        self.jobs.iter().any(|job| job.is_demand() && job.pool.as_ref() == Some(pool))
    }
}

impl Listed {
    /// Reads it, with at most so many jobs.
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
