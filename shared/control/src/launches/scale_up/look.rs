//! What a launch pass reads before it knows anything: all of it at the same moment, since each read
//! that waits for another one stands between a job and its machine.

use futures_util::FutureExt as _;
use futures_util::future::{join3, ready};
use muster_domain::ids::Entity;
use muster_domain::job::Job;
use muster_domain::message::WakePool;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::MAX_DEMAND;
use crate::ports::{LaunchConditions, ReadError, Table};

/// The pool of a wake-up, as it was read.
pub struct Looked {
    /// When the reading began: the time of the pass, which knows nothing that came later.
    pub(super) at: Time,
    /// The jobs that the wake-up names, by key.
    pub(super) jobs: Vec<Stored<Job>>,
    /// The records that every pass asks for.
    pub(super) conditions: LaunchConditions,
    /// The entities whose health is among them.
    pub(super) entities: Vec<Entity>,
    /// What the index lists as the pool's demand.
    pub(super) demand: Vec<Stored<Job>>,
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
        let conditions = table.launch_conditions(&wake.pool, &wake.entities);
        let demand = table.demand(&wake.pool, MAX_DEMAND);
        let (jobs, conditions, demand) = join3(jobs, conditions, demand).await;
        let entities = wake.entities.clone();
        Ok(Self { at: now, jobs: jobs?, conditions: conditions?, entities, demand: demand? })
    }
}
