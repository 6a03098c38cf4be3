//! Checks the GitHub Apps on a schedule, so that `status`, the overview and notifications report its
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
use muster_domain::ids::AppName;
use muster_domain::pool::Pool;
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

/// Checks the stack's Apps.
pub struct AppWatch<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Github: Directory>> AppWatch<'_, W> {
    /// Checks the Apps if a check is due, and records the findings.
    ///
    /// # Errors
    /// When the table does not answer.
    pub async fn check(&self, now: Time) -> Result<(), PassError> {
        let table = self.context.table;
        let known = table.notices().await?;
        let checked_at = known.and_then(|known| Some(known.app_status(now)?.0));
        if checked_at.is_some_and(|at| !now.is_past(at, EVERY)) {
            return Ok(());
        }
        let is_overdue = checked_at.is_some_and(|at| is_overdue(at + EVERY, now));
        if is_overdue && !writes::take_turn(table, OVERDUE, now).await? {
            return Ok(());
        }
        let found = self.look(now).await;
        let next = |known: Option<&Notices>| {
            let known = known.cloned().unwrap_or_default();
            Some(known.with_apps(&found, now))
        };
        writes::update(table, async || table.notices().await, next).await?;
        Ok(())
    }

    /// Queries GitHub about all Apps at once, and returns the findings about each.
    pub(crate) async fn look(&self, now: Time) -> Vec<(AppName, AppStatus)> {
        let each = self.context.settings.apps().into_iter().map(async |app| {
            let facts = self.facts(app).await;
            (app, self.status(app, &facts, now))
        });
        join_all(each).await
    }

    /// Queries GitHub about an App. One failed call does not hide the other results. Also records the
    /// main App's owner.
    pub(crate) async fn facts(&self, name: AppName) -> AppFacts {
        let github = self.context.github;
        let (app, installations, hook, deliveries) = join4(
            github.app(name),
            github.installations(name),
            github.hook(name),
            github.hook_answers(name),
        )
        .await;
        let wanted = match app {
            Ok(_) => AppFacts::groups_wanted(&installations, &self.pools(name), name),
            Err(_) => Vec::new(),
        };
        let groups = wanted.into_iter().map(async |entity| {
            let groups = github.groups(&entity).await;
            (entity, groups)
        });
        let groups = join_all(groups).await;
        if let Ok(app) = &app
            && name == AppName::MAIN
            && let Err(error) = (AppOwner { context: self.context }).note(app).await
        {
            let error = with_causes(&error);
            tracing::warn!(error, "failed to record the App's owner; the sweep does");
        }
        AppFacts { app, installations, hook, deliveries, groups }
    }

    /// Returns the pools that use an App.
    fn pools(&self, app: AppName) -> Vec<Pool> {
        let pools = &self.context.settings.pools;
        pools.iter().filter(|pool| pool.uses_app(app)).cloned().collect()
    }

    /// Returns the findings about an App. Those about another App than the main one name it.
    pub(crate) fn status(&self, app: AppName, facts: &AppFacts, now: Time) -> AppStatus {
        let settings = self.context.settings;
        let (pools, webhook) = (self.pools(app), settings.webhook_of(app));
        let stack = OwnStack {
            name: &settings.stack,
            app,
            pools: &pools,
            webhook: webhook.as_deref(),
            now,
        };
        let named = |sentence: String| match app {
            AppName::MAIN => sentence,
            _ => format!("App {app}: {sentence}"),
        };
        let Findings { lacks, unknown } = facts.findings(stack);
        let unknown = unknown.into_iter().map(|error| named(call_failure("GitHub", error).1));
        let unknown = unknown.collect();
        let checks = lacks.iter().map(|lack| lack.check).collect();
        let lacks: Vec<_> = lacks.into_iter().map(|lack| named(lack.sentence)).collect();
        AppStatus { apps: vec![app; lacks.len()], lacks, checks, unknown }
    }
}
