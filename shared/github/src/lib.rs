//! GitHub adapter: implements the ports [`muster_control::ports::Github`] and
//! [`muster_control::ports::Directory`] with octocrab.
//!
//! octocrab sends the requests (connections, TLS, time-outs). The App's authentication is
//! implemented here, because octocrab's tokens use a JWT without `jti` (see [`jwt`]). All responses
//! are converted to domain types here and in no other crate.
//!
//! Costs: one token per installation and hour, and one call per query. All calls of a warm function
//! share a token, so a job needs at most one token and one configuration call. GitHub's list of
//! agents is read once per hour.
//!
//! No key and no credential from GitHub appears in an error, a log line or a `Debug` output.

#![warn(missing_docs)]

mod agents;
mod answer;
mod client;
mod connections;
mod deliveries;
mod directory;
mod identity;
pub mod jwt;
mod queued;
mod reruns;
mod route;
mod setup;
mod token;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use muster_control::ports::{
    Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar, RepositoryPage,
};
use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::app::{KeyProblem, secret_name};
use muster_domain::causes::Cause;
use muster_domain::ids::{AppName, Entity, InstallationId, RunnerId};
use muster_domain::inquiry::ListPosition;
use muster_domain::job::JobStatus;
use muster_domain::observation::{Deregistration, RunSeen, RunnerSeen};
use muster_domain::provider::ProviderError;
use muster_domain::redelivery::DeliveryPage;
use muster_domain::time::Time;
use serde::Deserialize;
use serde_json::json;

use crate::answer::ApiResponse;
use crate::client::{ApiRequest, Client};
pub use crate::connections::{CaSource, CaText};
pub use crate::identity::AppIdentity;
use crate::reruns::RunResponse;
pub use crate::setup::AppStore;
use crate::token::Token;

/// Maximum number of pages that a search by name reads. One is enough on servers that support the
/// filter.
const MAX_PAGES: u32 = 20;
/// GitHub's maximum page size.
const PAGE_SIZE: usize = 100;

/// The source of the App's identity.
///
/// Called when the first token is needed, so that an invocation that never calls GitHub does not
/// read a secret.
#[expect(async_fn_in_trait, reason = "functions run on one thread")]
pub trait AppKey {
    /// Returns an App's ID, key and API. `fresh`: GitHub rejected a signature with the last
    /// identity, so a cached copy may be outdated.
    ///
    /// # Errors
    /// If there is none.
    async fn identity(&self, app: AppName, fresh: bool) -> Result<AppIdentity, AppKeyError>;
}

/// Why there is no identity. Contains no secrets, because it is logged and recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppKeyError {
    /// The secret is unset or invalid: only an operator can fix it.
    #[error("{}", problem.sentence(secret, *app))]
    Unfit {
        /// The App.
        app: AppName,
        /// The problem.
        problem: KeyProblem,
        /// The name of the secret.
        secret: String,
    },
    /// The secret store did not answer, which does not concern our access to GitHub.
    #[error("the App's key cannot be read")]
    Unavailable(#[source] Cause),
}

impl AppKeyError {
    /// Creates the error for an invalid secret with this name or ARN.
    #[must_use]
    pub fn unfit(app: AppName, problem: KeyProblem, secret: &str) -> Self {
        Self::Unfit { app, problem, secret: secret_name(secret).to_owned() }
    }
}

/// A constant identity, of each App.
impl AppKey for AppIdentity {
    async fn identity(&self, _app: AppName, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        Ok(self.clone())
    }
}

/// Settings of the connection to GitHub.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Time-out for connecting.
    pub connect_timeout: Duration,
    /// Time-out for a response.
    pub read_timeout: Duration,
    /// Returns the current time. A function, so that tests can set the time.
    pub clock: fn() -> Time,
    /// The CA bundle that connections trust in addition to the system's roots.
    pub ca_source: Option<Arc<dyn CaSource>>,
}

impl Default for ClientSettings {
    /// Returns the production settings.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            read_timeout: Duration::from_secs(10),
            clock: || Time::from_millis(jiff::Timestamp::now().as_millisecond()),
            ca_source: None,
        }
    }
}

