//! Launches, and what a launch pass asks of its pool.

use std::collections::BTreeMap;

use muster_control::ports::{LaunchConditions, Launches, ReadError};
use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::image::Images;
use muster_domain::launch::Launch;
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;

use crate::door::Door;
use crate::table::Tables;
use crate::table::index::OfPool;

impl Launches for Door {
    async fn launch(&self, id: &LaunchId) -> Result<Option<Stored<Launch>>, ReadError> {
        let key = format!("launch#{id}");
        self.read_of(&key, |tables| tables.launches.get(id).map(|one| Stored::clone(one))).await
    }

    async fn open_launches(&self, pool: &PoolName) -> Result<Vec<Stored<Launch>>, ReadError> {
        let open = |of: &OfPool| of.open.values().map(|one| Stored::clone(one)).collect();
        let listed = self.of_pool(pool, open).await;
        self.readable(listed, |launch: &Launch| format!("launch#{}", launch.id))
    }

    async fn capacity(&self, pool: &PoolName) -> Result<Option<Stored<Capacity>>, ReadError> {
        self.read_of(&format!("pool#{pool}"), |tables| tables.capacities.get(pool).cloned()).await
    }

    async fn counts(&self, scopes: &[Scope]) -> Result<BTreeMap<Scope, u32>, ReadError> {
        let count = |tables: &Tables, scope: &Scope| {
            tables.counters.get(scope).map(|count| (scope.clone(), *count))
        };
        let key = self.broken_of(scopes.iter().map(key_of));
        self.read_of(&key, |tables| {
            scopes.iter().filter_map(|scope| count(tables, scope)).collect()
        })
        .await
    }

    async fn launch_conditions(&self, pool: &PoolName) -> Result<LaunchConditions, ReadError> {
        let (own, stack) = (format!("pool#{pool}"), key_of(&Scope::Stack));
        let key = self.broken_of(["switches".to_owned(), "cooldowns".to_owned(), own, stack]);
        self.read_of(&key, |tables| LaunchConditions {
            capacity: tables.capacities.get(pool).cloned(),
            switches: tables.switches.clone(),
            cooldowns: tables.cooldowns.clone(),
            images: tables.images.clone().filter(|_| !tables.broken.contains("images")),
            counted: tables.counters.get(&Scope::Stack).copied().unwrap_or(0),
        })
        .await
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.read_of("cooldowns", |tables| tables.cooldowns.clone()).await
    }

    async fn images(&self) -> Result<Option<Stored<Images>>, ReadError> {
        self.read_of("images", |tables| tables.images.clone()).await
    }
}

fn key_of(scope: &Scope) -> String {
    match scope {
        Scope::Stack => "limit#stack".to_owned(),
        Scope::Entity(entity) => format!("limit#entity#{entity}"),
    }
}
