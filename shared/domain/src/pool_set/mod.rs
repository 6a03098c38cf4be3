//! The set of pools: the last applied version, and the pools that are being removed from it.

mod diff;
mod succession;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::{AppName, Entity, PoolName};
use crate::pool::Pool;
use crate::pool::limits::{Balance, Limits};
use crate::time::{Seconds, Time};

pub use self::diff::{Diff, Fate, FieldChange, PoolDiff};

/// Number of versions kept; an apply deletes the one before them.
pub const MAX_VERSIONS: u64 = 20;

/// Minimum time that a removed pool stays in the set. Longer than any Lambda runs: an invocation
/// that started with the previous set may still match a job to the pool.
pub const REMOVED_FOR: Seconds = Seconds(900);

/// The record of the pool set: one for the whole stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSet {
    /// The record's schema version.
    pub schema: u16,
    /// Incremented by every apply. Zero if no file was ever applied: the pool is then the built-in
    /// one, which is not in the record.
    pub version: u64,
    /// When it was applied.
    pub applied_at: Time,
    /// The operator who applied it.
    pub by: String,
    /// The pools in the file's order, followed by those being removed.
    pub pools: Vec<Pool>,
    /// Maxima in addition to the pools' own.
    pub limits: Limits,
    /// How pools of equal rank share jobs.
    pub balance: Balance,
    /// The account or enterprise that owns the App, once GitHub has reported it. Stored here
    /// because every check of which jobs a pool serves reads this record anyway.
    #[serde(default)]
    pub app_owner: Option<Entity>,
    /// The stack's Apps besides the main one. Stored here for the same reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_apps: Vec<AppName>,
}

impl PoolSet {
    /// Creates the set of a stack to which no file was ever applied.
    #[must_use]
    pub const fn from_parameters(pools: Vec<Pool>, limits: Limits, balance: Balance) -> Self {
        Self {
            schema: SCHEMA,
            version: 0,
            applied_at: Time::from_millis(0),
            by: String::new(),
            pools,
            limits,
            balance,
            app_owner: None,
            other_apps: Vec::new(),
        }
    }

    /// Returns the record with the App's owner. `None` if it is already recorded.
    #[must_use]
    pub fn owned_by(stored: Option<&Self>, owner: &Entity) -> Option<Self> {
        let app_owner = Some(owner.clone());
        let is_known = stored.is_some_and(|set| set.app_owner == app_owner);
        (!is_known).then(|| Self { app_owner, ..Self::or_empty(stored) })
    }

    /// Returns the record with or without another App. `None` if nothing changes.
    #[must_use]
    pub fn with_other_app(stored: Option<&Self>, app: AppName, is_there: bool) -> Option<Self> {
        let mut next = Self::or_empty(stored);
        if next.other_apps.contains(&app) == is_there || app == AppName::MAIN {
            return None;
        }
        next.other_apps.retain(|other| *other != app);
        next.other_apps.extend(is_there.then_some(app));
        next.other_apps.sort();
        Some(next)
    }

    fn or_empty(stored: Option<&Self>) -> Self {
        let nothing = || Self::from_parameters(Vec::new(), Limits::default(), Balance::default());
        stored.cloned().unwrap_or_else(nothing)
    }

    /// Returns a pool by name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }
}
