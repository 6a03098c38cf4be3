//! What the simulated cloud promises, asked of the model itself, in virtual time. The names of the
//! tests are the promises. What the adapters lean on is asked by the port suite, `tests/conformance`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod ec2;
mod github;
mod images;
mod jobs;
