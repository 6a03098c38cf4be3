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

/// Maximum length of an App's name, in bytes.
const MAX_APP_NAME: usize = 16;

/// The name of one of the stack's GitHub Apps. Most stacks have only [`AppName::MAIN`].
///
/// What belongs to another App is written with its name and a colon: `ghes:acme/web`, `ghes:7/5511`.
/// So the same name or ID at two hosts is never confused, and every record, message and pool names the
/// App to act as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AppName([u8; MAX_APP_NAME]);

impl AppName {
    /// The first App of a stack. Its name is not written.
    pub const MAIN: Self = Self([0; MAX_APP_NAME]);
    const MAIN_TEXT: &str = "main";

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(MAX_APP_NAME);
        match std::str::from_utf8(&self.0[..length]) {
            Ok(name) if length > 0 => name,
            _ => Self::MAIN_TEXT,
        }
    }

    /// Returns a text of this App with the App's name: `ghes:acme/web`. Of the main App: the text.
    #[must_use]
    pub fn qualify(self, text: &str) -> String {
        match self {
            Self::MAIN => text.to_owned(),
            _ => format!("{self}:{text}"),
        }
    }

    /// Splits a text into the App and what is written after its name. `None` if the name is invalid.
    #[must_use]
    pub fn split(text: &str) -> Option<(Self, &str)> {
        let Some((app, rest)) = text.split_once(':') else { return Some((Self::MAIN, text)) };
        let app = app.parse().ok().filter(|app| *app != Self::MAIN)?;
        Some((app, rest))
    }

    /// Returns a text without the App's name.
    #[must_use]
    pub fn unqualified(text: &str) -> &str {
        Self::split(text).map_or(text, |(_, rest)| rest)
    }
}

impl Default for AppName {
    fn default() -> Self {
        Self::MAIN
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AppName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        if text == Self::MAIN_TEXT {
            return Ok(Self::MAIN);
        }
        let is_valid = text.len() <= MAX_APP_NAME
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !is_valid {
            return Err(InvalidId {
                text: text.to_owned(),
                expected: "an App's name (lower-case letters, digits and '-', beginning with a letter; at most 16)",
            });
        }
        let mut name = [0; MAX_APP_NAME];
        name[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self(name))
    }
}

impl TryFrom<String> for AppName {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<AppName> for String {
    fn from(app: AppName) -> Self {
        app.as_str().to_owned()
    }
}

text_id!(
    /// The owner of runner registrations: `org`, `owner/repo` or `enterprises/name`, after the App's
    /// name if that is not the main App (see [`AppName`]).
    Entity,
    "an entity (an organization, owner/repository, or enterprises/name; with APP: before it for another App)",
    |text| {
        let Some((_, text)) = AppName::split(text) else { return false };
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

    /// Returns the App that acts for it.
    #[must_use]
    pub fn app(&self) -> AppName {
        AppName::split(&self.0).map_or(AppName::MAIN, |(app, _)| app)
    }

    /// Returns its name at GitHub: the text without the App.
    #[must_use]
    pub fn name(&self) -> &str {
        AppName::unqualified(&self.0)
    }

    /// Returns the kind of owner, from the form of the text.
    #[must_use]
    pub fn kind(&self) -> EntityKind {
        match self.name().split_once('/') {
            Some(("enterprises", _)) => EntityKind::Enterprise,
            Some(_) => EntityKind::Repository,
            None => EntityKind::Organization,
        }
    }

    /// Returns whether runners registered here can be given a job of this repository (`owner/repo`,
    /// case-insensitive). Muster does not know an enterprise's organizations, so an enterprise
    /// covers every repository of its App.
    #[must_use]
    pub fn covers(&self, repository: &str) -> bool {
        match self.kind() {
            EntityKind::Enterprise => {
                AppName::split(repository).is_some_and(|(app, _)| app == self.app())
            }
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

/// The key of a workflow job: the App, the repository's ID and the job's ID. A re-run has a new job
/// ID.
///
/// Written as `<repository>/<job>`, after the App's name if that is not the main App. The key contains
/// the repository's ID because a name can later belong to a different repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobKey {
    /// The App that reported the job: two hosts may give out the same IDs.
    pub app: AppName,
    /// GitHub's ID of the repository.
    pub repository: u64,
    /// GitHub's ID of the job.
    pub job: u64,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.app != AppName::MAIN {
            write!(f, "{}:", self.app)?;
        }
        write!(f, "{}/{}", self.repository, self.job)
    }
}

impl FromStr for JobKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        AppName::split(text)
            .and_then(|(app, ids)| {
                let (repository, job) = ids.split_once('/')?;
                Some(Self { app, repository: repository.parse().ok()?, job: job.parse().ok()? })
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

/// The key of a workflow run: the App and GitHub's ID of the run. Written as that ID, after the App's
/// name if that is not the main App.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The App that reported the run.
    pub app: AppName,
    /// GitHub's ID of the run.
    pub run: u64,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.app.qualify(&self.run.to_string()))
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

    /// What belongs to another App keeps its name in every text, and is never that of the main App.
    #[test]
    fn each_text_names_its_app() {
        let entity = |text: &str| text.parse::<Entity>();
        for (text, app, name, kind) in [
            ("acme", "main", "acme", EntityKind::Organization),
            ("ghes:acme", "ghes", "acme", EntityKind::Organization),
            ("a-1:acme/web", "a-1", "acme/web", EntityKind::Repository),
            ("ghes:enterprises/big", "ghes", "enterprises/big", EntityKind::Enterprise),
        ] {
            let read = entity(text).expect(text);
            assert_eq!((read.app().as_str(), read.name(), read.kind()), (app, name, kind));
            assert_eq!(read.app().qualify(name), text);
        }
        for bad in [
            "main:acme",
            ":acme",
            "GHES:acme",
            "1a:acme",
            "a:b:acme",
            "a-name-that-is-long:acme",
            "a:",
        ] {
            assert!(entity(bad).is_err(), "{bad}");
        }
        for (text, app) in [("7/5511", "main"), ("ghes:7/5511", "ghes")] {
            let key: JobKey = text.parse().expect(text);
            assert_eq!((key.app.as_str(), key.to_string().as_str()), (app, text));
        }
        assert!("main:7/5511".parse::<JobKey>().is_err());
        let covers =
            |entity: &str, repository| entity.parse::<Entity>().expect("valid").covers(repository);
        for (own, other) in [
            ("acme", "ghes:acme/web"),
            ("ghes:acme", "acme/web"),
            ("enterprises/big", "ghes:acme/web"),
        ] {
            assert!(!covers(own, other), "{own} {other}");
        }
        assert!(
            covers("ghes:acme", "ghes:Acme/web") && covers("ghes:enterprises/big", "ghes:acme/web")
        );
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
