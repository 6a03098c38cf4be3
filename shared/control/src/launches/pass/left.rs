//! Jobs and slots for which nothing is launched now.

use muster_domain::ids::JobKey;
use muster_domain::instance::State;
use muster_domain::job::Job;
use muster_domain::launch::plan::{BlockedSlot, Plan, Unplaced};
use muster_domain::launch::verdict::{Conditions, Wanted, verdict};
use muster_domain::stored::{Change, Committed, Stored};

use super::{MAX_WRITES, RunningPass};
use crate::context::{Context, Wired};
use crate::ports::{CommitError, Jobs as _, Table, Write};
use crate::writes::PassError;

impl<W: Wired<Table: Table>> RunningPass<'_, W> {
    /// Records until when slots wait. If a concurrent writer changed a slot, that slot stays as it
    /// is and its job is not moved to a different pool.
    pub(super) async fn put_off(&mut self, plan: &mut Plan) -> Result<(), PassError> {
        let writes: Vec<Write> = plan.put_off.iter().cloned().map(Write::from).collect();
        for part in writes.chunks(MAX_WRITES) {
            if !self.goes_on_with(part, plan).await? {
                // One of them has changed: write the others separately.
                for write in part {
                    self.goes_on_with(std::slice::from_ref(write), plan).await?;
                }
            }
        }
        self.known.wait_for(plan.put_off.iter().filter_map(|slot| slot.due_at()), self.now);
        Ok(())
    }

    /// Commits these writes and updates the plan with the stored records. Returns false if one of
    /// the records has changed.
    async fn goes_on_with(&mut self, part: &[Write], plan: &mut Plan) -> Result<bool, PassError> {
        match self.commit(part).await {
            Ok(committed) => part.iter().for_each(|write| goes_on(plan, write, &committed)),
            Err(PassError::Commit(CommitError::Conflict)) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Returns the jobs of slots for which nothing is launched now, because of an earlier refusal
    /// or EC2's latest answer.
    pub(super) async fn left_by_slots(
        &mut self,
        mut stuck: Vec<BlockedSlot>,
    ) -> Result<Vec<Unplaced>, PassError> {
        let Context { table, settings, .. } = self.pass.context;
        if let Some(cooldowns) = &self.known.cooldowns {
            // Only EC2's refusals: everything else was judged in the plan.
            let mut refused = Conditions::default();
            refused.cooldowns.clone_from(cooldowns);
            self.known.rest.retain(|slot| {
                let judged = verdict(self.pool, Wanted::Slot(slot), &refused, self.now);
                let block = judged.err().filter(|_| slot.state() == State::PendingCreate);
                let goes_on = block.is_none();
                stuck.extend(block.map(|block| BlockedSlot { slot: slot.clone(), block }));
                goes_on
            });
        }
        let keys: Vec<JobKey> = stuck.iter().filter_map(|one| one.slot.claim()).collect();
        if keys.is_empty() || settings.pools.len() < 2 {
            return Ok(Vec::new());
        }
        let jobs = table.jobs(&keys).await?;
        let left = |BlockedSlot { slot, block }: BlockedSlot| {
            let waits =
                |job: &&Stored<Job>| job.is_waiting() && job.claim.as_ref() == Some(&slot.name);
            let job = jobs.iter().find(waits)?.clone();
            Some(Unplaced { job, slot: Some(slot), block })
        };
        Ok(stuck.into_iter().filter_map(left).collect())
    }
}

/// Updates the plan with a postponed slot as stored, because its job may get a machine in a
/// different pool.
fn goes_on(plan: &mut Plan, write: &Write, committed: &Committed) {
    if let Write::Instance(put_off) = write {
        for stuck in plan.stuck.iter_mut().filter(|one| one.slot.name == put_off.name) {
            stuck.slot = Change::clone(put_off).stored(committed);
        }
    }
}
