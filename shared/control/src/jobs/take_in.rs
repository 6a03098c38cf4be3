//! Imports the queued jobs of a repository whose events were lost: queries GitHub, and processes
//! each job as if its event had arrived.

use std::collections::BTreeSet;

use muster_domain::ids::{Entity, InstallationId, JobKey};
use muster_domain::job::{Job, JobEvent};
use muster_domain::provider::ProviderError;
use muster_domain::time::{Seconds, Time};

use crate::context::{Context, Wired};
use crate::jobs::ingest::{Folded, Ingest};
use crate::ports::{Github, Jobs as _, Queue, QueuedJobs, Reach, Table};
use crate::woken::Woken;
use crate::writes::PassError;

/// Maximum number of jobs per import.
const MAX_JOBS: usize = 1_000;
/// Age after which a job's event has usually arrived, or has failed and was redelivered.
const ANNOUNCED: Seconds = Seconds(300);

/// The result of importing a repository's queued jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedJobs {
    /// Jobs that were imported and that a pool serves.
    pub taken: Vec<Job>,
    /// Jobs that already had a record.
    pub known: Vec<JobKey>,
    /// Imported jobs that no pool serves, with the reason in their record.
    pub unserved: Vec<Job>,
    /// Number of jobs for other runners, such as GitHub-hosted ones.
    pub not_ours: usize,
    /// Whether there are more.
    pub more: bool,
}

/// Why an import failed, entirely or in part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeInError {
    /// GitHub did not answer.
    #[error("GitHub did not answer")]
    Github(ProviderError),
    /// GitHub does not show the repository.
    #[error("GitHub does not show repository {0}")]
    NoRepository(Entity),
    /// The tables or the queue did not answer.
    #[error(transparent)]
    Pass(#[from] PassError),
}

/// Imports the queued jobs of a repository.
pub struct TakeIn<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> TakeIn<'_, W> {
    /// Imports all queued jobs of a repository and wakes their pools.
    ///
    /// # Errors
    /// When GitHub, the tables or the queue failed. Jobs imported before that stay recorded.
    pub async fn run(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        now: Time,
    ) -> Result<ImportedJobs, TakeInError> {
        let seen = self.context.github.queued_jobs(repository, installation, Reach::All).await;
        let Some(QueuedJobs { jobs: mut events, more }) = seen.map_err(TakeInError::Github)? else {
            return Err(TakeInError::NoRepository(repository.clone()));
        };
        let mut report =
            ImportedJobs { more: more || events.len() > MAX_JOBS, ..ImportedJobs::default() };
        events.truncate(MAX_JOBS);
        let keys: Vec<JobKey> = events.iter().map(|event| event.key).collect();
        let known = self.context.table.jobs(&keys).await.map_err(PassError::from)?;
        let known: BTreeSet<JobKey> = known.into_iter().map(|job| job.key()).collect();
        self.fold(&events, &known, &mut report, now).await?;
        Ok(report)
    }

    /// Imports jobs of a repository that have been queued for minutes and have no record, as far as
    /// a few calls show them. Leaves all other jobs unchanged.
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
        let mut report = ImportedJobs::default();
        self.fold(&events, &known, &mut report, now).await?;
        Ok(report.taken)
    }

    /// Records jobs as if their events had arrived, and wakes their pools.
    async fn fold(
        &self,
        events: &[JobEvent],
        known: &BTreeSet<JobKey>,
        report: &mut ImportedJobs,
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
        // Even if one failed: the others are recorded.
        let sent = self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await;
        failed.map_or(Ok(()), Err)?;
        sent.map_err(PassError::from)?;
        Ok(())
    }
}

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> TakeIn<'_, W> {
    /// Counts a repository's queued jobs without a record, without importing them. Returns none if
    /// GitHub does not show the repository.
    ///
    /// # Errors
    /// When GitHub or the tables failed.
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

impl ImportedJobs {
    fn note(&mut self, job: Option<Job>, key: JobKey, known: &BTreeSet<JobKey>) {
        match job {
            Some(job) if job.is_unmatched() => self.unserved.push(job),
            Some(job) if !known.contains(&key) => self.taken.push(job),
            _ => self.known.push(key),
        }
    }
}
