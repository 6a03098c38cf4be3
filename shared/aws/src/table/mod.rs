//! The tables on DynamoDB.
//!
//! An item holds a record whole, in `body`, beside its key, its schema and version and the
//! attributes that the indexes need; those are made from the record at every write and never read
//! back. A pool's counter alone has its fields as attributes, because ending an instance takes one
//! from it without reading it.

mod commit;
mod keys;
mod read;
mod row;
mod schema;

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::{Client, Config};
use muster_control::metrics::Metric;
use muster_control::ports::{CommitError, Page, ReadError, Standing, Table, Write};
use muster_domain::SCHEMA;
use muster_domain::audit::Audit;
use muster_domain::entity::EntityHealth;
use muster_domain::ids::{Entity, InstanceName, JobKey, LaunchId, MachineId, PoolName};
use muster_domain::instance::{Group, Instance};
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::stored::{Committed, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use self::commit::{Action, Condition};
use self::keys::{Place, n, s};
use self::read::{Range, Reader};
use self::row::{Record, prefix};
use crate::error::{PassingObstacle, text};
use crate::item::Item;

/// The names of a stack's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// The stack, for the metric of records that cannot be read.
    pub stack: String,
    /// Instances, and the owners of machines.
    pub instances: String,
    /// Jobs.
    pub jobs: String,
    /// Everything else.
    pub control: String,
}

impl TableNames {
    pub(crate) fn table(&self, place: Place) -> &str {
        match place {
            Place::Instances => &self.instances,
            Place::Jobs => &self.jobs,
            Place::Control => &self.control,
        }
    }
}

/// The three tables of a stack.
#[derive(Clone, Debug)]
pub struct DynamoTable {
    client: Client,
    names: TableNames,
    timings: Timings,
}

impl DynamoTable {
    /// `timings` say how long the records of what has ended are kept.
    #[must_use]
    pub fn new(config: &SdkConfig, names: TableNames, timings: Timings) -> Self {
        let config = Config::from(config).to_builder().retry_classifier(PassingObstacle);
        Self { client: Client::from_conf(config.build()), names, timings }
    }

    const fn reader(&self) -> Reader<'_> {
        Reader { client: &self.client, names: &self.names }
    }

    /// A listing without pages. Records that this version cannot read are left alone; nobody
    /// further up learns of them, so they are counted here.
    async fn listed<R: Record>(
        &self,
        range: Range,
        limit: Option<u32>,
    ) -> Result<Vec<Stored<R>>, ReadError> {
        let page = self.reader().all(&range, limit).await?;
        if !page.unreadable.is_empty() {
            let count = u32::try_from(page.unreadable.len()).unwrap_or(u32::MAX);
            crate::emf::emit(&self.names.stack, &[(Metric::UnknownRecords, f64::from(count))]);
        }
        Ok(page.items)
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<(), CommitError> {
        let action = Action::Put { place: Place::Control, item, condition };
        commit::carry_out(&self.client, &self.names, vec![action]).await
    }
}

impl Table for DynamoTable {
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError> {
        let actions = commit::actions(writes, &self.timings)?;
        commit::carry_out(&self.client, &self.names, actions).await?;
        Ok(Committed::by_table())
    }

    async fn instance(&self, name: &InstanceName) -> Result<Option<Stored<Instance>>, ReadError> {
        self.reader().record(name.as_str().to_owned()).await
    }

    async fn instances(&self, names: &[InstanceName]) -> Result<Vec<Stored<Instance>>, ReadError> {
        self.reader().records(names.iter().map(|name| name.as_str().to_owned()).collect()).await
    }

    async fn owner_of(&self, machine: &MachineId) -> Result<Option<InstanceName>, ReadError> {
        let item = self.reader().item(Place::Instances, keys::machine(machine)).await?;
        item.map(|item| owner(&item)).transpose()
    }

