//! GitHub's directory: the entity with an ID, the runner groups of an entity, and the App's
//! installations.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use muster_control::ports::{
    Directory, Registrar, RepositoryPage, SeenRepositories, SeenRepository,
};
use muster_domain::app::{
    AppProblem, AppSettings, BAD_KEY, Hook, HookAnswer, Installation as Installed, NO_KEY,
    Repositories,
};
use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId};
use muster_domain::inquiry::ListPosition;
use muster_domain::pool_file::{EntityId, RunnerGroup};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::ApiResponse;
use crate::answer::fault;
use crate::client::ApiRequest;
use crate::{App, AppKey, PAGE_SIZE, route};

/// Maximum number of pages in a listing, which is ten thousand entries. More would take minutes.
const MAX_PAGES: u32 = 100;
/// Number of recent deliveries to check.
pub(crate) const LAST_DELIVERIES: usize = 20;

/// An installation of the App.
/// Source: docs.github.com/en/rest/apps/apps#list-installations-for-the-authenticated-app
#[derive(Deserialize)]
struct ListedInstallation {
    id: u64,
    target_type: String,
    account: Option<Account>,
    #[serde(default)]
    suspended_at: Option<Time>,
    #[serde(default)]
    created_at: Option<Time>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
    #[serde(default)]
    html_url: String,
    /// `all` or `selected`.
    #[serde(default)]
    repository_selection: String,
}

/// The account of an installation. Organizations and users have a login, enterprises a slug.
#[derive(Deserialize)]
struct Account {
    id: u64,
    #[serde(default)]
    login: Option<String>,
    #[serde(default)]
    slug: Option<String>,
}

/// The App itself.
/// Source: docs.github.com/en/rest/apps/apps#get-the-authenticated-app
#[derive(Deserialize)]
struct GithubApp {
    // Missing fields are displayed as empty; no decision depends on them.
    #[serde(default)]
    id: u64,
    #[serde(default)]
    slug: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    owner: Option<Account>,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

/// The webhook's configuration.
/// Source: docs.github.com/en/rest/apps/webhooks#get-a-webhook-configuration-for-an-app
#[derive(Default, Deserialize)]
struct HookConfig {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    /// 1, as text or number, if certificate verification is disabled.
    #[serde(default)]
    insecure_ssl: Option<Value>,
}

#[derive(Deserialize)]
struct RecentDelivery {
    #[serde(default)]
    event: String,
    #[serde(default)]
    delivered_at: Option<jiff::Timestamp>,
    /// 0 or absent if there was no response.
    #[serde(default)]
    status_code: Option<u16>,
}

#[derive(Deserialize)]
struct InstallationRepositories {
    #[serde(default)]
    total_count: usize,
    repositories: Vec<InstallationRepository>,
}

#[derive(Deserialize)]
struct InstallationRepository {
    id: u64,
    full_name: String,
    #[serde(default)]
    private: bool,
}

#[derive(Deserialize)]
struct RunnerGroupList {
    runner_groups: Vec<ListedRunnerGroup>,
}

#[derive(Deserialize)]
struct ListedRunnerGroup {
    id: u64,
    name: String,
    // Missing on older servers, which then does not count as a restriction.
    #[serde(default)]
    allows_public_repositories: Option<bool>,
    /// `all`, `selected` or `private`.
    #[serde(default)]
    visibility: Option<String>,
    #[serde(default)]
    restricted_to_workflows: bool,
}

impl Account {
    /// Returns the login, or `enterprises/` and the slug.
    fn named(self) -> Option<String> {
        self.login.or_else(|| self.slug.map(|slug| format!("enterprises/{slug}")))
    }
}

impl From<ListedRunnerGroup> for RunnerGroup {
    fn from(group: ListedRunnerGroup) -> Self {
        Self {
            id: group.id,
            name: group.name,
            refuses_public: group.allows_public_repositories == Some(false)
                || group.visibility.as_deref() == Some("private"),
            restricted_to_workflows: group.restricted_to_workflows,
        }
    }
}

impl From<ListedInstallation> for Installed {
    fn from(one: ListedInstallation) -> Self {
        Self {
            account: one
                .account
                .and_then(Account::named)
                .unwrap_or_else(|| format!("installation {}", one.id)),
            is_person: one.target_type == "User",
            repositories: match one.repository_selection.as_str() {
                "selected" => Repositories::Selected,
                _ => Repositories::All,
            },
            suspended_at: one.suspended_at,
            created_at: one.created_at,
            permissions: one.permissions,
            html_url: one.html_url,
        }
    }
}

impl ListedInstallation {
    /// Returns the organization or enterprise, if it has this ID.
    fn entity(&self, id: EntityId) -> Option<Entity> {
        let account = self.account.as_ref().filter(|account| account.id == id.number)?;
        let name = match (id.kind, self.target_type.as_str()) {
            (EntityKind::Organization, "Organization") => account.login.clone()?,
            (EntityKind::Enterprise, "Enterprise") => {
                format!("enterprises/{}", account.slug.as_ref()?)
            }
            _ => return None,
        };
        id.app.qualify(&name).parse().ok()
    }
}

impl<K: AppKey> App<K> {
    /// Returns an App's installations.
    async fn all_installations(
        &self,
        app: AppName,
    ) -> Result<Vec<ListedInstallation>, ProviderError> {
        self.all(
            "list-installations",
            "/app/installations",
            async |call| self.call_as_app(app, call).await,
            ApiResponse::read,
        )
        .await
    }

