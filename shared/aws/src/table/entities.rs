//! What GitHub answered for the entities.

use muster_control::ports::{CommitError, Entities, ReadError};
use muster_domain::entity::EntityHealth;
use muster_domain::ids::Entity;
use muster_domain::stored::Stored;

use super::commit::{self, Condition};
use super::keys::{self, Place};
use super::{DynamoTable, kind, records};

impl Entities for DynamoTable {
    async fn entity_health(&self, entity: &Entity) -> Result<Option<EntityHealth>, ReadError> {
        Ok(self.reader().record(keys::entity(entity)).await?.map(Stored::into_record))
    }

    async fn unhealthy_entities(&self) -> Result<Vec<EntityHealth>, ReadError> {
        Ok(records(self.listed(kind(keys::UNHEALTHY.to_owned()), None).await?))
    }

    async fn set_entity_health(&self, health: &EntityHealth) -> Result<(), CommitError> {
        if health.is_well() {
            let key = keys::entity(&health.entity);
            return commit::delete_one(&self.client, &self.names, Place::Control, key).await;
        }
        self.put(commit::item(health, &self.timings)?, Condition::Any).await
    }
}
