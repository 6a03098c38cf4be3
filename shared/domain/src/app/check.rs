//! The mistakes that are looked for at GitHub, each by a name of its own.

use serde::{Deserialize, Serialize};

/// A mistake. An answer names it beside its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppCheck {
    /// The App's secret was never put in.
    Key,
    /// It holds something else than an App's id and key.
    KeyForm,
    /// The key is not one of the App.
    KeyOwner,
    /// GitHub's clock is not ours.
    Clock,
    /// GitHub knows no such App.
    Exists,
    /// It is not told of jobs.
    Event,
    /// It asks for too little.
    Permissions,
    /// Nobody has installed it.
    Installed,
    /// The entity of a pool has not.
    InstalledForPool,
    /// An account has suspended it.
    Suspended,
    /// An account has not accepted what it asks for since.
    Accepted,
    /// It has no webhook.
    Hook,
    /// The webhook is somewhere else.
    HookAddress,
    /// It is sent what it cannot read.
    HookContent,
    /// Nobody looks at its certificate.
    HookTls,
    /// It is switched off.
    HookActive,
    /// It does not take what it is sent.
    Deliveries,
    /// A runner group refuses public repositories.
    GroupPublic,
    /// A runner group takes selected workflows alone.
    GroupWorkflows,
    /// One that another release looks for.
    #[serde(other)]
    Other,
}

impl AppCheck {
    /// For people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::KeyForm => "key form",
            Self::KeyOwner => "key owner",
            Self::Clock => "clock",
            Self::Exists => "exists",
            Self::Event => "event",
            Self::Permissions => "permissions",
            Self::Installed => "installed",
            Self::InstalledForPool => "installed for pool",
            Self::Suspended => "suspended",
            Self::Accepted => "accepted",
            Self::Hook => "hook",
            Self::HookAddress => "hook address",
            Self::HookContent => "hook content",
            Self::HookTls => "hook TLS",
            Self::HookActive => "hook active",
            Self::Deliveries => "deliveries",
            Self::GroupPublic => "group public",
            Self::GroupWorkflows => "group workflows",
            Self::Other => "app",
        }
    }

    /// What is wrong.
    pub(super) fn lacks(self, sentence: impl Into<String>) -> Lack {
        Lack { check: self, sentence: sentence.into() }
    }
}

/// A mistake that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Which.
    pub check: AppCheck,
    /// What is wrong and how it is mended, without its full stop.
    pub sentence: String,
}
