//! Reads of jobs.

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use super::{Page, ReadError};

/// Jobs that wait for one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobGroup {
    /// A pool's jobs without a claim.
    Free(PoolName),
    /// A pool's jobs with a claim.
    Claimed(PoolName),
    /// Jobs that no pool serves.
    Unmatched,
    /// Jobs that wait for an approval.
    Gated,
}

/// Reads of jobs.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Jobs {
    /// Returns a job by key.
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError>;
    /// Returns jobs by key, in no order; missing ones are left out.
    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Returns a pool's waiting jobs without a claim, at most `limit`, in the order in which they
    /// became due, so that jobs on hold never hide due ones.
    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Returns a pool's waiting jobs, with and without a claim; each group oldest first.
    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Returns a page of a group's jobs, in the order of the other listings.
    async fn jobs_of(
        &self,
        group: &JobGroup,
        page: Option<String>,
    ) -> Result<Page<Stored<Job>>, ReadError>;
    /// Returns the page of a group that begins after `last`, without reading the table.
    fn after_job(&self, group: &JobGroup, last: &Job) -> Result<String, ReadError>;
    /// Counts a pool's waiting jobs, with and without a claim.
    async fn count_waiting_jobs(&self, pool: &PoolName) -> Result<usize, ReadError>;
    /// Counts queued jobs that no pool serves.
    async fn count_unmatched_jobs(&self) -> Result<usize, ReadError>;
    /// Counts jobs that wait for an approval.
    async fn count_gated_jobs(&self) -> Result<usize, ReadError>;
    /// Returns queued jobs that no pool serves, at most `limit`, oldest first.
    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
    /// Returns jobs that wait for an approval, at most `limit`, starting with those for which
    /// GitHub was queried longest ago.
    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError>;
}
