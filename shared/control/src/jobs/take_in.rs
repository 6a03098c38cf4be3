//! Takes in what is queued in a repository, where nobody has told of it: GitHub is asked, and each
//! job counts as if its event had come.

use std::collections::BTreeSet;

use muster_domain::ids::{Entity, InstallationId, JobKey};
use muster_domain::job::{Job, JobEvent};
use muster_domain::observation::ProviderError;
use muster_domain::time::{Seconds, Time};

use crate::context::{Context, Wired};
use crate::jobs::ingest::{Folded, Ingest};
use crate::ports::{Github, Jobs as _, Queue, QueuedJobs, Reach, Table};
use crate::woken::Woken;
use crate::writes::PassError;

/// Most jobs of one look.
const MAX_JOBS: usize = 1_000;
/// After this time a job's event has usually come, or has failed and was redelivered.
const ANNOUNCED: Seconds = Seconds(300);

/// What became of the queued jobs of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// Those that are on record now and were not before, and that a pool serves.
    pub taken: Vec<Job>,
    /// Those that were on record.
    pub known: Vec<JobKey>,
    /// Those that no pool serves, with the reason on record.
    pub unserved: Vec<Job>,
    /// How many are none of ours: jobs of GitHub's own runners.
    pub not_ours: usize,
    /// There are more.
    pub more: bool,
}

/// Why nothing, or not all, was taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeInError {
    /// GitHub did not answer.
    #[error("GitHub did not answer")]
    Github(ProviderError),
    /// GitHub does not show the repository.
    #[error("GitHub shows no repository {0}")]
    NoRepository(Entity),
    /// The tables or the queue did not.
    #[error(transparent)]
    Pass(#[from] PassError),
}

/// The pass.
pub struct TakeIn<'a, W: Wired> {
    /// The world, and the stack.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> TakeIn<'_, W> {
    /// Asks for one repository, and wakes the pools that its jobs are for.
    ///
    /// # Errors
    /// What kept it from the jobs. What was taken in before that is on record.
    pub async fn run(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        now: Time,
    ) -> Result<TakenIn, TakeInError> {
        let seen = self.context.github.queued_jobs(repository, installation, Reach::All).await;
        let Some(QueuedJobs { jobs: mut events, more }) = seen.map_err(TakeInError::Github)? else {
            return Err(TakeInError::NoRepository(repository.clone()));
        };
        let mut report = TakenIn { more: more || events.len() > MAX_JOBS, ..TakenIn::default() };
        events.truncate(MAX_JOBS);
        let keys: Vec<JobKey> = events.iter().map(|event| event.key).collect();
        let known = self.context.table.jobs(&keys).await.map_err(PassError::from)?;
        let known: BTreeSet<JobKey> = known.into_iter().map(|job| job.key()).collect();
        self.fold(&events, &known, &mut report, now).await?;
        Ok(report)
    }

    /// Imports jobs of one repository that have been queued for minutes and are not on record, as
    /// far as a few calls show them. Other jobs stay as they are.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub async fn new_ones(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        now: Time,
    ) -> Result<Vec<Job>, TakeInError> {
        let reach = Reach::Few(now.as_millis().unsigned_abs());
        let seen = self.context.github.queued_jobs(repository, installation, reach).await;
        let Some(QueuedJobs { jobs: mut events, .. }) = seen.map_err(TakeInError::Github)? else {
            return Err(TakeInError::NoRepository(repository.clone()));
        };
        let ingest = Ingest { context: self.context };
        let is_late = |at: Time| now.is_past(at, ANNOUNCED);
        events.retain(|one| one.queued_at.is_none_or(is_late) && ingest.is_ours(one, now));
        events.truncate(MAX_JOBS);
        let keys: Vec<JobKey> = events.iter().map(|event| event.key).collect();
        let known = self.context.table.jobs(&keys).await.map_err(PassError::from)?;
        let known: BTreeSet<JobKey> = known.into_iter().map(|job| job.key()).collect();
        events.retain(|one| !known.contains(&one.key));
        let mut report = TakenIn::default();
        self.fold(&events, &known, &mut report, now).await?;
        Ok(report.taken)
    }

    /// Puts jobs on record as if their events had come, and wakes their pools.
    async fn fold(
        &self,
        events: &[JobEvent],
        known: &BTreeSet<JobKey>,
        report: &mut TakenIn,
        now: Time,
    ) -> Result<(), TakeInError> {
        let ingest = Ingest { context: self.context };
        let (mut woken, mut failed) = (Woken::default(), None);
        let keys = events.iter().map(|event| event.key);
        for (key, folded) in keys.zip(ingest.fold_all(events, now).await) {
            match folded {
                Ok(Folded::Stored { wake, jobs, .. }) => {
                    woken.after(&wake, &jobs);
                    report.note(jobs.into_iter().find(|job| job.key() == key), key, known);
                }
                Ok(Folded::NotOurs(_)) => report.not_ours += 1,
                Err(error) => failed = Some(error),
            }
        }
        // Also when one of them failed: the others are on record.
        let sent = self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await;
        failed.map_or(Ok(()), Err)?;
        sent.map_err(PassError::from)?;
        Ok(())
    }
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> TakeIn<'_, W> {
    /// How many jobs of a repository are queued and not on record, without taking them in; none when
    /// GitHub does not show the repository.
    ///
    /// # Errors
    /// What kept it from the jobs.
    pub async fn count(
        &self,
        repository: &Entity,
        now: Time,
    ) -> Result<Option<usize>, TakeInError> {
        let seen = self.context.github.queued_jobs(repository, None, Reach::All).await;
        let Some(QueuedJobs { jobs: mut events, .. }) = seen.map_err(TakeInError::Github)? else {
            return Ok(None);
        };
        let ingest = Ingest { context: self.context };
        events.retain(|event| ingest.is_ours(event, now));
        events.truncate(MAX_JOBS);
        let keys: Vec<JobKey> = events.iter().map(|event| event.key).collect();
        let known = self.context.table.jobs(&keys).await.map_err(PassError::from)?;
        Ok(Some(keys.len().saturating_sub(known.len())))
    }
}

impl TakenIn {
    fn note(&mut self, job: Option<Job>, key: JobKey, known: &BTreeSet<JobKey>) {
        match job {
            Some(job) if job.is_unmatched() => self.unserved.push(job),
            Some(job) if !known.contains(&key) => self.taken.push(job),
            _ => self.known.push(key),
        }
    }
}
