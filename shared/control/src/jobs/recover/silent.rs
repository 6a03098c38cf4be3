//! Waiting jobs of which nothing was heard for long: GitHub is queried for each, and for its run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::ids::PoolName;
use muster_domain::job::run::{self, Judgement, RunLook};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::launch::trouble::Asked;
use muster_domain::observation::ProviderError;
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};

use super::{MAX_TROUBLES, Recover, account, home_of};
use crate::context::Wired;
use crate::health::note_answer;
use crate::jobs::ingest::{Folded, Ingest};
use crate::ports::{CommitError, Github, JobSeen, Queue, Registrar, RunSeen, Table};
use crate::woken::Woken;
use crate::writes::{self, PassError};

impl<W: Wired<Table: Table, Queue: Queue, Github: Github>> Recover<'_, W> {
    /// Queries GitHub for jobs of which nothing was heard for long. Adds accounts whose rate limit
    /// turns out to be used up.
    pub(super) async fn ask_for(
        &self,
        silent: &[Stored<Job>],
        limited: &mut BTreeSet<String>,
        now: Time,
    ) -> Result<(), PassError> {
        let (mut troubles, mut runs) = (0, Runs::new());
        for job in silent {
            if self.is_out_of_time() {
                return Ok(());
            }
            // Its pool may be gone: not asked for, it would have the first turn of each sweep for
            // ever.
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
                Asked::Other,
                answer.as_ref().err(),
                now,
            )
            .await?;
            self.report.borrow_mut().asked += 1;
            match answer {
                Ok(look) => self.heard(job, look, now).await?,
                Err(trouble) => {
                    self.failed_call("a job could not be asked for", &trouble);
                    match trouble {
                        // Its jobs keep their places, and are asked for when the limit is over.
                        ProviderError::RateLimited(_) => {
                            limited.insert(account);
                            continue;
                        }
                        // One owner's refusal says nothing about the others.
                        ProviderError::Unauthorized(_) => {}
                        ProviderError::Unavailable(_) => troubles += 1,
                    }
                    // It has had its turn: the others must not wait for an answer about it.
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

    /// Asks for a job, and for its run where the job needs a runner still, as far as GitHub says:
    /// it may keep a job queued in a run that has ended. Each run is asked for once.
    async fn look(
        &self,
        registrar: &Registrar,
        job: &Job,
        runs: &mut Runs,
    ) -> Result<Look, ProviderError> {
        let said = &job.last_event;
        let seen = self.context.github.job(registrar, &said.repository, job.key().job).await?;
        if seen.as_ref().is_some_and(|seen| seen.status != JobStatus::Queued) {
            return Ok(Look { seen, run: None });
        }
        let of = (Arc::clone(&said.repository), said.run);
        if !runs.contains_key(&of) {
            let run = self.context.github.run(registrar, &said.repository, said.run).await?;
            runs.insert(of.clone(), run);
        }
        Ok(Look { seen, run: runs.get(&of).cloned().flatten() })
    }

    /// What GitHub showed goes on record.
    async fn heard(&self, job: &Stored<Job>, look: Look, now: Time) -> Result<(), PassError> {
        let Look { seen, run } = look;
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
                tracing::warn!(job.id = %job.key(), run = job.last_event.run, ?why, "found a job that can never run: it is over");
                self.report.borrow_mut().moved_on += 1;
                let conclusion = run.and_then(|run| run.conclusion);
                let event = JobEvent { status: JobStatus::Completed, conclusion, ..said() };
                self.woken(self.ingest().fold_end(&event, why, now).await?).await
            }
            Judgement::Waits(next) => match seen {
                Some(seen) if job.is_gated() || job.approval.is_some() => {
                    tracing::info!(job.id = %job.key(), "the job does not wait for an approval");
                    self.report.borrow_mut().moved_on += usize::from(job.is_gated());
                    self.woken(self.ingest().fold(&seen.event(said()), now).await?).await
                }
                // A job that is not shown to us may exist all the same.
                _ => self.note_job(job, *next).await,
            },
        }
    }

    const fn ingest(&self) -> Ingest<'_, W> {
        Ingest { context: self.context }
    }

    /// What GitHub says counts as an event: the pools that it touches are woken, as for any other.
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

    /// One that was confirmed just now is served at once.
    async fn note_job(&self, job: &Stored<Job>, next: Job) -> Result<(), PassError> {
        // Somebody who has changed the row meanwhile knows more about it.
        let writes = [job.change(next.clone()).into()];
        let is_noted = writes::commit_unless_changed(self.context.table, &writes).await?;
        if is_noted && next.is_demand() && !job.is_demand() {
            self.wake(&next.pool.iter().cloned().collect(), &[next]).await?;
        }
        Ok(())
    }
}

/// What GitHub showed of a job, and of its run where that was asked for.
struct Look {
    seen: Option<JobSeen>,
    run: Option<RunSeen>,
}

/// The runs that were asked for, by repository and number.
type Runs = BTreeMap<(Arc<str>, u64), Option<RunSeen>>;

/// Somebody who has changed the row meanwhile knows more about it.
fn unless_changed(done: Result<(), PassError>) -> Result<(), PassError> {
    match done {
        Err(PassError::Commit(CommitError::Conflict)) => Ok(()),
        other => other,
    }
}