    /// Returns a repository by ID, if an installation covers it.
    ///
    /// `GET /repositories/{id}` would be a single call, but it is not documented, and shows public
    /// repositories where the App is not installed.
    /// Source:
    /// docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-app-installation
    async fn repository(
        &self,
        app: AppName,
        number: u64,
        of: u64,
    ) -> Result<Option<Entity>, ProviderError> {
        let installation = InstallationId(of);
        let all = self
            .all(
                "list-repositories",
                "/installation/repositories",
                async |call| {
                    self.call_with(call, async || self.token_to_list(app, installation).await).await
                },
                |answer| Ok(answer.read::<InstallationRepositories>()?.repositories),
            )
            .await?;
        let found = all.into_iter().find(|repository| repository.id == number);
        Ok(found.and_then(|repository| app.qualify(&repository.full_name).parse().ok()))
    }

    /// Returns a page of the repositories of one installation. Skips an installation that does not
    /// answer, or that was suspended or removed. Makes two calls.
    pub(crate) async fn repository_page(
        &self,
        app: AppName,
        place: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError> {
        let first = place.map_or(0, |place| place.installation.0);
        let mut installations = self.all_installations(app).await?;
        installations.retain(|one| one.suspended_at.is_none() && one.id >= first);
        installations.sort_by_key(|one| one.id);
        let mut ids = installations.into_iter().map(|one| InstallationId(one.id));
        let Some(installation) = ids.next() else { return Ok(RepositoryPage::default()) };
        let page = place.filter(|place| place.installation == installation).map_or(1, |it| it.page);
        let after = ids.next().map(|installation| ListPosition { installation, page: 1 });
        let mut found = RepositoryPage {
            installation: Some(installation),
            next: after,
            ..RepositoryPage::default()
        };
        match self.repositories_of(app, installation, page).await {
            Ok((repositories, more)) => {
                found.repositories = repositories;
                if more {
                    found.next = Some(ListPosition { installation, page: page + 1 });
                }
            }
            Err(trouble) => found.passed_over = Some(trouble),
        }
        Ok(found)
    }

    /// Returns a page of an installation's repositories, and whether a next page exists.
    async fn repositories_of(
        &self,
        app: AppName,
        installation: InstallationId,
        page: u32,
    ) -> Result<(Vec<Entity>, bool), ProviderError> {
        let call = ApiRequest {
            operation: "list-repositories",
            method: Method::GET,
            path: format!("/installation/repositories?per_page={PAGE_SIZE}&page={page}"),
            body: None,
        };
        let token = async || self.token_to_list(app, installation).await;
        let answer = self.call_with(&call, token).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let list: InstallationRepositories = answer.read()?;
        let named = list
            .repositories
            .into_iter()
            .filter_map(|one| app.qualify(&one.full_name).parse().ok());
        Ok((named.collect(), answer.next_page().is_some()))
    }

    /// Reads a listing, page by page.
    async fn all<T>(
        &self,
        operation: &'static str,
        path: &str,
        send: impl AsyncFn(&ApiRequest) -> Result<ApiResponse, ProviderError>,
        read: impl Fn(&ApiResponse) -> Result<Vec<T>, ProviderError>,
    ) -> Result<Vec<T>, ProviderError> {
        let mut found = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{path}?per_page={PAGE_SIZE}&page={page}");
            let call = ApiRequest { operation, method: Method::GET, path, body: None };
            let answer = send(&call).await?;
            match answer.status {
                StatusCode::OK => found.extend(read(&answer)?),
                // GitHub answers 404 if the caller lacks the permission to see the listing.
                StatusCode::NOT_FOUND => return Err(ProviderError::Unauthorized(answer.fault())),
                _ => return Err(answer.trouble()),
            }
            if answer.next_page().is_none() {
                return Ok(found);
            }
        }
        let message = format!("there are more than {} entries", found.len());
        Err(ProviderError::Unavailable(fault(operation, "too-many", message, (self.clock)())))
    }
}

impl<K: AppKey> Directory for App<K> {
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError> {
        let mut installations = self.all_installations(id.app).await?;
        installations.retain(|one| one.suspended_at.is_none());
        if id.kind != EntityKind::Repository {
            return Ok(installations.iter().find_map(|one| one.entity(id)));
        }
        for installation in installations {
            if let Some(entity) = self.repository(id.app, id.number, installation.id).await? {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    async fn app(&self, app: AppName) -> Result<AppSettings, AppProblem> {
        let (operation, path) = ("get-app", "/app".to_owned());
        let call = ApiRequest { operation, method: Method::GET, path, body: None };
        let (id, answer) = self.call_as_named_app(app, &call).await.map_err(no_app)?;
        settings(id, &answer)
    }

    async fn installations(&self, app: AppName) -> Result<Vec<Installed>, ProviderError> {
        Ok(self.all_installations(app).await?.into_iter().map(Installed::from).collect())
    }

    async fn hook(&self, app: AppName) -> Result<Hook, ProviderError> {
        let (operation, path) = ("get-hook", "/app/hook/config".to_owned());
        let call = ApiRequest { operation, method: Method::GET, path, body: None };
        let answer = self.call_as_app(app, &call).await?;
        let config: HookConfig = match answer.status {
            StatusCode::OK => answer.read()?,
            // The App has no webhook.
            StatusCode::NOT_FOUND => HookConfig::default(),
            _ => return Err(answer.trouble()),
        };
        Ok(Hook {
            url: config.url.unwrap_or_default(),
            content_type: config.content_type.unwrap_or_default(),
            insecure: config.insecure_ssl.is_some_and(|value| value == "1" || value == 1),
        })
    }

    async fn hook_answers(&self, app: AppName) -> Result<Vec<HookAnswer>, ProviderError> {
        let call = ApiRequest {
            operation: "list-deliveries",
            method: Method::GET,
            path: format!("/app/hook/deliveries?per_page={LAST_DELIVERIES}"),
            body: None,
        };
        let answer = self.call_as_app(app, &call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let all: Vec<RecentDelivery> = answer.read()?;
        let read = |RecentDelivery { event, delivered_at, status_code }| HookAnswer {
            event,
            at: delivered_at.map(|at: jiff::Timestamp| Time::from_millis(at.as_millisecond())),
            status: status_code.filter(|code| *code > 0),
        };
        Ok(all.into_iter().map(read).collect())
    }

    async fn repositories(&self, app: AppName) -> Result<SeenRepositories, ProviderError> {
        let mut seen = SeenRepositories::default();
        let mut installations = self.all_installations(app).await?;
        installations.retain(|one| one.suspended_at.is_none());
        for installation in installations {
            let call = ApiRequest {
                operation: "list-repositories",
                method: Method::GET,
                path: format!("/installation/repositories?per_page={PAGE_SIZE}"),
                body: None,
            };
            let installation = InstallationId(installation.id);
            let token = async || self.token_to_list(app, installation).await;
            let answer = self.call_with(&call, token).await?;
            if answer.status != StatusCode::OK {
                return Err(answer.trouble());
            }
            let list: InstallationRepositories = answer.read()?;
            seen.more |= list.total_count > list.repositories.len();
            let named = list.repositories.into_iter().filter_map(|one| {
                let name = app.qualify(&one.full_name).parse().ok()?;
                Some(SeenRepository { name, is_private: one.private })
            });
            seen.all.extend(named);
        }
        Ok(seen)
    }

    /// Source: docs.github.com/en/rest/actions/self-hosted-runner-groups
    async fn groups(&self, entity: &Entity) -> Result<Vec<RunnerGroup>, ProviderError> {
        let registrar = Registrar { entity: entity.clone(), installation: None };
        let all = self
            .all(
                "list-runner-groups",
                &route::groups(entity),
                async |call| self.call(&registrar, call).await,
                |answer| Ok(answer.read::<RunnerGroupList>()?.runner_groups),
            )
            .await?;
        Ok(all.into_iter().map(RunnerGroup::from).collect())
    }
}

/// Converts GitHub's response to an App's query about itself.
pub(crate) fn settings(app: String, answer: &ApiResponse) -> Result<AppSettings, AppProblem> {
    match answer.status {
        StatusCode::OK => {
            let GithubApp { id, slug, name, owner, html_url, events, permissions } =
                answer.read().map_err(AppProblem::Unanswered)?;
            let owner = owner.and_then(Account::named);
            Ok(AppSettings { id, slug, name, owner, html_url, events, permissions })
        }
        StatusCode::NOT_FOUND => Err(AppProblem::Unknown { app }),
        // "Integration" is GitHub's older term for an App.
        StatusCode::UNAUTHORIZED if answer.body.contains("Integration not found") => {
            Err(AppProblem::Unknown { app })
        }
        StatusCode::UNAUTHORIZED => Err(AppProblem::Refused { app, ahead: answer.clock_ahead() }),
        _ => Err(AppProblem::Unanswered(answer.trouble())),
    }
}

/// Converts the failure of a query about the App.
fn no_app(trouble: ProviderError) -> AppProblem {
    match trouble {
        ProviderError::Unauthorized(fault) if fault.code == NO_KEY => {
            AppProblem::NoKey(fault.message)
        }
        ProviderError::Unauthorized(fault) if fault.code == BAD_KEY => {
            AppProblem::BadKey(fault.message)
        }
        other => AppProblem::Unanswered(other),
    }
}
