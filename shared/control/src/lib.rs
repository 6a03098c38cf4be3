//! The passes of Muster, written once over [`ports`]: each observes, decides (in the `domain`
//! crate), commits, performs and settles. The same code runs in Lambda and in the simulated cloud.

#![warn(missing_docs)]

pub mod admin;
pub mod app_owner;
pub mod app_watch;
pub mod causes;
pub mod context;
pub(crate) mod health;
pub mod hidden;
pub mod jobs;
pub mod launches;
pub mod metrics;
pub mod notices;
pub mod pools;
pub mod ports;
pub mod reaps;
pub mod runner_api;
pub mod sums;
#[cfg(test)]
pub(crate) mod testkit;
mod wake;
pub mod woken;
mod writes;

use muster_domain::ids::PoolName;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_file::Rights;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;

pub use self::writes::PassError;
use crate::metrics::Measures;
use crate::ports::ReadError;

/// Which release this is. `make build` and `make package` stamp `infra/version`; any other build has Cargo's number, so
/// that a commit alone compiles nothing anew.
pub const RELEASE: &str = match option_env!("MUSTER_RELEASE") {
    Some(stamped) => stamped,
    None => env!("CARGO_PKG_VERSION"),
};

/// What every pass knows of its stack.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stack's name: the value of the tag `muster:stack`.
    pub stack: String,
    /// The pools, in order of the pool file, and behind them those that are being removed.
    pub pools: Vec<Pool>,
    /// The maxima of stack and entities, none above `max_machines`.
    pub limits: Limits,
    /// The most live instances, whatever a pool file says: a parameter of the stack.
    pub max_machines: Option<u32>,
    /// What scale-up may ask of EC2, where that is known: the admin function alone asks.
    pub rights: Option<Rights>,
    /// How jobs are spread over equal pools.
    pub balance: Balance,
    /// All durations.
    pub timings: Timings,
    /// Which metrics are kept.
    pub measures: Measures,
    /// The longest life of any machine: the stack's launch template has it power off then, whatever
    /// its pool says.
    pub longest_life: Seconds,
    /// Where GitHub is to send events, where that is known: the admin function alone asks.
    pub webhook_url: Option<String>,
    /// Why the record of the pools cannot be read. These are then the pools of the last version that
    /// can be, for commands that show or repair; nothing is launched by them.
    pub damage: Option<ReadError>,
}

impl Settings {
    /// The settings of a stack, with at most so many machines.
    #[must_use]
    pub fn with_at_most(self, machines: u32) -> Self {
        let most = Some(machines);
        Self { limits: self.limits.below(most), max_machines: most, ..self }
    }

    /// The settings of a stack as its parameters say.
    #[must_use]
    pub fn from_parameters(stack: String, pools: Vec<Pool>, timings: Timings) -> Self {
        let longest = pools.iter().map(|pool| pool.max_lifetime_seconds).max();
        Self {
            stack,
            pools,
            limits: Limits::default(),
            max_machines: None,
            rights: None,
            balance: Balance::default(),
            timings,
            measures: Measures::default(),
            longest_life: longest.unwrap_or(Pool::MAX_LIFETIME),
            webhook_url: None,
            damage: None,
        }
    }

    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// The longest life of a machine of this pool.
    #[must_use]
    pub fn max_lifetime(&self, pool: &PoolName) -> Seconds {
        let own = self.pool(pool).map_or(Pool::MAX_LIFETIME, |pool| pool.max_lifetime_seconds);
        own.min(self.longest_life)
    }

    /// All durations as they are for a pool: some it may set itself.
    #[must_use]
    pub fn timings_of(&self, name: &PoolName) -> Timings {
        let mut timings = self.timings.clone();
        let pool = self.pool(name);
        if let Some(own) = pool.and_then(|pool| pool.boot_deadline_seconds) {
            timings.boot_deadline_seconds = own;
        }
        // A machine that does not boot is found as that, and not by its age: the one counts as a
        // failure, the other does not.
        let most = Seconds(self.max_lifetime(name).0 / 2);
        timings.boot_deadline_seconds = timings.boot_deadline_seconds.min(most);
        if let Some(own) = pool.and_then(|pool| pool.idle_limit_seconds) {
            timings.idle_limit_seconds = own;
        }
        timings
    }
}
