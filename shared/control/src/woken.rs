//! Whom to wake, and for what: the messages that ask for launch passes.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ids::{Entity, JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::message::WakePool;

use crate::Settings;

/// Most entities that one message names, so that it stays small. The pass reads what is missing.
const MAX_ENTITIES: usize = 20;

/// Pools whose launch pass should run.
#[derive(Debug, Default)]
pub struct Woken {
    /// Jobs that wait for a pool.
    jobs: BTreeMap<PoolName, BTreeSet<JobKey>>,
    /// Entities of jobs that wait for a pool.
    entities: BTreeMap<PoolName, BTreeSet<Entity>>,
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
    pub fn after(&mut self, wake: &BTreeSet<PoolName>, jobs: &[Job], settings: &Settings) {
        for pool in wake {
            let waits = |job: &&Job| job.is_demand() && job.pool.as_ref() == Some(pool);
            let mut waiting = jobs.iter().filter(waits).peekable();
            if waiting.peek().is_none() {
                self.whole(pool.clone());
            }
            let settings = settings.pool(pool);
            for job in waiting {
                let entity = settings.and_then(|pool| pool.entity_for(job));
                self.entities.entry(pool.clone()).or_default().extend(entity);
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
            let entities = self.entities.get(pool).into_iter().flatten();
            let entities: Vec<Entity> = entities.take(MAX_ENTITIES).cloned().collect();
            let named = WakePool::for_jobs(pool, &jobs);
            named.map(|one| WakePool { entities: entities.clone(), ..one }).collect::<Vec<_>>()
        });
        named.chain(self.whole.iter().cloned().map(WakePool::whole)).collect()
    }
}
