//! The rules of Muster, as plain functions over plain records.
//!
//! Nothing in this crate reads a clock, an environment variable or a socket, and nothing is random:
//! time is an argument and every answer is a value. `decide` says what happens to an instance next,
//! `fold` what a job event makes of a job, `plan` which machines to launch. The passes in the
//! `control` crate carry the answers out.

#![warn(missing_docs)]

pub mod absence;
pub mod agent;
pub mod app;
pub mod audit;
pub mod backoff;
pub mod ec2;

pub mod hash;
pub mod ids;
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
pub mod redelivery;
pub mod stored;
pub mod switches;
#[cfg(test)]
pub(crate) mod testkit;
pub mod text;
pub mod time;
pub mod timings;
pub mod usage;

/// The version that every stored record carries. Readers accept no other.
pub const SCHEMA: u16 = 2;
