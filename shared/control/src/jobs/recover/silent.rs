//! Queries GitHub for waiting jobs, and their runs, that have had no event for a long time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::ids::PoolName;
use muster_domain::job::run::{self, Judgement, RunLook};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::launch::record::trouble::RequestKind;
use muster_domain::observation::RunSeen;
use muster_domain::provider::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::{MAX_TROUBLES, Recover, account, home_of};
use crate::context::Wired;
use crate::health::note_answer;
use crate::jobs::ingest::{Folded, Ingest};
use crate::ports::{CommitError, Github, JobSeen, Queue, Registrar, Table};
use crate::woken::Woken;
use crate::writes::{self, PassError};

/// Cursor of the last queries.
const SILENT: &str = "silent";

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Queries GitHub for jobs without a recent event. Adds accounts to `limited` whose rate limit
    /// turns out to be used up.
    pub(super) async fn ask_for(
        &self,
        silent: &[Stored<Job>],
        limited: &mut BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        if silent.is_empty() || !writes::take_turn(self.context.table, SILENT, now).await? {
            return Ok(());
        }
        let (mut troubles, mut runs) = (0, Runs::new());
        for job in silent {
            if self.is_out_of_time() {
                return Ok(());
            }
            // Its pool may be gone. Query it anyway: otherwise it would come first in every sweep.
            let Some(entity) = home_of(job, self.context.settings) else { continue };
            let account = account(&entity);
            if limited.contains(&account) {
                continue;
            }
            let registrar = Registrar { entity, installation: job.last_event.installation };
            let answer = self.look(&registrar, job, &mut runs).await;
            note_answer(
                self.context.table,
                &registrar.entity,
                RequestKind::Other,
                answer.as_ref().err(),
                now,
            )
            .await?;
            self.report.borrow_mut().asked += 1;
            match answer {
                Ok(look) => self.heard(job, look, now).await?,
                Err(trouble) => {
                    self.failed_call("a job could not be queried", &trouble);
                    match trouble {
                        // Its jobs keep their turn until the limit ends.
                        ProviderError::RateLimited(_) => {
                            limited.insert(account);
                            continue;
                        }
                        // Another owner may still grant access.
                        ProviderError::Unauthorized(_) => {}
                        ProviderError::Unavailable(_) => troubles += 1,
                    }
                    // The job has had its turn, so that the others do not wait for an answer about
                    // it.
                    let next = Job { asked_at: Some(now), ..job.record().clone() };
                    self.note_job(job, next).await?;
                    if troubles == MAX_TROUBLES {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Queries a job, and its run if the job still needs a runner according to GitHub, which may
    /// leave a job queued in a run that has ended. Queries each run once.
    async fn look(
        &self,
        registrar: &Registrar,
        job: &Job,
        runs: &mut Runs,
    ) -> Result<JobCheck, ProviderError> {
        let said = &job.last_event;
        let seen = self.context.github.job(registrar, &said.repository, job.key().job).await?;
        if seen.as_ref().is_some_and(|seen| seen.status != JobStatus::Queued) {
            return Ok(JobCheck { seen, run: None });
        }
        let of = (Arc::clone(&said.repository), said.run);
        if !runs.contains_key(&of) {
            let run = self.context.github.run(registrar, &said.repository, said.run).await?;
            runs.insert(of.clone(), run);
        }
        Ok(JobCheck { seen, run: runs.get(&of).cloned().flatten() })
    }

    /// Records what GitHub reported.
    async fn heard(&self, job: &Stored<Job>, look: JobCheck, now: Time) -> Result<(), PassError> {
        let JobCheck { seen, run } = look;
        let said = || job.last_event.clone();
        match seen {
            Some(seen) if seen.status > JobStatus::Queued => {
                tracing::warn!(job.id = %job.key(), status = ?seen.status, "found a job whose event was lost");
                self.report.borrow_mut().moved_on += 1;
                return self.woken(self.ingest().fold(&seen.event(said()), now).await?).await;
            }
            Some(seen) if seen.status == JobStatus::Waiting => {
                return unless_changed(self.ingest().found_waiting(job, now).await);
            }
            _ => {}
        }
        let shown = match &run {
            None => RunLook::NotShown,
            Some(run) if run.is_over => RunLook::Over,
            Some(_) => RunLook::GoesOn,
        };
        match run::judge(job, seen.is_some(), shown, now) {
            Judgement::Over(why) => {
                tracing::warn!(job.id = %job.key(), run = job.last_event.run, ?why, "found a job that can never run");
                self.report.borrow_mut().moved_on += 1;
                let conclusion = run.and_then(|run| run.conclusion);
                let event = JobEvent { status: JobStatus::Completed, conclusion, ..said() };
                self.woken(self.ingest().fold_end(&event, why, now).await?).await
            }
            Judgement::Waits(next) => match seen {
                Some(seen) if job.is_gated() || job.approval.is_some() => {
                    tracing::info!(job.id = %job.key(), "the job no longer waits for an approval");
                    self.report.borrow_mut().moved_on += usize::from(job.is_gated());
                    self.woken(self.ingest().fold(&seen.event(said()), now).await?).await
                }
                // A job that GitHub does not show us may still exist.
                _ => self.note_job(job, *next).await,
            },
        }
    }

    const fn ingest(&self) -> Ingest<'_, W> {
        Ingest { context: self.context }
    }

    /// Wakes the affected pools, as for any event.
    async fn woken(&self, folded: Folded) -> Result<(), PassError> {
        if let Folded::Stored { wake, jobs, .. } = folded {
            self.wake(&wake, &jobs).await?;
        }
        Ok(())
    }

    async fn wake(&self, pools: &BTreeSet<PoolName>, jobs: &[Job]) -> Result<(), PassError> {
        let mut woken = Woken::default();
        woken.after(pools, jobs);
        Ok(self.context.queue.send_wakes(&woken.messages(), Seconds(0)).await?)
    }

    /// Records a job; if that makes it demand, wakes its pool at once.
    async fn note_job(&self, job: &Stored<Job>, next: Job) -> Result<(), PassError> {
        // A concurrent writer has newer information.
        let writes = [job.change(next.clone()).into()];
        let is_noted = writes::commit_unless_changed(self.context.table, &writes).await?;
        if is_noted && next.is_demand() && !job.is_demand() {
            self.wake(&next.pool.iter().cloned().collect(), &[next]).await?;
        }
        Ok(())
    }
}

/// GitHub's state of a job, and of its run if that was queried.
struct JobCheck {
    seen: Option<JobSeen>,
    run: Option<RunSeen>,
}

/// The queried runs, by repository and ID.
type Runs = BTreeMap<(Arc<str>, u64), Option<RunSeen>>;

/// Ignores a conflict: a concurrent writer has newer information.
fn unless_changed(done: Result<(), PassError>) -> Result<(), PassError> {
    match done {
        Err(PassError::Commit(CommitError::Conflict)) => Ok(()),
        other => other,
    }
}
