//! Jobs: GitHub's events, the batches they arrive in, and the queries that recover lost events.

pub mod batch;
pub mod ingest;
pub mod recover;
pub mod take_in;
