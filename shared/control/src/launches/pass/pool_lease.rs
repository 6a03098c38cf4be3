//! The pool's counter and lease, as a launch pass knows them.

use std::ops::Deref;

use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};

/// The pool's counter and lease, as a pass knows it.
#[derive(Clone, Debug)]
pub(super) enum Lease {
    /// The record as it stands in the table.
    Stored(Stored<Capacity>),
    /// The pool is free, and the record says so until the pass commits something.
    Planned {
        /// What was read.
        read: Option<Stored<Capacity>>,
        /// The record with the lease.
        next: Box<Capacity>,
    },
}

impl Lease {
    /// The record that takes the place of this one. Where the lease is only planned, the change
    /// takes it.
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
