//! The end of machines: the reap pass of an instance, the batches in which reaps run, and the sweep
//! that finds what nobody told of.

pub mod batch;
pub mod orphans;
pub mod reap;
pub mod sweep;
pub mod terminate;
