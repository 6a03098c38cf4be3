//! Whom to wake, and for what: the messages that ask for launch passes.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::message::WakePool;

/// Pools whose launch pass should run.
#[derive(Debug, Default)]
pub struct Woken {
    /// Jobs that wait for a pool.
    jobs: BTreeMap<PoolName, BTreeSet<JobKey>>,
    /// Pools that have something else to look at: a runner or room that came free.
    whole: BTreeSet<PoolName>,
}

impl Woken {
    /// For a job that waits there.
    pub fn for_job(&mut self, pool: PoolName, job: JobKey) {
        self.jobs.entry(pool).or_default().insert(job);
    }

    /// For whatever waits there.
    pub fn whole(&mut self, pool: PoolName) {
        self.whole.insert(pool);
    }

    /// What an event asks for: `wake` are the pools, `jobs` the jobs as they are stored now.
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

    /// A pass for named jobs ends at once when they are served, so a pool that has something else
    /// to look at gets a message of its own for that.
    #[must_use]
    pub fn messages(&self) -> Vec<WakePool> {
        let named = self.jobs.iter().flat_map(|(pool, jobs)| {
            let jobs: Vec<JobKey> = jobs.iter().copied().collect();
            WakePool::for_jobs(pool, &jobs).collect::<Vec<_>>()
        });
        named.chain(self.whole.iter().cloned().map(WakePool::whole)).collect()
    }
}
