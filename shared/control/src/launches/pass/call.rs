//! Calls of EC2, and what their answers are on record.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::MachineId;
use muster_domain::instance::Instance;
use muster_domain::job::claim;
use muster_domain::launch::cooldown::{self, Cooldowns};
use muster_domain::launch::plan::{self, Answered, LaunchOutcome, PlannedLaunch};
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::stored::{Committed, Stored};
use muster_domain::timings::Timings;

use super::commit::{created, outcome_writes};
use super::{MAX_WRITES, Run};
use crate::causes::with_causes;
use crate::context::{Context, Wired};
use crate::ports::{CommitError, Compute, Instances as _, Launches as _, Table, Write};
use crate::writes::{self, PassError};

impl<W: Wired<Table: Table, Compute: Compute>> Run<'_, W> {
    /// Claims what the launch's own commit had no room to claim. Where a job has changed meanwhile,
    /// or nobody answers, the slot stays free, for it or for another job.
    pub(super) async fn claim_beyond(
        &mut self,
        planned: &PlannedLaunch,
        committed: &Committed,
    ) -> Vec<Stored<Instance>> {
        let free: Vec<Stored<Instance>> =
            planned.beyond.iter().map(|(slot, _)| created(slot, committed)).collect();
        if free.is_empty() {
            return free;
        }
        let (mut jobs, mut slots) = (Vec::new(), Vec::new());
        for (slot, (_, job)) in free.iter().zip(&planned.beyond) {
            let (mut claims, mut claimed) = (job.record().clone(), slot.record().clone());
            claim::assign(&mut claims, &mut claimed, self.now, self.timings());
            jobs.push(job.change(claims));
            slots.push(slot.change(claimed));
        }
        let pairs = jobs.into_iter().zip(slots.iter().cloned());
        let writes: Vec<Write> =
            pairs.flat_map(|(job, slot)| [Write::from(job), Write::from(slot)]).collect();
        match self.commit(&writes).await {
            Ok(claimed) => slots.into_iter().map(|slot| slot.stored(&claimed)).collect(),
            Err(error) => {
                tracing::warn!(launch.id = %planned.launch.id, error = with_causes(&error), "failed to claim jobs for new slots");
                free
            }
        }
    }

    /// Replays launches whose pass was stopped before EC2's answer was on record. Whether there was
    /// one.
    pub(super) async fn replay(&mut self, listed: Vec<Stored<Launch>>) -> Result<bool, PassError> {
        let (table, mut replayed) = (self.pass.context.table, false);
        for listed in listed {
            if replayed && self.pass.is_late() {
                return Ok(true);
            }
            // The listing may be late; the record decides.
            let Some(stored) = table.launch(&listed.id).await? else {
                continue;
            };
            let Some(leased) = stored.leased_again(self.now, self.timings()) else {
                continue;
            };
            self.hold().await?;
            let leased = stored.change(leased);
            let leased = match table.commit(&[leased.clone().into()]).await {
                Ok(committed) => leased.stored(&committed),
                Err(CommitError::Conflict) => continue,
                Err(error) => return Err(error.into()),
            };
            replayed = true;
            let slots = table.instances(&leased.slots).await?;
            if slots.iter().any(|slot| slot.is_free_slot_of(&leased.id)) {
                // Rare, and large: not part of every pass.
                Box::pin(self.call(leased, slots)).await?;
                continue;
            }
            // Each slot has its machine, or has ended: there is nothing left to ask. And EC2 forgets
            // tokens after a while, so a late replay would launch again.
            let settled = leased.change(leased.settled()).into();
            writes::commit_unless_changed(table, &[settled]).await?;
        }
        Ok(replayed)
    }

    /// Calls EC2 and puts its answer on record.
    pub(super) async fn call(
        &mut self,
        launch: Stored<Launch>,
        slots: Vec<Stored<Instance>>,
    ) -> Result<(), PassError> {
        let (now, Context { table, compute, settings, .. }) = (self.now, self.pass.context);
        let mut answer = compute.launch(&launch.id, &launch.request).await;
        let at = (self.pass.clock)();
        if self.known.capacity.is_settling(now, &settings.timings) {
            answer = cooldown::while_settling(answer);
        }
        self.report.refused(&launch, &answer);
        let after = |known: &Cooldowns| known.after(&launch, &answer, now, &settings.timings);
        self.known.remember(table, after).await;
        // A replayed fleet may be answered without its machines, and a look by tag may be late:
        // neither is trusted alone. A token that EC2 knows with other parameters has most likely
        // launched.
        let is_known = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Idempotency);
        let found = if launch.is_replay() || is_known {
            compute.find_launched(&launch.id).await.unwrap_or_default()
        } else {
            BTreeMap::new()
        };
        let answered = Answered { at, answer, found };
        let timings = &settings.timings_of(&launch.pool);
        let Some((outcome, committed)) = self.settle(launch, slots, &answered, timings).await?
        else {
            return Ok(());
        };
        self.report.settled(&outcome);
        self.known.remember(table, |known| known.after_outcome(&outcome, now, timings)).await;
        let failed: Vec<Stored<Instance>> =
            outcome.failed.into_iter().map(|slot| slot.stored(&committed)).collect();
        let claimed = failed.iter().filter(|slot| slot.claim().is_some());
        self.known.wait_for(claimed.filter_map(|slot| slot.retry_at(timings)), now);
        self.known.rest.extend(failed);
        Ok(())
    }

    /// Puts on record what EC2's answer means for the launch and its slots as they are by now. None
    /// where somebody else has settled or called it again.
    async fn settle(
        &self,
        mut launch: Stored<Launch>,
        mut slots: Vec<Stored<Instance>>,
        answered: &Answered,
        timings: &Timings,
    ) -> Result<Option<(LaunchOutcome, Committed)>, PassError> {
        let (table, now) = (self.pass.context.table, self.now);
        let mut owned = BTreeSet::new();
        let mut conflicts = false;
        writes::in_rounds(async || {
            // A job ended, a delete was ordered, or another pass bound machines meanwhile.
            if std::mem::replace(&mut conflicts, true) {
                let Some(stored) = table.launch(&launch.id).await? else { return Ok(None) };
                if stored.state == LaunchState::Settled || stored.calls != launch.calls {
                    return Ok(None);
                }
                slots = table.instances(&stored.slots).await?;
                owned = self.owned_among(answered).await?;
                launch = stored;
            }
            let is_owned = |machine: &MachineId| owned.contains(machine);
            let outcome = plan::apply(&launch, slots.clone(), answered, is_owned, now, timings);
            let committed = self.put_down(&outcome).await?;
            Ok(Some((outcome, committed)))
        })
        .await
    }

    /// Writes what EC2's answer means. What one commit does not hold goes before it; stopped in
    /// between, the launch is open, and is replayed for the others.
    async fn put_down(&self, outcome: &LaunchOutcome) -> Result<Committed, CommitError> {
        let mut last = vec![outcome.launch.clone().into()];
        let mut first = Vec::new();
        for part in outcome_writes(outcome) {
            let fits = last.len() + part.len() <= MAX_WRITES;
            if fits { &mut last } else { &mut first }.extend(part);
        }
        if !first.is_empty() {
            self.pass.context.table.commit(&first).await?;
        }
        self.pass.context.table.commit(&last).await
    }

    /// Machines of the answer that somebody owns by now, in one read.
    async fn owned_among(&self, answered: &Answered) -> Result<BTreeSet<MachineId>, PassError> {
        let answer = answered.answer.iter().flat_map(|answer| answer.machines.keys());
        let machines: Vec<MachineId> = answer.chain(answered.found.keys()).cloned().collect();
        Ok(self.pass.context.table.owners_of(&machines).await?.into_keys().collect())
    }
}
