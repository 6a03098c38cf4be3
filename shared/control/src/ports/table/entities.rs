//! What GitHub answered for the entities.

use muster_domain::entity::EntityHealth;
use muster_domain::ids::Entity;

use super::{CommitError, ReadError};

/// What GitHub answered for the entities.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Entities {
    /// An entity's health; none while all is well.
    async fn entity_health(&self, entity: &Entity) -> Result<Option<EntityHealth>, ReadError>;
    /// All entities that GitHub refuses us or limits, those included whose limit is over.
    async fn unhealthy_entities(&self) -> Result<Vec<EntityHealth>, ReadError>;
    /// Sets or (where all is well) removes an entity's health. Last writer wins.
    async fn set_entity_health(&self, health: &EntityHealth) -> Result<(), CommitError>;
}
