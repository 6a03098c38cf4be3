//! GitHub: App authentication, runner registrations, jobs and webhooks.
//!
//! Plain data and plain functions, for any driver. What has to happen later or elsewhere is
//! collected, and the driver takes it after each call: [`GitHub::take_news`].

mod agent;
mod agents;
mod apps;
mod attempts;
mod auth;
mod jobs;
mod manifest;
mod person;
mod registry;
mod runs;
mod views;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Millis;

pub use agent::{JobOffer, Message, Session};
pub use agents::{Agents, ListedAgent};
pub use apps::{AppOwner, CODE_LIFETIME_MS, HookPatch};
pub use attempts::{Again, RunFacts};
pub use auth::{Claims, InstallationToken, RateView};
pub use jobs::{Job, JobBehaviour, JobNumbers, JobRunner, JobSpec, JobStatus, Kill};
pub use manifest::{HookAttributes, Manifest};
pub use person::Person;
pub(crate) use registry::encode;
pub use registry::{JitConfig, JitRequest, Runner};
pub use runs::RunView;
pub use views::RunnerView;
pub use webhooks::{Attempt, AttemptPage, Delivery, HookEffect, HookRule, Webhook};

/// An error as GitHub's REST API answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubError {
    pub status: u16,
    pub message: String,
    pub headers: Vec<(String, String)>,
}

impl GitHubError {
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), headers: vec![] }
    }

    /// 404.
    pub fn not_found() -> Self {
        Self::new(404, "Not Found")
    }
}

/// Where runners are registered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerScope {
    Organization(String),
    Repository { owner: String, name: String },
    Enterprise(String),
}

impl RunnerScope {
    /// The account whose installation may manage these runners.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Organization(login) | Self::Enterprise(login) => login,
            Self::Repository { owner, .. } => owner,
        }
    }

    /// Logins and repository names are compared without regard to case.
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Organization(a), Self::Organization(b))
            | (Self::Enterprise(a), Self::Enterprise(b)) => a.eq_ignore_ascii_case(b),
            (Self::Repository { owner: a, name: n }, Self::Repository { owner: b, name: m }) => {
                a.eq_ignore_ascii_case(b) && n.eq_ignore_ascii_case(m)
            }
            _ => false,
        }
    }
}

/// What kind of account an owner is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    #[default]
    Organization,
    User,
    Enterprise,
}

/// A runner group of an organization or enterprise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub id: u64,
    pub name: String,
    #[serde(default)]
    pub public_repositories: bool,
    #[serde(default)]
    pub restricted_to_workflows: bool,
}

/// How GitHub's answers about runners differ from the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lies {
    /// `busy` reads false while a job runs, from this long after its start …
    pub busy_false_from_ms: Option<Millis>,
    /// … until this long after its start; to the end without it.
    pub busy_false_until_ms: Option<Millis>,
    /// DELETE of a busy runner answers 204 instead of 422, and removes it.
    pub delete_busy_answers_204: bool,
    /// Lists of runners are this old at most, and not younger if somebody asked before.
    pub list_cache_ms: Millis,
}

/// What a test says about an account that installed the App.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerSpec {
    pub owner: String,
    #[serde(default)]
    pub kind: OwnerKind,
    /// The enterprise an organization belongs to.
    #[serde(default)]
    pub enterprise: Option<String>,
    pub installation_id: u64,
    /// Number or client id, as text or as a number.
    #[serde(deserialize_with = "text_or_number")]
    pub app_id: String,
    /// PEM of the App's public key.
    pub app_public_key: String,
    #[serde(default)]
    pub webhook_url: Option<String>,
    #[serde(default)]
    pub webhook_secret: Option<String>,
    /// The Muster stack whose calls these are, for the call log.
    #[serde(default)]
    pub stack: Option<String>,
    /// Whether the default runner group (id 1) serves public repositories. GitHub's default: no.
    #[serde(default)]
    pub public_repositories: bool,
    /// Runner groups beside the default one.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// Runner groups that there are no more: a configuration that names one is wrong.
    #[serde(default)]
    pub deleted_groups: BTreeSet<u64>,
    #[serde(default = "OwnerSpec::default_rate_limit")]
    pub rate_limit: u32,
    #[serde(default)]
    pub lies: Lies,
    /// Since when the owner has suspended the App.
    #[serde(default)]
    pub suspended_at: Option<Millis>,
    /// What the owner has accepted, where that is not all that the App asks for.
    #[serde(default)]
    pub accepted: Option<BTreeMap<String, String>>,
    /// The App sees the repositories that the owner chose.
    #[serde(default)]
    pub selected: bool,
    /// When the App was installed, where GitHub is to say so.
    #[serde(default)]
    pub installed_at: Option<Millis>,
}

impl OwnerSpec {
    fn default_rate_limit() -> u32 {
        5000
    }
}

