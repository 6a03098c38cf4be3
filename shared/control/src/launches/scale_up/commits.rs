//! What a launch pass commits, as writes.

use std::collections::BTreeMap;

use muster_domain::ids::JobKey;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::plan::{Outcome, PlannedLaunch};
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;
use muster_domain::time::Time;

use super::ScaleUp;
use super::pool_snapshot::PoolSnapshot;
use crate::ports::{CommitError, Table, Write};
use crate::writes::PassError;

impl<T: Table, C> ScaleUp<'_, T, C> {
    /// Commits what is done about jobs. After a conflict it looks at them: the index that listed
    /// them may show for minutes what they were, and one of them would fail every round's commit.
    pub(super) async fn commit(
        &self,
        writes: &[Write],
        known: &mut PoolSnapshot,
    ) -> Result<(), PassError> {
        let jobs = writes.iter().filter_map(|write| match write {
            Write::Job { next, .. } => Some(&**next),
            _ => None,
        });
        match self.table.commit(writes).await {
            Ok(()) => {
                known.saw(jobs);
                Ok(())
            }
            Err(CommitError::Conflict) => {
                let keys: Vec<JobKey> = jobs.map(Job::key).collect();
                if !keys.is_empty() {
                    known.saw(&self.table.jobs(&keys).await?);
                }
                Err(CommitError::Conflict.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl<T, C> ScaleUp<'_, T, C> {
    /// A launch with its slots, claims and counters. With `wakes`, a conflict when somebody asked
    /// for a pass since.
    pub(super) fn launch_writes(
        &self,
        pool: &Pool,
        planned: &PlannedLaunch,
        wakes: Option<u64>,
        now: Time,
    ) -> Vec<Write> {
        let mut writes =
            vec![Write::Launch { next: Box::new(planned.launch.clone()), replaces: None }];
        let count = u32::try_from(planned.instances().count()).unwrap_or(u32::MAX);
        if count > 0 {
            writes.push(Write::CapacityUp {
                pool: pool.name.clone(),
                count,
                max: pool.max,
                holder: self.holder.to_owned(),
                at: now,
                wakes,
            });
        }
        writes.extend(self.counted(planned.instances()));
        for (instance, job) in &planned.fresh {
            writes.push(Write::Instance { next: Box::new(instance.clone()), replaces: None });
            writes.push(Write::Job {
                next: Box::new(job.clone()),
                replaces: Some(job.generation - 1),
            });
        }
        let unclaimed = planned.beyond.iter().map(|(instance, _)| instance).chain(&planned.idle);
        for instance in unclaimed {
            writes.push(Write::Instance { next: Box::new(instance.clone()), replaces: None });
        }
        for instance in &planned.again {
            // `relaunch` is one move, which is one generation.
            let replaces = Some(instance.generation() - 1);
            writes.push(Write::Instance { next: Box::new(instance.clone()), replaces });
        }
        writes
    }

    /// New instances in the counters of limits.
    fn counted<'b>(&self, new: impl Iterator<Item = &'b Instance>) -> Vec<Write> {
        let mut counts: BTreeMap<&Scope, u32> = BTreeMap::new();
        for scope in new.flat_map(|instance| &instance.counted_in) {
            *counts.entry(scope).or_default() += 1;
        }
        let max = |scope| self.settings.limits.max(scope).unwrap_or(u32::MAX);
        counts
            .into_iter()
            .map(|(scope, count)| Write::CountUp { scope: scope.clone(), count, max: max(scope) })
            .collect()
    }
}

/// A job given to an instance.
pub(super) fn claim_writes(job: &Job, instance: &Instance) -> Vec<Write> {
    // `claim::assign` is one change of each record, which is one generation.
    vec![
        Write::Job { next: Box::new(job.clone()), replaces: Some(job.generation - 1) },
        Write::Instance {
            next: Box::new(instance.clone()),
            replaces: Some(instance.generation() - 1),
        },
    ]
}

/// The writes of each slot, which stay together.
pub(super) fn outcome_writes(slots: &[Instance], outcome: &Outcome) -> Vec<Vec<Write>> {
    let change = |next: &Instance| {
        let before = slots.iter().find(|slot| slot.name == next.name)?;
        crate::writes::instance(before, next)
    };
    let bound = outcome.bound.iter().map(|(machine, next)| {
        let owner = Write::BindMachine { machine: machine.clone(), instance: next.name.clone() };
        [Some(owner), change(next)].into_iter().flatten().collect()
    });
    let others = outcome.failed.iter().chain(&outcome.waiting);
    bound.chain(others.map(|next| change(next).into_iter().collect())).collect()
}
