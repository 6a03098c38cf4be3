//! The agents that GitHub lists for an entity, and when it stops accepting older ones.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use muster_control::ports::Registrar;
use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::ec2::Arch;
use muster_domain::ids::Entity;
use muster_domain::provider::ProviderError;
use muster_domain::time::{Seconds, Time};
use serde::Deserialize;

use crate::answer::fault;
use crate::client::ApiRequest;
use crate::{App, AppKey, route};

/// How long a list is valid. Releases are weeks apart.
const HOLDS: Seconds = Seconds(3600);
/// Time after which a failed query is repeated.
const ASK_AGAIN: Seconds = Seconds(60);
/// Time-out of a query, because a machine waits for it and can continue without the answer.
const PATIENCE: Duration = Duration::from_secs(3);
const OPERATION: &str = "list-agents";
const DEPRECATION: &str = "get-agent-deprecation";

/// The latest answers by entity, because GitHub releases a version to one owner after the other.
#[derive(Default)]
pub(crate) struct Lists(
    Mutex<HashMap<Entity, CachedAgents>>,
    Mutex<HashMap<(Entity, AgentVersion), CachedDeprecation>>,
);

/// When a version is deprecated, and until when that answer is valid.
#[derive(Clone)]
struct CachedDeprecation {
    answer: Result<Option<Time>, ProviderError>,
    holds_until: Time,
}

/// GitHub's announcement about a version. Both dates are null for the newest release; the second
/// one is often absent.
/// Source: github.blog/changelog, 2026-09-03, "early September updates" of GitHub Actions
#[derive(Deserialize)]
struct Deprecation {
    #[serde(default)]
    runtime_deprecates_at: Option<jiff::Timestamp>,
    #[serde(default)]
    registration_deprecates_at: Option<jiff::Timestamp>,
}

#[derive(Clone)]
struct CachedAgents {
    answer: Result<Vec<AgentDownload>, ProviderError>,
    holds_until: Time,
}

/// An agent in GitHub's list.
/// Source:
/// docs.github.com/en/rest/actions/self-hosted-runners#list-runner-applications-for-an-organization
#[derive(Deserialize)]
struct Application {
    os: String,
    architecture: String,
    download_url: String,
    filename: String,
    #[serde(default)]
    sha256_checksum: Option<String>,
}

impl Application {
    /// Converts an entry. `None` for a different operating system, and for entries whose file name
    /// or digest is invalid.
    fn agent(self) -> Option<AgentDownload> {
        let arch = match self.architecture.as_str() {
            "x64" => Arch::X64,
            "arm64" => Arch::Arm64,
            _ => return None,
        };
        let name = self.filename.strip_prefix("actions-runner-linux-")?;
        let version = name.strip_prefix(arch.as_str())?.strip_prefix('-')?;
        let version = version.strip_suffix(".tar.gz")?.parse().ok()?;
        let sha256 = self.sha256_checksum.filter(|text| !text.is_empty());
        let is_digest =
            |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_right = self.os == "linux" && sha256.as_ref().is_none_or(is_digest);
        is_right.then_some(AgentDownload { version, arch, url: self.download_url, sha256 })
    }
}

impl Lists {
    fn known(&self, entity: &Entity) -> Option<CachedAgents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(entity).cloned()
    }

    fn remember(&self, entity: &Entity, known: CachedAgents) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(entity.clone(), known);
    }
}

impl<K: AppKey> App<K> {
    /// Returns the list, queried once per hour. If a query fails, the last list remains valid.
    pub(crate) async fn listed_agents(
        &self,
        registrar: &Registrar,
    ) -> Result<Vec<AgentDownload>, ProviderError> {
        let now = (self.clock)();
        let known = self.agents.known(&registrar.entity);
        if let Some(known) = known.as_ref().filter(|known| now < known.holds_until) {
            return known.answer.clone();
        }
        let asked = tokio::time::timeout(PATIENCE, self.ask_for_agents(registrar)).await;
        let answer = asked.unwrap_or_else(|_| {
            let message = format!("no answer within {PATIENCE:?}");
            Err(ProviderError::Unavailable(fault(OPERATION, "timeout", message, now)))
        });
        let holds = if answer.is_ok() { HOLDS } else { ASK_AGAIN };
        let answer = match known.map(|known| known.answer) {
            Some(Ok(last)) if answer.is_err() => Ok(last),
            _ => answer,
        };
        let known = CachedAgents { answer: answer.clone(), holds_until: now + holds };
        self.agents.remember(&registrar.entity, known);
        answer
    }

    /// Returns when GitHub stops accepting a version, queried once per hour. `None` if GitHub has
    /// announced no date, no longer knows the version (404), or is a server without this route
    /// (404).
    pub(crate) async fn end_of_agent(
        &self,
        registrar: &Registrar,
        version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        let now = (self.clock)();
        let key = (registrar.entity.clone(), version);
        let known = self.agents.1.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known.filter(|known| now < known.holds_until) {
            return known.answer;
        }
        let asked = tokio::time::timeout(PATIENCE, self.ask_for_end(registrar, version)).await;
        let answer = asked.unwrap_or_else(|_| {
            let message = format!("no answer within {PATIENCE:?}");
            Err(ProviderError::Unavailable(fault(DEPRECATION, "timeout", message, now)))
        });
        let holds = if answer.is_ok() { HOLDS } else { ASK_AGAIN };
        let end = CachedDeprecation { answer: answer.clone(), holds_until: now + holds };
        self.agents.1.lock().unwrap_or_else(PoisonError::into_inner).insert(key, end);
        answer
    }

    async fn ask_for_end(
        &self,
        registrar: &Registrar,
        version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        let path = route::deprecation(&registrar.entity, version);
        let call = ApiRequest { operation: DEPRECATION, method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => {
                let Deprecation { runtime_deprecates_at, registration_deprecates_at } =
                    answer.read()?;
                // Ephemeral runners register once and run once, so the earlier date applies.
                let first = runtime_deprecates_at.into_iter().chain(registration_deprecates_at);
                Ok(first.min().map(|at| Time::from_millis(at.as_millisecond())))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.trouble()),
        }
    }

    async fn ask_for_agents(
        &self,
        registrar: &Registrar,
    ) -> Result<Vec<AgentDownload>, ProviderError> {
        let path = route::agents(&registrar.entity);
        let call = ApiRequest { operation: OPERATION, method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let all: Vec<Application> = answer.read()?;
        let mut agents: Vec<AgentDownload> =
            all.into_iter().filter_map(Application::agent).collect();
        // Sorted, so that a different order does not count as a change.
        agents.sort_by_key(|agent| agent.arch);
        Ok(agents)
    }
}
