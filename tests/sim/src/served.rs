//! Which pool serves a job, as the judge reads the pool file and GitHub's rules of labels: apart
//! from the code that it judges, whose answer is compared with this one at every job's commit.

use muster_domain::ids::Entity;
use muster_domain::job;
use muster_domain::job::labels::Labels;
use muster_domain::pool::{LabelMatch, Pool};

use crate::github::Job;
use crate::world::World;

/// The label that every self-hosted runner has.
const SELF_HOSTED: &str = "self-hosted";

impl World {
    /// The pool's own answer, and the judge's, about what the row says of the job.
    pub(crate) fn check_serves(&mut self, row: &job::Job) {
        let said = &row.last_event;
        // Some `completed` events say less of a job than it is; such a job waits for nobody.
        let Some(truth) = self.github.job_of(said.key.job) else { return };
        let says_all = said.labels == truth.labels && said.private == truth.private;
        if !says_all || said.repository != truth.repository {
            return;
        }
        let differs = |pool: &&Pool| pool.serves(row).is_ok() != serves(pool, truth);
        let found = self.checker.pools.iter().find(differs).map(|pool| pool.name.clone());
        if let Some(pool) = found {
            self.broken("serves", || format!("{pool} misjudges job {}", row.key()));
        }
    }

    /// Whether the job of an event keeps a row. An invocation may have read the pools before the
    /// last change.
    pub(crate) fn is_meant(&self, event: &job::JobEvent) -> bool {
        // One that was taken out of the pool file is forgotten once its last machine is.
        let is_meant = |pool: &Pool| {
            pool.removed_at.is_none() && carries_for(pool, &event.repository, &event.labels)
        };
        self.is_settled() && self.checker.pools.iter().any(is_meant)
    }

    /// Whether a job that is queued at GitHub is to be served.
    pub(crate) fn is_to_be_served(&self, job: &Job) -> bool {
        self.checker.pools.iter().any(|pool| !pool.paused && serves(pool, job))
    }
}

/// Whether its runners carry what a job asks for, where they are registered, whatever else the pool
/// refuses it for.
fn carries_for(pool: &Pool, repository: &str, labels: &Labels) -> bool {
    pool.entity.as_ref().is_none_or(|entity| registers_for(entity, repository))
        && pool.labels.iter().any(|row| carries(row, labels))
        && (pool.label_match == LabelMatch::Superset
            || pool.labels.iter().any(|row| carries(row, labels) && carries(labels, row)))
}

/// docs/design/pools.md.
fn serves(pool: &Pool, job: &Job) -> bool {
    pool.enabled
        && pool.removed_at.is_none()
        && carries_for(pool, &job.repository, &job.labels)
        && (pool.repositories.is_empty()
            || pool.repositories.iter().any(|name| matches_name(name, &job.repository)))
        && (job.private || pool.public_repositories)
}

/// An organization's runners take jobs of its repositories, a repository's its own; names have no
/// case.
fn registers_for(entity: &Entity, repository: &str) -> bool {
    let of = entity.to_string().to_lowercase();
    let repository = repository.to_lowercase();
    repository == of || repository.starts_with(&format!("{of}/"))
}

/// `owner/repo`, or `owner/*`.
fn matches_name(name: &str, repository: &str) -> bool {
    let (name, repository) = (name.to_lowercase(), repository.to_lowercase());
    match name.strip_suffix('*') {
        Some(owner) => repository.starts_with(owner),
        None => repository == name,
    }
}

/// GitHub gives a job to a runner that has all of its labels.
fn carries(runner: &Labels, job: &Labels) -> bool {
    let mut wanted = job.iter().filter(|label| *label != SELF_HOSTED);
    job.iter().next().is_some() && wanted.all(|label| runner.iter().any(|own| own == label))
}
