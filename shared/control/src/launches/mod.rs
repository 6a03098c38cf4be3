//! Machines for jobs: the launch pass of a pool, and what it does with the jobs that it has no
//! room for.

pub(crate) mod conditions;
pub(crate) mod headroom;
mod overflow;
pub mod pass;
pub(crate) mod quota;
pub mod wake_up;
