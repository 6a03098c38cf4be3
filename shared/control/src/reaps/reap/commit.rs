//! Builds and commits what a reap pass writes.

use muster_domain::causes::with_causes;
use muster_domain::ids::JobKey;
use muster_domain::instance::Instance;
use muster_domain::lifecycle::Record;
use muster_domain::observation::Observation;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;
use muster_domain::usage;

use super::Reap;
use crate::context::Ports;
use crate::health;
use crate::launches::headroom;
use crate::ports::{CommitError, Launches, Table, Write};
use crate::writes::{self, Before, PassError};

impl<P: Ports> Reap<'_, P> {
    /// Commits a transition. Returns the instance as stored, and the job that is demand again.
    pub(super) async fn commit(
        &self,
        before: &Stored<Instance>,
        next: &Instance,
        records: Vec<Record>,
        now: Time,
    ) -> Result<(Stored<Instance>, Option<JobKey>), PassError> {
        let mut writes = writes::for_instance(self.context.table, before, next, now).await?;
        writes.extend(records.into_iter().map(|record| match record {
            Record::Audit(audit) => Write::Audit(audit),
            Record::Orphan(orphan) => Change::create(orphan).into(),
        }));
        writes.extend(self.failure(before, next, now).await?);
        if writes.is_empty() {
            return Ok((before.clone(), None));
        }
        let gave_back = writes.iter().find_map(|write| match write {
            Write::Job(job) => Some(job.key()),
            _ => None,
        });
        let committed = match self.context.table.commit(&writes).await {
            Ok(committed) => committed,
            Err(error) => {
                let uncounted = match error {
                    CommitError::Conflict => {
                        headroom::uncounted(self.context.table, &writes).await?
                    }
                    CommitError::Unavailable(_) => Vec::new(),
                };
                if uncounted.is_empty() {
                    return Err(error.into());
                }
                tracing::error!(instance.id = %next.name, ?uncounted,
                    "a counter is zero despite a live record: not decremented");
                writes.retain(|write| !uncounted.contains(write));
                self.context.table.commit(&writes).await?
            }
        };
        if before.state() != next.state() {
            tracing::info!(instance.id = %next.name, from = %before.state(), to = %next.state(),
                reason = next.events.last().map(|event| &*event.what), "instance changed state");
        }
        let stored = match before.record() == next {
            true => before.clone(),
            false => before.change(next.clone()).stored(&committed),
        };
        self.note_reclaim(before, next, now).await;
        Ok((stored, gave_back))
    }

    /// Records that EC2 reclaimed Spot capacity, so that launches avoid its place for a while. That
    /// is advice, so a failed write does not fail the pass.
    async fn note_reclaim(&self, before: &Instance, next: &Instance, now: Time) {
        let news = usage::reclaimed_at(next).filter(|_| usage::reclaimed_at(before).is_none());
        let Some(at) = news else { return };
        let noted =
            health::note(self.context.table, |known| known.after_reclaim(&next.make, at, now));
        if let Err(error) = noted.await {
            tracing::warn!(instance.id = %next.name, error = with_causes(&error),
                "failed to record where EC2 reclaimed a machine");
        }
    }

    /// Writes the instance unchanged. If the table refuses writes, this ends the pass before it
    /// calls EC2 and GitHub, whose quotas count reads: a pass that cannot write would repeat the
    /// same reads each time.
    pub(super) async fn write_again(
        &self,
        instance: &Stored<Instance>,
    ) -> Result<Stored<Instance>, PassError> {
        let change = instance.change(instance.record().clone());
        let committed = self.context.table.commit(&[change.clone().into()]).await?;
        Ok(change.stored(&committed))
    }

    /// Records a Spot notice that arrived after the machine's end: it may explain why a job was cut
    /// short, because a machine that powers itself off hides EC2's reason.
    pub(super) async fn note_late_notice(
        &self,
        ended: &Instance,
        seen: &Observation,
        now: Time,
    ) -> Result<(), PassError> {
        let at = seen.spot_notice_at.unwrap_or(now);
        if at > ended.since() {
            return Ok(());
        }
        let mut next = ended.clone();
        next.spot_notice(at);
        // The instance itself is final.
        let writes = writes::of_cut_job(self.context.table, &next, now).await?;
        if !writes.is_empty() {
            self.context.table.commit(&writes).await?;
        }
        self.note_reclaim(ended, &next, now).await;
        Ok(())
    }

    /// Records a machine that never ran a job. After several in a row, the pool launches one at a
    /// time until one works. Part of the commit that ends the claim, so that the job finds it
    /// recorded.
    async fn failure(
        &self,
        before: &Instance,
        next: &Instance,
        now: Time,
    ) -> Result<Option<Write>, PassError> {
        let Some(why) = before.served_nothing(next) else { return Ok(None) };
        tracing::warn!(instance.id = %next.name, pool.name = %next.pool, why,
            "a machine never ran a job");
        let pool = self.context.settings.pool(&next.pool);
        if pool.is_some_and(|pool| next.is_outdated(pool)) {
            // A failure under an older configuration says nothing about the current one.
            return Ok(None);
        }
        let stored = Before::of(self.context.table.cooldowns().await)?;
        let record = stored.record().cloned().unwrap_or_default();
        if before.runner.n > 0 && before.runner.id.is_none() && record.has_entity(&before.entity) {
            // GitHub denies or limits this entity, which is not the pool's failure.
            return Ok(None);
        }
        let noted = record.after_failure(next, why, now);
        Ok(noted.map(|noted| stored.change(noted, now).into()))
    }
}
