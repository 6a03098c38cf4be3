//! Problems with the App at GitHub, each as a sentence with its fix: pure rules over GitHub's
//! responses. A wrong setting causes no error in our calls: the events simply never arrive.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ACTIONS, AppCheck, AppSettings, Lack, RUNNERS_OF_ORGANIZATIONS, RUNNERS_OF_REPOSITORIES,
    permission_of, put_command, warming_events,
};
use crate::ids::{AppName, Entity, EntityKind};
use crate::pool::Pool;
use crate::pool_file::RunnerGroup;
use crate::provider::ProviderError;
use crate::time::{Seconds, Time};

/// Maximum difference between GitHub's clock and ours, in seconds: tokens are backdated by a
/// minute.
const MAX_APART: i64 = 60;
/// How long GitHub keeps deliveries.
/// Source:
/// docs.github.com/en/webhooks/using-webhooks/automatically-redelivering-failed-deliveries-for-a-github-app-webhook
const DELIVERIES_KEPT: Seconds = Seconds(3 * 86_400);

/// Why GitHub does not identify the App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppProblem {
    /// GitHub was not called: the App's secret was never set, or cannot be read. The sentence
    /// explains why.
    NoKey(String),
    /// GitHub was not called: the App's secret has invalid contents. The sentence explains the
    /// problem.
    BadKey(String),
    /// GitHub rejects the key's signature.
    Refused {
        /// The App's ID or client ID from its secret.
        app: String,
        /// How far GitHub's clock is ahead of ours, in seconds.
        ahead: i64,
    },
    /// GitHub knows no such App.
    Unknown {
        /// The App's ID or client ID from its secret.
        app: String,
    },
    /// GitHub does not answer, or refuses for a different reason.
    Unanswered(ProviderError),
}

/// An account that has installed the App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The login, or `enterprises/` and the slug.
    pub account: String,
    /// Whether it is a user, to whom organization permissions do not apply.
    pub is_person: bool,
    /// Which repositories the App can access there.
    pub repositories: Repositories,
    /// When the account suspended the App, so that GitHub sends no events.
    pub suspended_at: Option<Time>,
    /// When the App was installed.
    pub created_at: Option<Time>,
    /// The permissions accepted there. Permissions that the App requested later may be missing.
    pub permissions: BTreeMap<String, String>,
    /// The page where the account's owner changes the installation.
    pub html_url: String,
}

/// Which of an account's repositories the App can access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repositories {
    /// All, including those created later.
    #[default]
    All,
    /// The ones that its owner selected.
    Selected,
}

/// The App's webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The URL; empty if there is no webhook.
    pub url: String,
    /// `json` or `form`.
    pub content_type: String,
    /// Whether certificate verification is disabled.
    pub insecure: bool,
}

/// The response to an attempt to deliver an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    /// The event's name.
    pub event: String,
    /// When it was sent, if GitHub reports that.
    pub at: Option<Time>,
    /// The HTTP status. `None` if there was no response.
    pub status: Option<u16>,
}

/// GitHub's responses, each a separate query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppFacts {
    /// The App.
    pub app: Result<AppSettings, AppProblem>,
    /// The accounts that have installed it.
    pub installations: Result<Vec<Installation>, ProviderError>,
    /// The webhook that receives its events.
    pub hook: Result<Hook, ProviderError>,
    /// The last delivery attempts, newest first.
    pub deliveries: Result<Vec<HookAnswer>, ProviderError>,
    /// The runner groups of the entities that `groups_wanted` returns.
    pub groups: Vec<(Entity, Result<Vec<RunnerGroup>, ProviderError>)>,
}

/// The stack to compare GitHub's responses with.
#[derive(Clone, Copy, Debug)]
pub struct OwnStack<'a> {
    /// The stack's name.
    pub name: &'a str,
    /// The App.
    pub app: AppName,
    /// The pools that use the App.
    pub pools: &'a [Pool],
    /// The URL of the stack's webhook, if known.
    pub webhook: Option<&'a str>,
    /// The current time.
    pub now: Time,
}

/// The result of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings<'a> {
    /// The problems found.
    pub lacks: Vec<Lack>,
    /// The queries that failed.
    pub unknown: Vec<&'a ProviderError>,
}

