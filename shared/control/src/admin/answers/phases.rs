//! How long machines take.

use muster_domain::ids::PoolName;
use muster_domain::instance::Pace;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// How long machines take, pool by pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseList {
    /// Each pool with the machines that were looked at.
    pub pools: Vec<PoolPhases>,
}

/// How long the machines of a pool take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPhases {
    /// The pool.
    pub pool: PoolName,
    /// When the oldest of these machines was planned.
    pub since: Option<Time>,
    /// Phase by phase; those that no machine reached are left out.
    pub phases: Vec<Pace>,
}
