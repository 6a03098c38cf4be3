//! The content of notifications.

use muster_api::answers::Severity;
use muster_domain::time::Time;
use serde::Serialize;

/// The message of one call. As JSON, this is what a receiver of the form `json` gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The stack's name.
    pub stack: String,
    /// When it was sent.
    pub at: Time,
    /// Whether this is the first message to this address, which lists all current findings.
    #[serde(rename = "first")]
    pub is_first: bool,
    /// New findings, most severe first, followed by ended ones.
    pub notices: Vec<Notice>,
}

/// A notice that a finding started or ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Whether it started or ended.
    pub what: What,
    /// The finding's key, equal at its start and end, and in `muster status --json`.
    pub key: String,
    /// The severity.
    pub severity: Severity,
    /// The problem, as a sentence; as it was in the first notification.
    pub message: String,
    /// When it started, if known.
    pub since: Time,
    /// When it ended; absent while it lasts.
    pub until: Option<Time>,
    /// The fix, with the command.
    pub fix: Option<String>,
}

/// Whether a finding started or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It started.
    Begun,
    /// It ended.
    Over,
}