impl AppFacts {
    /// Returns the problems. If GitHub does not identify the App, returns only the reason for that,
    /// which also causes all other problems.
    #[must_use]
    pub fn findings(&self, stack: OwnStack<'_>) -> Findings<'_> {
        let app = match &self.app {
            Ok(app) => Some(app),
            Err(AppProblem::Unanswered(trouble)) => {
                return Findings { unknown: vec![trouble], ..Findings::default() };
            }
            Err(problem) => {
                let lack = problem.check().lacks(problem.sentence(stack.name, stack.app));
                return Findings { lacks: vec![lack], unknown: Vec::new() };
            }
        };
        let mut found = Findings::default();
        let app = app.expect("the others have returned");
        found.lacks.extend(app.lacks(stack.pools));
        match &self.installations {
            Ok(all) => found.lacks.extend(installations(app, all, stack.pools)),
            Err(trouble) => found.unknown.push(trouble),
        }
        match &self.hook {
            Ok(hook) => found.lacks.extend(hook.wrongs(stack.webhook)),
            Err(trouble) => found.unknown.push(trouble),
        }
        match &self.deliveries {
            Ok(answers) if answers.is_empty() => found.lacks.extend(self.silence(app, stack.now)),
            Ok(answers) => found.lacks.extend(refused(answers, stack.name, stack.app)),
            Err(trouble) => found.unknown.push(trouble),
        }
        for (entity, groups) in &self.groups {
            match groups {
                Ok(groups) => found.lacks.extend(narrow_groups(entity, groups, stack.pools)),
                Err(trouble) => found.unknown.push(trouble),
            }
        }
        found
    }

    /// Returns the entities whose runner groups must be checked: those where runners for public
    /// repositories are registered.
    #[must_use]
    pub fn groups_wanted(
        installations: &Result<Vec<Installation>, ProviderError>,
        pools: &[Pool],
        app: AppName,
    ) -> Vec<Entity> {
        let serves_public = |pool: &&Pool| pool.public_repositories && !pool.is_removed();
        let mut wanted: Vec<Entity> = Vec::new();
        for pool in pools.iter().filter(serves_public) {
            match (&pool.entity, installations) {
                (Some(entity), _) => wanted.push(entity.clone()),
                // The job determines the entity: any that has installed the App.
                (None, Ok(all)) => wanted.extend(
                    all.iter()
                        .filter(|one| !one.is_person && one.suspended_at.is_none())
                        .filter_map(|one| app.qualify(&one.account).parse().ok()),
                ),
                (None, Err(_)) => {}
            }
        }
        // Repositories have no runner groups.
        wanted.retain(|entity| entity.kind() != EntityKind::Repository);
        wanted.sort();
        wanted.dedup_by(|a, b| a.same_as(b));
        wanted
    }

    /// Reports a recent installation without any delivery. The installation itself is an event, so
    /// this is not just a quiet week.
    fn silence(&self, app: &AppSettings, now: Time) -> Option<Lack> {
        let installed = self.installations.iter().flatten().filter_map(|one| one.created_at).max();
        let is_young = |at: Time| !now.is_past(at, DELIVERIES_KEPT);
        installed.filter(|at| is_young(*at)).map(|at| {
            AppCheck::HookActive.lacks(format!(
                "GitHub has sent no event, though the App was installed at {at}: the webhook is not \
                 active. No API can switch it on: in {} (General, Webhook) tick Active",
                app.settings_page()
            ))
        })
    }
}

impl AppProblem {
    fn check(&self) -> AppCheck {
        match self {
            Self::NoKey(_) => AppCheck::Key,
            Self::BadKey(_) => AppCheck::KeyForm,
            Self::Refused { ahead, .. } if ahead.abs() > MAX_APART => AppCheck::Clock,
            Self::Refused { .. } => AppCheck::KeyOwner,
            Self::Unknown { .. } => AppCheck::Exists,
            Self::Unanswered(_) => AppCheck::Other,
        }
    }

    /// Describes the problem and its fix.
    #[must_use]
    pub fn sentence(&self, stack: &str, app: AppName) -> String {
        let secret = format!("{stack}/app-key");
        match self {
            Self::NoKey(why) | Self::BadKey(why) => why.clone(),
            Self::Refused { ahead, .. } if ahead.abs() > MAX_APART => format!(
                "the clocks of AWS and GitHub are {} s apart, so GitHub rejects the App's tokens: \
                 try again; on GitHub Enterprise Server, fix its clock (NTP)",
                ahead.abs()
            ),
            Self::Refused { app: id, .. } => format!(
                "the private key in secret {secret} is not one of App {id}, or that id is mistyped; \
                 set both with: {}",
                put_command(&secret, app)
            ),
            Self::Unknown { app: id } => format!(
                "GitHub knows no App {id}: it was deleted, or its id in secret {secret} is mistyped; \
                 set the right one with: {}",
                put_command(&secret, app)
            ),
            Self::Unanswered(trouble) => trouble.to_string(),
        }
    }

