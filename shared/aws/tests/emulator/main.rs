//! Tests of the adapters with an emulator of DynamoDB, SQS and Secrets Manager on loopback.

mod faults;
mod listings;
mod proxy;
mod queue;
mod records;
mod secrets;
mod support;
mod table;