/// The error for a client that cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("GitHub client: {what}")]
pub struct SetupError {
    what: String,
    #[source]
    cause: Option<Cause>,
}

/// A client that acts as the stack's GitHub Apps. Use one per function: it caches connections and
/// tokens. An App's entities, tokens and limits are separate from another's.
pub struct App<K> {
    clock: fn() -> Time,
    key: K,
    client: Client,
    tokens: token::Tokens,
    agents: agents::Lists,
}

/// Hides all fields, which include credentials.
impl<K> fmt::Debug for App<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl<K: AppKey> App<K> {
    /// Creates a client without making a call. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the system has no trusted roots.
    pub fn new(settings: &ClientSettings, key: K) -> Result<Self, SetupError> {
        Ok(Self {
            clock: settings.clock,
            key,
            client: Client::new(settings)?,
            tokens: token::Tokens::default(),
            agents: agents::Lists::default(),
        })
    }

    /// Returns the lowest remaining hourly quota of calls that GitHub has reported since the last
    /// call of this function. `None` if GitHub reported none.
    #[must_use]
    pub fn take_calls_left(&self) -> Option<u32> {
        self.client.take_calls_left()
    }

    /// Returns the text of the CA bundle, or the problem with it. `None` if there is no bundle.
    pub async fn ca_bundle(&self) -> Option<Result<Arc<str>, String>> {
        self.client.connections.bundle().await
    }

    /// Makes a call with the installation's token. If the token is rejected, drops it and repeats
    /// the call once with a new one: tokens expire early when an installation changes.
    async fn call(
        &self,
        registrar: &Registrar,
        call: &ApiRequest,
    ) -> Result<ApiResponse, ProviderError> {
        self.call_with(call, async || self.token(registrar).await).await
    }

    /// Makes a call like [`Self::call`], with any token.
    async fn call_with(
        &self,
        call: &ApiRequest,
        token: impl AsyncFn() -> Result<Token, ProviderError>,
    ) -> Result<ApiResponse, ProviderError> {
        for last in [false, true] {
            let token = token().await?;
            let at = (self.clock)();
            let answer = self.client.send(call, &token.base, &token.secret, at).await?;
            if answer.status != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            self.forget(&token);
            if last {
                return Err(answer.trouble());
            }
        }
        unreachable!("the second round returns")
    }
}

#[derive(Deserialize)]
struct JitConfigResponse {
    runner: RegisteredRunner,
    encoded_jit_config: String,
}

#[derive(Deserialize)]
struct RegisteredRunner {
    id: u64,
    #[serde(default)]
    name: String,
    // Required: a response without this field must never count as idle.
    busy: bool,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct Runners {
    total_count: usize,
    runners: Vec<RegisteredRunner>,
}

impl RegisteredRunner {
    fn seen(&self) -> RunnerSeen {
        let id = RunnerId(self.id);
        match (self.busy, self.status.as_str()) {
            (true, _) => RunnerSeen::Busy(id),
            (false, "offline") => RunnerSeen::Offline(id),
            (false, _) => RunnerSeen::NotBusy(id),
        }
    }
}

#[derive(Deserialize)]
struct JobResponse {
    status: String,
    #[serde(default)]
    runner_name: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
}

impl JobResponse {
    /// Converts a job. GitHub's API has more states than its events (`requested`, `pending`); all
    /// of them precede the assignment of a runner.
    fn seen(self) -> JobSeen {
        let status = match self.status.as_str() {
            "completed" => JobStatus::Completed,
            "in_progress" => JobStatus::InProgress,
            "waiting" => JobStatus::Waiting,
            _ => JobStatus::Queued,
        };
        JobSeen { status, runner: self.runner_name, conclusion: self.conclusion }
    }
}

impl<K: AppKey> Github for App<K> {
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        let call = ApiRequest {
            operation: "generate-jitconfig",
            method: Method::POST,
            path: format!("{}/generate-jitconfig", route::runners(&registrar.entity)),
            body: Some(json!({
                "name": name,
                "runner_group_id": group,
                "labels": labels,
                "work_folder": "_work",
            })),
        };
        let answer = self.call(registrar, &call).await.map_err(JitError::ProviderError)?;
        match answer.status {
            status if status.is_success() => {
                let configured: JitConfigResponse =
                    answer.read().map_err(JitError::ProviderError)?;
                Ok(JitConfig {
                    runner: RunnerId(configured.runner.id),
                    encoded: configured.encoded_jit_config,
                })
            }
            StatusCode::CONFLICT => Err(JitError::NameTaken),
            _ => match answer.refusal() {
                Some(fault) => Err(JitError::Refused(fault)),
                None => Err(JitError::ProviderError(answer.trouble())),
            },
        }
    }

