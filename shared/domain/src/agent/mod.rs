//! The agents that run jobs (actions/runner): which versions GitHub lists and accepts.
//!
//! GitHub accepts an agent for thirty days after the release of its successor, and for less if that
//! has a critical fix. An agent that is too old registers, gets no job and exits.
//! Source: docs.github.com/actions/reference/runners/self-hosted-runners, "Runner software updates"

mod record;
mod version;

use serde::{Deserialize, Serialize};

pub use self::record::{Agents, ListedAgent, RefusedAgent, Standing};
pub use self::version::AgentVersion;
use crate::ec2::Arch;

/// The exit code of an agent that GitHub rejects as too old, if it is configured to report that.
/// Source: actions/runner, `Constants.Runner.ReturnCode.RunnerVersionDeprecated`, since 2.333.0
pub const TOO_OLD: i32 = 7;

/// An agent in GitHub's list, for Linux.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentDownload {
    /// Its version.
    pub version: AgentVersion,
    /// The architecture that it runs on.
    pub arch: Arch,
    /// The URL of its archive.
    pub url: String,
    /// The archive's SHA-256 in hexadecimal digits, if GitHub provides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl AgentDownload {
    /// Returns the archive at a mirror's base URL.
    #[must_use]
    pub fn mirrored(&self, folder: &str) -> Self {
        let file = self.url.rsplit('/').next().unwrap_or_default();
        Self { url: format!("{}/{file}", folder.trim_end_matches('/')), ..self.clone() }
    }
}

/// A machine's report about its agent, before it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentReport {
    /// The machine's architecture.
    pub arch: Arch,
    /// The version that its image contains. `None` if it has no working agent.
    pub version: Option<AgentVersion>,
}

/// The agent that a machine should install instead of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOffer {
    /// This archive.
    Download(AgentDownload),
    /// The newest release on github.com, because GitHub's list was never read.
    Newest,
}

/// The agent of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentInUse {
    /// Its version.
    pub version: AgentVersion,
    /// Whether GitHub listed no newer version when the machine was configured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_newest: bool,
}

impl AgentInUse {
    /// Explains GitHub's rejection of the agent as too old, in a sentence without a full stop.
    #[must_use]
    pub fn refused(self) -> String {
        let Self { version, is_newest } = self;
        if is_newest {
            format!("GitHub rejected its agent {version} as too old, and lists no newer one")
        } else {
            format!("GitHub no longer accepts its agent {version}: it is too old")
        }
    }
}

#[cfg(test)]
mod tests;
