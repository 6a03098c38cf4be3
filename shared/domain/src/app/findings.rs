//! What is wrong with the App at GitHub, each in a sentence with its remedy: rules over what GitHub
//! was asked. A wrong setting there is no error of any call of ours: the events simply never come.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ACTIONS, AppCheck, AppSettings, Lack, RUNNERS_OF_ORGANIZATIONS, RUNNERS_OF_REPOSITORIES,
    put_command,
};
use crate::ids::{Entity, EntityKind};
use crate::observation::ProviderError;
use crate::pool::Pool;
use crate::pool_file::Group;
use crate::time::{Seconds, Time};

/// How far GitHub's clock may be from ours: its tokens are backdated by a minute.
const MAX_APART: i64 = 60;
/// For how long GitHub keeps deliveries.
/// Source: docs.github.com/en/webhooks/using-webhooks/automatically-redelivering-failed-deliveries-for-a-github-app-webhook
const DELIVERIES_KEPT: Seconds = Seconds(3 * 86_400);

/// Why GitHub does not say who the App is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppProblem {
    /// It was not asked: the App's secret was never put in, or cannot be read. The sentence says
    /// why.
    NoKey(String),
    /// It was not asked: the App's secret holds something else. The sentence says what.
    BadKey(String),
    /// It does not take the key's signature.
    Refused {
        /// The App's number or client id, as its secret has it.
        app: String,
        /// How far its clock is ahead of ours, seconds.
        ahead: i64,
    },
    /// It knows no such App.
    Unknown {
        /// As above.
        app: String,
    },
    /// It gives no answer, or refuses for another reason.
    Unanswered(ProviderError),
}

/// Who has installed the App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The login, or `enterprises/` and the slug.
    pub account: String,
    /// A person has none of an organization's permissions.
    pub is_person: bool,
    /// Which repositories the App sees there.
    pub repositories: Repositories,
    /// Since when GitHub tells it of nothing.
    pub suspended_at: Option<Time>,
    /// When the App was installed.
    pub created_at: Option<Time>,
    /// What was accepted there. What the App asked for later may be missing.
    pub permissions: BTreeMap<String, String>,
    /// Where its owner changes it.
    pub html_url: String,
}

/// Which of an account's repositories the App sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repositories {
    /// All, those that are made later too.
    #[default]
    All,
    /// Those that its owner chose.
    Selected,
}

/// Where GitHub sends the App's events, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The address; empty where there is none.
    pub url: String,
    /// `json` or `form`.
    pub content_type: String,
    /// The certificate is not verified.
    pub insecure: bool,
}

/// How an attempt to deliver an event was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer {
    /// What it was about.
    pub event: String,
    /// When; none where GitHub does not say.
    pub at: Option<Time>,
    /// The status; none where nobody answered.
    pub status: Option<u16>,
}

/// What GitHub was asked, each for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppFacts {
    /// The App.
    pub app: Result<AppSettings, AppProblem>,
    /// Who has installed it.
    pub installations: Result<Vec<Installation>, ProviderError>,
    /// Where its events go.
    pub hook: Result<Hook, ProviderError>,
    /// The last attempts to deliver one, the newest first.
    pub deliveries: Result<Vec<HookAnswer>, ProviderError>,
    /// The runner groups of those that `groups_wanted` names.
    pub groups: Vec<(Entity, Result<Vec<Group>, ProviderError>)>,
}

/// What the facts are compared with.
#[derive(Clone, Copy, Debug)]
pub struct OwnStack<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its pools.
    pub pools: &'a [Pool],
    /// The address of its webhook, where that is known.
    pub webhook: Option<&'a str>,
    /// The time.
    pub now: Time,
}

/// What the facts say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings<'a> {
    /// What is wrong.
    pub lacks: Vec<Lack>,
    /// Why something could not be found out.
    pub unknown: Vec<&'a ProviderError>,
}