    async fn owners_of(
        &self,
        machines: &[MachineId],
    ) -> Result<BTreeMap<MachineId, InstanceName>, ReadError> {
        let mut by_key: BTreeMap<String, &MachineId> =
            machines.iter().map(|machine| (keys::machine(machine), machine)).collect();
        let keys = by_key.keys().cloned().collect();
        let mut owners = BTreeMap::new();
        for item in self.reader().items(Place::Instances, keys).await? {
            let key = text(item.get(Place::Instances.key())).unwrap_or_default();
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

    async fn free_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let (first, last) = (prefix(Group::Marked), prefix(Group::FreeRetry));
        self.listed(live(pool).between(keys::LIVE_ORDER, first, last), None).await
    }

    async fn slots_to_retry(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let (first, last) = (prefix(Group::FreeRetry), prefix(Group::Retry));
        self.listed(live(pool).between(keys::LIVE_ORDER, first, last), None).await
    }

    async fn ending_instances(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Instance>>, ReadError> {
        let ending = live(pool).starting_with(keys::LIVE_ORDER, prefix(Group::Ending));
        self.listed(ending, Some(limit)).await
    }

    async fn marked_instances(&self, pool: &PoolName) -> Result<Vec<Stored<Instance>>, ReadError> {
        let marked = live(pool).starting_with(keys::LIVE_ORDER, prefix(Group::Marked));
        self.listed(marked, None).await
    }

    async fn live_instances(
        &self,
        pool: &PoolName,
        page: Option<String>,
    ) -> Result<Page<Stored<Instance>>, ReadError> {
        self.reader().listing(&live(pool), page).await
    }

    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        self.reader().record(keys::job(key)).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        self.reader().records(keys.iter().map(|key| keys::job(*key)).collect()).await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.listed(waiting(pool).starting_with(keys::WAITING_ORDER, keys::FREE), Some(limit)).await
    }

    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        let range = Range::new(keys::POOL_INDEX, keys::WAITING_POOL, keys::NO_POOL.to_owned());
        self.listed(range.starting_with(keys::WAITING_ORDER, keys::FREE), Some(limit)).await
    }

    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        let range = Range::new(keys::POOL_INDEX, keys::WAITING_POOL, keys::GATED.to_owned());
        self.listed(range.starting_with(keys::WAITING_ORDER, keys::FREE), Some(limit)).await
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        // Two ranges, so that many jobs without a claim do not hide the oldest of those with one.
        let held = waiting(pool).starting_with(keys::WAITING_ORDER, keys::HELD);
        let mut jobs = self.demand(pool, limit).await?;
        jobs.extend(self.listed::<Job>(held, Some(limit)).await?);
        Ok(jobs)
    }

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
            .ok_or_else(|| ReadError::Unreadable { key, why: "it holds no count".to_owned() })
    }

    async fn standing(&self, pool: &PoolName, entities: &[Entity]) -> Result<Standing, ReadError> {
        let pool = keys::pool(pool);
        let own = [pool.clone(), keys::SWITCHES.to_owned(), keys::COOLDOWNS.to_owned()];
        let keys = own.into_iter().chain(entities.iter().map(keys::entity)).collect();
        let mut standing = Standing::default();
        for (key, item) in self.reader().keyed(Place::Control, keys).await? {
            match key.as_str() {
                keys::SWITCHES => standing.switches = Some(row::read(item)?),
                keys::COOLDOWNS => standing.cooldowns = Some(row::read(item)?),
                own if own == pool => standing.capacity = Some(row::read(item)?),
                _ => standing.unwell.push(row::read::<EntityHealth>(item)?.into_record()),
            }
        }
        Ok(standing)
    }

    async fn cooldowns(&self) -> Result<Option<Stored<Cooldowns>>, ReadError> {
        self.reader().record(keys::COOLDOWNS.to_owned()).await
    }

    async fn orphans(&self) -> Result<Vec<Stored<Orphan>>, ReadError> {
        self.listed(kind(keys::ORPHANS.to_owned()), None).await
    }

    async fn orphan(&self, machine: &MachineId) -> Result<Option<Stored<Orphan>>, ReadError> {
        self.reader().record(keys::orphan(machine)).await
    }

    async fn switches(&self) -> Result<Option<Stored<Switches>>, ReadError> {
        self.reader().record(keys::SWITCHES.to_owned()).await
    }

    async fn pool_set(&self) -> Result<Option<Stored<PoolSet>>, ReadError> {
        self.reader().record(keys::POOLS.to_owned()).await
    }

    async fn pool_versions(&self, versions: &[u64]) -> Result<Vec<PoolSet>, ReadError> {
        let keys = versions.iter().map(|version| keys::pools_version(*version)).collect();
        let kept: Vec<Stored<row::KeptPoolSet>> = self.reader().records(keys).await?;
        Ok(kept.into_iter().map(|kept| kept.into_record().0).collect())
    }

    async fn audit(&self, subject: &str, limit: u32) -> Result<Vec<Audit>, ReadError> {
        let trail = kind(keys::audit_trail(subject)).newest_first();
        Ok(records(self.listed(trail, Some(limit)).await?))
    }

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

    async fn cursor(&self, name: &str) -> Result<Option<Time>, ReadError> {
        let key = keys::cursor(name);
        let Some(item) = self.reader().item(Place::Control, key.clone()).await? else {
            return Ok(None);
        };
        match text(item.get(AT)).map(str::parse) {
            Some(Ok(at)) => Ok(Some(at)),
            _ => Err(ReadError::Unreadable { key, why: "it holds no time".to_owned() }),
        }
    }

    async fn move_cursor(
        &self,
        name: &str,
        from: Option<Time>,
        to: Time,
    ) -> Result<(), CommitError> {
        let item = Item::from([
            (Place::Control.key().to_owned(), s(keys::cursor(name))),
            (keys::SCHEMA.to_owned(), n(SCHEMA)),
            (AT.to_owned(), s(to.to_string())),
        ]);
        let condition = match from {
            Some(from) => Condition::Is(AT, s(from.to_string())),
            None => Condition::Absent,
        };
        self.put(item, condition).await
    }
}

fn records<R>(stored: Vec<Stored<R>>) -> Vec<R> {
    stored.into_iter().map(Stored::into_record).collect()
}

/// Where a cursor stands.
const AT: &str = "at";

fn live(pool: &PoolName) -> Range {
    Range::new(keys::POOL_INDEX, keys::LIVE_POOL, pool.as_str().to_owned())
}

fn waiting(pool: &PoolName) -> Range {
    Range::new(keys::POOL_INDEX, keys::WAITING_POOL, pool.as_str().to_owned())
}

fn kind(value: String) -> Range {
    Range::new(keys::KIND_INDEX, keys::KIND, value)
}

/// Whom the item `machine#i-…` names.
fn owner(item: &Item) -> Result<InstanceName, ReadError> {
    let named = text(item.get(keys::INSTANCE)).and_then(|name| name.parse().ok());
    named.ok_or_else(|| ReadError::Unreadable {
        key: text(item.get(Place::Instances.key())).unwrap_or_default().to_owned(),
        why: "it names no instance".to_owned(),
    })
}
