//! Responses about the GitHub App.

use muster_domain::app::{AppSettings, Hook, HookAnswer, Installation, NewAppLinks, Repositories};
use muster_domain::ids::{AppName, Entity};
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// An App, its installations and its webhook, with the problems found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownGithub {
    /// The App's name in the stack.
    #[serde(default)]
    pub name: AppName,
    /// The names of the stack's other Apps. Only in the answer about the main App.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_apps: Vec<AppName>,
    /// The App, if it exists and GitHub answered.
    pub app: Option<ShownApp>,
    /// The App's installations.
    pub installations: Vec<ShownInstallation>,
    /// The webhook's current address; absent if it could not be read.
    pub hook: Option<ShownHook>,
    /// The address the webhook should have.
    pub webhook_url: Option<String>,
    /// Problems, each a sentence with its fix.
    pub lacks: Vec<String>,
    /// Checks that failed, each a sentence with the reason.
    pub unknown: Vec<String>,
    /// The latest webhook deliveries, newest first.
    #[serde(default)]
    pub deliveries: Vec<ShownDelivery>,
    /// Links to create an App by hand.
    pub new_app: Option<NewAppLinks>,
    /// Where to install the App, after it was created or connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_url: Option<String>,
    /// The step that failed, why, and how to repeat it; earlier steps are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// The GitHub App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownApp {
    /// The App's number.
    pub id: u64,
    /// The slug used in URLs.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The owner's login.
    pub owner: Option<String>,
    /// The App's page on GitHub.
    pub html_url: String,
}

/// An installation of the App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownInstallation {
    /// The login, or `enterprises/` and the slug.
    pub account: String,
    /// The repositories it can access.
    pub repositories: Repositories,
    /// When it was suspended; GitHub sends no events since then.
    pub suspended_at: Option<Time>,
    /// The page where its owner changes it.
    pub html_url: String,
}

/// The App's webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownHook {
    /// The address; empty if the App has no webhook.
    pub url: String,
    /// Whether the address is this stack's.
    pub ours: bool,
}

/// A webhook delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDelivery {
    /// The event's name.
    pub event: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// When it was delivered; absent if GitHub does not report it.
    pub at: Option<Time>,
}

impl From<&HookAnswer> for ShownDelivery {
    fn from(one: &HookAnswer) -> Self {
        let HookAnswer { event, at, status } = one.clone();
        Self { event, status, at }
    }
}

/// The result of redelivering an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedHook {
    /// The new delivery; absent if there was no event to redeliver, or GitHub did not show it in
    /// time.
    pub tested: Option<TestedDelivery>,
    /// The problem and its fix; absent if the delivery was accepted.
    pub wrong: Option<String>,
}

/// A redelivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedDelivery {
    /// The event's name.
    pub event: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// When it was delivered.
    pub at: Time,
}

impl From<&AppSettings> for ShownApp {
    fn from(app: &AppSettings) -> Self {
        let AppSettings { id, slug, name, owner, html_url, events: _, permissions: _ } =
            app.clone();
        Self { id, slug, name, owner, html_url }
    }
}

impl From<&Installation> for ShownInstallation {
    fn from(one: &Installation) -> Self {
        Self {
            account: one.account.clone(),
            repositories: one.repositories,
            suspended_at: one.suspended_at,
            html_url: one.html_url.clone(),
        }
    }
}

impl ShownHook {
    /// Creates the view of a webhook; `own` is this stack's address.
    #[must_use]
    pub fn new(hook: &Hook, own: Option<&str>) -> Self {
        Self { url: hook.url.clone(), ours: own.is_some_and(|own| hook.is_at(own)) }
    }
}

/// The repositories that the App can access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryList {
    /// The repositories that were read.
    pub repositories: Vec<ShownRepository>,
    /// Whether there are more.
    pub more: bool,
}

/// A repository that the App can access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRepository {
    /// `acme/app`
    pub name: Entity,
    /// Whether it is private or internal.
    pub private: bool,
    /// Number of queued jobs that have no record here and that a pool may serve; absent if this was
    /// not queried or GitHub does not report it.
    pub queued: Option<usize>,
}
