//! Muster's rules, as pure functions over plain records.
//!
//! This crate has no access to a clock, an environment variable or a socket, and uses no
//! randomness: time is an argument, and every result is a value. `decide` returns an instance's
//! next step, `fold` merges a job event into a job, and `plan` chooses which machines to launch.
//! The passes in the `control` crate carry out the results.

#![warn(missing_docs)]

pub mod absence;
pub mod agent;
pub mod app;
pub mod audit;
pub mod backoff;
pub mod ca_bundle;
pub mod causes;
pub mod claim;
pub mod ec2;
pub mod explain;

pub mod hash;
pub mod hidden;
pub mod ids;
pub mod image;
pub mod inquiry;
pub mod instance;
pub mod job;
pub mod launch;
pub mod lifecycle;
pub mod message;
pub mod observation;
pub mod orphan;
pub mod pool;
pub mod pool_file;
pub mod pool_set;
pub mod provider;
pub mod redelivery;
pub mod rerun;
pub mod stored;
pub mod switches;
#[cfg(test)]
pub(crate) mod testkit;
pub mod text;
pub mod time;
pub mod timings;
pub mod usage;

/// The schema version of every stored record. Readers accept no other.
pub const SCHEMA: u16 = 2;
