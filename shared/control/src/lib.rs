//! The passes of Muster, written once over [`ports`]: each observes, decides (in the `domain`
//! crate), commits, performs and settles. The same code runs in Lambda and in the simulator.

#![warn(missing_docs)]

pub mod admin;
pub mod app_owner;
pub mod app_watch;
pub mod context;
pub(crate) mod health;
mod image_record;
pub mod images;
pub mod jobs;
pub mod launches;
pub mod metrics;
pub mod notices;
pub mod notifier;
pub mod pools;
pub mod ports;
pub mod reaps;
pub mod reruns;
pub mod runner_api;
pub mod settings_cache;
pub mod sums;
#[cfg(test)]
pub(crate) mod testkit;
pub mod tick;
mod wake;
pub mod woken;
mod writes;

use muster_domain::ids::{AppName, PoolName};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Balance, Limits};
use muster_domain::pool_file::Rights;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;

pub use self::writes::PassError;
use crate::metrics::Measures;
use crate::ports::ReadError;

/// The release. `make build` and `make package` stamp `infra/version`; any other build has Cargo's
/// version, so that a new commit does not cause recompilation.
pub const RELEASE: &str = match option_env!("MUSTER_RELEASE") {
    Some(stamped) => stamped,
    None => env!("CARGO_PKG_VERSION"),
};

/// The settings of a stack.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stack's name, which is the value of the tag `muster:stack`.
    pub stack: String,
    /// The pools in the order of the pool file, followed by those being removed.
    pub pools: Vec<Pool>,
    /// The limits of stack and entities, at most `max_machines`.
    pub limits: Limits,
    /// The maximum number of live instances, regardless of the pool file: a parameter of the stack.
    pub max_machines: Option<u32>,
    /// The EC2 permissions of the scale-up function; known only to the admin function.
    pub rights: Option<Rights>,
    /// How jobs are distributed over equal pools.
    pub balance: Balance,
    /// All durations.
    pub timings: Timings,
    /// Which metrics are published.
    pub measures: Measures,
    /// The longest lifetime of any machine: the stack's launch template powers it off then,
    /// regardless of its pool.
    pub longest_life: Seconds,
    /// The webhook's address; known only to the admin function.
    pub webhook_url: Option<String>,
    /// The stack's Apps besides the main one.
    pub other_apps: Vec<AppName>,
    /// The damage to the record of the pools, if it cannot be parsed.
    pub damage: Option<Damage>,
}

/// A record of the pools that cannot be parsed.
#[derive(Clone, Debug)]
pub struct Damage {
    /// Names the record.
    pub error: ReadError,
    /// Whether the settings still contain the pools that were applied last, from the stored version.
    /// Otherwise passes have no pools, and requests show an older version.
    pub is_bridged: bool,
}

impl Settings {
    /// Limits the settings to a number of machines.
    #[must_use]
    pub fn with_at_most(self, machines: u32) -> Self {
        let most = Some(machines);
        Self { limits: self.limits.below(most), max_machines: most, ..self }
    }

    /// Creates the settings from a stack's parameters.
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
            other_apps: Vec::new(),
            damage: None,
        }
    }

    /// Returns the stack's Apps, the main one first.
    #[must_use]
    pub fn apps(&self) -> Vec<AppName> {
        [&[AppName::MAIN], &*self.other_apps].concat()
    }

    /// Returns the address that an App's events are sent to, if known.
    #[must_use]
    pub fn webhook_of(&self, app: AppName) -> Option<String> {
        let main = self.webhook_url.as_ref()?;
        Some(if app == AppName::MAIN { main.clone() } else { format!("{main}/{app}") })
    }

    /// Returns the error that leaves the pools unknown, if there is one.
    #[must_use]
    pub fn unknown_pools(&self) -> Option<&ReadError> {
        self.damage.as_ref().filter(|damage| !damage.is_bridged).map(|damage| &damage.error)
    }

    /// Returns a pool by name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// Returns the longest lifetime of a pool's machines.
    #[must_use]
    pub fn max_lifetime(&self, pool: &PoolName) -> Seconds {
        let own = self.pool(pool).map_or(Pool::MAX_LIFETIME, |pool| pool.max_lifetime_seconds);
        own.min(self.longest_life)
    }

    /// Returns the durations for a pool, some of which it can override.
    #[must_use]
    pub fn timings_of(&self, name: &PoolName) -> Timings {
        let mut timings = self.timings.clone();
        let pool = self.pool(name);
        if let Some(own) = pool.and_then(|pool| pool.boot_deadline_seconds) {
            timings.boot_deadline_seconds = own;
        }
        // A machine that does not boot must reach its boot deadline before its maximum age: only
        // the former counts as a failure.
        let most = Seconds(self.max_lifetime(name).0 / 2);
        timings.boot_deadline_seconds = timings.boot_deadline_seconds.min(most);
        if let Some(own) = pool.and_then(|pool| pool.idle_limit_seconds) {
            timings.idle_limit_seconds = own;
        }
        timings
    }
}
