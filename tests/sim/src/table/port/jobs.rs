//! Jobs.

use std::collections::BTreeSet;
use std::rc::Rc;

use muster_control::ports::{JobGroup, Jobs, Page, ReadError};
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::stored::Stored;

use super::instances::{after, start_of};
use crate::door::Door;
use crate::table::Tables;
use crate::table::index::OfPool;

impl Jobs for Door {
    async fn job(&self, key: JobKey) -> Result<Option<Stored<Job>>, ReadError> {
        let read = |tables: &Tables| tables.jobs.get(&key).map(|one| Stored::clone(one));
        self.read_of(&format!("job#{key}"), read).await
    }

    async fn jobs(&self, keys: &[JobKey]) -> Result<Vec<Stored<Job>>, ReadError> {
        let key = self.broken_of(keys.iter().map(|key| format!("job#{key}")));
        self.read_of(&key, |tables| {
            let keys: BTreeSet<&JobKey> = keys.iter().collect();
            let found = keys.into_iter().filter_map(|key| tables.jobs.get(key));
            found.map(|one| Stored::clone(one)).collect()
        })
        .await
    }

    async fn demand(&self, pool: &PoolName, limit: u32) -> Result<Vec<Stored<Job>>, ReadError> {
        let listed = self.of_pool(pool, |of| jobs(of, false, limit).collect()).await;
        self.readable(listed, key_of)
    }

    async fn waiting_jobs(
        &self,
        pool: &PoolName,
        limit: u32,
    ) -> Result<Vec<Stored<Job>>, ReadError> {
        let of = |of: &OfPool| jobs(of, false, limit).chain(jobs(of, true, limit)).collect();
        let listed =
            self.list_by(2, |tables| tables.index.pool(pool).map(of).unwrap_or_default()).await;
        self.readable(listed, key_of)
    }

    async fn jobs_of(
        &self,
        group: &JobGroup,
        page: Option<String>,
    ) -> Result<Page<Stored<Job>>, ReadError> {
        let start = start_of(page)?;
        self.list(|tables| {
            let mut rest = in_group(tables, group).skip(start);
            let items: Vec<Stored<Job>> =
                rest.by_ref().take(tables.page).map(|job| Stored::clone(job)).collect();
            let next = rest.next().map(|_| (start + items.len()).to_string());
            Page { items, unreadable: Vec::new(), next }
        })
        .await
    }

    fn after_job(&self, group: &JobGroup, last: &Job) -> Result<String, ReadError> {
        let world = self.sim.world.borrow();
        Ok(after(in_group(&world.tables, group).position(|job| job.key() == last.key())))
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

fn key_of(job: &Job) -> String {
    format!("job#{}", job.key())
}

fn in_group<'a>(
    tables: &'a Tables,
    group: &JobGroup,
) -> Box<dyn Iterator<Item = &'a Rc<Stored<Job>>> + 'a> {
    let of_pool = |pool: &PoolName, has_claim: bool| {
        let waiting = tables.index.pool(pool).into_iter().flat_map(|of| &of.waiting);
        waiting.filter(move |((claimed, ..), _)| *claimed == has_claim).map(|(_, job)| job)
    };
    match group {
        JobGroup::Free(pool) => Box::new(of_pool(pool, false)),
        JobGroup::Claimed(pool) => Box::new(of_pool(pool, true)),
        JobGroup::Unmatched => Box::new(tables.index.unmatched.values()),
        JobGroup::Gated => Box::new(tables.index.gated.values()),
    }
}

fn jobs(of: &OfPool, has_claim: bool, limit: u32) -> impl Iterator<Item = Stored<Job>> {
    of.waiting
        .iter()
        .filter(move |((claimed, ..), _)| *claimed == has_claim)
        .take(limit as usize)
        .map(|(_, job)| Stored::clone(job))
}
