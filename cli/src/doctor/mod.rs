//! What keeps jobs from starting: rules over facts, without a clock and without a client.
//! `session/doctor.rs` gathers the facts, `views/doctor.rs` shows what comes of them.

pub mod account;
pub mod backlog;
pub mod canary;
pub mod facts;
mod github;
mod jobs;
pub mod machines;
pub(crate) mod network;
pub mod stack;

use muster_control::admin::answers::{Severity, Want};
use serde::Serialize;

pub use self::facts::{Fact, Facts, Unknown};

/// How a check ended. In order of what is to be looked at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It could not be found out.
    Unknown,
    /// Somebody should know.
    Warn,
    /// Jobs do not start, or will not.
    Error,
}

/// What a check is about. In the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Github,
    Account,
    Network,
    Machines,
    Stack,
    Jobs,
    Canary,
}

impl Group {
    /// For people.
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

/// What a check found. One that found several wrongs has several of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The check.
    pub id: &'static str,
    /// What it is about.
    pub group: Group,
    /// How it ended.
    pub level: Level,
    /// What is wrong; none where nothing is.
    pub sentence: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
    /// Where.
    pub url: Option<String>,
    /// The right that is missing, where that is why something is unknown.
    pub right: Option<String>,
}

/// A wrong, and how it is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wrong {
    level: Level,
    sentence: String,
    remedy: Option<String>,
    url: Option<String>,
}

impl From<&Want> for Wrong {
    fn from(want: &Want) -> Self {
        let said = told(&want.sentence);
        let wrong = match want.severity {
            Severity::Error => Self::error(said),
            Severity::Warning | Severity::Note => Self::warn(said),
        };
        Self { remedy: want.run.clone(), ..wrong }
    }
}

impl Wrong {
    fn error(sentence: impl Into<String>) -> Self {
        Self { level: Level::Error, sentence: sentence.into(), remedy: None, url: None }
    }

    fn warn(sentence: impl Into<String>) -> Self {
        Self { level: Level::Warn, ..Self::error(sentence) }
    }

    fn unknown(sentence: impl Into<String>) -> Self {
        Self { level: Level::Unknown, ..Self::error(sentence) }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn at(self, url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..self }
    }
}

/// Every check, each with what it found.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(github::check(facts));
    all.extend(account::check(facts));
    all.extend(network::check(facts));
    all.extend(machines::check(facts));
    all.extend(stack::check(facts));
    all.extend(jobs::check(facts));
    all
}

/// Whether something keeps jobs from starting.
#[must_use]
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|one| one.level == Level::Error)
}

/// One check over one fact.
fn judge<T>(
    group: Group,
    id: &'static str,
    fact: &Fact<T>,
    rule: impl FnOnce(&T) -> Vec<Wrong>,
) -> Vec<Finding> {
    match fact {
        Ok(fact) => found(group, id, rule(fact)),
        Err(unknown) => vec![unasked(group, id, unknown)],
    }
}

/// A check that found these wrongs, or none.
fn found(group: Group, id: &'static str, wrongs: Vec<Wrong>) -> Vec<Finding> {
    let well = Finding {
        id,
        group,
        level: Level::Ok,
        sentence: None,
        remedy: None,
        url: None,
        right: None,
    };
    if wrongs.is_empty() {
        return vec![well];
    }
    let finding = |Wrong { level, sentence, remedy, url }| Finding {
        level,
        sentence: Some(sentence),
        remedy,
        url,
        ..well.clone()
    };
    wrongs.into_iter().map(finding).collect()
}

/// A check whose fact is not known. Never red: that somebody may not look is no fault of what is
/// looked at.
pub(crate) fn unasked(group: Group, id: &'static str, unknown: &Unknown) -> Finding {
    let (sentence, right) = match unknown {
        Unknown::MayNot(right) => {
            (format!("You may not {right}, so \"{id}\" is unknown."), Some(right.clone()))
        }
        Unknown::NoAnswer(why) => (format!("\"{id}\" is unknown: {why}"), None),
    };
    let (level, sentence) = (Level::Unknown, Some(sentence));
    Finding { id, group, level, sentence, remedy: None, url: None, right }
}

/// A sentence of the admin function's: those begin small and have no full stop.
fn told(text: &str) -> String {
    let is_name = text.split(' ').next().is_some_and(|word| word.contains(['/', '_']));
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !is_name => stopped(format!("{}{}", first.to_uppercase(), letters.as_str())),
        _ => stopped(text.to_owned()),
    }
}

/// A sentence with its full stop. An address at its end is to be opened as it stands.
fn stopped(text: String) -> String {
    let is_whole =
        text.ends_with(['.', '!', '?']) || address(&text).is_some_and(|url| text.ends_with(url));
    if is_whole { text } else { text + "." }
}

/// The first address in a text.
fn address(text: &str) -> Option<&str> {
    let url = text.split_whitespace().find(|word| word.starts_with("https://"))?;
    Some(url.trim_end_matches([',', ';', ':', '.', ')']))
}

/// A page of AWS's console.
fn console(region: &str, page: &str) -> String {
    let domain = match region {
        region if region.starts_with("cn-") => "console.amazonaws.cn",
        region if region.starts_with("us-gov-") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    format!("https://{region}.{domain}/{page}")
}
