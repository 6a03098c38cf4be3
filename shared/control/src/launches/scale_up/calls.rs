//! Calls of EC2, and what their answers are on record.

use std::collections::BTreeSet;

use muster_domain::ec2::ErrorClass;
use muster_domain::ids::{Entity, MachineId};
use muster_domain::instance::Instance;
use muster_domain::job::claim;
use muster_domain::launch::cooldown::{self, Cooldowns};
use muster_domain::launch::plan::{self, Answered, LaunchOutcome, PlannedLaunch};
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::pool::Pool;
use muster_domain::stored::{Committed, Stored};
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use super::commits::{created, outcome_writes};
use super::pool_snapshot::{PoolSnapshot, Probes, count_refusals};
use super::report::LaunchReport;
use super::{MAX_WRITES, ScaleUp};
use crate::causes::with_causes;
use crate::ports::{CommitError, Compute, Table, Write};
use crate::writes::{self, PassError};

impl<T: Table, C: Compute> ScaleUp<'_, T, C> {
    /// Claims what the launch's own commit had no room to claim. Where a job has changed meanwhile,
    /// or nobody answers, the slot stays free, for it or for another job.
    pub(super) async fn claim_beyond(
        &self,
        planned: &PlannedLaunch,
        committed: &Committed,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Vec<Stored<Instance>> {
        let free: Vec<Stored<Instance>> =
            planned.beyond.iter().map(|(slot, _)| created(slot, committed)).collect();
        if free.is_empty() {
            return free;
        }
        let (mut jobs, mut slots) = (Vec::new(), Vec::new());
        for (slot, (_, job)) in free.iter().zip(&planned.beyond) {
            let (mut claims, mut claimed) = (job.record().clone(), slot.record().clone());
            claim::assign(&mut claims, &mut claimed, now, &self.settings.timings);
            jobs.push(job.change(claims));
            slots.push(slot.change(claimed));
        }
        let pairs = jobs.into_iter().zip(slots.iter().cloned());
        let writes: Vec<Write> =
            pairs.flat_map(|(job, slot)| [Write::from(job), Write::from(slot)]).collect();
        match self.commit(&writes, known).await {
            Ok(claimed) => slots.into_iter().map(|slot| slot.stored(&claimed)).collect(),
            Err(error) => {
                tracing::warn!(launch.id = %planned.launch.id, error = with_causes(&error), "failed to claim jobs for new slots");
                free
            }
        }
    }

    /// Replays launches whose pass was stopped before EC2's answer was on record.
    pub(super) async fn replay_open(
        &self,
        pool: &Pool,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<bool, PassError> {
        for (number, listed) in self.table.open_launches(&pool.name).await?.into_iter().enumerate()
        {
            if number > 0 && self.is_late() {
                return Ok(false);
            }
            // The listing may be late; the record decides.
            let Some(stored) = self.table.launch(&listed.id).await? else {
                continue;
            };
            let Some(leased) = stored.leased_again(now, &self.settings.timings) else {
                continue;
            };
            self.hold(known).await?;
            let leased = stored.change(leased);
            let leased = match self.table.commit(&[leased.clone().into()]).await {
                Ok(committed) => leased.stored(&committed),
                Err(CommitError::Conflict) => continue,
                Err(error) => return Err(error.into()),
            };
            let slots = self.table.instances(&leased.slots).await?;
            if slots.iter().any(|slot| slot.is_free_slot_of(&leased.id)) {
                // Rare, and large: not part of every pass.
                Box::pin(self.call(leased, slots, known, now, report)).await?;
                continue;
            }
            // Its machines have bound themselves: there is nothing left to ask. And EC2 forgets
            // tokens after a while, so a late replay would launch again.
            let settled = leased.change(leased.settled()).into();
            writes::commit_unless_changed(self.table, &[settled]).await?;
        }
        Ok(true)
    }

    /// Calls EC2 and puts its answer on record.
    pub(super) async fn call(
        &self,
        launch: Stored<Launch>,
        slots: Vec<Stored<Instance>>,
        known: &mut PoolSnapshot,
        now: Time,
        report: &mut LaunchReport,
    ) -> Result<(), PassError> {
        let entities: BTreeSet<&Entity> = slots.iter().map(|slot| &slot.entity).collect();
        let out = entities.into_iter().filter_map(|entity| known.probing.remove_entry(entity));
        let out: Probes = out.collect();
        let mut answer = self.compute.launch(&launch.id, &launch.request).await;
        if known.capacity.is_settling(now, &self.settings.timings) {
            answer = cooldown::while_settling(answer);
        }
        count_refusals(&launch, &answer, report);
        let after = |known: &Cooldowns| known.after(&launch, &answer, now, &self.settings.timings);
        known.remember(self.table, after).await;
        // A replayed fleet may be answered without its machines, and a look by tag may be late:
        // neither is trusted alone. A token that EC2 knows with other parameters has most likely
        // launched.
        let is_known = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Idempotency);
        let found = if launch.is_replay() || is_known {
            self.compute.find_launched(&launch.id).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let answered = Answered { answer, found };
        let timings = &self.settings.timings_of(&launch.pool);
        let Some((outcome, committed)) = self.apply(launch, slots, &answered, now, timings).await?
        else {
            return Ok(());
        };
        count(&outcome, report);
        known.remember(self.table, |known| known.after_outcome(&outcome, now, timings)).await;
        let failed: Vec<Stored<Instance>> =
            outcome.failed.into_iter().map(|slot| slot.stored(&committed)).collect();
        let claimed = failed.iter().filter(|slot| slot.claim().is_some());
        known.wait_for(claimed.filter_map(|slot| slot.retry_at(timings)), now);
        self.probe_again(&failed, out, now).await;
        known.rest.extend(failed);
        Ok(())
    }

    /// Puts on record what EC2's answer means for the launch and its slots as they are by now. None
    /// where somebody else has settled or called it again.
    async fn apply(
        &self,
        mut launch: Stored<Launch>,
        mut slots: Vec<Stored<Instance>>,
        answered: &Answered,
        now: Time,
        timings: &Timings,
    ) -> Result<Option<(LaunchOutcome, Committed)>, PassError> {
        let mut owned = BTreeSet::new();
        let mut conflicts = false;
        writes::in_rounds(async || {
            // A machine registered by itself, a job ended, or a delete was ordered meanwhile.
            if std::mem::replace(&mut conflicts, true) {
                let Some(stored) = self.table.launch(&launch.id).await? else { return Ok(None) };
                if stored.state == LaunchState::Settled || stored.calls != launch.calls {
                    return Ok(None);
                }
                slots = self.table.instances(&stored.slots).await?;
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
    pub(super) async fn put_down(&self, outcome: &LaunchOutcome) -> Result<Committed, CommitError> {
        let mut last = vec![outcome.launch.clone().into()];
        let mut first = Vec::new();
        for part in outcome_writes(outcome) {
            let fits = last.len() + part.len() <= MAX_WRITES;
            if fits { &mut last } else { &mut first }.extend(part);
        }
        if !first.is_empty() {
            self.table.commit(&first).await?;
        }
        self.table.commit(&last).await
    }

    /// Machines of the answer that somebody owns by now, in one read.
    pub(super) async fn owned_among(
        &self,
        answered: &Answered,
    ) -> Result<BTreeSet<MachineId>, PassError> {
        let answer = answered.answer.iter().flat_map(|answer| &answer.machines);
        let machines: Vec<MachineId> = answer.chain(&answered.found).cloned().collect();
        Ok(self.table.owners_of(&machines).await?.into_keys().collect())
    }
}

fn count(outcome: &LaunchOutcome, report: &mut LaunchReport) {
    report.launched += outcome.bound.len();
    report.failed += outcome.failed.len();
    report.open += usize::from(outcome.launch.state == LaunchState::Open);
    for (machine, instance) in &outcome.bound {
        tracing::info!(instance.id = %instance.name, machine.id = %machine, "bound a machine");
    }
    for instance in &outcome.failed {
        tracing::warn!(instance.id = %instance.name, instance.state = %instance.state(),
            error = instance.last_error.as_ref().map(ToString::to_string),
            "failed to launch a slot");
    }
}
