//! The agents that run jobs (actions/runner): what GitHub lists, and which of them it takes.
//!
//! GitHub takes an agent for thirty days after the release of the one that follows it, and one with
//! a critical mend sooner. One that is too old registers, gets no job and ends.
//! Source: docs.github.com/actions/reference/runners/self-hosted-runners, "Runner software updates"

mod record;
mod version;

use serde::{Deserialize, Serialize};

pub use self::record::{Agents, ListedAgent, RefusedAgent, Standing};
pub use self::version::AgentVersion;
use crate::pool::Arch;

/// The exit code of an agent that GitHub calls too old, where it is asked to tell.
/// Source: actions/runner, `Constants.Runner.ReturnCode.RunnerVersionDeprecated`, since 2.333.0
pub const TOO_OLD: i32 = 7;

/// An agent of GitHub's list, for Linux.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentDownload {
    /// Its version.
    pub version: AgentVersion,
    /// The processors that it runs on.
    pub arch: Arch,
    /// Where its archive is.
    pub url: String,
    /// The archive's SHA-256 in hexadecimal digits; none where GitHub does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl AgentDownload {
    /// The same archive in a folder of somebody else's.
    #[must_use]
    pub fn mirrored(&self, folder: &str) -> Self {
        let file = self.url.rsplit('/').next().unwrap_or_default();
        Self { url: format!("{}/{file}", folder.trim_end_matches('/')), ..self.clone() }
    }
}

/// What a machine says of its agent before it is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AgentReport {
    /// The machine's processors.
    pub arch: Arch,
    /// The version that its image has brought; none where it has no agent that runs.
    pub version: Option<AgentVersion>,
}

/// The agent that a machine is to take in place of what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOffer {
    /// This one.
    Download(AgentDownload),
    /// GitHub's list was never read: whichever is the newest release on github.com.
    Newest,
}

/// The agent of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentInUse {
    /// Its version.
    pub version: AgentVersion,
    /// GitHub listed no newer one when the machine was configured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_newest: bool,
}

impl AgentInUse {
    /// What it means that GitHub calls it too old, in a sentence without its full stop.
    #[must_use]
    pub fn refused(self) -> String {
        let Self { version, is_newest } = self;
        if is_newest {
            format!("GitHub called its agent {version} too old, and lists no newer one")
        } else {
            format!("GitHub takes its agent {version} no more: it is too old")
        }
    }
}

#[cfg(test)]
mod tests;
