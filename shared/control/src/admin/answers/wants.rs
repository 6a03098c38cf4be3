//! What somebody should look at.

use muster_domain::ids::{InstanceName, PoolName};
use muster_domain::time::Time;
use serde::{Deserialize, Serialize};

/// Something that somebody should look at. [`crate::admin::wants`] makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Which one: the same for as long as it lasts, so that it can be told when it begins and when it
    /// is over, and once each.
    pub key: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, without a full stop.
    pub sentence: String,
    /// Since when, where that is known.
    pub since: Option<Time>,
    /// Where to look.
    pub place: Place,
    /// The command that ends it or shows more.
    pub run: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It stays so until somebody mends it.
    Error,
    /// Jobs or machines wait for it, and it may end by itself.
    Warning,
    /// Somebody may want to know.
    Note,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The jobs that wait.
    Jobs,
    /// The live instances.
    Machines,
    /// The orphan ledger.
    Orphans,
    /// The App at GitHub and its entities.
    Github,
    /// The stack as a whole.
    Stack,
    /// A pool.
    Pool(PoolName),
    /// An instance.
    Instance(InstanceName),
}

impl Severity {
    /// As JSON has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}
