//! Instances, and the owners of machines.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use muster_control::ports::{Bound, Instances, Page, ReadError};
use muster_domain::causes::{Cause, with_causes};
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::{Group, Groups, Instance};
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use muster_domain::usage::Prices;

use super::DynamoTable;
use super::keys::{self, TableKind, s};
use super::read::{Range, TableReader};
use super::row::{self, prefix};
use crate::error::text;
use crate::item::Item;

impl Instances for DynamoTable {
    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        self.reader().record(name.as_str().to_owned()).await
    }

    async fn instance_and_prices(
        &self,
        name: &InstanceName,
    ) -> Result<(Option<Stored<Instance>>, Option<Prices>), ReadError> {
        let (name, prices) = (name.as_str(), keys::PRICES);
        let wanted = [(TableKind::Instances, name), (TableKind::Control, prices)];
        let [instance, prices] = self.reader().pair(wanted).await?;
        let prices = prices.map(row::read::<Prices>).transpose().unwrap_or_else(|error| {
            tracing::error!(error = with_causes(&error), "answered without prices");
            None
        });
        Ok((instance.map(row::read).transpose()?, prices.map(Stored::into_record)))
    }

    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.reader().records(names.iter().map(|name| name.as_str().to_owned()).collect()).await
    }

    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError> {
        let item = self.reader().item(TableKind::Instances, keys::machine(machine)).await?;
        item.map(|item| owner(&item)).transpose()
    }

    async fn bound_to(&self, machine: &MachineId) -> Result<Option<Bound>, ReadError> {
        let item = self.reader().item(TableKind::Instances, keys::machine(machine)).await?;
        let Some(mut item) = item else { return Ok(None) };
        let owner = owner(&item)?;
        item.insert(TableKind::Instances.key().to_owned(), s(owner.as_str()));
        let record = item.contains_key(keys::BODY).then(|| row::read(item)).and_then(Result::ok);
        Ok(Some(Bound { owner, record }))
    }

    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError> {
        let mut by_key: BTreeMap<String, &MachineId> =
            machines.iter().map(|machine| (keys::machine(machine), machine)).collect();
        let keys = by_key.keys().cloned().collect();
        let mut owners = BTreeMap::new();
        for item in self.reader().items(TableKind::Instances, keys).await? {
            let key = text(item.get(TableKind::Instances.key())).unwrap_or_default();
            if let Some(machine) = by_key.remove(key) {
                owners.insert(machine.clone(), owner(&item)?);
            }
        }
        Ok(owners)
    }

    async fn due_instances(
        &self,
        now: Time,
        limit: u32,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        self.reader().due(now, limit, page).await
    }

    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        self.reader().listing(&live(pool), page).await
    }

    fn after_instance(&self, last: &Instance) -> Result<String, ReadError> {
        TableReader::after(last, [keys::LIVE_POOL, keys::LIVE_ORDER], &self.timings)
    }

    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let (first, last) = (prefix(Group::Free), prefix(Group::FreeRetry));
        self.listed(live(pool).between(keys::LIVE_ORDER, first, last), None).await
    }

    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let (first, last) = (prefix(Group::FreeRetry), prefix(Group::Retry));
        self.listed(live(pool).between(keys::LIVE_ORDER, first, last), None).await
    }

    async fn count_live_instances(&self, pool: &PoolName) -> Result<Groups, ReadError> {
        let count = async |group: Group| {
            let range = live(pool).starting_with(keys::LIVE_ORDER, prefix(group));
            Ok((group, self.reader().count(TableKind::Instances, &range).await?))
        };
        let mut groups = Groups::default();
        for (group, count) in try_join_all(Group::ALL.map(count)).await? {
            groups.add(group, count);
        }
        Ok(groups)
    }

    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        let ending = live(pool).starting_with(keys::LIVE_ORDER, prefix(Group::Ending));
        self.listed(ending, Some(limit)).await
    }

    async fn late_ends(
        &self,
        pool: &PoolName,
        marked_by: Time,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        let first = prefix(Group::Ending);
        let late = live(pool).between(keys::LIVE_ORDER, first, &format!("{first}{marked_by}"));
        self.listed(late, Some(limit)).await
    }

    async fn ended_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        let ended = Range::new(keys::POOL_INDEX, keys::LIVE_POOL, keys::ended(pool));
        self.listed(ended.newest_first(), Some(limit)).await
    }
}

fn live(pool: &PoolName) -> Range {
    Range::new(keys::POOL_INDEX, keys::LIVE_POOL, pool.as_str().to_owned())
}

/// Returns the instance that an item `machine#i-…` names.
fn owner(item: &Item) -> Result<InstanceName, ReadError> {
    let named = text(item.get(keys::INSTANCE)).and_then(|name| name.parse().ok());
    named.ok_or_else(|| ReadError::Unreadable {
        key: text(item.get(TableKind::Instances.key())).unwrap_or_default().to_owned(),
        why: Cause::new("it names no instance"),
    })
}