    /// Describes the problem if the request, rather than a secret, identifies the App.
    #[must_use]
    pub fn of_request(&self) -> String {
        match self {
            Self::Refused { app, ahead } if ahead.abs() <= MAX_APART => {
                format!("the private key is not one of App {app}, or that id is mistyped")
            }
            Self::Unknown { app } => {
                format!("GitHub knows no App {app}: it was deleted, or its id is mistyped")
            }
            // Neither sentence names a secret.
            Self::NoKey(_) | Self::BadKey(_) | Self::Refused { .. } | Self::Unanswered(_) => {
                self.sentence("", AppName::MAIN)
            }
        }
    }
}

impl AppSettings {
    /// Returns the page where the App's owner changes it.
    fn settings_page(&self) -> &str {
        if self.html_url.is_empty() { "the App's settings" } else { &self.html_url }
    }
}

/// Returns whether this account's installation registers the runners of the entity.
fn registers_for(entity: &Entity, account: &str) -> bool {
    let owner = match entity.kind() {
        EntityKind::Repository => entity.name().split('/').next().unwrap_or_default(),
        EntityKind::Organization | EntityKind::Enterprise => entity.name(),
    };
    owner.eq_ignore_ascii_case(account)
}

fn installations(app: &AppSettings, all: &[Installation], pools: &[Pool]) -> Vec<Lack> {
    let page = match app.html_url.as_str() {
        "" => "the App's settings, Install App".to_owned(),
        url => format!("{url}/installations/new"),
    };
    if all.is_empty() {
        return vec![AppCheck::Installed.lacks(format!(
            "the App is not installed anywhere, so GitHub sends no job events: install it at {page}"
        ))];
    }
    let strangers = pools.iter().filter(|pool| !pool.is_removed()).filter_map(|pool| {
        let entity = pool.entity.as_ref()?;
        let is_installed = all.iter().any(|one| registers_for(entity, &one.account));
        (!is_installed).then(|| {
            AppCheck::InstalledForPool.lacks(format!(
                "pool {} registers at {entity}, where the App is not installed: install it at {page}",
                pool.name
            ))
        })
    });
    let mut lines: Vec<Lack> = strangers.collect();
    for one in all {
        match one.suspended_at {
            Some(since) => lines.push(AppCheck::Suspended.lacks(format!(
                "account {} suspended the App at {since}, so GitHub sends no job events for it: unsuspend \
                 it at {}",
                one.account, one.html_url
            ))),
            None => lines.extend(one.not_accepted(app, pools)),
        }
    }
    lines
}

impl Installation {
    /// Returns the permissions that the App requests and does not have here. Permissions requested
    /// after the installation must be accepted by the owner.
    fn not_accepted(&self, app: &AppSettings, pools: &[Pool]) -> Vec<Lack> {
        let rank = |permissions: &BTreeMap<String, String>, name: &str| match permissions
            .get(name)
            .map(String::as_str)
        {
            None => 0,
            Some("read") => 1,
            Some("write") => 2,
            Some(_) => 3,
        };
        let ours = [
            (ACTIONS, "Actions"),
            (RUNNERS_OF_REPOSITORIES, "Administration"),
            (RUNNERS_OF_ORGANIZATIONS, "Self-hosted runners"),
        ];
        let of_events = warming_events(pools).map(|(event, _)| permission_of(event));
        let lacking = ours.into_iter().chain(of_events).filter(|(name, _)| {
            let is_given = !(self.is_person && *name == RUNNERS_OF_ORGANIZATIONS);
            is_given && rank(&self.permissions, name) < rank(&app.permissions, name)
        });
        lacking
            .map(|(_, title)| {
                AppCheck::Accepted.lacks(format!(
                    "account {} has not accepted the App's new permission \"{title}\": accept it at {}",
                    self.account, self.html_url
                ))
            })
            .collect()
    }
}

impl Hook {
    /// Returns whether events are sent to this URL.
    #[must_use]
    pub fn is_at(&self, address: &str) -> bool {
        let plain = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        plain(address) == plain(&self.url)
    }

