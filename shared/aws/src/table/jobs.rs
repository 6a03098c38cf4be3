//! Jobs.

use futures_util::future::try_join;
use muster_control::ports::{Jobs, ReadError};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use super::DynamoTable;
use super::keys::{self, Place};
use super::read::Range;

impl Jobs for DynamoTable {
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        self.reader().record(keys::job(key)).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        self.reader().records(keys.iter().map(|key| keys::job(*key)).collect()).await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.listed(waiting(pool).starting_with(keys::WAITING_ORDER, keys::FREE), Some(limit)).await
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        // Two ranges, so that many jobs without a claim do not hide the oldest of those with one.
        let held = waiting(pool).starting_with(keys::WAITING_ORDER, keys::HELD);
        let (free, held) =
            try_join(self.demand(pool, limit), self.listed(held, Some(limit))).await?;
        Ok([free, held].concat())
    }

    async fn count_waiting_jobs(&self, pool: &PoolName) -> Result<usize, ReadError> {
        self.reader().count(Place::Jobs, &waiting(pool)).await
    }

    async fn count_unmatched_jobs(&self) -> Result<usize, ReadError> {
        self.reader().count(Place::Jobs, &apart(keys::NO_POOL)).await
    }

    async fn count_gated_jobs(&self) -> Result<usize, ReadError> {
        self.reader().count(Place::Jobs, &apart(keys::GATED)).await
    }

    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.listed(apart(keys::NO_POOL), Some(limit)).await
    }

    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.listed(apart(keys::GATED), Some(limit)).await
    }
}

fn waiting(pool: &PoolName) -> Range {
    Range::new(keys::POOL_INDEX, keys::WAITING_POOL, pool.as_str().to_owned())
}

/// Jobs that stand in the index beside those of the pools.
fn apart(name: &str) -> Range {
    Range::new(keys::POOL_INDEX, keys::WAITING_POOL, name.to_owned())
        .starting_with(keys::WAITING_ORDER, keys::FREE)
}
