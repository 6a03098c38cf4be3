//! The end of machines: reap passes for instances, batches of them, and the sweep, which finds what
//! no message reported.

pub mod batch;
pub mod orphans;
pub mod reap;
pub mod sweep;
pub mod terminate;
