//! The version of an agent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Three numbers, compared in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentVersion([u32; 3]);

/// The error for a text that is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the version of an agent (three numbers, like 2.333.0)")]
pub struct InvalidVersion(String);

impl AgentVersion {
    /// Creates a version.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self([major, minor, patch])
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl FromStr for AgentVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let number = |part: &str| {
            let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| part.parse().ok()).flatten()
        };
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        let parts = parts.and_then(|parts| parts.try_into().ok());
        parts.map(Self).ok_or_else(|| InvalidVersion(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for AgentVersion {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, InvalidVersion> {
        text.parse()
    }
}

impl From<AgentVersion> for String {
    fn from(version: AgentVersion) -> Self {
        version.to_string()
    }
}