    async fn agents(&self, registrar: &Registrar) -> Result<Vec<AgentDownload>, ProviderError> {
        self.listed_agents(registrar).await
    }

    async fn agent_ends_at(
        &self,
        registrar: &Registrar,
        version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        self.end_of_agent(registrar, version).await
    }

    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError> {
        let call = ApiRequest {
            operation: "get-runner",
            method: Method::GET,
            path: format!("{}/{id}", route::runners(&registrar.entity)),
            body: None,
        };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.read::<RegisteredRunner>()?.seen()),
            StatusCode::NOT_FOUND => Ok(RunnerSeen::Absent),
            _ => Err(answer.trouble()),
        }
    }

    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError> {
        let mut passed = 0;
        for page in 1..=MAX_PAGES {
            let call = ApiRequest {
                operation: "list-runners",
                method: Method::GET,
                path: route::named(&registrar.entity, name, PAGE_SIZE, page),
                body: None,
            };
            let answer = self.call(registrar, &call).await?;
            if answer.status != StatusCode::OK {
                return Err(answer.trouble());
            }
            let listed: Runners = answer.read()?;
            // Do not rely on the filter: a server that does not support it lists all runners.
            if let Some(runner) = listed.runners.iter().find(|runner| runner.name == name) {
                return Ok(runner.seen());
            }
            passed += listed.runners.len();
            if listed.runners.is_empty() || passed >= listed.total_count {
                return Ok(RunnerSeen::Absent);
            }
        }
        Err(ProviderError::Unavailable(answer::fault(
            "list-runners",
            "too-many",
            format!("not among the first {passed} runners, and there are more"),
            (self.clock)(),
        )))
    }

    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        job: u64,
    ) -> Result<Option<JobSeen>, ProviderError> {
        let Some(path) = route::job(repository, job) else { return Ok(None) };
        let call = ApiRequest { operation: "get-job", method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.read::<JobResponse>()?.seen())),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.trouble()),
        }
    }

    async fn run(
        &self,
        registrar: &Registrar,
        repository: &str,
        run: u64,
    ) -> Result<Option<RunSeen>, ProviderError> {
        let Some(path) = route::run(repository, run) else { return Ok(None) };
        let call = ApiRequest { operation: "get-run", method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.read::<RunResponse>()?.seen())),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.trouble()),
        }
    }

    async fn queued_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError> {
        self.queued(repository, installation, reach).await
    }

    async fn repositories_from(
        &self,
        app: AppName,
        place: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError> {
        self.repository_page(app, place).await
    }

    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        let call = ApiRequest {
            operation: "delete-runner",
            method: Method::DELETE,
            path: format!("{}/{id}", route::runners(&registrar.entity)),
            body: None,
        };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::NO_CONTENT => Ok(Deregistration::Done),
            StatusCode::NOT_FOUND => Ok(Deregistration::NotFound),
            StatusCode::UNPROCESSABLE_ENTITY => Ok(Deregistration::Busy),
            _ => Err(answer.trouble()),
        }
    }

    async fn deliveries(
        &self,
        app: AppName,
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        self.attempts(app, cursor).await
    }

    async fn redeliver(&self, app: AppName, delivery: u64) -> Result<bool, ProviderError> {
        self.attempt_again(app, delivery).await
    }
}
