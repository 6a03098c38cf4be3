//! A pool's counter and lease, as known to a launch pass.

use std::ops::Deref;

use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};

/// A pool's counter and lease.
#[derive(Clone, Debug)]
pub(super) enum Lease {
    /// The record as stored.
    Stored(Stored<Capacity>),
    /// The pool is free; the pass takes the lease with its first commit.
    Planned {
        /// The record as read.
        read: Option<Stored<Capacity>>,
        /// The record with the lease.
        next: Box<Capacity>,
    },
}

impl Lease {
    /// Returns the change that replaces this record. If the lease is only planned, the change takes
    /// it.
    pub(super) fn change(&self, next: Capacity) -> Change<Capacity> {
        match self {
            Self::Stored(stored) => stored.change(next),
            Self::Planned { read, .. } => Change::from_read(read.as_ref(), next),
        }
    }

    pub(super) const fn is_planned(&self) -> bool {
        matches!(self, Self::Planned { .. })
    }
}

impl Deref for Lease {
    type Target = Capacity;

    fn deref(&self) -> &Capacity {
        match self {
            Self::Stored(stored) => stored,
            Self::Planned { next, .. } => next,
        }
    }
}
