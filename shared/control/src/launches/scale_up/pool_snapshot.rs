//! What a launch pass knows, and what EC2's refusals add to it.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::ec2::CooldownScope;
use muster_domain::ec2::Override;
use muster_domain::entity::{EntityHealth, Probe};
use muster_domain::ids::{Entity, InstanceName, JobKey, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::cooldown::Cooldowns;
use muster_domain::launch::{Launch, LaunchAnswer, LaunchError};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::stored::{Change, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::Time;

use super::pool_lease::Lease;
use super::{LaunchReport, MAX_DEMAND};
use crate::causes::with_causes;
use crate::ports::{LaunchConditions, Table};
use crate::writes::{self, PassError};

/// Machines that may find out whether GitHub registers runners again, and when the last one did.
pub(super) type Probes = BTreeMap<Entity, (Probe, Option<Time>)>;

/// What a pass knows of its pool, kept level with what it writes itself.
pub(super) struct PoolSnapshot {
    pub(super) capacity: Lease,
    /// The wake-ups that it has looked after.
    pub(super) wakes: u64,
    pub(super) switches: Switches,
    pub(super) cooldowns: Option<Stored<Cooldowns>>,
    /// Entities whose health is known.
    pub(super) asked: BTreeSet<Entity>,
    /// Those of them that GitHub refuses us or limits.
    pub(super) unwell: Vec<EntityHealth>,
    /// Entities for which one machine may find out.
    pub(super) probes: Probes,
    /// Those for which this pass launches that machine: it is on record, and EC2 was not asked yet.
    pub(super) probing: Probes,
    /// Slots that EC2 has just refused: the listing may not show them yet.
    pub(super) rest: Vec<Stored<Instance>>,
    /// Jobs as they were stored or read by key last: the index may not show that yet.
    jobs: BTreeMap<JobKey, Stored<Job>>,
    /// The same of instances that were listed.
    instances: BTreeMap<InstanceName, Stored<Instance>>,
    /// Looks for what earlier passes left even where the counter says that the pool has no
    /// instance.
    pub(super) thorough: bool,
    /// The first time at which something can be done that waits now.
    pub(super) waits: Option<Time>,
    /// The demand as it was read before the first round.
    pub(super) listed: Option<Vec<Stored<Job>>>,
    /// How many jobs a round reads.
    pub(super) reach: u32,
}

impl PoolSnapshot {
    pub(super) fn new(capacity: Lease, conditions: LaunchConditions, asked: Vec<Entity>) -> Self {
        Self {
            wakes: capacity.wakes,
            capacity,
            switches: conditions.switches.map(Stored::into_record).unwrap_or_default(),
            cooldowns: conditions.cooldowns,
            asked: asked.into_iter().collect(),
            unwell: conditions.unwell,
            probes: BTreeMap::new(),
            probing: BTreeMap::new(),
            rest: Vec::new(),
            jobs: BTreeMap::new(),
            instances: BTreeMap::new(),
            thorough: true,
            waits: None,
            listed: None,
            reach: MAX_DEMAND,
        }
    }

    /// Without a live instance there is no open launch, no free runner and no slot to try again.
    pub(super) fn has_instances(&self) -> bool {
        self.capacity.live > 0 || self.thorough
    }

    pub(super) async fn refresh<T: Table>(
        &mut self,
        table: &T,
        pool: &Pool,
    ) -> Result<(), PassError> {
        let asked: Vec<Entity> = self.asked.iter().cloned().collect();
        let conditions = table.launch_conditions(&pool.name, &asked).await?;
        if let Some(capacity) = conditions.capacity {
            self.wakes = capacity.wakes;
            self.capacity = Lease::Stored(capacity);
        }
        self.switches = conditions.switches.map(Stored::into_record).unwrap_or_default();
        self.cooldowns = conditions.cooldowns;
        self.unwell = conditions.unwell;
        Ok(())
    }

    /// Notes jobs as they are stored. Of two versions the newer one counts.
    pub(super) fn saw(&mut self, jobs: impl IntoIterator<Item = Stored<Job>>) {
        for job in jobs {
            if is_newer(&job, &self.jobs) {
                self.jobs.insert(job.key(), job);
            }
        }
    }

    /// The same for instances.
    pub(super) fn saw_instances(&mut self, instances: impl IntoIterator<Item = Stored<Instance>>) {
        for instance in instances {
            let known = self.instances.get(&instance.name).map(Stored::version);
            if known.is_none_or(|known| known < instance.version()) {
                self.instances.insert(instance.name.clone(), instance);
            }
        }
    }

    /// What the index lists, each as it is known where that is newer.
    pub(super) fn as_known(&self, mut listed: Vec<Stored<Instance>>) -> Vec<Stored<Instance>> {
        if self.instances.is_empty() {
            return listed;
        }
        for one in &mut listed {
            let known = self.instances.get(&one.name);
            if let Some(known) = known.filter(|known| known.version() > one.version()) {
                *one = known.clone();
            }
        }
        listed
    }

    /// The pool's demand: what the index lists, and each job that is known better as it is known.
    pub(super) fn demand(&self, pool: &PoolName, listed: Vec<Stored<Job>>) -> Vec<Stored<Job>> {
        let mut demand: BTreeMap<JobKey, Stored<Job>> = self.jobs.clone();
        for job in listed {
            if is_newer(&job, &demand) {
                demand.insert(job.key(), job);
            }
        }
        let is_ours = |job: &Stored<Job>| job.is_demand() && job.pool.as_ref() == Some(pool);
        demand.into_values().filter(is_ours).collect()
    }

    /// Notes what waits: jobs on hold or too young, slots before their next attempt, the min idle.
    pub(super) fn wait_for(&mut self, times: impl IntoIterator<Item = Time>, now: Time) {
        let ahead = times.into_iter().filter(|at| *at > now);
        self.waits = ahead.chain(self.waits).min();
    }

    /// The counter as the commit of a launch leaves it. If another writer comes between, this
    /// version is older than the table's, and the next change of it is a conflict.
    pub(super) fn counted_up(&self, fresh: u32, now: Time) -> Change<Capacity> {
        let mut next = Capacity::clone(&self.capacity);
        next.scaled_up_at = Some(now);
        next.live = next.live.saturating_add(fresh);
        self.capacity.change(next)
    }

    /// Tells the other passes what EC2 refuses. Advice: nothing waits for it, and nothing fails
    /// with it.
    pub(super) async fn remember<T: Table>(
        &mut self,
        table: &T,
        after: impl Fn(&Cooldowns) -> Option<Cooldowns>,
    ) {
        let mut conflicts = false;
        let noted = writes::in_rounds(async || {
            // The pass has read the record before: only a conflict is worth another read.
            if std::mem::replace(&mut conflicts, true) {
                self.cooldowns = table.cooldowns().await?;
            }
            let record = self.cooldowns.as_deref().cloned().unwrap_or_default();
            if let Some(next) = after(&record) {
                let change = Change::from_read(self.cooldowns.as_ref(), next);
                let committed = table.commit(&[change.clone().into()]).await?;
                self.cooldowns = Some(change.stored(&committed));
            }
            Ok::<(), PassError>(())
        });
        if let Err(error) = noted.await {
            tracing::warn!(
                error = with_causes(&error),
                "failed to write the cooldowns; other passes ask EC2"
            );
        }
    }

    /// Whether a launch that is planned asks for what is known to be closed by now.
    pub(super) fn is_refused(&self, launch: &Launch, now: Time) -> bool {
        let Some(cooldowns) = &self.cooldowns else { return false };
        let market = launch.request.market;
        let whole = [CooldownScope::Calls, CooldownScope::Pool(launch.pool.clone())];
        let is_closed = |place: &Override| {
            cooldowns.covering_quota(&launch.pool, market, place, now).is_some()
                || cooldowns.covering_place(&launch.pool, market, place, now).is_some()
        };
        whole.iter().any(|closed| cooldowns.covering(closed, now).is_some())
            || launch.request.overrides.iter().any(is_closed)
    }
}

/// Whether a job is not known yet, or was written since.
fn is_newer(job: &Stored<Job>, known: &BTreeMap<JobKey, Stored<Job>>) -> bool {
    known.get(&job.key()).is_none_or(|known| known.version() < job.version())
}

/// Each slot once, as it was written last.
pub(super) fn newest(slots: impl Iterator<Item = Stored<Instance>>) -> Vec<Stored<Instance>> {
    let mut all: BTreeMap<InstanceName, Stored<Instance>> = BTreeMap::new();
    for slot in slots {
        let known = all.get(&slot.name).map(Stored::version);
        if known.is_none_or(|known| known < slot.version()) {
            all.insert(slot.name.clone(), slot);
        }
    }
    all.into_values().collect()
}

/// A call counts once for each class of its errors.
pub(super) fn count_refusals(
    launch: &Launch,
    answer: &Result<LaunchAnswer, LaunchError>,
    report: &mut LaunchReport,
) {
    let errors = match answer {
        Ok(answer) => answer.errors.as_slice(),
        Err(error) => std::slice::from_ref(error),
    };
    let mut classes = BTreeSet::new();
    for error in errors {
        tracing::warn!(launch.id = %launch.id, class = ?error.class,
            error = error.to_string(), "EC2 refused a launch");
        classes.insert(error.class);
    }
    for class in classes {
        *report.refusals.entry(class).or_default() += 1;
    }
}