fn text_or_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => Ok(text),
        serde_json::Value::Number(number) => Ok(number.to_string()),
        other => Err(serde::de::Error::custom(format!("not an App id: {other}"))),
    }
}

/// An account that installed the App.
#[derive(Clone, Debug)]
pub struct Owner {
    pub spec: OwnerSpec,
    pub id: u64,
    pub(crate) rate_used: u32,
    pub(crate) rate_resets_at: Millis,
    pub(crate) listed: BTreeMap<RunnerScope, (Millis, Vec<RunnerView>)>,
}

impl Owner {
    /// Every runner group, the default one first.
    fn groups(&self) -> impl Iterator<Item = Group> {
        let default = Group {
            id: 1,
            name: "Default".to_owned(),
            public_repositories: self.spec.public_repositories,
            restricted_to_workflows: false,
        };
        std::iter::once(default).chain(self.spec.groups.iter().cloned())
    }

    fn group(&self, id: u64) -> Option<Group> {
        self.groups().find(|group| group.id == id)
    }
}

/// A repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repository {
    pub id: u64,
    pub owner: String,
    pub name: String,
    pub private: bool,
}

/// To whom a job goes if several runners could take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Any of them, in a reproducible way: GitHub promises nothing.
    #[default]
    Any,
    /// The one registered first.
    Oldest,
    /// The one registered last.
    Newest,
}

/// What is remembered of an App.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub(crate) public_key: String,
    pub(crate) used: BTreeSet<String>,
    pub(crate) settings: AppSettings,
    pub(crate) hook: HookConfig,
    /// What deliveries are signed with, where the App was told it.
    pub(crate) hook_secret: Option<String>,
    /// It was made of a manifest.
    pub(crate) made: Option<apps::Made>,
}

/// Where an App's events go, as GitHub shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookConfig {
    pub content_type: String,
    /// `"1"`: the certificate is not verified.
    pub insecure_ssl: String,
    pub url: Option<String>,
}

impl Default for HookConfig {
    fn default() -> Self {
        Self { content_type: "json".to_owned(), insecure_ssl: "0".to_owned(), url: None }
    }
}

/// What an App is sent and may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppSettings {
    pub events: Vec<String>,
    pub permissions: BTreeMap<String, String>,
}

impl Default for AppSettings {
    /// As Muster's README has it made.
    fn default() -> Self {
        let permissions = [
            ("actions", "write"),
            ("administration", "write"),
            ("metadata", "read"),
            ("organization_self_hosted_runners", "write"),
        ];
        let owned = |(name, level): (&str, &str)| (name.to_owned(), level.to_owned());
        Self {
            events: vec!["workflow_job".to_owned()],
            permissions: permissions.into_iter().map(owned).collect(),
        }
    }
}

/// What a driver has to carry out, now or once it is time.
#[derive(Clone, Debug)]
pub enum News {
    /// An event about a job, as the job was then, is to be delivered.
    Webhook(Job),
    /// The runner of this job fell silent. GitHub gives up on it after a while.
    Silent(u64),
    /// The work of this job lasts so long from now.
    Works { job: u64, lasts: Millis },
    /// A job's work ends its machine so long from now.
    Dies { machine: Arc<str>, after: Millis },
}

/// All of GitHub.
#[derive(Clone, Debug, Default)]
pub struct GitHub {
    pub assignment: Assignment,
    /// A JSON Web Token may be presented more than once. GitHub allows that most of the time.
    pub reused_jwt_allowed: bool,
    /// Where a runner finds GitHub's side of the connection; part of every JIT config.
    pub agent_url: String,
    /// GitHub removes the registration of a runner on which it gives up. Documented is only that it
    /// removes an ephemeral one that has been away for a day.
    /// Source: docs.github.com/actions/concepts/runners/communicating-with-self-hosted-runners
    pub removes_lost_runners: bool,
    /// Which agents it lists, and which it takes.
    pub agents: Agents,
    apps: BTreeMap<String, App>,
    /// Codes of manifests that no one has converted yet.
    codes: BTreeMap<String, apps::Code>,
    apps_made: usize,
    /// Who is logged in at GitHub's pages.
    pub person: Person,
    /// Where GitHub's pages are, in what it shows of Apps that were made there.
    pub pages_address: Option<String>,
    /// A webhook may be at an address that leads back to its caller. GitHub refuses those.
    pub local_hooks_allowed: bool,
    app_deliveries: BTreeMap<u64, apps::AppDelivery>,
    owners: BTreeMap<String, Owner>,
    repositories: BTreeMap<String, Arc<Repository>>,
    tokens: BTreeMap<String, InstallationToken>,
    runners: BTreeMap<u64, Runner>,
    former: Vec<Runner>,
    sessions: BTreeMap<u64, Session>,
    idle: Vec<u64>,
    jobs: BTreeMap<u64, Job>,
    queued: Vec<u64>,
    kills: Vec<Kill>,
    rules: Vec<HookRule>,
    deliveries: BTreeMap<u64, Delivery>,
    attempts: Vec<Attempt>,
    undelivered: BTreeSet<u64>,
    held: Vec<u64>,
    news: Vec<News>,
    fates: BTreeMap<u64, runs::Fate>,
    run_facts: BTreeMap<u64, RunFacts>,
    /// Attempts that our App started, by their run.
    by_app: BTreeSet<(u64, u32)>,
    /// Events are sent about jobs that an attempt carries over. GitHub does not say whether they are.
    pub tells_of_copies: bool,
    /// Attempts that somebody cancelled.
    cancelled_runs: BTreeSet<(u64, u32)>,
    /// Runs whose strategy is fail-fast.
    fast: BTreeSet<u64>,
    cancelled: Vec<u64>,
}

