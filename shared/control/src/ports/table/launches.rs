//! Launches, and what a launch pass asks of its pool.

use std::collections::BTreeMap;

use muster_domain::ids::{LaunchId, PoolName};
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
    /// What EC2 refused lately, and what made machines for nothing.
    pub cooldowns: Option<Stored<Cooldowns>>,
    /// How many live instances the counter of the stack has.
    pub counted: u32,
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
    /// How many instances each of these limits counts, in one call. A limit that has no counter yet
    /// is left out: it counts none.
    async fn counts(&self, scopes: &[Scope]) -> Result<BTreeMap<Scope, u32>, ReadError>;
    /// How a pool stands: all records in one call, each as it was at some moment of the call.
    async fn launch_conditions(&self, pool: &PoolName) -> Result<LaunchConditions, ReadError>;
    /// What EC2 refused lately, and what made machines for nothing; none while there never was any.
    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError>;
}
