//! What GitHub answered for the entities.

use muster_control::ports::{CommitError, Entities, ReadError};
use muster_domain::entity::EntityHealth;
use muster_domain::ids::Entity;

use crate::door::Door;
use crate::table::index::Entry;

impl Entities for Door {
    async fn entity_health(&self, entity: &Entity) -> Result<Option<EntityHealth>, ReadError> {
        self.read(|tables| tables.entities.get(entity).cloned()).await
    }

    async fn unhealthy_entities(&self) -> Result<Vec<EntityHealth>, ReadError> {
        self.list(|tables| tables.index.entities.values().cloned().collect()).await
    }

    async fn set_entity_health(&self, health: &EntityHealth) -> Result<(), CommitError> {
        self.write(|world| {
            let entity = health.entity.clone();
            let next = (!health.is_well()).then(|| health.clone());
            match next.clone() {
                Some(next) => world.tables.entities.insert(entity.clone(), next),
                None => world.tables.entities.remove(&entity),
            };
            let delay = world.index_delay();
            world.tables.index.enter(world.now, delay, Entry::Entity(entity, next));
            Ok(())
        })
        .await
    }
}
