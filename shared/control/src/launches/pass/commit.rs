//! Builds and commits the writes of a launch pass.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, JobKey};
use muster_domain::instance::Instance;
use muster_domain::launch::plan::PlannedLaunch;
use muster_domain::launch::{Launch, LaunchOutcome};
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::{Change, Committed, Stored};

use super::RunningPass;
use crate::context::Wired;
use crate::ports::{CommitError, Instances as _, Jobs as _, Table, Write};
use crate::writes::PassError;

impl<W: Wired<Table: Table>> RunningPass<'_, W> {
    /// Commits writes to jobs and instances. After a conflict it reads those records by key: the
    /// index may list an old version for minutes, which would make every round's commit fail.
    pub(super) async fn commit(&mut self, writes: &[Write]) -> Result<Committed, PassError> {
        let jobs = writes.iter().filter_map(|write| match write {
            Write::Job(job) => Some(job),
            _ => None,
        });
        let listed = writes.iter().filter_map(|write| match write {
            Write::Instance(next) if next.replaces().is_some() => Some(next),
            _ => None,
        });
        let (table, known) = (self.pass.context.table, &mut self.known);
        match table.commit(writes).await {
            Ok(committed) => {
                known.saw(jobs.map(|job| Change::clone(job).stored(&committed)));
                known.saw_instances(listed.map(|one| Change::clone(one).stored(&committed)));
                Ok(committed)
            }
            Err(CommitError::Conflict) => {
                let keys: Vec<JobKey> = jobs.map(|job| job.key()).collect();
                let names: Vec<InstanceName> = listed.map(|one| one.name.clone()).collect();
                if !keys.is_empty() {
                    known.saw(table.jobs(&keys).await?);
                }
                if !names.is_empty() {
                    known.saw_instances(table.instances(&names).await?);
                }
                Err(CommitError::Conflict.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the writes of a launch with its slots, claims and counters. If `taken` is set, it
    /// replaces the pool's counter and takes the lease. Otherwise the counter is incremented
    /// without reading it; with `wakes`, that conflicts if a pass was requested since.
    pub(super) fn launch_writes(
        &self,
        planned: &PlannedLaunch,
        launch: &Change<Launch>,
        taken: Option<&Change<Capacity>>,
        wakes: Option<u64>,
    ) -> Vec<Write> {
        let pool = self.pool;
        let mut writes = vec![launch.clone().into()];
        let count = u32::try_from(planned.instances().count()).unwrap_or(u32::MAX);
        let counter = taken.cloned().map(Write::from).or_else(|| {
            (count > 0).then(|| Write::CapacityUp {
                pool: pool.name.clone(),
                count,
                max: pool.max,
                holder: self.pass.holder.to_owned(),
                wakes,
            })
        });
        writes.extend(counter);
        writes.extend(self.counted(planned.instances()));
        writes.extend(planned.fresh.iter().map(|(_, job)| job.clone().into()));
        let new = planned.instances().map(|instance| Change::create(instance.clone()));
        writes.extend(new.chain(planned.again.iter().cloned()).map(Write::from));
        writes
    }

    /// Returns the increments of limit counters for new instances.
    fn counted<'b>(&self, new: impl Iterator<Item = &'b Instance>) -> Vec<Write> {
        let mut counts: BTreeMap<&Scope, u32> = BTreeMap::new();
        for scope in new.flat_map(|instance| &instance.counted_in) {
            *counts.entry(scope).or_default() += 1;
        }
        let max = |scope| self.pass.context.settings.limits.max(scope).unwrap_or(u32::MAX);
        counts
            .into_iter()
            .map(|(scope, count)| Write::CountUp { scope: scope.clone(), count, max: max(scope) })
            .collect()
    }
}

/// Returns a new slot as stored by its launch's commit.
pub(super) fn created(slot: &Instance, committed: &Committed) -> Stored<Instance> {
    Change::create(slot.clone()).stored(committed)
}

/// Returns the writes of each slot, which must stay in one commit.
pub(super) fn outcome_writes(outcome: &LaunchOutcome) -> Vec<Vec<Write>> {
    let bound = outcome.bound.iter().map(|(machine, next)| {
        let owner = Write::BindMachine { machine: machine.clone(), instance: next.name.clone() };
        vec![owner, next.clone().into()]
    });
    let others = outcome.failed.iter().chain(&outcome.waiting);
    bound.chain(others.map(|next| vec![next.clone().into()])).collect()
}
