//! The ports of `control` on AWS: DynamoDB, SQS and Secrets Manager, plus what every function needs
//! (one configured client, metrics, logs).
//!
//! EC2 has a separate crate, so that functions without it never build it. SDK errors are classified
//! only in [`error`]: this crate exposes only the ports' own error types.
#![warn(missing_docs)]

pub mod ca_bundle;
pub mod client;
pub mod clock;
pub mod config;
pub mod emf;
pub mod environment;
pub mod error;
mod item;
pub mod queue;
pub mod secrets;
pub mod signature;
pub mod table;
pub mod telemetry;

pub use aws_config::SdkConfig;