impl GitHub {
    /// An account registers the App; said again, it replaces what was said before.
    pub fn register_owner(&mut self, spec: OwnerSpec, fresh_id: u64) {
        let app = self.apps.entry(spec.app_id.clone()).or_default();
        app.public_key.clone_from(&spec.app_public_key);
        if spec.webhook_url.is_some() {
            app.hook.url.clone_from(&spec.webhook_url);
        }
        let key = spec.owner.to_ascii_lowercase();
        let id = self.owners.get(&key).map_or(fresh_id, |owner| owner.id);
        let owner = Owner { spec, id, rate_used: 0, rate_resets_at: 0, listed: BTreeMap::new() };
        self.owners.insert(key, owner);
    }

    /// What is to be carried out since this was last asked, in order.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// What an App is sent and may do.
    #[must_use]
    pub fn app_settings(&self, app: &str) -> Option<&AppSettings> {
        self.apps.get(app).map(|app| &app.settings)
    }

    /// The App's settings are changed. None without such an App.
    pub fn set_app(&mut self, app: &str, settings: AppSettings) -> Option<()> {
        self.apps.get_mut(app)?.settings = settings;
        Some(())
    }

    /// Where an App's events go. What is delivered goes to each account's own address all the same.
    #[must_use]
    pub fn hook(&self, app: &str) -> Option<&HookConfig> {
        self.apps.get(app).map(|app| &app.hook)
    }

    /// The webhook's settings are changed. None without such an App.
    pub fn set_hook(&mut self, app: &str, hook: HookConfig) -> Option<()> {
        self.apps.get_mut(app)?.hook = hook;
        Some(())
    }

    /// An account, whatever the case of its login.
    #[must_use]
    pub fn owner(&self, login: &str) -> Option<&Owner> {
        self.owners.get(&login.to_ascii_lowercase())
    }

    fn owner_mut(&mut self, login: &str) -> Option<&mut Owner> {
        self.owners.get_mut(&login.to_ascii_lowercase())
    }

    /// Every account.
    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.owners.values()
    }

    /// What is said about every account, to change.
    pub fn specs_mut(&mut self) -> impl Iterator<Item = &mut OwnerSpec> {
        self.owners.values_mut().map(|owner| &mut owner.spec)
    }

    /// The account behind an installation.
    #[must_use]
    pub fn installation(&self, id: u64) -> Option<&Owner> {
        self.owners.values().find(|owner| owner.spec.installation_id == id)
    }

    /// The runner groups of an owner, beside the default one.
    pub fn set_groups(&mut self, login: &str, groups: Vec<Group>) -> Result<(), GitHubError> {
        let owner = self.owner_mut(login).ok_or_else(GitHubError::not_found)?;
        owner.spec.groups = groups;
        Ok(())
    }

    /// Changes how GitHub lies about the runners of an owner.
    pub(crate) fn set_lies(&mut self, login: &str, lies: Lies) -> Result<(), GitHubError> {
        let owner = self.owner_mut(login).ok_or_else(GitHubError::not_found)?;
        owner.spec.lies = lies;
        owner.listed.clear();
        Ok(())
    }

    /// The runners registered now.
    pub fn runners(&self) -> impl Iterator<Item = &Runner> {
        self.runners.values()
    }

    /// Runners that were registered once.
    #[must_use]
    pub fn former_runners(&self) -> &[Runner] {
        &self.former
    }

    /// Every job there ever was.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// One job.
    #[must_use]
    pub fn job(&self, id: u64) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// Jobs whose machine lost its power while they ran.
    #[must_use]
    pub fn kills(&self) -> &[Kill] {
        &self.kills
    }

    /// Every webhook delivery there ever was.
    pub fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.values()
    }

    /// One delivery.
    #[must_use]
    pub fn delivery(&self, number: u64) -> Option<&Delivery> {
        self.deliveries.get(&number)
    }
}
