//! Findings: what needs attention.

use muster_domain::ids::{InstanceName, PoolName};
use muster_domain::text::{first, sentence};
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// Maximum length of a message in characters: some quote EC2 or GitHub.
const MAX_MESSAGE: usize = 600;

/// A problem, or a fact that is useful to know. Screens and notifications display findings as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The kind in kebab-case and, if there can be several, the subject after a colon:
    /// `pool-maximum:gpu`. It does not change for as long as the finding lasts.
    pub key: String,
    /// Its severity.
    pub severity: Severity,
    /// The problem, as a sentence with its full stop.
    pub message: String,
    /// When it started, if known.
    pub since: Option<Time>,
    /// Its subject.
    pub location: Location,
    /// The fix, with the command.
    pub fix: Option<String>,
    /// The page at AWS or GitHub where the fix is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It lasts until someone fixes it.
    Error,
    /// Delays jobs or machines, and may end without a fix.
    Warning,
    /// Useful to know.
    Note,
}

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Location {
    /// Waiting jobs.
    Jobs,
    /// Machines in general, and what they are launched from.
    Machines,
    /// The orphan ledger.
    Orphans,
    /// The App at GitHub and its entities.
    Github,
    /// The stack: its functions, queues, alarms and records.
    Stack,
    /// The AWS account.
    Account,
    /// The network of the machines.
    Network,
    /// A pool.
    Pool(PoolName),
    /// An instance.
    Instance(InstanceName),
}

impl Finding {
    /// Creates a finding. `message` may lack its capital letter and full stop.
    #[must_use]
    pub fn new(
        key: impl Into<String>,
        severity: Severity,
        location: Location,
        message: &str,
    ) -> Self {
        Self {
            key: key.into(),
            severity,
            message: sentence(first(message, MAX_MESSAGE)),
            since: None,
            location,
            fix: None,
            url: None,
        }
    }

    /// Adds the start.
    #[must_use]
    pub fn since(self, since: impl Into<Option<Time>>) -> Self {
        Self { since: since.into(), ..self }
    }

    /// Adds the fix.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Adds the page where the fix is made.
    #[must_use]
    pub fn url(self, url: impl Into<Option<String>>) -> Self {
        Self { url: url.into(), ..self }
    }

    /// Returns the key without its subject, for example `pool-maximum`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.key.split(':').next().unwrap_or_default()
    }
}

impl Severity {
    /// Returns the value in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}
