//! The agents that GitHub lists, and those that it still takes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::GitHub;

/// What GitHub says of agents. The default lists none and takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    pub listed: Vec<ListedAgent>,
    /// Every older agent gets no job, and is told that it is too old.
    pub takes_from: Option<String>,
}

/// An agent for Linux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedAgent {
    pub version: String,
    pub architecture: String,
    pub download_url: String,
    #[serde(default)]
    pub sha256: Option<String>,
}

impl Agents {
    /// Lists this version in this folder, for both processors; that for arm64 without a digest, as
    /// older servers do.
    #[must_use]
    pub fn listing(version: &str, folder: &str, sha256: &str) -> Self {
        let agent = |architecture: &str, sha256: Option<&str>| {
            let file = format!("actions-runner-linux-{architecture}-{version}.tar.gz");
            ListedAgent {
                version: version.to_owned(),
                architecture: architecture.to_owned(),
                download_url: format!("{folder}/{file}"),
                sha256: sha256.map(str::to_owned),
            }
        };
        let listed = vec![agent("x64", Some(sha256)), agent("arm64", None)];
        Self { listed, takes_from: None }
    }
}

impl GitHub {
    /// The listing, with an agent for another system before those for Linux.
    #[must_use]
    pub fn agents_view(&self) -> Vec<Value> {
        let name = "actions-runner-osx-x64-2.0.0.tar.gz";
        let elsewhere = json!({
            "os": "osx",
            "architecture": "x64",
            "download_url": format!("https://github.com/actions/runner/{name}"),
            "filename": name,
        });
        let linux = self.agents.listed.iter().map(|one| {
            let ListedAgent { version, architecture, download_url, sha256 } = one;
            let mut view = json!({
                "os": "linux",
                "architecture": architecture,
                "download_url": download_url,
                "filename": format!("actions-runner-linux-{architecture}-{version}.tar.gz"),
            });
            if let Some(sha256) = sha256 {
                view["sha256_checksum"] = json!(sha256);
            }
            view
        });
        std::iter::once(elsewhere).chain(linux).collect()
    }

    /// Whether an agent of this version is given jobs.
    #[must_use]
    pub fn takes_agent(&self, version: &str) -> bool {
        let least = self.agents.takes_from.as_deref();
        least.is_none_or(|least| numbers(version) >= numbers(least))
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