    fn wrongs(&self, own: Option<&str>) -> Vec<Lack> {
        let own_address = own.unwrap_or("the output WebhookUrl");
        if self.url.is_empty() {
            return vec![AppCheck::Hook.lacks(format!(
                "the App has no webhook: in its settings (General, Webhook) tick Active and set \
                 the URL to {own_address}"
            ))];
        }
        let mut lines = Vec::new();
        if own.is_some_and(|own| !self.is_at(own)) {
            lines.push(AppCheck::HookAddress.lacks(format!(
                "GitHub sends events to {}, not to this stack: in the App's settings (General, \
                 Webhook) set the URL to {own_address}",
                self.url
            )));
        }
        if self.content_type != "json" {
            lines.push(AppCheck::HookContent.lacks(format!(
                "GitHub sends events as {:?}, which the webhook refuses: set content_type to \"json\" \
                 (PATCH /app/hook/config; the settings page does not show it)",
                self.content_type
            )));
        }
        if self.insecure {
            lines.push(AppCheck::HookTls.lacks(
                "GitHub does not verify the TLS certificate of the webhook: in the App's settings \
                 (General, Webhook) enable SSL verification",
            ));
        }
        lines
    }
}

/// Returns the fix for deliveries that get this response, or for deliveries without a response.
#[must_use]
pub fn delivery_remedy(status: Option<u16>, stack: &str, app: AppName) -> String {
    let is_main = app == AppName::MAIN;
    match status {
        None => "check the URL of the webhook in the App's settings".to_owned(),
        // Another App has a secret and a URL of its own.
        Some(401) if !is_main => format!(
            "GitHub signs the App's events with a different secret; set it with: muster github \
             --app {app} hook set"
        ),
        Some(403 | 404) if !is_main => format!(
            "the URL of the webhook does not belong to this stack; set it with: muster github \
             --app {app} hook set"
        ),
        Some(401) => format!(
            "the webhook's secret at GitHub differs from secret {stack}/webhook-secret; save that one \
             in the App's settings"
        ),
        Some(415) => {
            "set content_type of the webhook to \"json\" (PATCH /app/hook/config)".to_owned()
        }
        Some(403 | 404) => "the URL of the webhook does not belong to this stack; set it to the \
            output WebhookUrl in the App's settings"
            .to_owned(),
        Some(_) => {
            format!("find out why with: aws logs tail /aws/lambda/{stack}-webhook --since 1h")
        }
    }
}

/// Reports the newest attempt if it failed. Older failures may have been fixed since.
fn refused(answers: &[HookAnswer], stack: &str, app: AppName) -> Option<Lack> {
    let newest = answers.first()?.status;
    if newest.is_some_and(|status| status < 400) {
        return None;
    }
    let count = answers.iter().filter(|one| one.status == newest).count();
    let all = answers.len();
    let met = match newest {
        None => "got no connection".to_owned(),
        Some(status) => format!("were answered {status}"),
    };
    let remedy = delivery_remedy(newest, stack, app);
    Some(AppCheck::Deliveries.lacks(format!(
        "{count} of GitHub's last {all} deliveries {met}, the newest among them: {remedy}"
    )))
}

/// Returns the runner group settings at one entity that keep jobs of public repositories from the
/// runners of these pools. GitHub does not report this anywhere: the runners listen, and the jobs
/// wait.
#[must_use]
pub fn narrow_groups(entity: &Entity, groups: &[RunnerGroup], pools: &[Pool]) -> Vec<Lack> {
    let is_here = |pool: &&Pool| {
        let own = pool.entity.as_ref();
        pool.public_repositories && !pool.is_removed() && own.is_none_or(|own| own.same_as(entity))
    };
    let mut lines: Vec<Lack> = Vec::new();
    for pool in pools.iter().filter(is_here) {
        let Some(group) = groups.iter().find(|group| group.id == pool.runner_group_id) else {
            continue;
        };
        let (group_name, pool) = (&group.name, &pool.name);
        if group.refuses_public {
            lines.push(AppCheck::GroupPublic.lacks(format!(
                "runner group {group_name:?} of {entity} refuses public repositories, and pool {pool} \
                 serves them: its runners would idle while their jobs wait; allow public \
                 repositories in \
                 the group's settings"
            )));
        }
        if group.restricted_to_workflows {
            lines.push(AppCheck::GroupWorkflows.lacks(format!(
                "runner group {group_name:?} of {entity} accepts only selected workflows, but \
                 pool {pool} serves any: its runners would idle while jobs of other workflows \
                 wait; check the group's settings"
            )));
        }
    }
    lines
}
