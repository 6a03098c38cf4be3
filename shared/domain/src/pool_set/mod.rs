//! The set of pools: what was applied last, its versions, and what becomes of a pool that is not in
//! it any more.

mod diff;
mod succession;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::{Entity, PoolName};
use crate::pool::Pool;
use crate::pool::limits::{Balance, Limits};
use crate::time::{Seconds, Time};

pub use self::diff::{Change, Diff, Fate, PoolDiff};

/// How many versions are kept; an apply removes the one that is older.
pub const MAX_VERSIONS: u64 = 20;

/// How long a removed pool stays in the set at least. Longer than any Lambda runs: one that started
/// with the set before may still match a job to the pool.
pub const REMOVED_FOR: Seconds = Seconds(900);

/// The record: one for the whole stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSet {
    /// Version of the record's form.
    pub schema: u16,
    /// Bumped by every apply. Zero: no file was ever applied, the pool is the built-in one, and the
    /// record has none.
    pub version: u64,
    /// When it was applied.
    pub applied_at: Time,
    /// Who applied it.
    pub by: String,
    /// The pools in the file's order, and behind them those that are being removed.
    pub pools: Vec<Pool>,
    /// Maxima beside those of the pools.
    pub limits: Limits,
    /// How pools of equal rank share jobs.
    pub balance: Balance,
    /// The account that owns the App, or its enterprise; none until GitHub has said it. Here since
    /// whoever asks a pool whom it serves has read this record.
    #[serde(default)]
    pub app_owner: Option<Entity>,
}

impl PoolSet {
    /// The set of a stack to which no file was ever applied.
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
        }
    }

    /// What is to be put on record of the App's owner; none where it is on record already.
    #[must_use]
    pub fn owned_by(stored: Option<&Self>, owner: &Entity) -> Option<Self> {
        let nothing = || Self::from_parameters(Vec::new(), Limits::default(), Balance::default());
        let app_owner = Some(owner.clone());
        let is_known = stored.is_some_and(|set| set.app_owner == app_owner);
        (!is_known).then(|| Self { app_owner, ..stored.cloned().unwrap_or_else(nothing) })
    }

    /// A pool by name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }
}
