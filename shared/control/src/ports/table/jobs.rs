//! Jobs.

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use super::{Page, ReadError};

/// Jobs that wait for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobGroup {
    /// Those of a pool without a claim.
    Free(PoolName),
    /// Those of a pool with one.
    Claimed(PoolName),
    /// Those that no pool serves.
    Unmatched,
    /// Those that wait for an approval.
    Gated,
}

/// Jobs.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Jobs {
    /// A job by key.
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError>;
    /// Many jobs by key, in no order; missing ones are left out.
    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs of a pool that wait without a claim, at most `limit`: those whose time came first
    /// before the others, so that jobs on hold never hide those that are due.
    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs of a pool that wait, with and without a claim; each group oldest first.
    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError>;
    /// The jobs of a group, page by page, in the order of the other listings.
    async fn jobs_of(
        &self,
        group: &JobGroup,
        page: Option<String>,
    ) -> Result<Page<Stored<Job>>, ReadError>;
    /// The page of a group that begins behind this job. The table is not asked.
    fn after_job(&self, group: &JobGroup, last: &Job) -> Result<String, ReadError>;
    /// How many jobs of a pool wait, with and without a claim.
    async fn count_waiting_jobs(&self, pool: &PoolName) -> Result<usize, ReadError>;
    /// How many queued jobs no pool serves.
    async fn count_unmatched_jobs(&self) -> Result<usize, ReadError>;
    /// How many jobs wait for an approval.
    async fn count_gated_jobs(&self) -> Result<usize, ReadError>;
    /// Queued jobs that no pool serves, at most `limit`, oldest first.
    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Jobs that wait for an approval, at most `limit`, those first that GitHub was asked for
    /// longest ago.
    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
}
