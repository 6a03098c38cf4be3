//! Launches, and the records that a launch pass reads about its pool.

use std::collections::BTreeMap;

use muster_control::ports::{LaunchConditions, Launches, ReadError};
use muster_domain::causes::{Cause, with_causes};
use muster_domain::ids::{LaunchId, PoolName};
use muster_domain::image::Images;
use muster_domain::launch::Launch;
use muster_domain::launch::record::Cooldowns;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::Stored;

use super::keys::{self, TableKind};
use super::{DynamoTable, kind, row};
use crate::item::Item;

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

    async fn counts(&self, scopes: &[Scope]) -> Result<BTreeMap<Scope, u32>, ReadError> {
        let wanted = scopes.iter().map(|scope| (keys::limit(scope), scope));
        let wanted: BTreeMap<String, &Scope> = wanted.collect();
        let mut counts = BTreeMap::new();
        let keys = wanted.keys().cloned().collect();
        for (key, item) in self.reader().keyed(TableKind::Control, keys).await? {
            let Some(scope) = wanted.get(&key) else { continue };
            counts.insert(Scope::clone(scope), count(key, &item)?);
        }
        Ok(counts)
    }

    async fn launch_conditions(&self, pool: &PoolName) -> Result<LaunchConditions, ReadError> {
        let (own, stack) = (keys::pool(pool), keys::limit(&Scope::Stack));
        let keys = [keys::SWITCHES, keys::COOLDOWNS, keys::IMAGES].map(str::to_owned);
        let keys = [vec![own, stack.clone()], keys.into()].concat();
        let mut conditions = LaunchConditions::default();
        for (key, item) in self.reader().keyed(TableKind::Control, keys).await? {
            match key.as_str() {
                keys::SWITCHES => conditions.switches = Some(row::read(item)?),
                keys::COOLDOWNS => conditions.cooldowns = Some(row::read(item)?),
                keys::IMAGES => conditions.images = readable(row::read(item)),
                limit if limit == stack => conditions.counted = count(key, &item)?,
                _ => conditions.capacity = Some(row::read(item)?),
            }
        }
        Ok(conditions)
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.reader().record(keys::COOLDOWNS.to_owned()).await
    }

    async fn images(&self) -> Result<Option<Stored<Images>>, ReadError> {
        self.reader().record(keys::IMAGES.to_owned()).await
    }
}

/// Leaves out a record of images that cannot be read: machines then boot the launch template's image, and no job waits.
fn readable(read: Result<Stored<Images>, ReadError>) -> Option<Stored<Images>> {
    read.inspect_err(|error| tracing::error!(error = with_causes(error), "launched without images"))
        .ok()
}

/// Returns the count in a limit's item.
fn count(key: String, item: &Item) -> Result<u32, ReadError> {
    let count = item.get(keys::LIVE).and_then(|count| count.as_n().ok());
    count
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| ReadError::Unreadable { key, why: Cause::new("it contains no count") })
}
