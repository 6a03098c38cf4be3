//! Jobs.

use std::collections::BTreeSet;

use muster_control::ports::{Jobs, ReadError};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use crate::door::Door;
use crate::table::index::OfPool;

impl Jobs for Door {
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        self.read(|tables| tables.jobs.get(&key).map(|one| Stored::clone(one))).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        self.read(|tables| {
            let keys: BTreeSet<&JobKey> = keys.iter().collect();
            let found = keys.into_iter().filter_map(|key| tables.jobs.get(key));
            found.map(|one| Stored::clone(one)).collect()
        })
        .await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.of_pool(pool, |of| jobs(of, false, limit).collect()).await
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        let of = |of: &OfPool| jobs(of, false, limit).chain(jobs(of, true, limit)).collect();
        self.list_by(2, |tables| tables.index.pool(pool).map(of).unwrap_or_default()).await
    }

    async fn count_waiting_jobs(&self, pool: &PoolName) -> Result<usize, ReadError> {
        self.of_pool(pool, |of| of.waiting.len()).await
    }

    async fn count_unmatched_jobs(&self) -> Result<usize, ReadError> {
        self.list(|tables| tables.index.unmatched.len()).await
    }

    async fn count_gated_jobs(&self) -> Result<usize, ReadError> {
        self.list(|tables| tables.index.gated.len()).await
    }

    async fn unmatched_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.list(|tables| {
            let jobs = tables.index.unmatched.values().take(limit as usize);
            jobs.map(|job| Stored::clone(job)).collect()
        })
        .await
    }

    async fn gated_jobs(&self, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        self.list(|tables| {
            let jobs = tables.index.gated.values().take(limit as usize);
            jobs.map(|job| Stored::clone(job)).collect()
        })
        .await
    }
}

fn jobs(of: &OfPool, has_claim: bool, limit: u32) -> impl Iterator<Item = Stored<Job>> {
    of.waiting
        .iter()
        .filter(move |((claimed, ..), _)| *claimed == has_claim)
        .take(limit as usize)
        .map(|(_, job)| Stored::clone(job))
}
