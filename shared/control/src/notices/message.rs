//! What is told.

use muster_domain::time::Time;
use serde::Serialize;

use crate::admin::answers::Severity;

/// What one call tells. As JSON, this is what a receiver of the form `json` gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The stack's name.
    pub stack: String,
    /// When it was told.
    pub at: Time,
    /// Whether this address is told for the first time: then all that stands is told.
    #[serde(rename = "first")]
    pub is_first: bool,
    /// What has begun, the worst first, and then what is over.
    pub notices: Vec<Notice>,
}

/// What has begun or is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Which of the two.
    pub what: What,
    /// The same at its begin and at its end, and as `muster status --json` has it.
    pub key: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is, without a full stop; as it was when it was told first.
    pub sentence: String,
    /// When it began, as far as is known.
    pub since: Time,
    /// When it was over; none while it lasts.
    pub until: Option<Time>,
    /// The command that ends it or shows more.
    pub run: Option<String>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It is so now.
    Begun,
    /// It was so.
    Over,
}