impl AppFacts {
    /// What is wrong. Where GitHub does not say who the App is, the reason for that is told alone:
    /// it is that of all the others.
    #[must_use]
    pub fn findings(&self, stack: OwnStack<'_>) -> Findings<'_> {
        let app = match &self.app {
            Ok(app) => Some(app),
            Err(AppProblem::Unanswered(trouble)) => {
                return Findings { unknown: vec![trouble], ..Findings::default() };
            }
            Err(problem) => {
                let lack = problem.check().lacks(problem.sentence(stack.name));
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
            Ok(answers) => found.lacks.extend(refused(answers, stack.name)),
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

    /// Whose runner groups matter: those where runners for public repositories are registered.
    #[must_use]
    pub fn groups_wanted(
        installations: &Result<Vec<Installation>, ProviderError>,
        pools: &[Pool],
    ) -> Vec<Entity> {
        let serves_public = |pool: &&Pool| pool.public_repositories && !pool.is_removed();
        let mut wanted: Vec<Entity> = Vec::new();
        for pool in pools.iter().filter(serves_public) {
            match (&pool.entity, installations) {
                (Some(entity), _) => wanted.push(entity.clone()),
                // The job decides: whoever has installed the App.
                (None, Ok(all)) => wanted.extend(
                    all.iter()
                        .filter(|one| !one.is_person && one.suspended_at.is_none())
                        .filter_map(|one| one.account.parse().ok()),
                ),
                (None, Err(_)) => {}
            }
        }
        // A repository has no groups.
        wanted.retain(|entity| entity.kind() != EntityKind::Repository);
        wanted.sort();
        wanted.dedup_by(|a, b| a.same_as(b));
        wanted
    }

    /// An installation is an event, so a young one without any delivery is no quiet week.
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

    /// What is wrong, and how that is mended.
    #[must_use]
    pub fn sentence(&self, stack: &str) -> String {
        let secret = format!("{stack}/app-key");
        match self {
            Self::NoKey(why) | Self::BadKey(why) => why.clone(),
            Self::Refused { ahead, .. } if ahead.abs() > MAX_APART => format!(
                "the clocks of AWS and GitHub are {} s apart, so GitHub takes no token of the App: try \
                 again, and on GitHub Enterprise Server see to its clock (NTP)",
                ahead.abs()
            ),
            Self::Refused { app, .. } => format!(
                "the private key in secret {secret} is not one of App {app}, or that id is mistyped; \
                 put both in with: {}",
                put_command(&secret)
            ),
            Self::Unknown { app } => format!(
                "GitHub knows no App {app}: it was deleted, or its id in secret {secret} is mistyped; \
                 put the right one in with: {}",
                put_command(&secret)
            ),
            Self::Unanswered(trouble) => trouble.to_string(),
        }
    }

    /// What is wrong, where a request said who the App is and no secret did.
    #[must_use]
    pub fn of_request(&self) -> String {
        match self {
            Self::Refused { app, ahead } if ahead.abs() <= MAX_APART => {
                format!("the private key is not one of App {app}, or that id is mistyped")
            }
            Self::Unknown { app } => {
                format!("GitHub knows no App {app}: it was deleted, or its id is mistyped")
            }
            // Neither names a secret.
            Self::NoKey(_) | Self::BadKey(_) | Self::Refused { .. } | Self::Unanswered(_) => {
                self.sentence("")
            }
        }
    }
}

impl AppSettings {
    /// Where the App's owner changes it.
    fn settings_page(&self) -> &str {
        if self.html_url.is_empty() { "the App's settings" } else { &self.html_url }
    }
}

/// Whether runners of the entity are registered by this account's installation.
fn is_of(entity: &Entity, account: &str) -> bool {
    let owner = match entity.kind() {
        EntityKind::Repository => entity.as_str().split('/').next().unwrap_or_default(),
        EntityKind::Organization | EntityKind::Enterprise => entity.as_str(),
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
            "the App is installed nowhere, so GitHub tells of no job: install it at {page}"
        ))];
    }
    let strangers = pools.iter().filter(|pool| !pool.is_removed()).filter_map(|pool| {
        let entity = pool.entity.as_ref()?;
        let is_installed = all.iter().any(|one| is_of(entity, &one.account));
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
                "{} suspended the App at {since}, so GitHub tells of no job there: unsuspend it at {}",
                one.account, one.html_url
            ))),
            None => lines.extend(one.not_accepted(app)),
        }
    }
    lines
}

