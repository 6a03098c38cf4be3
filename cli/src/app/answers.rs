//! What the admin function says of the GitHub App.

use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// The answer to `github`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitHub {
    /// None: there is none yet, or its key is not in.
    pub app: Option<App>,
    #[serde(default)]
    pub installations: Vec<Installation>,
    pub hook: Option<Hook>,
    /// This stack's.
    pub webhook_url: Option<String>,
    /// What is wrong and how it is mended, each in a sentence.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// Why something could not be found out, each in a sentence.
    #[serde(default)]
    pub unknown: Vec<String>,
    pub new_app: Option<NewApp>,
    /// Where a new App is installed.
    #[serde(default)]
    pub install_url: Option<String>,
    /// The step that did not succeed, and what repeats it.
    #[serde(default)]
    pub left: Option<String>,
}

/// The App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    pub id: u64,
    pub slug: String,
    pub name: String,
    pub owner: Option<String>,
    pub html_url: String,
}

/// Where it is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installation {
    pub account: String,
    /// `all` or `selected`.
    pub repositories: String,
    pub suspended_at: Option<Time>,
    pub html_url: String,
}

/// Where GitHub sends events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    pub url: String,
    /// Whether that is this stack.
    pub ours: bool,
}

/// GitHub's form, filled in; `ORG` stands for the organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewApp {
    pub organization: String,
    pub personal: String,
}

/// The answer to a test of the hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestedHook {
    pub tested: Option<Tested>,
    /// What is wrong and how it is mended.
    #[serde(default)]
    pub wrong: Option<String>,
}

/// A delivery that GitHub repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tested {
    pub event: String,
    /// What we answered; 0 (null in the JSON): GitHub did not reach us.
    #[serde(deserialize_with = "or_zero")]
    pub status: u16,
    pub at: Time,
}

fn or_zero<'de, D: serde::Deserializer<'de>>(status: D) -> Result<u16, D::Error> {
    Option::deserialize(status).map(Option::unwrap_or_default)
}
