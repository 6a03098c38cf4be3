//! Names in fields that must be resolved.

use std::fmt;

use crate::ids::{AppName, EntityKind};

/// An entity by GitHub's ID, which does not change when the entity is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityId {
    /// The App that acts for it.
    pub app: AppName,
    /// The kind of entity: organizations, repositories and enterprises have separate ID ranges.
    pub kind: EntityKind,
    /// The ID.
    pub number: u64,
}

/// Formats it for messages, without an article.
impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            EntityKind::Repository => "repository",
            EntityKind::Organization => "organization",
            EntityKind::Enterprise => "enterprise",
        };
        write!(f, "{kind} {}", self.number)?;
        match self.app {
            AppName::MAIN => Ok(()),
            app => write!(f, " of App {app}"),
        }
    }
}

/// The contents of a field: the value to store, or a name to resolve.
#[derive(Debug)]
pub(super) enum ValueOrName<T, N> {
    Value(T),
    Name(N),
}

impl<T, N> ValueOrName<T, N> {
    /// Returns the value or the name, if the field is present and valid.
    pub(super) fn split(written: Option<Self>) -> (Option<T>, Option<N>) {
        match written {
            Some(Self::Value(value)) => (Some(value), None),
            Some(Self::Name(name)) => (None, Some(name)),
            None => (None, None),
        }
    }
}

/// An image filter. The architecture comes from the pool.
#[derive(Debug)]
pub(super) struct NamedImage {
    pub(super) name: String,
    pub(super) owner: String,
}

/// A pool's own launch template: EC2 provides its role and its newest version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedTemplate {
    /// `lt-…`.
    pub id: String,
    /// The version. If unset: the newest.
    pub version: Option<u64>,
}

/// Formats it for messages, without an article.
impl fmt::Display for NamedTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "version {version} of launch template {}", self.id),
            None => write!(f, "launch template {}", self.id),
        }
    }
}

/// The unresolved names among a pool's fields.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) entity: Option<EntityId>,
    pub(super) group: Option<String>,
    pub(super) image: Option<NamedImage>,
    pub(super) template: Option<NamedTemplate>,
}
