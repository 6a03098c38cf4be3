//! What GitHub and EC2 know behind the names of a pool file.

use muster_control::ports::{Directory, Images};
use muster_domain::app::AppSettings;
use muster_domain::ids::Entity;
use muster_domain::observation::ProviderError;
use muster_domain::pool_file::{EntityId, FoundImage, Group, ImageFilter};

use crate::door::Door;

impl Directory for Door {
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError> {
        self.call(|world| {
            world.github_answers("list-installations")?;
            Ok(world.names.entities.get(&id).cloned().flatten())
        })
        .await
    }

    async fn app(&self) -> Result<AppSettings, ProviderError> {
        self.call(|world| {
            world.github_answers("get-app")?;
            Ok(world.app.clone())
        })
        .await
    }

    async fn groups(&self, entity: &Entity) -> Result<Vec<Group>, ProviderError> {
        self.call(|world| {
            world.github_answers("list-runner-groups")?;
            Ok(world.names.groups.get(entity).cloned().unwrap_or_default())
        })
        .await
    }
}

impl Images for Door {
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError> {
        self.call(|world| {
            world.ec2_answers("DescribeImages")?;
            Ok(world.names.images.get(filter).cloned().flatten())
        })
        .await
    }
}

/// An App that was made as the README says.
pub(crate) fn right_app() -> AppSettings {
    let permissions = [
        ("actions", "read"),
        ("administration", "write"),
        ("organization_self_hosted_runners", "write"),
    ];
    let owned = |(name, level): (&str, &str)| (name.to_owned(), level.to_owned());
    AppSettings {
        events: vec!["workflow_job".to_owned()],
        permissions: permissions.into_iter().map(owned).collect(),
    }
}
