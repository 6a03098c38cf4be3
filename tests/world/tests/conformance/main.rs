//! What the simulated cloud promises. The names of the tests are the promises.
//!
//! `ec2`, `github` and `jobs` ask the model itself, in virtual time. `doors` asks over real
//! sockets, `machines` boots the real boot script.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod doors;
mod ec2;
mod github;
mod jobs;
mod machines;
