//! GitHub, as the passes see it: the ports [`muster_control::ports::Github`] and
//! [`muster_control::ports::Directory`] over octocrab.
//!
//! octocrab carries the requests (connections, TLS, time-outs); the App's authentication is ours,
//! because octocrab's tokens come with a JWT without `jti` (see [`jwt`]). Every answer is
//! classified here, and nowhere else, into the domain's words.
//!
//! What it costs: one token per installation and hour, and one call per question. A token is shared
//! by all calls of a warm function, so a job's whole life needs at most one token and one
//! configuration call. Which agents GitHub lists is asked once an hour.
//!
//! Nothing that GitHub hands out, and no key, shows up in an error, a log line or a `Debug` output.

#![warn(missing_docs)]

mod agents;
mod answer;
mod client;
mod deliveries;
mod directory;
mod identity;
pub mod jwt;
mod queued;
mod route;
mod setup;
mod token;

use std::fmt;
use std::time::Duration;

use http::{Method, StatusCode};
use muster_control::causes::Cause;
use muster_control::ports::{
    Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar, RepositoryPage, RunSeen,
};
use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::app::{KeyProblem, secret_name};
use muster_domain::ids::{Entity, InstallationId, RunnerId};
use muster_domain::inquiry::Place;
use muster_domain::job::JobStatus;
use muster_domain::observation::{Deregistration, ProviderError, RunnerSeen};
use muster_domain::redelivery::DeliveryPage;
use muster_domain::time::Time;
use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::client::{Call, Client};
pub use crate::identity::AppIdentity;
pub use crate::setup::AppStore;
use crate::token::Token;

/// Most pages of a listing that a search by name reads. Servers that know the filter need one.
const MAX_PAGES: u32 = 20;
/// GitHub's largest page.
const PAGE_SIZE: usize = 100;

/// Where the App's identity comes from.
///
/// Asked at the first call that needs a token, so that an invocation which never talks to GitHub
/// does not read a secret for it.
#[expect(async_fn_in_trait, reason = "functions run on one thread")]
pub trait AppKey {
    /// The App's id, key and API. `fresh`: GitHub refused what was signed with the last one, so a
    /// cached copy may be out of date.
    ///
    /// # Errors
    /// When there is none.
    async fn identity(&self, fresh: bool) -> Result<AppIdentity, AppKeyError>;
}

/// Why there is no identity. It holds no secrets: it comes to the log and into records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppKeyError {
    /// Nobody has stored one, or something else: only an operator can help.
    #[error("{}", problem.sentence(secret))]
    Unfit {
        /// What is wrong.
        problem: KeyProblem,
        /// The name of the secret.
        secret: String,
    },
    /// The store did not answer: that says nothing about our rights at GitHub.
    #[error("the App's key cannot be read")]
    Unavailable(#[source] Cause),
}

impl AppKeyError {
    /// The secret of this name or ARN does not say who the App is.
    #[must_use]
    pub fn unfit(problem: KeyProblem, secret: &str) -> Self {
        Self::Unfit { problem, secret: secret_name(secret).to_owned() }
    }
}

/// An identity that never changes.
impl AppKey for AppIdentity {
    async fn identity(&self, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        Ok(self.clone())
    }
}

/// How to reach GitHub.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// How long to wait for an answer.
    pub read_timeout: Duration,
    /// Reads the time. A function, so that tests can set it.
    pub clock: fn() -> Time,
}

impl Default for ClientSettings {
    /// The settings of production.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            read_timeout: Duration::from_secs(10),
            clock: || Time::from_millis(jiff::Timestamp::now().as_millisecond()),
        }
    }
}

/// The client cannot be built.
#[derive(Debug, thiserror::Error)]
#[error("GitHub client: {what}")]
pub struct SetupError {
    what: String,
    #[source]
    cause: Option<Cause>,
}

/// A GitHub App at work. One per function: it keeps the connections and the tokens.
pub struct App<K> {
    clock: fn() -> Time,
    key: K,
    client: Client,
    tokens: token::Tokens,
    agents: agents::Lists,
}

/// Shows nothing of who, and with what.
impl<K> fmt::Debug for App<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl<K: AppKey> App<K> {
    /// A client that has asked nothing yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the system has no trusted roots.
    pub fn new(settings: &ClientSettings, key: K) -> Result<Self, SetupError> {
        Ok(Self {
            clock: settings.clock,
            key,
            client: Client::new(settings)?,
            tokens: token::Tokens::default(),
            agents: agents::Lists::default(),
        })
    }

    /// The least that GitHub has said to be left of an hour's calls since this was last asked; none
    /// where it said nothing.
    #[must_use]
    pub fn take_calls_left(&self) -> Option<u32> {
        self.client.take_calls_left()
    }

    /// Carries out a call with the installation's token. A refused token is dropped and the call
    /// repeated once with a new one: tokens end early when an installation changes.
    async fn call(&self, registrar: &Registrar, call: &Call) -> Result<Answer, ProviderError> {
        self.call_with(call, async || self.token(registrar).await).await
    }

    /// As [`Self::call`], with any token.
    async fn call_with(
        &self,
        call: &Call,
        token: impl AsyncFn() -> Result<Token, ProviderError>,
    ) -> Result<Answer, ProviderError> {
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
struct Configured {
    runner: Runner,
    encoded_jit_config: String,
}

#[derive(Deserialize)]
struct Runner {
    id: u64,
    #[serde(default)]
    name: String,
    // Absent is read as idle nowhere: a server that does not say has not answered the question.
    busy: bool,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct Runners {
    total_count: usize,
    runners: Vec<Runner>,
}

impl Runner {
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
struct Job {
    status: String,
    #[serde(default)]
    runner_name: Option<String>,
    #[serde(default)]
    conclusion: Option<String>,
}

impl Job {
    /// GitHub knows more words than its events (`requested`, `pending`); all of them are before a
    /// runner.
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

/// Of all that GitHub shows of a run, what is asked for.
#[derive(Deserialize)]
struct Run {
    status: String,
    #[serde(default)]
    conclusion: Option<String>,
}

impl<K: AppKey> Github for App<K> {
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        let call = Call {
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
                let configured: Configured = answer.read().map_err(JitError::ProviderError)?;
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
        let call = Call {
            operation: "get-runner",
            method: Method::GET,
            path: format!("{}/{id}", route::runners(&registrar.entity)),
            body: None,
        };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.read::<Runner>()?.seen()),
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
            let call = Call {
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
            // The filter is not taken on trust: a server that does not know it lists everybody.
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
        let call = Call { operation: "get-job", method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.read::<Job>()?.seen())),
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
        let call = Call { operation: "get-run", method: Method::GET, path, body: None };
        let answer = self.call(registrar, &call).await?;
        match answer.status {
            StatusCode::OK => {
                let Run { status, conclusion } = answer.read()?;
                Ok(Some(RunSeen { is_over: status == "completed", conclusion }))
            }
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
        place: Option<Place>,
    ) -> Result<RepositoryPage, ProviderError> {
        self.repository_page(place).await
    }

    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        let call = Call {
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
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        self.attempts(cursor).await
    }

    async fn redeliver(&self, delivery: u64) -> Result<bool, ProviderError> {
        self.attempt_again(delivery).await
    }
}
