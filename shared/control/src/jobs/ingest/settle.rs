//! Updates the claims that an event invalidates.

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::claim::{self, Started};
use muster_domain::instance::{Instance, JobTitle, State};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use super::{Ingest, Touched};
use crate::context::Wired;
use crate::ports::{Table, Write};
use crate::writes;

impl<W: Wired<Table: Table>> Ingest<'_, W> {
    /// The job as it is to be stored, and the writes of everybody else.
    pub(super) fn settle(&self, job: Job, touched: &Touched, now: Time) -> (Job, Vec<Write>) {
        let live_taker = touched.taker.as_deref().filter(|taker| taker.state().is_live());
        let Some(mut taker) = live_taker.cloned() else {
            return Self::settle_without_taker(job, touched, now);
        };
        let mut changes = Vec::new();
        if job.status() == JobStatus::Completed {
            let failed = job.last_event.has_failed();
            taker.github_completed(job.key(), failed, now, &self.context.settings.timings);
        } else {
            changes.extend(killed_unseen(&taker, now).map(Write::Audit));
            taker.github_started(job.key(), now);
        }
        let JobEvent { repository, name, .. } = job.last_event.clone();
        taker.name_job(job.key(), JobTitle { repository, name });
        let (left, spared) = (touched.left.as_deref().cloned(), touched.spared.as_deref().cloned());
        let started = Started { job, taker, left, spared };
        let can_serve = |instance: &Instance, job: &Job| {
            let pool = self.context.settings.pool(&instance.pool);
            pool.is_some_and(|pool| claim::can_serve(pool, instance, job))
        };
        let settled = claim::settle_started(started, can_serve, now);
        changes.extend(changed(touched.taker.as_ref(), &settled.taker));
        if let Some(spared) = &settled.spared {
            changes.extend(changed(touched.spared.as_ref(), spared));
        }
        if let Some(left) = &settled.left {
            changes.extend(writes::job(touched.left.as_ref(), left));
        }
        (settled.job, changes)
    }

    /// Cancelled before a runner took it, or taken by one that is not ours: whoever was meant for
    /// it is free.
    pub(super) fn settle_without_taker(
        mut job: Job,
        touched: &Touched,
        now: Time,
    ) -> (Job, Vec<Write>) {
        let mut changes = Vec::new();
        if let Some(spared) = &touched.spared {
            let mut next = spared.record().clone();
            if next.claim() == Some(job.key()) {
                next.clear_claim(now, "the job no longer needs a runner");
            }
            changes.extend(changed(Some(spared), &next));
            claim::set_job_claim(&mut job, None);
        }
        (job, changes)
    }
}

/// Returns the audit line about a job that was unknown when an order, or the machine's age, began
/// to end its machine. `taker` is the instance before the job was known.
fn killed_unseen(taker: &Instance, now: Time) -> Option<Audit> {
    let told = taker.mark().is_some_and(|mark| mark.kill_told);
    let ends = taker.may_kill_job() && (taker.state() == State::Deleting || told);
    (ends && !taker.runner.has_taken_job() && taker.runner.exit.is_none()).then(|| {
        let (by, why) = taker.killer();
        Audit::new(&taker.name, AuditKind::JobKilled, by, why, now)
    })
}

fn changed(before: Option<&Stored<Instance>>, next: &Instance) -> Option<Write> {
    before.and_then(|before| writes::instance(before, next))
}
