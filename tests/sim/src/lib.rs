//! The simulated cloud's in-process door: the ports of `control`, deterministic, in virtual time.
//!
//! The very passes that Lambda runs are run here, as futures that are polled step by step on one
//! thread. Every call is a moment in which anything else may happen, in which the invocation may
//! crash, and in which the cloud may answer late, wrongly or not at all. A seed decides all of it,
//! so a failing seed is a complete description of a bug.

pub mod agenda;
mod books;
pub mod calls;
pub mod chosen;
mod delay;
pub mod door;
pub mod ec2;
pub mod executor;
pub mod fault;
mod forced;
pub mod github;
mod held;
mod intents;
pub mod invariants;
pub mod invocations;
mod kills;
pub mod lambda;
mod liveness;
pub mod machine;
pub mod many;
pub mod naive;
mod names;
pub mod queue;
pub mod replay;
mod reruns;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod setup;
pub mod shrink;
mod stale;
pub mod summary;
pub mod table;
pub mod tally;
pub mod totals;
mod why;
pub mod world;

/// A simulated day takes a tenth less CPU with it than with the system's.
#[cfg(feature = "allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
