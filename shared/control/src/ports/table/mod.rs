//! The tables.

mod instances;
mod jobs;
mod launches;
mod operations;
mod usage;

use muster_domain::stored::Committed;

pub use self::instances::Instances;
pub use self::jobs::{JobGroup, Jobs};
pub use self::launches::{LaunchConditions, Launches};
pub use self::operations::Operations;
pub use self::usage::Usage;
use super::{Unavailable, Write};
use crate::causes::Cause;

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Somebody else wrote one of the records in between. Read again and decide again.
    #[error("another writer was faster")]
    Conflict,
    /// The table did not answer, or refused for a reason that is not ours. The commit may have
    /// happened: read before trying again.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
}

/// The table did not answer, or holds something that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No answer.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
    /// A record of an unknown version or state: left alone, and counted.
    #[error("record {key} cannot be read by this version")]
    Unreadable {
        /// The record's key.
        key: String,
        /// What is wrong with it.
        #[source]
        why: Cause,
    },
}

/// One page of a listing and where the next one starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Records on this page that this version cannot read, by key.
    pub unreadable: Vec<String>,
    /// Pass it to the next call; none on the last page.
    pub next: Option<String>,
}

/// The tables. Reads by key are consistent; listings come from indexes and may be late, so
/// nothing is decided on them alone.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Table: Instances + Jobs + Launches + Operations + Usage {
    /// Writes all or nothing.
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError>;
}
