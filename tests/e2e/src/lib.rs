//! The harness of the end-to-end tests and the demo.
//!
//! Everything runs on the local stack: the real template and the real function binaries in the
//! emulator, and the simulated world as EC2, GitHub and the machines. The harness speaks plain HTTP
//! to both, and has no SDK: it must not be able to share a mistake with the code that it tests.
#![warn(missing_docs)]

pub mod aws;
pub mod command;
pub mod diagnosis;
pub mod github;
pub mod local;
pub mod logs;
pub mod process;
pub mod stack;
pub mod suite;
pub mod wait;
pub mod world;

pub use stack::{Job, Stack};
pub use suite::{Scenario, Test};
pub use wait::{Seen, wait_for};

/// What the tests say when something is missing that only the local stack can give.
pub const HINT: &str = "the local stack is not running: `make test` (or `make up`) starts it";
