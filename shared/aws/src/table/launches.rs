//! Launches, and what a launch pass asks of its pool.

use muster_control::causes::Cause;
use muster_control::ports::{LaunchConditions, Launches, ReadError};
use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, LaunchId, PoolName};
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;

use super::keys::{self, Place};
use super::{DynamoTable, kind, row};

impl Launches for DynamoTable {
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError> {
        self.reader().record(keys::launch(id)).await
    }

    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError> {
        self.listed(kind(keys::open_launches(pool)), None).await
    }

    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError> {
        self.reader().record(keys::pool(pool)).await
    }

    async fn counted(&self, scope: &Scope) -> Result<u32, ReadError> {
        let key = keys::limit(scope);
        let Some(item) = self.reader().item(Place::Control, key.clone()).await? else {
            return Ok(0);
        };
        let count = item.get(keys::LIVE).and_then(|count| count.as_n().ok());
        count
            .and_then(|count| count.parse().ok())
            .ok_or_else(|| ReadError::Unreadable { key, why: Cause::new("it holds no count") })
    }

    async fn launch_conditions(
        &self,
        pool: &PoolName,
        entities: &[Entity],
    ) -> Result<LaunchConditions, ReadError> {
        let pool = keys::pool(pool);
        let own = [pool.clone(), keys::SWITCHES.to_owned(), keys::COOLDOWNS.to_owned()];
        let keys = own.into_iter().chain(entities.iter().map(keys::entity)).collect();
        let mut conditions = LaunchConditions::default();
        for (key, item) in self.reader().keyed(Place::Control, keys).await? {
            match key.as_str() {
                keys::SWITCHES => conditions.switches = Some(row::read(item)?),
                keys::COOLDOWNS => conditions.cooldowns = Some(row::read(item)?),
                own if own == pool => conditions.capacity = Some(row::read(item)?),
                _ => conditions.unwell.push(row::read::<EntityHealth>(item)?.into_record()),
            }
        }
        Ok(conditions)
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.reader().record(keys::COOLDOWNS.to_owned()).await
    }
}
