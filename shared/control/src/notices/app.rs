//! The findings of the last checks of the App, a part of the record of notices.

use muster_api::answers::AppStatus;
use muster_domain::app::AppCheck;
use muster_domain::ids::AppName;
use muster_domain::text::first;
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// How long failed deliveries must last before they are reported. One failure may be a restart.
const DELIVERIES_FAIL: Seconds = Seconds(240);
/// How long GitHub must be silent before that is reported.
const SILENT: Seconds = Seconds(300);
/// Maximum number of recorded findings.
const MAX_FINDINGS: usize = 30;
/// Maximum length of a recorded sentence, in characters.
const MAX_SENTENCE: usize = 600;

/// Findings of the last checks of the App.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppRecord {
    /// When the App was last checked.
    pub at: Time,
    /// The problems that were found.
    pub findings: Vec<AppFinding>,
    /// When GitHub first failed to answer, and its last error.
    pub silent: Option<(Time, String)>,
}

/// A problem of the App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppFinding {
    /// The check that failed.
    pub check: AppCheck,
    /// The problem and its fix, without a full stop.
    pub sentence: String,
    /// When it was first found.
    pub since: Time,
}

impl AppRecord {
    /// Returns the record after a check. If GitHub answered only in part, a problem that was not
    /// found again stays, because it is unknown whether it was fixed.
    #[must_use]
    pub fn after(&self, found: &AppStatus, now: Time) -> Self {
        let since = |check: AppCheck| {
            let known = self.findings.iter().find(|one| one.check == check);
            known.map_or(now, |known| known.since)
        };
        let lacks = found.lacks.iter().zip(&found.checks);
        let mut findings: Vec<AppFinding> = lacks
            .map(|(sentence, check)| AppFinding {
                check: *check,
                sentence: first(sentence, MAX_SENTENCE).to_owned(),
                since: since(*check),
            })
            .collect();
        if !found.unknown.is_empty() {
            let is_left = |one: &&AppFinding| !found.checks.contains(&one.check);
            findings.extend(self.findings.iter().filter(is_left).cloned());
        }
        findings.truncate(MAX_FINDINGS);
        let began = self.silent.as_ref().map_or(now, |(since, _)| *since);
        let silent = found.unknown.first().map(|why| (began, first(why, MAX_SENTENCE).to_owned()));
        Self { at: now, findings, silent }
    }

    /// Returns the App's problems that should be reported at `now`.
    #[must_use]
    pub fn reported(&self, app: AppName, now: Time) -> AppStatus {
        let is_reported = |one: &&AppFinding| {
            one.check != AppCheck::Deliveries || now.is_past(one.since, DELIVERIES_FAIL)
        };
        let all: Vec<&AppFinding> = self.findings.iter().filter(is_reported).collect();
        let silent = self.silent.as_ref().filter(|(since, _)| now.is_past(*since, SILENT));
        AppStatus {
            lacks: all.iter().map(|one| one.sentence.clone()).collect(),
            checks: all.iter().map(|one| one.check).collect(),
            apps: vec![app; all.len()],
            unknown: silent.map(|(_, why)| why.clone()).into_iter().collect(),
        }
    }
}
