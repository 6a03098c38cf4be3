//! Launches, and what a launch pass asks of its pool.

use std::collections::BTreeMap;

use muster_control::ports::{LaunchConditions, Launches, ReadError};
use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;

use crate::door::Door;
use crate::table::Tables;

impl Launches for Door {
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError> {
        self.read(|tables| tables.launches.get(id).map(|one| Stored::clone(one))).await
    }

    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError> {
        self.of_pool(pool, |of| of.open.values().map(|one| Stored::clone(one)).collect()).await
    }

    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError> {
        self.read_of(&format!("pool#{pool}"), |tables| tables.capacities.get(pool).cloned()).await
    }

    async fn counts(&self, scopes: &[Scope]) -> Result<BTreeMap<Scope, u32>, ReadError> {
        let count = |tables: &Tables, scope: &Scope| {
            tables.counters.get(scope).map(|count| (scope.clone(), *count))
        };
        let broken = |key: &String| self.sim.world.borrow().tables.broken.contains(key);
        let key = scopes.iter().map(|scope| format!("count#{scope}")).find(broken);
        self.read_of(&key.unwrap_or_default(), |tables| {
            scopes.iter().filter_map(|scope| count(tables, scope)).collect()
        })
        .await
    }

    async fn launch_conditions(&self, pool: &PoolName) -> Result<LaunchConditions, ReadError> {
        let keys = ["switches".to_owned(), "cooldowns".to_owned(), format!("pool#{pool}")];
        let broken =
            keys.into_iter().find(|key| self.sim.world.borrow().tables.broken.contains(key));
        self.read_of(&broken.unwrap_or_default(), |tables| LaunchConditions {
            capacity: tables.capacities.get(pool).cloned(),
            switches: tables.switches.clone(),
            cooldowns: tables.cooldowns.clone(),
            counted: tables.counters.get(&Scope::Stack).copied().unwrap_or(0),
        })
        .await
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.read_of("cooldowns", |tables| tables.cooldowns.clone()).await
    }
}
