//! What GitHub calls things now: the entity of an id, and the runner groups of an entity.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use muster_control::ports::{Directory, Registrar};
use muster_domain::app::AppSettings;
use muster_domain::ids::{Entity, EntityKind, InstallationId};
use muster_domain::observation::ProviderError;
use muster_domain::pool_file::{EntityId, Group};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::answer::Answer;
use crate::answer::fault;
use crate::client::Call;
use crate::{App, AppKey, PAGE_SIZE, route};

/// Most pages of one listing: ten thousand entries. What has more would take minutes.
const MAX_PAGES: u32 = 100;

/// Source: docs.github.com/en/rest/apps/apps#list-installations-for-the-authenticated-app
#[derive(Deserialize)]
struct Installation {
    id: u64,
    target_type: String,
    account: Option<Account>,
    #[serde(default)]
    suspended_at: Option<IgnoredAny>,
}

/// An organization or a person has a login, an enterprise a slug.
#[derive(Deserialize)]
struct Account {
    id: u64,
    #[serde(default)]
    login: Option<String>,
    #[serde(default)]
    slug: Option<String>,
}

/// Source: docs.github.com/en/rest/apps/apps#get-the-authenticated-app
#[derive(Deserialize)]
struct GithubApp {
    #[serde(default)]
    events: Vec<String>,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Repositories {
    repositories: Vec<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    id: u64,
    full_name: String,
}

#[derive(Deserialize)]
struct Groups {
    runner_groups: Vec<RunnerGroup>,
}

#[derive(Deserialize)]
struct RunnerGroup {
    id: u64,
    name: String,
}

impl Installation {
    /// The organization or enterprise, when it is the one of the id.
    fn entity(&self, id: EntityId) -> Option<Entity> {
        let account = self.account.as_ref().filter(|account| account.id == id.number)?;
        match (id.kind, self.target_type.as_str()) {
            (EntityKind::Organization, "Organization") => account.login.as_ref()?.parse().ok(),
            (EntityKind::Enterprise, "Enterprise") => {
                format!("enterprises/{}", account.slug.as_ref()?).parse().ok()
            }
            _ => None,
        }
    }
}

impl<K: AppKey> App<K> {
    /// The App's installations that are not suspended.
    async fn installations(&self) -> Result<Vec<Installation>, ProviderError> {
        let all: Vec<Installation> = self
            .all(
                "list-installations",
                "/app/installations",
                async |call| self.call_as_app(call).await,
                Answer::read,
            )
            .await?;
        Ok(all.into_iter().filter(|one| one.suspended_at.is_none()).collect())
    }

    /// A repository among those that an installation covers.
    ///
    /// `GET /repositories/{id}` would be one call, but it is not documented, and shows public
    /// repositories that the App is not installed on.
    /// Source:
    /// docs.github.com/en/rest/apps/installations#list-repositories-accessible-to-the-app-installation
    async fn repository(&self, number: u64, of: u64) -> Result<Option<Entity>, ProviderError> {
        let installation = InstallationId(of);
        let all = self
            .all(
                "list-repositories",
                "/installation/repositories",
                async |call| {
                    self.call_with(call, async || self.token_to_list(installation).await).await
                },
                |answer| Ok(answer.read::<Repositories>()?.repositories),
            )
            .await?;
        let found = all.into_iter().find(|repository| repository.id == number);
        Ok(found.and_then(|repository| repository.full_name.parse().ok()))
    }

    /// A listing, page by page.
    async fn all<T>(
        &self,
        operation: &'static str,
        path: &str,
        send: impl AsyncFn(&Call) -> Result<Answer, ProviderError>,
        read: impl Fn(&Answer) -> Result<Vec<T>, ProviderError>,
    ) -> Result<Vec<T>, ProviderError> {
        let mut found = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{path}?per_page={PAGE_SIZE}&page={page}");
            let call = Call { operation, method: Method::GET, path, body: None };
            let answer = send(&call).await?;
            match answer.status {
                StatusCode::OK => found.extend(read(&answer)?),
                // So GitHub answers who may not see what there is.
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
        let installations = self.installations().await?;
        if id.kind != EntityKind::Repository {
            return Ok(installations.iter().find_map(|one| one.entity(id)));
        }
        for installation in installations {
            if let Some(entity) = self.repository(id.number, installation.id).await? {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }

    async fn app(&self) -> Result<AppSettings, ProviderError> {
        let (operation, path) = ("get-app", "/app".to_owned());
        let call = Call { operation, method: Method::GET, path, body: None };
        let answer = self.call_as_app(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.trouble());
        }
        let GithubApp { events, permissions } = answer.read()?;
        Ok(AppSettings { events, permissions })
    }

    /// Source: docs.github.com/en/rest/actions/self-hosted-runner-groups
    async fn groups(&self, entity: &Entity) -> Result<Vec<Group>, ProviderError> {
        let registrar = Registrar { entity: entity.clone(), installation: None };
        let all = self
            .all(
                "list-runner-groups",
                &route::groups(entity),
                async |call| self.call(&registrar, call).await,
                |answer| Ok(answer.read::<Groups>()?.runner_groups),
            )
            .await?;
        Ok(all.into_iter().map(|RunnerGroup { id, name }| Group { id, name }).collect())
    }
}
