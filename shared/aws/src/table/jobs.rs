//! Jobs.

use futures_util::future::try_join;
use muster_control::ports::{JobGroup, Jobs, Page, ReadError};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use super::DynamoTable;
use super::keys::{self, TableKind};
use super::read::{Range, TableReader};

impl Jobs for DynamoTable {
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        self.reader().record(keys::job(key)).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        self.reader().records(keys.iter().map(|key| keys::job(*key)).collect()).await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.listed(free(pool), Some(limit)).await
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        // Two ranges, so that many jobs without a claim do not hide the oldest jobs with one.
        let (free, held) =
            try_join(self.demand(pool, limit), self.listed(held(pool), Some(limit))).await?;
        Ok([free, held].concat())
    }

    async fn jobs_of(
        &self,
        group: &JobGroup,
        page: Option<String>,
    ) -> Result<Page<Stored<Job>>, ReadError> {
        let range = match group {
            JobGroup::Free(pool) => free(pool),
            JobGroup::Claimed(pool) => held(pool),
            JobGroup::Unmatched => apart(keys::NO_POOL),
            JobGroup::Gated => apart(keys::GATED),
        };
        self.reader().listing(&range, page).await
    }

    fn after_job(&self, _: &JobGroup, last: &Job) -> Result<String, ReadError> {
        TableReader::after(last, [keys::WAITING_POOL, keys::WAITING_ORDER], &self.timings)
    }

    async fn count_waiting_jobs(&self, pool: &PoolName) -> Result<usize, ReadError> {
        self.reader().count(TableKind::Jobs, &waiting(pool)).await
    }

    async fn count_unmatched_jobs(&self) -> Result<usize, ReadError> {
        self.reader().count(TableKind::Jobs, &apart(keys::NO_POOL)).await
    }

    async fn count_gated_jobs(&self) -> Result<usize, ReadError> {
        self.reader().count(TableKind::Jobs, &apart(keys::GATED)).await
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

fn free(pool: &PoolName) -> Range {
    waiting(pool).starting_with(keys::WAITING_ORDER, keys::FREE)
}

fn held(pool: &PoolName) -> Range {
    waiting(pool).starting_with(keys::WAITING_ORDER, keys::HELD)
}

/// Returns the index range of jobs that belong to no pool.
fn apart(name: &str) -> Range {
    Range::new(keys::POOL_INDEX, keys::WAITING_POOL, name.to_owned())
        .starting_with(keys::WAITING_ORDER, keys::FREE)
}
