//! What GitHub and EC2 know behind the names of a pool file.

use std::collections::BTreeMap;

use muster_control::ports::{Catalogue, Directory, SeenRepositories, SeenRepository};
use muster_domain::app::{
    AppFacts, AppProblem, AppSettings, Hook, HookAnswer, Installation, Repositories,
};
use muster_domain::ids::{AppName, Entity, EntityKind};
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate, RunnerGroup,
};
use muster_domain::provider::ProviderError;

use crate::door::Door;
use crate::github::AppTrouble;
use crate::world::World;

impl Directory for Door {
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError> {
        self.call(|world| {
            world.app_call(id.app, "list-installations")?;
            Ok(world.names.entities.get(&id).cloned().flatten())
        })
        .await
    }

    async fn app(&self, app: AppName) -> Result<AppSettings, AppProblem> {
        self.call(|world| {
            if world.github.script.apps.get(&app) == Some(&AppTrouble::Revoked) {
                return Err(AppProblem::Refused { app: "4242".to_owned(), ahead: 0 });
            }
            world.app_call(app, "get-app").map_err(AppProblem::Unanswered)?;
            world.made_app(app).unwrap_or_else(|| world.facts_of(app).app)
        })
        .await
    }

    async fn installations(&self, app: AppName) -> Result<Vec<Installation>, ProviderError> {
        self.call(|world| {
            world.app_call(app, "list-installations")?;
            world.facts_of(app).installations
        })
        .await
    }

    async fn hook(&self, app: AppName) -> Result<Hook, ProviderError> {
        self.call(|world| {
            world.app_call(app, "get-hook")?;
            world.made_hook(app).map_or_else(|| world.facts_of(app).hook, Ok)
        })
        .await
    }

    async fn hook_answers(&self, app: AppName) -> Result<Vec<HookAnswer>, ProviderError> {
        self.call(|world| {
            world.app_call(app, "list-deliveries")?;
            world.facts_of(app).deliveries
        })
        .await
    }

    async fn repositories(&self, app: AppName) -> Result<SeenRepositories, ProviderError> {
        self.call(|world| {
            world.app_call(app, "list-repositories")?;
            let named = world.names.entities.iter();
            let named = named.filter(|(id, _)| id.kind == EntityKind::Repository);
            let named = named.filter_map(|(_, name)| Some((name.as_ref()?.as_str(), true)));
            let jobs = world.github.jobs.iter().map(|job| (&*job.repository, job.private));
            let all: BTreeMap<&str, bool> = named.chain(jobs).collect();
            let all = all.into_iter().filter_map(|(name, is_private)| {
                let name: Entity = name.parse().ok()?;
                (name.app() == app).then_some(SeenRepository { name, is_private })
            });
            Ok(SeenRepositories { all: all.collect(), more: false })
        })
        .await
    }

    async fn groups(&self, entity: &Entity) -> Result<Vec<RunnerGroup>, ProviderError> {
        self.call(|world| {
            world.app_call(entity.app(), "list-runner-groups")?;
            Ok(world.names.groups.get(entity).cloned().unwrap_or_default())
        })
        .await
    }
}

impl Catalogue for Door {
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError> {
        self.call(|world| {
            world.ec2_answers("DescribeImages")?;
            Ok(world.names.images.get(filter).cloned().flatten())
        })
        .await
    }

    async fn template(
        &self,
        named: &NamedTemplate,
    ) -> Result<Option<FoundTemplate>, ProviderError> {
        self.call(|world| {
            world.ec2_answers("DescribeLaunchTemplateVersions")?;
            Ok(world.names.templates.get(named).cloned().flatten())
        })
        .await
    }

    async fn placement(&self, group: &str) -> Result<Option<FoundPlacement>, ProviderError> {
        self.call(|world| {
            world.ec2_answers("DescribePlacementGroups")?;
            Ok(world.names.placements.get(group).cloned().flatten())
        })
        .await
    }
}

impl World {
    /// An App as GitHub has it. Each App besides the main one is installed at the owners of its jobs.
    pub(crate) fn facts_of(&self, app: AppName) -> AppFacts {
        if app == AppName::MAIN {
            return self.app.clone();
        }
        let mut facts = app_of("beta");
        // A stack whose main App was never made has no other either.
        if let Err(problem) = &self.app.app {
            (facts.app, facts.installations) = (Err(problem.clone()), Ok(Vec::new()));
        }
        if let Ok(hook) = &mut facts.hook {
            hook.url = format!("{}/{app}", hook.url);
        }
        facts
    }
}

/// Whose the App is, and nearly all of the repositories.
pub(crate) const APP_OWNER: &str = "acme";

/// An App that was made and installed as the README says, and what its webhook answers.
pub(crate) fn right_app() -> AppFacts {
    app_of(APP_OWNER)
}

/// The same of another owner.
pub(crate) fn app_of(owner: &str) -> AppFacts {
    let permissions = [
        ("actions", "write"),
        ("administration", "write"),
        ("organization_self_hosted_runners", "write"),
    ];
    let owned = |(name, level): (&str, &str)| (name.to_owned(), level.to_owned());
    let permissions: BTreeMap<String, String> = permissions.into_iter().map(owned).collect();
    let app = AppSettings {
        id: 4242,
        slug: "muster-acme".to_owned(),
        name: "Muster of Acme".to_owned(),
        owner: Some(owner.to_owned()),
        html_url: "https://github.com/apps/muster-acme".to_owned(),
        events: vec!["workflow_job".to_owned()],
        permissions: permissions.clone(),
    };
    let installed = |(number, account): (u32, &str)| Installation {
        account: account.to_owned(),
        is_person: false,
        repositories: Repositories::default(),
        suspended_at: None,
        created_at: None,
        permissions: permissions.clone(),
        html_url: format!(
            "https://github.com/organizations/{account}/settings/installations/{number}"
        ),
    };
    AppFacts {
        app: Ok(app),
        installations: Ok([(77, owner), (78, "zoo")].map(installed).into()),
        hook: Ok(Hook {
            url: "https://a1b2c3d4e5.execute-api.us-east-1.amazonaws.com/webhook".to_owned(),
            content_type: "json".to_owned(),
            insecure: false,
        }),
        deliveries: Ok(vec![HookAnswer {
            event: "workflow_job".to_owned(),
            at: None,
            status: Some(202),
        }]),
        groups: Vec::new(),
    }
}
