//! Rules for deployments: they interpret AWS's answers and have no I/O.

pub mod network;
pub mod stack;
