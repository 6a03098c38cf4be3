//! What is known of jobs: the events that GitHub sends, the batches in which they come, and the
//! questions that make up for those that it does not send.

pub mod batch;
pub mod ingest;
pub mod recover;
pub mod take_in;
