//! What is known of GitHub's answers about an entity.

use muster_domain::entity::{Asked, EntityHealth};
use muster_domain::ids::Entity;
use muster_domain::observation::ProviderError;
use muster_domain::time::Time;

use crate::ports::Table;
use crate::writes::PassError;

/// Keeps an entity's health in step with an answer of GitHub's.
pub(crate) async fn note_health<T: Table>(
    table: &T,
    entity: &Entity,
    asked: Asked,
    trouble: Option<&ProviderError>,
    now: Time,
) -> Result<(), PassError> {
    if matches!(trouble, Some(ProviderError::Unavailable(_))) {
        return Ok(());
    }
    note(table, entity, |known| known.after(asked, trouble, now)).await
}

/// Keeps what is known of an entity. Written only when it changes.
pub(crate) async fn note<T: Table>(
    table: &T,
    entity: &Entity,
    after: impl FnOnce(&EntityHealth) -> EntityHealth,
) -> Result<(), PassError> {
    let known = table.entity_health(entity).await?;
    let known = known.unwrap_or_else(|| EntityHealth::well(entity.clone()));
    let next = after(&known);
    if next != known {
        table.set_entity_health(&next).await?;
    }
    Ok(())
}
