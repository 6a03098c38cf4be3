//! The passes of Muster, written once over [`ports`]: each observes, decides (in the `domain` crate),
//! commits, performs and settles. The same code runs in Lambda and in the simulated cloud.

#![warn(missing_docs)]

pub mod administer;
pub mod batch;
pub mod ingest;
mod ledger;
mod once;
pub mod ports;
pub mod reap;
pub mod register;
mod room;
pub mod scale_up;
mod spill;
pub mod sweep;
pub mod terminate;
#[cfg(test)]
pub(crate) mod testkit;
pub mod together;
mod writes;

use domain::ids::PoolName;
use domain::limits::{Balance, Limits};
use domain::pool::Pool;
use domain::time::Seconds;
use domain::timings::Timings;

pub use self::writes::PassError;

/// What every pass knows of its stack.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stack's name: the value of the tag `muster:stack`.
    pub stack: String,
    /// The pools, in order of the configuration.
    pub pools: Vec<Pool>,
    /// The maxima of stack and entities.
    pub limits: Limits,
    /// How jobs are spread over equal pools.
    pub balance: Balance,
    /// All durations.
    pub timings: Timings,
}

/// The life of a machine whose pool is not configured any more.
const MAX_LIFETIME_WITHOUT_POOL: Seconds = Seconds(43_200);

impl Settings {
    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// The longest life of a machine of this pool.
    #[must_use]
    pub fn max_lifetime(&self, pool: &PoolName) -> Seconds {
        self.pool(pool).map_or(MAX_LIFETIME_WITHOUT_POOL, |pool| pool.max_lifetime_seconds)
    }
}
