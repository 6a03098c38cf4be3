//! The ports to the DynamoDB tables.

mod instances;
mod jobs;
mod launches;
mod operations;
mod usage;

use muster_domain::causes::Cause;
use muster_domain::stored::Committed;

pub use self::instances::{Bound, Instances};
pub use self::jobs::{JobGroup, Jobs};
pub use self::launches::{LaunchConditions, Launches};
pub use self::operations::Operations;
pub use self::usage::Usage;
use super::{Unavailable, Write};

/// Why a commit did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A concurrent writer changed one of the records. Read again and decide again.
    #[error("a concurrent write conflicted")]
    Conflict,
    /// The table did not answer, or failed for a reason that is not our fault. The commit may have
    /// happened: read before trying again.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
}

/// Why a read failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The table did not answer.
    #[error("table unavailable")]
    Unavailable(#[source] Unavailable),
    /// A record with an unknown version or state: it is not touched, and it is counted.
    #[error("record {key} cannot be read by this version")]
    Unreadable {
        /// The record's key.
        key: String,
        /// The problem with it.
        #[source]
        why: Cause,
    },
}

/// One page of a listing and the start of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Keys of records on this page that this version cannot read.
    pub unreadable: Vec<String>,
    /// The argument for the next call; absent on the last page.
    pub next: Option<String>,
}

/// The DynamoDB tables. Reads by key are consistent; listings come from indexes and may be stale,
/// so no decision depends on them alone.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Table: Instances + Jobs + Launches + Operations + Usage {
    /// Commits the writes atomically.
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError>;
}
