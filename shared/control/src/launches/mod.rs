//! Launches machines for jobs: a pool's launch pass, and the overflow of jobs to other pools.

pub(crate) mod conditions;
pub(crate) mod headroom;
mod overflow;
pub mod pass;
pub(crate) mod quota;
pub(crate) mod single;
pub mod wake_up;
