//! Reads of launches and of a launch pass's conditions.

use std::collections::BTreeMap;

use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::image::Images;
use muster_domain::launch::Launch;
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;
use muster_domain::switches::Switches;

use super::ReadError;

/// The records that a launch pass reads first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchConditions {
    /// The pool's counter and lease.
    pub capacity: Option<Stored<Capacity>>,
    /// The switches that operators turned off.
    pub switches: Option<Stored<Switches>>,
    /// EC2's recent refusals, and pools whose machines were wasted.
    pub cooldowns: Option<Stored<Cooldowns>>,
    /// The machine images; absent if there never were any, or if the record cannot be read: machines then boot the
    /// launch template's image.
    pub images: Option<Stored<Images>>,
    /// Number of live instances in the stack's counter.
    pub counted: u32,
}

/// Reads of launches and of a launch pass's conditions.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Launches {
    /// Returns a launch by ID.
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError>;
    /// Returns a pool's open launches.
    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError>;
    /// Returns a pool's counter and lease.
    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError>;
    /// Returns the number of instances that each of these limits counts, in one call. Leaves out a
    /// limit without a counter, which counts zero.
    async fn counts(&self, scopes: &[Scope]) -> Result<BTreeMap<Scope, u32>, ReadError>;
    /// Returns a pool's launch conditions in one call. Each record is as of some moment during the
    /// call.
    async fn launch_conditions(&self, pool: &PoolName) -> Result<LaunchConditions, ReadError>;
    /// Returns EC2's recent refusals and the pools whose machines were wasted, if there ever were
    /// any.
    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError>;
    /// Returns the machine images, if there ever were any.
    async fn images(&self) -> Result<Option<Stored<Images>>, ReadError>;
}
