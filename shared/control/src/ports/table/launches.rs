//! Launches, and what a launch pass asks of its pool.

use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, LaunchId, PoolName};
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;

use super::ReadError;

/// What a launch pass asks before anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchConditions {
    /// The pool's counter and lease.
    pub capacity: Option<Stored<Capacity>>,
    /// What operators have switched off.
    pub switches: Option<Stored<Switches>>,
    /// What EC2 refused lately.
    pub cooldowns: Option<Stored<Cooldowns>>,
    /// Of the entities that were asked for, those that GitHub refuses us or limits.
    pub unwell: Vec<EntityHealth>,
}

/// Launches, and what a launch pass asks of its pool.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Launches {
    /// A launch by id.
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError>;
    /// Open launches of a pool.
    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError>;
    /// A pool's counter and lease.
    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError>;
    /// How many instances a limit counts.
    async fn counted(&self, scope: &Scope) -> Result<u32, ReadError>;
    /// How a pool and these entities stand: all records in one call, each as it was at some moment
    /// of the call.
    async fn launch_conditions(
        &self,
        pool: &PoolName,
        entities: &[Entity],
    ) -> Result<LaunchConditions, ReadError>;
    /// What EC2 refused lately; none while it never did.
    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError>;
}
