//! The checks for problems that keep jobs from starting: rules over facts, without a clock or a
//! client. `session/doctor.rs` gathers the facts, `views/doctor.rs` renders the result.

pub mod account;
pub mod backlog;
pub mod canary;
pub mod facts;
mod known;
pub mod machines;
pub(crate) mod network;
mod private;
pub mod stack;

use muster_api::answers::{Finding, Location, Severity};
use serde::Serialize;

pub use self::facts::{Fact, Facts, Unknown};

/// The result of a check, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No problem was found.
    Ok,
    /// Useful to know.
    Note,
    /// It could not be checked.
    Unknown,
    /// Delays jobs or machines, and may end without a fix.
    Warning,
    /// It lasts until someone fixes it.
    Error,
}

/// The subject of a check, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckGroup {
    Github,
    Account,
    Network,
    Machines,
    Stack,
    Jobs,
    Canary,
}

impl From<Severity> for Level {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Error => Self::Error,
            Severity::Warning => Self::Warning,
            Severity::Note => Self::Note,
        }
    }
}

impl CheckGroup {
    /// Returns the location of its findings.
    const fn location(self) -> Location {
        match self {
            Self::Github => Location::Github,
            Self::Account => Location::Account,
            Self::Network => Location::Network,
            Self::Machines | Self::Canary => Location::Machines,
            Self::Stack => Location::Stack,
            Self::Jobs => Location::Jobs,
        }
    }

    /// Returns its title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Github => "GitHub",
            Self::Account => "Account",
            Self::Network => "Network",
            Self::Machines => "Machines",
            Self::Stack => "Stack",
            Self::Jobs => "Jobs",
            Self::Canary => "Canary",
        }
    }
}

/// A check and its finding. A check with several findings is listed once for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name.
    pub id: &'static str,
    /// Its subject.
    pub group: CheckGroup,
    /// Its result.
    pub level: Level,
    /// What it found.
    pub finding: Option<Finding>,
    /// The reason why it could not be performed.
    pub unknown: Option<String>,
    /// The missing permission, if that is the reason.
    pub right: Option<String>,
}

impl Check {
    /// Returns the problem, or why it is unknown, as a sentence.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.finding.as_ref().map(|one| one.message.as_str()).or(self.unknown.as_deref())
    }
}

/// Creates a finding, which [`found`] completes.
fn error(message: impl AsRef<str>) -> Finding {
    Finding::new("", Severity::Error, Location::Stack, message.as_ref())
}

fn warn(message: impl AsRef<str>) -> Finding {
    Finding::new("", Severity::Warning, Location::Stack, message.as_ref())
}

/// Performs all checks.
#[must_use]
pub fn checks(facts: &Facts) -> Vec<Check> {
    let mut all = known::check(facts);
    all.extend(account::check(facts));
    all.extend(network::check(facts));
    all.extend(private::check(facts));
    all.extend(machines::check(facts));
    all.extend(stack::check(facts));
    all
}

/// Returns whether a problem keeps jobs from starting.
#[must_use]
pub fn has_errors(checks: &[Check]) -> bool {
    checks.iter().any(|one| one.level == Level::Error)
}

/// Returns one check over one fact.
fn judge<T>(
    group: CheckGroup,
    id: &'static str,
    fact: &Fact<T>,
    rule: impl FnOnce(&T) -> Vec<Finding>,
) -> Vec<Check> {
    match fact {
        Ok(fact) => found(group, id, rule(fact)),
        Err(unknown) => vec![unasked(group, id, unknown)],
    }
}

/// Returns a check with these findings; without any, it passed. A finding of this command gets its
/// key from the check.
fn found(group: CheckGroup, id: &'static str, findings: Vec<Finding>) -> Vec<Check> {
    let check = Check { id, group, level: Level::Ok, finding: None, unknown: None, right: None };
    if findings.is_empty() {
        return vec![check];
    }
    let with = |finding: Finding| {
        let finding = match finding.key.is_empty() {
            true => Finding { key: key(group, id), location: group.location(), ..finding },
            false => finding,
        };
        Check { level: finding.severity.into(), finding: Some(finding), ..check.clone() }
    };
    findings.into_iter().map(with).collect()
}

/// Returns the key of a check's findings, for example `network-way-out`.
fn key(group: CheckGroup, id: &str) -> String {
    format!("{}-{id}", group.title()).to_lowercase().replace(' ', "-")
}

/// Returns a check whose fact is not known. It is never an error: a missing permission of the
/// operator is no problem of the stack.
pub(crate) fn unasked(group: CheckGroup, id: &'static str, unknown: &Unknown) -> Check {
    let (why, right) = match unknown {
        Unknown::MayNot(right) => (
            format!("\"{id}\" was not checked: you need the permission {right}."),
            Some(right.clone()),
        ),
        Unknown::NoAnswer(why) => (format!("\"{id}\" was not checked: {why}"), None),
    };
    Check { id, group, level: Level::Unknown, finding: None, unknown: Some(why), right }
}

/// Returns the URL of a page in AWS's console.
fn console(region: &str, page: &str) -> String {
    let domain = match region {
        region if region.starts_with("cn-") => "console.amazonaws.cn",
        region if region.starts_with("us-gov-") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    format!("https://{region}.{domain}/{page}")
}
