//! What the simulated cloud promises. The names of the tests are the promises.
//!
//! `doors` asks over real sockets, `apps` walks GitHub's pages, `machines` boots the real boot script. The model behind them has
//! its tests in `tests/cloud`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod apps;
mod common;
mod doors;
mod machines;
mod network;
