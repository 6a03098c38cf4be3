//! Responses about how long machines take.

use muster_domain::ids::{ImageId, PoolName};
use muster_domain::instance::Pace;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// How long machines take, by pool and image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseList {
    /// The pools, each with its images; the one of the newest machine is first.
    pub pools: Vec<PoolPhases>,
}

/// How long the machines of a pool take that boot one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPhases {
    /// The pool.
    pub pool: PoolName,
    /// The image, if Muster built it; otherwise the launch template's or the pool's own.
    #[serde(default)]
    pub image: Option<ImageId>,
    /// When the oldest machine of the sample was planned.
    pub since: Option<Time>,
    /// The phases that at least one machine reached.
    pub phases: Vec<Pace>,
}
