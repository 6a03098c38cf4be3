//! The ports of `control` on AWS: DynamoDB, SQS and Secrets Manager, and what every function needs
//! beside them (one configured client, metrics, logs).
//!
//! EC2 is a crate of its own, so that functions without it never build it. Errors of the SDK are
//! classified in [`error`] and nowhere else: what leaves this crate is in the words of the ports.
#![warn(missing_docs)]

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
