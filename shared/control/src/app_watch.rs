//! Checks the GitHub App on a schedule, so that `status`, the overview and notifications report its
//! problems without asking GitHub. A wrong setting there causes no error: the events never come.
//!
//! A check is four calls as the App, and one for each organization or enterprise whose runner groups
//! matter. One every two minutes is 120 of the 5,000 calls that GitHub allows an App per hour.
//! Source: docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api

use futures_util::future::{join_all, join4};
use muster_domain::app::{AppCheck, AppFacts, Findings, OwnStack};
use muster_domain::text::first;
use muster_domain::time::{Seconds, Time};
use serde::{Deserialize, Serialize};

use crate::admin::answers::AppStatus;
use crate::admin::told;
use crate::app_owner::AppOwner;
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::notices::Notices;
use crate::ports::{Directory, Operations as _, Table};
use crate::writes::{self, PassError};

/// The time between two checks: every second sweep, also if one of them is some seconds late.
const EVERY: Seconds = Seconds(110);
/// How long failed deliveries must last before they are reported. One failure may be a restart.
const DELIVERIES_FAIL: Seconds = Seconds(240);
/// How long GitHub must be silent before that is reported.
const SILENT: Seconds = Seconds(300);
/// Maximum number of findings on record.
const MAX_FINDINGS: usize = 30;
/// Longest sentence on record, characters.
const MAX_SENTENCE: usize = 600;

/// What the last checks of the App found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppRecord {
    /// When the App was last checked.
    pub at: Time,
    /// The problems that were found.
    pub findings: Vec<AppFinding>,
    /// Since when GitHub has left something unanswered, and its last error.
    pub silent: Option<(Time, String)>,
}

/// A problem of the App.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppFinding {
    /// Which.
    pub check: AppCheck,
    /// What is wrong and how to fix it, without a full stop.
    pub sentence: String,
    /// When a check found it first.
    pub since: Time,
}

impl AppRecord {
    /// Returns the record after a check. Without all of GitHub's answers a problem that was not
    /// found again stays: nobody knows whether it is fixed.
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

    /// Returns what is to be reported by now.
    #[must_use]
    pub fn reported(&self, now: Time) -> AppStatus {
        let is_reported = |one: &&AppFinding| {
            one.check != AppCheck::Deliveries || now.is_past(one.since, DELIVERIES_FAIL)
        };
        let all: Vec<&AppFinding> = self.findings.iter().filter(is_reported).collect();
        let silent = self.silent.as_ref().filter(|(since, _)| now.is_past(*since, SILENT));
        AppStatus {
            lacks: all.iter().map(|one| one.sentence.clone()).collect(),
            checks: all.iter().map(|one| one.check).collect(),
            unknown: silent.map(|(_, why)| why.clone()).into_iter().collect(),
        }
    }
}

/// Checks the App.
pub struct AppWatch<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Github: Directory>> AppWatch<'_, W> {
    /// Checks the App if it is time to, and records what was found.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn check(&self, now: Time) -> Result<(), PassError> {
        let table = self.context.table;
        let known = table.notices().await?;
        let checked = known.and_then(|known| known.into_record().app);
        if checked.is_some_and(|app| !now.is_past(app.at, EVERY)) {
            return Ok(());
        }
        let found = self.status(&self.facts().await, now);
        let next = |known: Option<&Notices>| {
            let known = known.cloned().unwrap_or_default();
            let app = known.app.clone().unwrap_or_default().after(&found, now);
            Some(Notices { app: Some(app), ..known })
        };
        writes::update(table, async || table.notices().await, next).await?;
        Ok(())
    }

    /// Asks GitHub about the App. What one call leaves unanswered does not hide the rest. The App's
    /// owner is recorded on the way.
    pub(crate) async fn facts(&self) -> AppFacts {
        let github = self.context.github;
        let (app, installations, hook, deliveries) =
            join4(github.app(), github.installations(), github.hook(), github.hook_answers()).await;
        let wanted = match app {
            Ok(_) => AppFacts::groups_wanted(&installations, &self.context.settings.pools),
            Err(_) => Vec::new(),
        };
        let groups = wanted.into_iter().map(async |entity| {
            let groups = github.groups(&entity).await;
            (entity, groups)
        });
        let groups = join_all(groups).await;
        if let Ok(app) = &app
            && let Err(error) = (AppOwner { context: self.context }).note(app).await
        {
            let error = with_causes(&error);
            tracing::warn!(error, "failed to note whose the App is; the sweep does");
        }
        AppFacts { app, installations, hook, deliveries, groups }
    }

    /// Returns what these facts say about the stack's App.
    pub(crate) fn status(&self, facts: &AppFacts, now: Time) -> AppStatus {
        let settings = self.context.settings;
        let stack = OwnStack {
            name: &settings.stack,
            pools: &settings.pools,
            webhook: settings.webhook_url.as_deref(),
            now,
        };
        let Findings { lacks, unknown } = facts.findings(stack);
        let unknown = unknown.into_iter().map(|error| told("GitHub", error).1).collect();
        let checks = lacks.iter().map(|lack| lack.check).collect();
        let lacks = lacks.into_iter().map(|lack| lack.sentence).collect();
        AppStatus { lacks, checks, unknown }
    }
}
