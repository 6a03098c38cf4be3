//! Names that stand in a field until somebody resolves them.

use std::fmt;

use crate::ids::EntityKind;

/// An entity by GitHub's number for it, which a rename does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityId {
    /// What it is the number of: organizations, repositories and enterprises are counted apart.
    pub kind: EntityKind,
    /// The number.
    pub number: u64,
}

/// As people say it, without an article.
impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            EntityKind::Repository => "repository",
            EntityKind::Organization => "organization",
            EntityKind::Enterprise => "enterprise",
        };
        write!(f, "{kind} {}", self.number)
    }
}

/// What a field holds: what is stored, or a name for it.
#[derive(Debug)]
pub(super) enum ValueOrName<T, N> {
    Value(T),
    Name(N),
}

impl<T, N> ValueOrName<T, N> {
    /// One of both, when the field is written and right.
    pub(super) fn split(said: Option<Self>) -> (Option<T>, Option<N>) {
        match said {
            Some(Self::Value(value)) => (Some(value), None),
            Some(Self::Name(name)) => (None, Some(name)),
            None => (None, None),
        }
    }
}

/// An image by filter. Its architecture is the pool's.
#[derive(Debug)]
pub(super) struct NamedImage {
    pub(super) name: String,
    pub(super) owner: String,
}

/// A launch template of a pool's own: its role and its newest version are EC2's to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedTemplate {
    /// `lt-…`.
    pub id: String,
    /// The version. None: the newest.
    pub version: Option<u64>,
}

/// As people say it, without an article.
impl fmt::Display for NamedTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "version {version} of launch template {}", self.id),
            None => write!(f, "launch template {}", self.id),
        }
    }
}

/// The names among the fields of a pool.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) entity: Option<EntityId>,
    pub(super) group: Option<String>,
    pub(super) image: Option<NamedImage>,
    pub(super) template: Option<NamedTemplate>,
}
