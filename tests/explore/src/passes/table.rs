//! The table of a pass that is replayed: one row, and beside it what never changes.

use std::collections::BTreeMap;

use muster_control::notices::Notices;
use muster_control::ports::{
    Bound, CommitError, Instances, JobGroup, Jobs, LaunchConditions, Launches, Operations, Page,
    ReadError, Table, Usage, Write,
};
use muster_domain::audit::Audit;
use muster_domain::ids::{AppName, InstanceName, JobKey, LaunchId, MachineId, PoolName, RunKey};
use muster_domain::image::Images;
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::{Groups, Instance};
use muster_domain::job::Job;
use muster_domain::launch::Launch;
use muster_domain::launch::record::Cooldowns;
use muster_domain::orphan::Orphan;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::{Committed, Stored, Version};
use muster_domain::switches::Switches;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use super::ports::Replayed;
use super::{Answer, Call};

type Read<T> = Result<T, ReadError>;

impl Table for Replayed<'_> {
    async fn commit(&self, writes: &[Write]) -> Result<Committed, CommitError> {
        if writes.iter().all(|write| matches!(write, Write::Cooldowns(_))) {
            // What launch passes share; nothing is launched here.
            return Ok(Committed::by_table());
        }
        match self.ask(Call::Commit(writes.to_vec())).await {
            Answer::Committed(true) => Ok(Committed::by_table()),
            Answer::Committed(false) => Err(CommitError::Conflict),
            other => unreachable!("{other:?} is not about a commit"),
        }
    }
}

impl Instances for Replayed<'_> {
    async fn instance(&self, _: &InstanceName) -> Read<Option<Stored<Instance>>> {
        Ok(Some(self.row()))
    }
    async fn instance_and_prices(
        &self,
        _: &InstanceName,
    ) -> Read<(Option<Stored<Instance>>, Option<Prices>)> {
        unreachable!("no machine asks")
    }
    async fn instances(&self, _: &[InstanceName]) -> Read<Vec<Stored<Instance>>> {
        unreachable!("a pass reads its own row")
    }
    async fn bound_to(&self, _: &MachineId) -> Read<Option<Bound>> {
        unreachable!("no machine asks")
    }

    async fn owner_of(&self, _: &MachineId) -> Read<Option<InstanceName>> {
        Ok(Some(self.name()))
    }
    async fn owners_of(&self, _: &[MachineId]) -> Read<BTreeMap<MachineId, InstanceName>> {
        unreachable!("a pass reads its own row")
    }
    async fn due_instances(
        &self,
        _: Time,
        _: u32,
        _: Option<String>,
    ) -> Read<Page<Stored<Instance>>> {
        unreachable!("the sweep alone lists")
    }
    async fn live_instances(
        &self,
        _: &PoolName,
        _: Option<String>,
    ) -> Read<Page<Stored<Instance>>> {
        unreachable!("no pass of this world lists")
    }
    fn after_instance(&self, _: &Instance) -> Read<String> {
        unreachable!("no pass of this world lists")
    }
    async fn free_instances(&self, _: &PoolName) -> Read<Vec<Stored<Instance>>> {
        unreachable!("the pool keeps no runner idle")
    }
    async fn slots_to_retry(&self, _: &PoolName) -> Read<Vec<Stored<Instance>>> {
        unreachable!("nothing is launched")
    }
    async fn count_live_instances(&self, _: &PoolName) -> Read<Groups> {
        unreachable!("the admin function alone counts")
    }
    async fn ending_instances(&self, _: &PoolName, _: u32) -> Read<Vec<Stored<Instance>>> {
        unreachable!("nothing is launched")
    }
    async fn late_ends(&self, _: &PoolName, _: Time, _: u32) -> Read<Vec<Stored<Instance>>> {
        unreachable!("the admin function alone asks")
    }
    async fn ended_instances(&self, _: &PoolName, _: u32) -> Read<Vec<Stored<Instance>>> {
        unreachable!("the admin function alone asks")
    }
}

