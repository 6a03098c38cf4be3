//! The agents that GitHub lists for an entity, and until when it accepts others.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};
use muster_control::ports::Registrar;
use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::ids::Entity;
use muster_domain::observation::ProviderError;
use muster_domain::pool::Arch;
use muster_domain::time::{Seconds, Time};
use serde::Deserialize;

use crate::answer::fault;
use crate::client::Call;
use crate::{App, AppKey, route};

/// How long a list holds. Releases are weeks apart.
const HOLDS: Seconds = Seconds(3600);
/// When GitHub is asked again that gave no list.
const ASK_AGAIN: Seconds = Seconds(60);
/// A machine waits for the answer, and can do without.
const PATIENCE: Duration = Duration::from_secs(3);
const OPERATION: &str = "list-agents";
const DEPRECATION: &str = "get-agent-deprecation";

/// The last answers, by entity: GitHub lists a release to one owner after another.
#[derive(Default)]
pub(crate) struct Lists(Mutex<HashMap<Entity, Known>>, Mutex<HashMap<(Entity, AgentVersion), End>>);

/// When a version is deprecated, and until when that answer is kept.
#[derive(Clone)]
struct End {
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
struct Known {
    answer: Result<Vec<AgentDownload>, ProviderError>,
    holds_until: Time,
}

/// Source: docs.github.com/en/rest/actions/self-hosted-runners#list-runner-applications-for-an-organization
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
    /// None for another system, and for what cannot be told from its name or checked.
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
    fn known(&self, entity: &Entity) -> Option<Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(entity).cloned()
    }

    fn remember(&self, entity: &Entity, known: Known) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(entity.clone(), known);
    }
}

impl<K: AppKey> App<K> {
    /// The list, asked for once an hour. Where there is no new one, the last holds on.
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
        let known = Known { answer: answer.clone(), holds_until: now + holds };
        self.agents.remember(&registrar.entity, known);
        answer
    }

    /// When GitHub stops accepting a version, queried once an hour. None where it has announced
    /// nothing, does not know the version any more (404), or is a server without this route (404).
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
        let end = End { answer: answer.clone(), holds_until: now + holds };
        self.agents.1.lock().unwrap_or_else(PoisonError::into_inner).insert(key, end);
        answer
    }

    async fn ask_for_end(
        &self,
        registrar: &Registrar,
        version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        let path = route::deprecation(&registrar.entity, version);
        let call = Call { operation: DEPRECATION, method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => {
                let Deprecation { runtime_deprecates_at, registration_deprecates_at } =
                    answer.read()?;
                // Ours register once and run once: the earlier date ends both.
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
        let call = Call { operation: OPERATION, method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let all: Vec<Application> = answer.read()?;
        let mut agents: Vec<AgentDownload> =
            all.into_iter().filter_map(Application::agent).collect();
        // The same list in another order is no news.
        agents.sort_by_key(|agent| agent.arch);
        Ok(agents)
    }
}
