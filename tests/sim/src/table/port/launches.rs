//! Launches, and what a launch pass asks of its pool.

use muster_control::ports::{LaunchConditions, Launches, ReadError};
use muster_domain::ids::{Entity, LaunchId, PoolName};
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;

use crate::door::Door;

impl Launches for Door {
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError> {
        self.read(|tables| tables.launches.get(id).map(|one| Stored::clone(one))).await
    }

    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError> {
        self.of_pool(pool, |of| of.open.values().map(|one| Stored::clone(one)).collect()).await
    }

    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError> {
        self.read(|tables| tables.capacities.get(pool).cloned()).await
    }

    async fn counted(&self, scope: &Scope) -> Result<u32, ReadError> {
        self.read(|tables| tables.counted(scope)).await
    }

    async fn launch_conditions(
        &self,
        pool: &PoolName,
        entities: &[Entity],
    ) -> Result<LaunchConditions, ReadError> {
        self.read(|tables| LaunchConditions {
            capacity: tables.capacities.get(pool).cloned(),
            switches: tables.switches.clone(),
            cooldowns: tables.cooldowns.clone(),
            unwell: entities.iter().filter_map(|one| tables.entities.get(one).cloned()).collect(),
        })
        .await
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.read(|tables| tables.cooldowns.clone()).await
    }
}