impl Installation {
    /// What the App asks for and was not given here. Asked for after it was installed, it waits for
    /// the owner's yes.
    fn not_accepted(&self, app: &AppSettings) -> Vec<Lack> {
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
        let lacking = ours.into_iter().filter(|(name, _)| {
            let is_given = !(self.is_person && *name == RUNNERS_OF_ORGANIZATIONS);
            is_given && rank(&self.permissions, name) < rank(&app.permissions, name)
        });
        lacking
            .map(|(_, title)| {
                AppCheck::Accepted.lacks(format!(
                    "{} has not accepted the App's new permission \"{title}\": accept it at {}",
                    self.account, self.html_url
                ))
            })
            .collect()
    }
}

impl Hook {
    /// Whether events go to this address.
    #[must_use]
    pub fn is_at(&self, address: &str) -> bool {
        let plain = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        plain(address) == plain(&self.url)
    }

    fn wrongs(&self, own: Option<&str>) -> Vec<Lack> {
        let own_address = own.unwrap_or("the output WebhookUrl");
        if self.url.is_empty() {
            return vec![AppCheck::Hook.lacks(format!(
                "the App has no webhook: in its settings (General, Webhook) tick Active and give the \
                 URL {own_address}"
            ))];
        }
        let mut lines = Vec::new();
        if own.is_some_and(|own| !self.is_at(own)) {
            lines.push(AppCheck::HookAddress.lacks(format!(
                "GitHub sends events to {}, not to this stack: in the App's settings (General, \
                 Webhook) give the URL {own_address}",
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

/// What mends that a delivery is answered so, or not at all.
#[must_use]
pub fn delivery_remedy(status: Option<u16>, stack: &str) -> String {
    match status {
        None => "see to the URL of the webhook in the App's settings".to_owned(),
        Some(401) => format!(
            "the webhook's secret at GitHub differs from secret {stack}/webhook-secret; save that one \
             in the App's settings"
        ),
        Some(415) => {
            "set content_type of the webhook to \"json\" (PATCH /app/hook/config)".to_owned()
        }
        Some(403 | 404) => "nothing of this stack is at the URL of the webhook; give the output \
                            WebhookUrl in the App's settings"
            .to_owned(),
        Some(_) => format!("see why with: aws logs tail /aws/lambda/{stack}-webhook --since 1h"),
    }
}

/// What the newest attempt met, if it failed. Older failures may have been mended since.
fn refused(answers: &[HookAnswer], stack: &str) -> Option<Lack> {
    let newest = answers.first()?.status;
    if newest.is_some_and(|status| status < 400) {
        return None;
    }
    let count = answers.iter().filter(|one| one.status == newest).count();
    let all = answers.len();
    let met = match newest {
        None => "met no connection".to_owned(),
        Some(status) => format!("were answered {status}"),
    };
    let remedy = delivery_remedy(newest, stack);
    Some(AppCheck::Deliveries.lacks(format!(
        "{count} of GitHub's last {all} deliveries {met}, the newest among them: {remedy}"
    )))
}

/// What keeps jobs of public repositories from the runners of these pools, in their runner groups at
/// one entity. GitHub says so nowhere: the runners listen, and the jobs wait.
#[must_use]
pub fn narrow_groups(entity: &Entity, groups: &[Group], pools: &[Pool]) -> Vec<Lack> {
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
                 serves them: its runners would idle beside their jobs; allow public repositories in \
                 the group's settings"
            )));
        }
        if group.restricted_to_workflows {
            lines.push(AppCheck::GroupWorkflows.lacks(format!(
                "runner group {group_name:?} of {entity} takes selected workflows alone, and pool \
                 {pool} serves any: runners would idle beside the jobs of others; see to the group's \
                 settings"
            )));
        }
    }
    lines
}
