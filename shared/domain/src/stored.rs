//! Records with the versions under which a table stores them.
//!
//! A pass reads a [`Stored`] record, a rule computes the next one, and the two form a [`Change`],
//! which replaces exactly the version that was read or fails. Rules work on plain records and never
//! see a version. A record that was changed but not committed cannot be changed again, because only
//! a table creates a [`Stored`] record:
//!
//! ```compile_fail,E0599
//! use muster_domain::stored::{Change, Stored};
//! # fn next(of: &u32) -> u32 { of + 1 }
//! fn write_on(read: &Stored<u32>) -> Change<u32> {
//!     let changed = read.change(next(read));
//!     // `changed` is not committed: another writer may be faster.
//!     changed.change(next(&changed))
//! }
//! ```
//!
//! A committed one can:
//!
//! ```
//! use muster_domain::stored::{Change, Committed, Stored};
//! # fn next(of: &u32) -> u32 { of + 1 }
//! fn write_on(read: &Stored<u32>, commit: impl Fn(&Change<u32>) -> Committed) -> Change<u32> {
//!     let changed = read.change(next(read));
//!     let committed = commit(&changed);
//!     let stored = changed.stored(&committed);
//!     stored.change(next(&stored))
//! }
//! ```

use std::ops::Deref;

/// The number of a record's write. The first write is number 0; each later one adds 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A record as stored in a table. Only a table creates one, from what it read or committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<T> {
    version: Version,
    record: T,
}

impl<T> Stored<T> {
    /// Creates a record that was read. Only for use by tables.
    pub const fn read(record: T, version: Version) -> Self {
        Self { version, record }
    }

    /// Returns its version. Of two copies, the one with the higher version was written later.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the record.
    pub const fn record(&self) -> &T {
        &self.record
    }

    /// Returns the record without its version, so that it can no longer be written.
    pub fn into_record(self) -> T {
        self.record
    }

    /// Creates the change to `next`.
    pub const fn change(&self, next: T) -> Change<T> {
        Change { replaces: Some(self.version), repairs_as: None, next }
    }
}

impl<T: PartialEq> Stored<T> {
    /// Creates the change to `next`, or returns `None` if the record is equal.
    pub fn changed(&self, next: T) -> Option<Change<T>> {
        (self.record != next).then(|| self.change(next))
    }
}

/// Lets rules accept both plain and stored records.
impl<T> AsRef<T> for Stored<T> {
    fn as_ref(&self) -> &T {
        &self.record
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.record
    }
}

/// A record to write, and the version that it replaces. Dereferences to the new record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    replaces: Option<Version>,
    /// The version to assign in a repair. `None` for any other change.
    repairs_as: Option<Version>,
    next: T,
}

impl<T> Change<T> {
    /// Creates the first version of a record. The table must not have it yet.
    pub const fn create(next: T) -> Self {
        Self { replaces: None, repairs_as: None, next }
    }

    /// Creates the change of a record that was read, or the first version if the table had none.
    pub fn from_read(read: Option<&Stored<T>>, next: T) -> Self {
        Self { replaces: read.map(Stored::version), repairs_as: None, next }
    }

    /// Creates a change that replaces any stored record, for one that cannot be read. `version`
    /// must be one that the record never had: a writer that read it before the repair must not
    /// succeed.
    pub const fn repair(next: T, version: Version) -> Self {
        Self { replaces: None, repairs_as: Some(version), next }
    }

    /// Returns whether it replaces any stored record.
    pub const fn is_repair(&self) -> bool {
        self.repairs_as.is_some()
    }

    /// Returns the version that it replaces. `None` if the table must not have the record, or for a
    /// repair.
    pub const fn replaces(&self) -> Option<Version> {
        self.replaces
    }

    /// Returns the version that it writes.
    pub fn version(&self) -> Version {
        let follows = self.replaces.map(|version| Version(version.0 + 1));
        self.repairs_as.or(follows).unwrap_or_default()
    }

    /// Returns the new record.
    pub const fn next(&self) -> &T {
        &self.next
    }

    /// Returns the stored record after the commit, which must be the one that included this change.
    pub fn stored(self, _: &Committed) -> Stored<T> {
        Stored { version: self.version(), record: self.next }
    }
}

impl<T> Deref for Change<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.next
    }
}

/// Proof that a commit succeeded. Only a table creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed(());

impl Committed {
    /// Creates the proof that all writes of the commit succeeded. Only for use by tables.
    pub const fn by_table() -> Self {
        Self(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_gets_the_next_version() {
        let first = Change::create("a");
        assert_eq!((first.replaces(), first.version()), (None, Version(0)));
        let stored = first.stored(&Committed::by_table());
        assert_eq!(stored, Stored::read("a", Version(0)));
        let second = stored.change("b");
        assert_eq!((second.replaces(), second.version()), (Some(Version(0)), Version(1)));
        assert_eq!(*second, "b");
    }

    #[test]
    fn what_says_the_same_is_no_change() {
        let stored = Stored::read("a", Version(7));
        assert_eq!(stored.changed("a"), None);
        assert_eq!(stored.changed("b"), Some(stored.change("b")));
    }
}
