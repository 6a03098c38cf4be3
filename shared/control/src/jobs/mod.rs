//! What is known of jobs: the events that GitHub sends, and the questions that make up for those
//! that it does not send.

pub mod ingest;
pub mod recover;
