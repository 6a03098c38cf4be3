//! The DynamoDB tables.
//!
//! An item contains a whole record in `body`, together with its key, schema, version and the
//! attributes that the indexes need; those are derived from the record at every write and never
//! read back. Only a pool's counter stores its fields as attributes, because ending an instance
//! decrements it without reading it.

mod commit;
mod instances;
mod jobs;
mod keys;
mod launches;
mod operations;
mod read;
mod row;
mod usage;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::{Client, Config};
use muster_control::ports::{CommitError, ReadError, Table, Write};
use muster_domain::stored::{Committed, Stored};
use muster_domain::timings::Timings;

use self::commit::{Action, Condition};
use self::keys::TableKind;
use self::read::{Range, TableReader};
use self::row::TableRecord;
use crate::error::PassingObstacle;
use crate::item::Item;

/// The names of a stack's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// Instances, and the owners of machines.
    pub instances: String,
    /// Jobs.
    pub jobs: String,
    /// Everything else.
    pub control: String,
    /// Usage records, rolled-up days, and prices.
    pub usage: String,
}

impl TableNames {
    pub(crate) fn table(&self, place: TableKind) -> &str {
        match place {
            TableKind::Instances => &self.instances,
            TableKind::Jobs => &self.jobs,
            TableKind::Control => &self.control,
            TableKind::Usage => &self.usage,
        }
    }
}

/// The tables of a stack.
#[derive(Clone, Debug)]
pub struct DynamoTable {
    client: Client,
    names: TableNames,
    timings: Timings,
}

impl DynamoTable {
    /// Creates a client of the tables. `timings` determines the retention of ended records.
    #[must_use]
    pub fn new(config: &SdkConfig, names: TableNames, timings: Timings) -> Self {
        let config = Config::from(config).to_builder().retry_classifier(PassingObstacle);
        Self { client: Client::from_conf(config.build()), names, timings }
    }

    const fn reader(&self) -> TableReader<'_> {
        TableReader { client: &self.client, names: &self.names }
    }

    /// Reads a whole listing. Skips and logs records that this version cannot read.
    async fn listed<R: TableRecord>(
        &self,
        range: Range,
        limit: Option<u32>,
    ) -> Result<Vec<Stored<R>>, ReadError> {
        Ok(self.reader().all(&range, limit).await?.items)
    }

    async fn put(&self, item: Item, condition: Condition) -> Result<(), CommitError> {
        let action = Action::Put { place: TableKind::Control, item, condition };
        commit::carry_out(&self.client, &self.names, vec![action]).await
    }
}

impl Table for DynamoTable {
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError> {
        let actions = commit::actions(writes, &self.timings)?;
        commit::carry_out(&self.client, &self.names, actions).await?;
        Ok(Committed::by_table())
    }
}

fn records<R>(stored: Vec<Stored<R>>) -> Vec<R> {
    stored.into_iter().map(Stored::into_record).collect()
}

fn kind(value: String) -> Range {
    Range::new(keys::KIND_INDEX, keys::KIND, value)
}
