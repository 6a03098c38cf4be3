//! The App at GitHub.

use muster_domain::app::{AppSettings, Hook, HookAnswer, Installation, NewAppLinks, Repositories};
use muster_domain::ids::Entity;
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// The App, who has installed it, where its events go, and what is wrong with that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownGithub {
    /// The App; none where there is none, or GitHub does not say.
    pub app: Option<ShownApp>,
    /// Who has installed it.
    pub installations: Vec<ShownInstallation>,
    /// Where its events go; none where that could not be found out.
    pub hook: Option<ShownHook>,
    /// Where they should go.
    pub webhook_url: Option<String>,
    /// What is wrong and how it is mended, each in a sentence.
    pub lacks: Vec<String>,
    /// Why something could not be found out, each in a sentence.
    pub unknown: Vec<String>,
    /// The last attempts to deliver an event, the newest first.
    #[serde(default)]
    pub deliveries: Vec<ShownDelivery>,
    /// Makes an App by hand.
    pub new_app: Option<NewAppLinks>,
    /// Where the App is installed, after it was made or connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_url: Option<String>,
    /// The step that did not succeed, why, and what repeats it; the steps before it are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// The App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownApp {
    /// Its number.
    pub id: u64,
    /// Its name as addresses have it.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub owner: Option<String>,
    /// Its page.
    pub html_url: String,
}

/// Who has installed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownInstallation {
    /// The login, or `enterprises/` and the slug.
    pub account: String,
    /// Which repositories it sees.
    pub repositories: Repositories,
    /// Since when GitHub tells it of nothing.
    pub suspended_at: Option<Time>,
    /// Where its owner changes it.
    pub html_url: String,
}

/// Where its events go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownHook {
    /// The address; empty where there is none.
    pub url: String,
    /// It is this stack's.
    pub ours: bool,
}

/// An attempt to deliver an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDelivery {
    /// What it was about.
    pub event: String,
    /// The answer's status; none where nobody answered.
    pub status: Option<u16>,
    /// When it was tried; none where GitHub does not say.
    pub at: Option<Time>,
}

impl From<&HookAnswer> for ShownDelivery {
    fn from(one: &HookAnswer) -> Self {
        let HookAnswer { event, at, status } = one.clone();
        Self { event, status, at }
    }
}

/// What became of a delivery that GitHub repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedHook {
    /// The new attempt; none where there was nothing to repeat, or GitHub did not show it in time.
    pub tested: Option<TestedDelivery>,
    /// What is wrong and how it is mended; none where the delivery was taken.
    pub wrong: Option<String>,
}

/// A new attempt at an old delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedDelivery {
    /// What it was about.
    pub event: String,
    /// The answer's status; none where nobody answered.
    pub status: Option<u16>,
    /// When it was tried.
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
    pub(crate) fn new(hook: &Hook, own: Option<&str>) -> Self {
        Self { url: hook.url.clone(), ours: own.is_some_and(|own| hook.is_at(own)) }
    }
}

/// The repositories that the App may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryList {
    /// Each of them.
    pub repositories: Vec<ShownRepository>,
    /// There are more.
    pub more: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRepository {
    /// `acme/app`
    pub name: Entity,
    /// Not everybody sees it.
    pub private: bool,
    /// How many jobs are queued there that are not on record and that may be ours; none where that
    /// was not asked, or GitHub does not say.
    pub queued: Option<usize>,
}
