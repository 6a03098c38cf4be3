//! Jobs and slots for which nothing is launched now.

use muster_domain::ids::JobKey;
use muster_domain::instance::State;
use muster_domain::job::Job;
use muster_domain::launch::plan::{self, BlockedSlot, Plan, Unplaced};
use muster_domain::pool::Pool;
use muster_domain::stored::{Change, Committed, Stored};
use muster_domain::time::Time;

use super::pool_snapshot::PoolSnapshot;
use super::report::LaunchReport;
use super::{MAX_WRITES, ScaleUp};
use crate::ports::{CommitError, Compute, Table, Write};
use crate::writes::PassError;

impl<T: Table, C: Compute> ScaleUp<'_, T, C> {
    /// Puts on record what waits for EC2, and until when. Whoever wrote one of the records
    /// meanwhile knows better, and another pool does not get that one either.
    pub(super) async fn put_off(
        &self,
        plan: &mut Plan,
        known: &mut PoolSnapshot,
        report: &mut LaunchReport,
    ) -> Result<(), PassError> {
        report.held += plan.held.len();
        let jobs = plan.held.iter().cloned().map(Write::from);
        let slots = plan.put_off.iter().cloned().map(Write::from);
        let writes: Vec<Write> = jobs.chain(slots).collect();
        for part in writes.chunks(MAX_WRITES) {
            if !self.goes_on_with(part, plan, known).await? {
                // One of them has changed: the others need not wait for the next pass.
                for write in part {
                    self.goes_on_with(std::slice::from_ref(write), plan, known).await?;
                }
            }
        }
        Ok(())
    }

    /// Commits, and has the plan go on with the records as they are stored then. False where one of
    /// them has changed.
    async fn goes_on_with(
        &self,
        part: &[Write],
        plan: &mut Plan,
        known: &mut PoolSnapshot,
    ) -> Result<bool, PassError> {
        match self.commit(part, known).await {
            Ok(committed) => part.iter().for_each(|write| goes_on(plan, write, &committed)),
            Err(PassError::Commit(CommitError::Conflict)) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The jobs of slots for which EC2 is asked nothing now: since before this pass, or after what
    /// it has just said.
    pub(super) async fn refused(
        &self,
        pool: &Pool,
        mut stuck: Vec<BlockedSlot>,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Result<Vec<Unplaced>, PassError> {
        if let Some(cooldowns) = &known.cooldowns {
            known.rest.retain(|slot| {
                let waits = slot.state() == State::PendingCreate;
                let held = waits.then(|| plan::stuck(pool, slot, cooldowns, now)).flatten();
                let goes_on = held.is_none();
                stuck.extend(held);
                goes_on
            });
        }
        let keys: Vec<JobKey> = stuck.iter().filter_map(|one| one.slot.claim()).collect();
        if keys.is_empty() || self.settings.pools.len() < 2 {
            return Ok(Vec::new());
        }
        let jobs = self.table.jobs(&keys).await?;
        let left = |BlockedSlot { slot, why }: BlockedSlot| {
            let waits =
                |job: &&Stored<Job>| job.is_waiting() && job.claim.as_ref() == Some(&slot.name);
            let job = jobs.iter().find(waits)?.clone();
            Some(Unplaced { job, slot: Some(slot), why, waits_for_room: false })
        };
        Ok(stuck.into_iter().filter_map(left).collect())
    }
}

/// What was put off may find a machine in another pool: the plan goes on with the record as it is
/// stored now.
fn goes_on(plan: &mut Plan, write: &Write, committed: &Committed) {
    match write {
        Write::Job(held) => {
            for left in plan.left.iter_mut().filter(|left| left.job.key() == held.key()) {
                left.job = Change::clone(held).stored(committed);
            }
        }
        Write::Instance(put_off) => {
            for stuck in plan.stuck.iter_mut().filter(|one| one.slot.name == put_off.name) {
                stuck.slot = Change::clone(put_off).stored(committed);
            }
        }
        _ => {}
    }
}