impl Jobs for Replayed<'_> {
    async fn job(&self, _: JobKey) -> Read<Option<Stored<Job>>> {
        Ok(None)
    }
    async fn jobs(&self, _: &[JobKey]) -> Read<Vec<Stored<Job>>> {
        Ok(Vec::new())
    }
    async fn demand(&self, _: &PoolName, _: u32) -> Read<Vec<Stored<Job>>> {
        Ok(Vec::new())
    }
    async fn waiting_jobs(&self, _: &PoolName, _: u32) -> Read<Vec<Stored<Job>>> {
        Ok(Vec::new())
    }
    async fn jobs_of(&self, _: &JobGroup, _: Option<String>) -> Read<Page<Stored<Job>>> {
        unreachable!("the admin function alone asks")
    }
    fn after_job(&self, _: &JobGroup, _: &Job) -> Read<String> {
        unreachable!("the admin function alone asks")
    }
    async fn count_waiting_jobs(&self, _: &PoolName) -> Read<usize> {
        unreachable!("the admin function alone counts")
    }
    async fn count_unmatched_jobs(&self) -> Read<usize> {
        unreachable!("the admin function alone counts")
    }
    async fn count_gated_jobs(&self) -> Read<usize> {
        unreachable!("the admin function alone counts")
    }
    async fn unmatched_jobs(&self, _: u32) -> Read<Vec<Stored<Job>>> {
        Ok(Vec::new())
    }
    async fn gated_jobs(&self, _: u32) -> Read<Vec<Stored<Job>>> {
        Ok(Vec::new())
    }
}

impl Launches for Replayed<'_> {
    async fn launch(&self, _: &LaunchId) -> Read<Option<Stored<Launch>>> {
        Ok(None)
    }
    async fn open_launches(&self, _: &PoolName) -> Read<Vec<Stored<Launch>>> {
        Ok(Vec::new())
    }
    async fn capacity(&self, pool: &PoolName) -> Read<Option<Stored<Capacity>>> {
        // The one machine is counted.
        let capacity = Capacity { live: 1, ..Capacity::empty(pool.clone()) };
        Ok(Some(Stored::read(capacity, Version(0))))
    }
    async fn counts(&self, scopes: &[Scope]) -> Read<BTreeMap<Scope, u32>> {
        Ok(scopes.iter().map(|scope| (scope.clone(), 1)).collect())
    }
    async fn launch_conditions(&self, _: &PoolName) -> Read<LaunchConditions> {
        unreachable!("nothing is launched")
    }
    async fn cooldowns(&self) -> Read<Option<Stored<Cooldowns>>> {
        Ok(None)
    }
    async fn images(&self) -> Read<Option<Stored<Images>>> {
        Ok(None)
    }
}

impl Operations for Replayed<'_> {
    async fn orphans(&self) -> Read<Vec<Stored<Orphan>>> {
        unreachable!("the sweep alone reads the ledger")
    }
    async fn orphan(&self, _: &MachineId) -> Read<Option<Stored<Orphan>>> {
        Ok(None)
    }
    async fn rerun(&self, _: RunKey) -> Read<Option<Stored<Rerun>>> {
        Ok(None)
    }
    async fn open_reruns(&self, _: u32) -> Read<Vec<Stored<Rerun>>> {
        unreachable!("the sweep alone lists")
    }

    async fn closed_reruns(&self, _: Time, _: u32) -> Read<Vec<Stored<Rerun>>> {
        unreachable!("only the status lists them")
    }
    async fn switches(&self) -> Read<Option<Stored<Switches>>> {
        Ok(None)
    }
    async fn inquiries(&self) -> Read<Option<Stored<Inquiries>>> {
        unreachable!("the sweep alone asks")
    }
    async fn redeliveries(&self, _: AppName) -> Read<Option<Stored<Redeliveries>>> {
        unreachable!("the sweep alone redelivers")
    }

    async fn notices(&self) -> Read<Option<Stored<Notices>>> {
        unreachable!("the sweep alone tells notices")
    }
    async fn pool_set(&self) -> Read<Option<Stored<PoolSet>>> {
        Ok(None)
    }
    async fn pool_versions(&self, _: &[u64]) -> Read<Vec<PoolSet>> {
        Ok(Vec::new())
    }
    async fn audit(&self, _: &str, _: u32) -> Read<Vec<Audit>> {
        Ok(Vec::new())
    }
    async fn audit_between(&self, _: Time, _: Time, _: u32) -> Read<Vec<Audit>> {
        Ok(Vec::new())
    }
    async fn cursor(&self, _: &str) -> Read<Option<Time>> {
        Ok(None)
    }
    async fn move_cursor(&self, _: &str, _: Option<Time>, _: Time) -> Result<(), CommitError> {
        unreachable!("the sweep alone moves cursors")
    }
}

impl Usage for Replayed<'_> {
    async fn lines(&self, _: Date, _: Option<String>) -> Read<Page<Line>> {
        unreachable!("nobody asks what it cost")
    }
    async fn rolled_up(&self, _: Date) -> Read<Vec<PartOfDay>> {
        unreachable!("nobody asks what it cost")
    }
    async fn prices(&self) -> Read<Option<Stored<Prices>>> {
        unreachable!("nobody asks what it cost")
    }
    async fn prices_of(&self, _: Date) -> Read<Vec<Prices>> {
        unreachable!("nobody asks what it cost")
    }
}
