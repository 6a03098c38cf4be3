//! Checks the GitHub App on a schedule, so that `status`, the overview and notifications report its
//! problems without asking GitHub. A wrong setting there causes no error: the events never come.
//!
//! A check is four calls as the App, and one for each organization or enterprise whose runner groups
//! matter. One every two minutes is 120 of the 5,000 calls that GitHub allows an App per hour.
//! Source: docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api

use futures_util::future::{join_all, join4};
use muster_api::answers::AppStatus;
use muster_api::call_failure;
use muster_domain::app::{AppFacts, Findings, OwnStack};
use muster_domain::backoff::is_overdue;
use muster_domain::causes::with_causes;
use muster_domain::time::{Seconds, Time};

use crate::app_owner::AppOwner;
use crate::context::{Context, Wired};
use crate::notices::Notices;
use crate::ports::{Directory, Operations as _, Table};
use crate::writes::{self, PassError};

/// The time between two checks: every second sweep, also if one of them is some seconds late.
const EVERY: Seconds = Seconds(110);
/// Cursor of the last overdue check.
const OVERDUE: &str = "app-check";

/// Checks the App.
pub struct AppWatch<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Github: Directory>> AppWatch<'_, W> {
    /// Checks the App if a check is due, and records the findings.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn check(&self, now: Time) -> Result<(), PassError> {
        let table = self.context.table;
        let known = table.notices().await?;
        let checked = known.and_then(|known| known.into_record().app);
        if checked.as_ref().is_some_and(|app| !now.is_past(app.at, EVERY)) {
            return Ok(());
        }
        let is_overdue = checked.is_some_and(|app| is_overdue(app.at + EVERY, now));
        if is_overdue && !writes::take_turn(table, OVERDUE, now).await? {
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

    /// Queries GitHub about the App. One failed call does not hide the other results. Also records
    /// the App's owner.
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
            tracing::warn!(error, "failed to record the App's owner; the sweep does");
        }
        AppFacts { app, installations, hook, deliveries, groups }
    }

    /// Returns the findings about the stack's App.
    pub(crate) fn status(&self, facts: &AppFacts, now: Time) -> AppStatus {
        let settings = self.context.settings;
        let stack = OwnStack {
            name: &settings.stack,
            pools: &settings.pools,
            webhook: settings.webhook_url.as_deref(),
            now,
        };
        let Findings { lacks, unknown } = facts.findings(stack);
        let unknown = unknown.into_iter().map(|error| call_failure("GitHub", error).1).collect();
        let checks = lacks.iter().map(|lack| lack.check).collect();
        let lacks = lacks.into_iter().map(|lack| lack.sentence).collect();
        AppStatus { lacks, checks, unknown }
    }
}
