//! Calls EC2 and records its answers.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::causes::with_causes;
use muster_domain::claim;
use muster_domain::ec2::{ErrorClass, LaunchError};
use muster_domain::ids::{ImageId, MachineId};
use muster_domain::instance::Instance;
use muster_domain::launch::plan::{self, Answered, PlannedLaunch};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::record::cooldown;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchOutcome, LaunchState};
use muster_domain::pool::Image;
use muster_domain::stored::{Committed, Stored};
use muster_domain::timings::Timings;

use super::commit::{created, outcome_writes};
use super::pool_lease::Lease;
use super::{MAX_WRITES, RunningPass};
use crate::context::{Context, Wired};
use crate::image_record;
use crate::ports::{CommitError, Compute, Instances as _, Launches as _, Table, Write};
use crate::writes::{self, PassError};

impl<W: Wired<Table: Table, Compute: Compute>> RunningPass<'_, W> {
    /// Claims jobs for slots beyond what fit into the launch's commit. If a job has changed, or the
    /// table does not answer, the slot stays free for any job.
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

    /// Replays launches whose pass stopped before EC2's answer was recorded. Returns whether there
    /// was one.
    pub(super) async fn replay(&mut self, listed: Vec<Stored<Launch>>) -> Result<bool, PassError> {
        let (table, mut replayed) = (self.pass.context.table, false);
        for listed in listed {
            if replayed && self.pass.is_late() {
                return Ok(true);
            }
            // The listing may be stale; the record decides.
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
                // Rare and large: boxed, so that it does not enlarge every pass.
                Box::pin(self.call(leased, slots, false)).await?;
                continue;
            }
            // Every slot has a machine or has ended, so nothing is left to launch. EC2 forgets
            // client tokens after a while, so a late replay would launch again.
            let settled = leased.change(leased.settled()).into();
            writes::commit_unless_changed(table, &[settled]).await?;
        }
        Ok(replayed)
    }

    /// Calls EC2 and puts its answer on record. `is_last`: the pass has no work after this
    /// call unless EC2 refuses something, so it returns the lease in the same commit.
    pub(super) async fn call(
        &mut self,
        launch: Stored<Launch>,
        slots: Vec<Stored<Instance>>,
        is_last: bool,
    ) -> Result<(), PassError> {
        let (now, Context { table, compute, settings, .. }) = (self.now, self.pass.context);
        let mut answer = compute.launch(&launch.id, &launch.request).await;
        let at = (self.pass.clock)();
        let rejects_image = self.reject_image(&launch, &answer).await;
        if rejects_image || self.known.capacity.is_settling(now, &settings.timings) {
            answer = cooldown::while_settling(answer);
        }
        self.report.refused(&launch, &answer);
        let after = |known: &Cooldowns| known.after(&launch, &answer, now, &settings.timings);
        self.known.remember(table, after).await;
        // The answer to a replay may omit the machines, and a search by tag may be stale, so use
        // both. A token that EC2 knows with different parameters has most likely launched.
        let is_known = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Idempotency);
        let found = if launch.is_replay() || is_known {
            compute.find_launched(&launch.id).await.unwrap_or_default()
        } else {
            BTreeMap::new()
        };
        let answered = Answered { at, answer, found };
        let timings = &settings.timings_of(&launch.pool);
        let returned = match is_last && self.known.rest.is_empty() {
            true => self.settle_last(&launch, &slots, &answered, timings).await?,
            false => None,
        };
        let settled = match returned {
            Some(settled) => Some(settled),
            None => self.settle(launch, slots, &answered, timings).await?,
        };
        let Some((outcome, committed)) = settled else { return Ok(()) };
        self.report.settled(&outcome);
        self.known.remember(table, |known| known.after_outcome(&outcome, now, timings)).await;
        let failed: Vec<Stored<Instance>> =
            outcome.failed.into_iter().map(|slot| slot.stored(&committed)).collect();
        let claimed = failed.iter().filter(|slot| slot.claim().is_some());
        self.known.wait_for(claimed.filter_map(|slot| slot.retry_at(timings)), now);
        self.known.rest.extend(failed);
        Ok(())
    }

    /// Stops using one of Muster's images if EC2 rejects it: the slots' next attempt boots a different one. Returns
    /// whether EC2 does.
    async fn reject_image(
        &mut self,
        launch: &Launch,
        answer: &Result<LaunchAnswer, LaunchError>,
    ) -> bool {
        let errors = match answer {
            Ok(answer) => answer.errors.as_slice(),
            Err(error) => std::slice::from_ref(error),
        };
        let rejects = |error: &&LaunchError| error.code.starts_with("InvalidAMIID");
        let Some(error) = errors.iter().find(rejects) else { return false };
        let Some(Image::Id(id)) = &launch.request.image else { return false };
        let Ok(image) = id.parse::<ImageId>() else { return false };
        // The pool's own image is its configuration.
        if self.pool.image == launch.request.image {
            return false;
        }
        let Context { table, .. } = self.pass.context;
        let why = format!("EC2 rejects it: {}: {}", error.code, error.message);
        match image_record::reject(table, &image, &why, self.now).await {
            Ok(stored) => self.known.images = stored,
            Err(error) => {
                tracing::warn!(
                    image = id,
                    error = with_causes(&error),
                    "failed to record a rejected image"
                );
            }
        }
        true
    }

    /// Records that EC2 has launched all machines, and returns the lease in the same commit. Returns
    /// none if the answer is a different one, or after a conflict: usually a wake-up has requested
    /// another round.
    async fn settle_last(
        &mut self,
        launch: &Stored<Launch>,
        slots: &[Stored<Instance>],
        answered: &Answered,
        timings: &Timings,
    ) -> Result<Option<(LaunchOutcome, Committed)>, PassError> {
        let outcome = plan::apply(launch, slots.to_vec(), answered, |_| false, self.now, timings);
        let is_whole = outcome.launch.state == LaunchState::Settled && outcome.failed.is_empty();
        let Some((lease, later)) = self.returned_lease().filter(|_| is_whole) else {
            return Ok(None);
        };
        let mut writes = vec![outcome.launch.clone().into(), lease.clone().into()];
        writes.extend(outcome_writes(&outcome).into_iter().flatten());
        if writes.len() > MAX_WRITES {
            return Ok(None);
        }
        match self.pass.context.table.commit(&writes).await {
            Ok(committed) => {
                self.known.capacity = Lease::Stored(lease.stored(&committed));
                self.known.is_given_back = true;
                self.report.later = later;
                Ok(Some((outcome, committed)))
            }
            Err(CommitError::Conflict) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Records what EC2's answer means for the launch and the current state of its slots. Returns
    /// none if a different pass has settled or called it again.
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
            // A job ended, a delete was ordered, or a different pass bound machines meanwhile.
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

    /// Commits what EC2's answer means. What exceeds one commit is written first; if this is
    /// interrupted, the launch stays open and is replayed for the rest.
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

    /// Returns the answer's machines that have an owner already, in one read.
    async fn owned_among(&self, answered: &Answered) -> Result<BTreeSet<MachineId>, PassError> {
        let answer = answered.answer.iter().flat_map(|answer| answer.machines.keys());
        let machines: Vec<MachineId> = answer.chain(answered.found.keys()).cloned().collect();
        Ok(self.pass.context.table.owners_of(&machines).await?.into_keys().collect())
    }
}
