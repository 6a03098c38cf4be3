//! Identifiers. Each has its own type, so that a runner ID cannot be used as a machine ID.
//! Decisions copy records often, so copies share their text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The error for an invalid identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct InvalidId {
    text: String,
    expected: &'static str,
}

/// Returns whether the text has only letters, digits, `.`, `_` and `-`: safe in tags, names, log
/// lines and shell words.
fn is_plain(text: &str, max: usize) -> bool {
    !text.is_empty()
        && text.len() <= max
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $expected:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the identifier's text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(&text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId { text, expected: $expected })
                }
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                String::from(&*id.0)
            }
        }
    };
}

text_id!(
    /// The key of an instance record: pool, launch and slot, for example `default-7f3a…-0`.
    InstanceName,
    "an instance name (letters, digits, '.', '_', '-'; at most 100)",
    |text| is_plain(text, 100)
);

text_id!(
    /// The ID of one fleet request. Also EC2's client token (at most 64 characters, case-sensitive)
    /// and the value of the tag `muster:launch`.
    LaunchId,
    "a launch id (letters, digits, '.', '_', '-'; at most 64)",
    |text| is_plain(text, 64)
);

impl LaunchId {
    /// Returns a number that is fixed for a launch and differs between launches. FNV-1a.
    #[must_use]
    pub fn scatter(&self) -> u32 {
        self.0
            .bytes()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

text_id!(
    /// A pool's name.
    PoolName,
    "a pool name (letters, digits, '.', '_', '-'; at most 40)",
    |text| is_plain(text, 40)
);

text_id!(
    /// EC2's instance ID: `i-` and 8 or 17 hexadecimal digits.
    MachineId,
    "an EC2 instance id",
    |text| text.strip_prefix("i-").is_some_and(|hex| {
        (8..=17).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
);

text_id!(
    /// EC2's image ID: `ami-` and 8 to 17 hexadecimal digits.
    ImageId,
    "an EC2 image id",
    |text| text.strip_prefix("ami-").is_some_and(|hex| {
        (8..=17).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit())
    })
);

text_id!(
    /// The key of an image family: the processor, and a hash if its pools have their own base image or image hook
    /// (`x64`, `arm64-1a2b3c4d`).
    FamilyKey,
    "an image family (like x64 or arm64-1a2b3c4d; see `muster image`)",
    |text| is_plain(text, 40)
);

text_id!(
    /// The owner of runner registrations: `org`, `owner/repo` or `enterprises/name`.
    Entity,
    "an entity (an organization, owner/repository, or enterprises/name)",
    |text| {
        let mut parts = text.split('/');
        let (first, second, rest) = (parts.next(), parts.next(), parts.next());
        first.is_some_and(|part| is_plain(part, 100))
            && second.is_none_or(|part| is_plain(part, 100))
            && rest.is_none()
    }
);

/// The kind of owner that an [`Entity`] is. Determines the GitHub API paths and the matching order:
/// repository before organization before enterprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntityKind {
    /// `owner/repo`.
    Repository,
    /// `org`.
    Organization,
    /// `enterprises/name`.
    Enterprise,
}

impl EntityKind {
    /// Returns the kind with its article, for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "a repository",
            Self::Organization => "an organization",
            Self::Enterprise => "an enterprise",
        }
    }
}

impl Entity {
    /// Returns whether both name one owner: GitHub compares names case-insensitively.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// Returns the entity in lower case, for use as a key.
    #[must_use]
    pub fn lower_case(&self) -> Self {
        Self(self.0.to_ascii_lowercase().into())
    }

    /// Returns the kind of owner, from the form of the text.
    #[must_use]
    pub fn kind(&self) -> EntityKind {
        match self.0.split_once('/') {
            Some(("enterprises", _)) => EntityKind::Enterprise,
            Some(_) => EntityKind::Repository,
            None => EntityKind::Organization,
        }
    }

    /// Returns whether runners registered here can be given a job of this repository (`owner/repo`,
    /// case-insensitive). Muster does not know an enterprise's organizations, so an enterprise
    /// covers every repository.
    #[must_use]
    pub fn covers(&self, repository: &str) -> bool {
        match self.kind() {
            EntityKind::Enterprise => true,
            EntityKind::Repository => self.0.eq_ignore_ascii_case(repository),
            EntityKind::Organization => repository
                .split_once('/')
                .is_some_and(|(owner, _)| owner.eq_ignore_ascii_case(&self.0)),
        }
    }
}

/// GitHub's ID of a runner registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunnerId(pub u64);

impl fmt::Display for RunnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// GitHub's ID of an App installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstallationId(pub u64);

/// The key of a workflow job: the repository's ID and the job's ID. A re-run has a new job ID.
///
/// Written as `<repository>/<job>`. The key contains the repository's ID because a name can later
/// belong to a different repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobKey {
    /// GitHub's ID of the repository.
    pub repository: u64,
    /// GitHub's ID of the job.
    pub job: u64,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.repository, self.job)
    }
}

impl FromStr for JobKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        text.split_once('/')
            .and_then(|(repository, job)| {
                Some(Self { repository: repository.parse().ok()?, job: job.parse().ok()? })
            })
            .ok_or_else(|| InvalidId {
                text: text.to_owned(),
                expected: "a job key (<repository id>/<job id>)",
            })
    }
}

impl TryFrom<String> for JobKey {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<JobKey> for String {
    fn from(key: JobKey) -> Self {
        key.to_string()
    }
}

/// Returns the name of a runner registration, `<instance>-<n>`, where n counts the requested
/// configurations.
#[must_use]
pub fn runner_name(instance: &InstanceName, n: u32) -> String {
    format!("{instance}-{n}")
}

/// Returns the instance in a runner's name, if the name has Muster's form.
#[must_use]
pub fn instance_of_runner(runner: &str) -> Option<InstanceName> {
    let (instance, n) = runner.rsplit_once('-')?;
    n.parse::<u32>().ok()?;
    instance.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_could_break_a_shell_or_a_key_are_refused() {
        for bad in ["", "a b", "a/b", "$(x)", "a\n", "é", "a#b"] {
            assert!(bad.parse::<InstanceName>().is_err(), "{bad:?}");
        }
        assert!("i-0123456789abcdef0".parse::<MachineId>().is_ok());
        assert!("i-xyz".parse::<MachineId>().is_err());
        assert!("a/b/c".parse::<Entity>().is_err());
    }

    #[test]
    fn runner_names_lead_back_to_their_instance() {
        let instance: InstanceName = "default-abc-0".parse().expect("valid");
        assert_eq!(instance_of_runner(&runner_name(&instance, 12)), Some(instance));
        assert_eq!(instance_of_runner("somebody-elses"), None);
    }

    #[test]
    fn an_entity_covers_its_repositories_in_any_case() {
        let covers =
            |entity: &str, repository| entity.parse::<Entity>().expect("valid").covers(repository);
        assert!(covers("acme", "ACME/web"));
        assert!(covers("acme/web", "Acme/Web"));
        assert!(!covers("acme/web", "acme/api"));
        assert!(!covers("acme", "acme2/web"));
        assert!(covers("enterprises/big", "anyone/anything"));
    }
}
