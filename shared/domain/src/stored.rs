//! Records and the versions under which a table holds them.
//!
//! A pass reads a [`Stored`] record, a rule makes the next one of it, and the two become a
//! [`Change`]: it replaces the very version that was read, or nothing. Rules work on plain records
//! and never see a version. A record that was changed and not stored cannot be written on, since
//! only a table makes a stored one:
//!
//! ```compile_fail,E0599
//! use muster_domain::stored::{Change, Stored};
//! # fn next(of: &u32) -> u32 { of + 1 }
//! fn write_on(read: &Stored<u32>) -> Change<u32> {
//!     let changed = read.change(next(read));
//!     // Nobody has committed `changed`: another writer may be faster.
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

/// Which write of a record this is. The first one is number 0, and each write adds one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A record as a table holds it. Only a table makes one: of what it reads, or of what it has
/// committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<T> {
    version: Version,
    record: T,
}

impl<T> Stored<T> {
    /// For tables alone: a record that was read.
    pub const fn read(record: T, version: Version) -> Self {
        Self { version, record }
    }

    /// Its version. Of two copies, the one with the higher version was written later.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// The record.
    pub const fn record(&self) -> &T {
        &self.record
    }

    /// The record without its version. It can be looked at, and not written.
    pub fn into_record(self) -> T {
        self.record
    }

    /// The record that takes its place.
    pub const fn change(&self, next: T) -> Change<T> {
        Change { replaces: Some(self.version), repairs_as: None, next }
    }
}

impl<T: PartialEq> Stored<T> {
    /// The record that takes its place; none if it says the same.
    pub fn changed(&self, next: T) -> Option<Change<T>> {
        (self.record != next).then(|| self.change(next))
    }
}

/// So that a rule takes plain records and stored ones.
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

/// A record that is to be written, and what it replaces. It reads as the record that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<T> {
    replaces: Option<Version>,
    /// The version that a repair gets; none for any other change.
    repairs_as: Option<Version>,
    next: T,
}

impl<T> Change<T> {
    /// The first version of a record. The table must not have it yet.
    pub const fn create(next: T) -> Self {
        Self { replaces: None, repairs_as: None, next }
    }

    /// The change of what was read, or the first version where nothing was.
    pub fn from_read(read: Option<&Stored<T>>, next: T) -> Self {
        Self { replaces: read.map(Stored::version), repairs_as: None, next }
    }

    /// Replaces whatever is stored under the key, for a record that cannot be read. `version` must be
    /// one that the record never had: a writer that read it before the repair must not succeed.
    pub const fn repair(next: T, version: Version) -> Self {
        Self { replaces: None, repairs_as: Some(version), next }
    }

    /// Whether it replaces whatever is stored.
    pub const fn is_repair(&self) -> bool {
        self.repairs_as.is_some()
    }

    /// The version that it replaces; none if the table must not have the record, or for a repair.
    pub const fn replaces(&self) -> Option<Version> {
        self.replaces
    }

    /// The version that it gets.
    pub fn version(&self) -> Version {
        let follows = self.replaces.map(|version| Version(version.0 + 1));
        self.repairs_as.or(follows).unwrap_or_default()
    }

    /// The record as it is to be.
    pub const fn next(&self) -> &T {
        &self.next
    }

    /// The record as it is in the table after the commit, which must be the one that this change
    /// was in.
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

/// A commit has happened. Only a table says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed(());

impl Committed {
    /// For tables alone: all writes of the commit are done.
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
