//! Builds the wake-up messages for launch passes.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::message::WakePool;

/// Pools whose launch pass should run.
#[derive(Debug, Default)]
pub struct Woken {
    /// Waiting jobs by pool.
    jobs: BTreeMap<PoolName, BTreeSet<JobKey>>,
    /// Pools with another reason for a pass: a runner or capacity became available.
    whole: BTreeSet<PoolName>,
}

impl Woken {
    /// Adds a job that waits for a pool.
    pub fn for_job(&mut self, pool: PoolName, job: JobKey) {
        self.jobs.entry(pool).or_default().insert(job);
    }

    /// Adds a pool for all its waiting jobs.
    pub fn whole(&mut self, pool: PoolName) {
        self.whole.insert(pool);
    }

    /// Adds the pools that an event affects: `wake` are the pools, `jobs` the jobs as they are
    /// stored now.
    pub fn after(&mut self, wake: &BTreeSet<PoolName>, jobs: &[Job]) {
        for pool in wake {
            let waits = |job: &&Job| job.is_demand() && job.pool.as_ref() == Some(pool);
            let mut waiting = jobs.iter().filter(waits).peekable();
            if waiting.peek().is_none() {
                self.whole(pool.clone());
            }
            for job in waiting {
                self.for_job(pool.clone(), job.key());
            }
        }
    }

    /// Returns the messages. A pass for named jobs ends as soon as they are served, so a pool with
    /// another reason gets a separate message.
    #[must_use]
    pub fn messages(&self) -> Vec<WakePool> {
        let named = self.jobs.iter().flat_map(|(pool, jobs)| {
            let jobs: Vec<JobKey> = jobs.iter().copied().collect();
            WakePool::for_jobs(pool, &jobs).collect::<Vec<_>>()
        });
        named.chain(self.whole.iter().cloned().map(WakePool::whole)).collect()
    }
}
