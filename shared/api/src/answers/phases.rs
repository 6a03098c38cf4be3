//! Responses about how long machines take.

use muster_domain::ids::PoolName;
use muster_domain::instance::Pace;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// How long machines take, by pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseList {
    /// The pools.
    pub pools: Vec<PoolPhases>,
}

/// How long the machines of a pool take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPhases {
    /// The pool.
    pub pool: PoolName,
    /// When the oldest machine of the sample was planned.
    pub since: Option<Time>,
    /// The phases that at least one machine reached.
    pub phases: Vec<Pace>,
}
