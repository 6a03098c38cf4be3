//! What GitHub refuses and limits, known before a launch: a machine that gets no configuration is
//! bought in vain.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::entity::{Allowance, Probe};
use muster_domain::ids::Entity;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::plan::Plan;
use muster_domain::launch::withheld;
use muster_domain::pool::Pool;
use muster_domain::stored::{Change, Stored};
use muster_domain::time::Time;

use super::ScaleUp;
use super::pool_snapshot::{PoolSnapshot, Probes};
use crate::causes::with_causes;
use crate::ports::{CommitError, Table};
use crate::writes::PassError;

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// How many machines may be launched for the entities of the demand, and of slots to be tried
    /// again, that GitHub refuses us or limits.
    pub(super) async fn allowances(
        &self,
        pool: &Pool,
        demand: &[Stored<Job>],
        retries: &[Stored<Instance>],
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Result<BTreeMap<Entity, Allowance>, PassError> {
        let of_slots = retries.iter().map(|slot| slot.entity.clone());
        let mut wanted: Vec<Entity> =
            demand.iter().filter_map(|job| pool.entity_for(job)).chain(of_slots).collect();
        wanted.sort();
        wanted.dedup();
        wanted.retain(|entity| !known.asked.contains(entity));
        if !wanted.is_empty() {
            let unwell = self.table.launch_conditions(&pool.name, &wanted).await?.unwell;
            known.asked.extend(wanted);
            known.unwell.extend(unwell);
        }
        let mut allowances = BTreeMap::new();
        for health in &known.unwell {
            let Some(held) = health.held_in(pool, now) else { continue };
            let mut is_due = known.probing.contains_key(&health.entity);
            let probe = health.probe(pool).filter(|probe| !is_due && probe.due_at(None) <= now);
            if let Some(probe) = probe {
                let last = self.table.cursor(&probe.cursor).await?;
                if probe.due_at(last) <= now {
                    is_due = true;
                    known.probes.insert(health.entity.clone(), (probe, last));
                }
            }
            let allowance = Allowance {
                most: u32::from(is_due),
                held,
                holds_slots: true,
                elsewhere: health.held(now).is_none(),
            };
            allowances.insert(health.entity.clone(), allowance);
        }
        Ok(allowances)
    }

    /// Those of entities whose jobs GitHub gives to none of their runners. `demand`: jobs on hold
    /// as well.
    pub(super) async fn withhold(
        &self,
        pool: &Pool,
        demand: &[Stored<Job>],
        now: Time,
    ) -> Result<BTreeMap<Entity, Allowance>, PassError> {
        if !withheld::is_suspected(demand) {
            return Ok(BTreeMap::new());
        }
        let live = self.live_instances(pool).await?;
        Ok(withheld::allowances(pool, demand, &live, now, &self.settings.timings))
    }

    /// Puts on record that a machine of the plan is to find out whether runners are registered
    /// again: one of all pools does. False where another pass was faster.
    pub(super) async fn begin_probes(
        &self,
        plan: &Plan,
        known: &mut PoolSnapshot,
        now: Time,
    ) -> Result<bool, PassError> {
        let launched = plan.launches.iter().flat_map(|one| {
            let again = one.again.iter().map(Change::next);
            one.instances().chain(again)
        });
        let entities: BTreeSet<&Entity> = launched.map(|instance| &instance.entity).collect();
        for (entity, (probe, last)) in std::mem::take(&mut known.probes) {
            if !entities.contains(&entity) {
                continue;
            }
            match self.table.move_cursor(&probe.cursor, last, now).await {
                Ok(()) => {
                    known.probing.insert(entity, (probe, last));
                }
                Err(CommitError::Conflict) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Those probes of a pass that it has not launched after all: nothing was found out, and the
    /// next one need not wait for longer.
    pub(super) async fn put_probes_back(&self, known: &mut PoolSnapshot, now: Time) {
        for (entity, probe) in std::mem::take(&mut known.probing) {
            self.put_back(&entity, probe, now).await;
        }
    }

    /// The same for a machine that EC2 refused.
    pub(super) async fn probe_again(
        &self,
        failed: &[Stored<Instance>],
        mut out: Probes,
        now: Time,
    ) {
        for slot in failed {
            if let Some(probe) = out.remove(&slot.entity) {
                self.put_back(&slot.entity, probe, now).await;
            }
        }
    }

    async fn put_back(&self, entity: &Entity, (probe, last): (Probe, Option<Time>), now: Time) {
        let last = last.unwrap_or(Time::from_millis(0));
        if let Err(error) = self.table.move_cursor(&probe.cursor, Some(now), last).await {
            tracing::warn!(%entity, error = with_causes(&error), "failed to put a probe back; the next one waits longer");
        }
    }
}
