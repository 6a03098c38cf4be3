//! The checks of the App's setup at GitHub, each with a unique name.

use serde::{Deserialize, Serialize};

/// A check. Responses include its name along with the sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppCheck {
    /// The App's secret was never set.
    Key,
    /// The secret's contents are not an App ID and key.
    KeyForm,
    /// The key does not belong to the App.
    KeyOwner,
    /// GitHub's clock differs from ours.
    Clock,
    /// GitHub knows no such App.
    Exists,
    /// The App is not subscribed to job events.
    Event,
    /// The App is not subscribed to an event of a pool's `warm_on`.
    WarmEvent,
    /// The App cannot re-run the interrupted jobs of a pool.
    Reruns,
    /// The App lacks permissions.
    Permissions,
    /// The App is not installed anywhere.
    Installed,
    /// The App is not installed at a pool's entity.
    InstalledForPool,
    /// An account has suspended the App.
    Suspended,
    /// An account has not accepted the App's new permissions.
    Accepted,
    /// The App has no webhook.
    Hook,
    /// The webhook has a different URL.
    HookAddress,
    /// The webhook's content type is unreadable.
    HookContent,
    /// The webhook's certificate is not verified.
    HookTls,
    /// The webhook is inactive.
    HookActive,
    /// The webhook rejects its deliveries.
    Deliveries,
    /// A runner group refuses public repositories.
    GroupPublic,
    /// A runner group accepts only selected workflows.
    GroupWorkflows,
    /// A check of a different release.
    #[serde(other)]
    Other,
}

impl AppCheck {
    /// Creates a finding of this check.
    pub(super) fn lacks(self, sentence: impl Into<String>) -> Lack {
        Lack { check: self, sentence: sentence.into() }
    }
}

/// A problem that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The check that found it.
    pub check: AppCheck,
    /// The problem and its fix, in a sentence without a full stop.
    pub sentence: String,
}
