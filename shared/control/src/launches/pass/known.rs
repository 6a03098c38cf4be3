//! What a launch pass knows about its pool, updated with its own writes.

use std::collections::BTreeMap;

use muster_domain::causes::with_causes;
use muster_domain::ec2::{CooldownScope, Override};
use muster_domain::ids::{InstanceName, JobKey, PoolName};
use muster_domain::image::Images;
use muster_domain::instance::Instance;
use muster_domain::job::Job;
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::{Launch, plan};
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::warm::Warm;
use muster_domain::stored::{Change, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::Time;
use muster_domain::timings::Timings;

use super::look::{Listed, MAX_DEMAND};
use super::pool_lease::Lease;
use crate::ports::{LaunchConditions, Table};
use crate::writes::{self, PassError};

/// The state of a pass.
pub(super) struct PassState {
    pub(super) capacity: Lease,
    /// The lease was returned in the commit of EC2's last answer.
    pub(super) is_given_back: bool,
    /// The number of wake-ups that it has handled.
    pub(super) wakes: u64,
    pub(super) switches: Option<Stored<Switches>>,
    pub(super) cooldowns: Option<Stored<Cooldowns>>,
    /// The machine images.
    pub(super) images: Option<Stored<Images>>,
    /// What the pool's events still require, if that is not recorded yet.
    pub(super) warm: Option<Vec<Warm>>,
    /// Number of counted live instances in the stack.
    pub(super) counted: u32,
    /// Slots that EC2 has just refused: the listing may not show them yet.
    pub(super) rest: Vec<Stored<Instance>>,
    /// Jobs as last stored or read by key: the index may not show that yet.
    jobs: BTreeMap<JobKey, Stored<Job>>,
    /// Listed instances as last stored or read by key.
    instances: BTreeMap<InstanceName, Stored<Instance>>,
    /// The earliest time at which something that waits can continue.
    pub(super) waits: Option<Time>,
    /// The listings read before the first round.
    pub(super) listed: Option<Listed>,
    /// Maximum number of jobs that a round reads.
    pub(super) reach: u32,
}

impl PassState {
    pub(super) fn new(
        capacity: Lease,
        conditions: LaunchConditions,
        listed: Option<Listed>,
    ) -> Self {
        Self {
            wakes: capacity.wakes,
            capacity,
            is_given_back: false,
            switches: conditions.switches,
            cooldowns: conditions.cooldowns,
            images: conditions.images,
            warm: None,
            counted: conditions.counted,
            rest: Vec::new(),
            jobs: BTreeMap::new(),
            instances: BTreeMap::new(),
            waits: None,
            listed,
            reach: MAX_DEMAND,
        }
    }

    /// Replaces what was read before.
    pub(super) fn read_again(&mut self, conditions: LaunchConditions) {
        if let Some(capacity) = conditions.capacity {
            self.wakes = capacity.wakes;
            self.capacity = Lease::Stored(capacity);
        }
        self.switches = conditions.switches;
        self.cooldowns = conditions.cooldowns;
        self.images = conditions.images;
        self.counted = conditions.counted;
    }

    /// Records jobs as stored, keeping the newest version of each.
    pub(super) fn saw(&mut self, jobs: impl IntoIterator<Item = Stored<Job>>) {
        for job in jobs {
            if is_newer(&job, &self.jobs) {
                self.jobs.insert(job.key(), job);
            }
        }
    }

    /// Records instances as stored, keeping the newest version of each.
    pub(super) fn saw_instances(&mut self, instances: impl IntoIterator<Item = Stored<Instance>>) {
        for instance in instances {
            let known = self.instances.get(&instance.name).map(Stored::version);
            if known.is_none_or(|known| known < instance.version()) {
                self.instances.insert(instance.name.clone(), instance);
            }
        }
    }

    /// Returns listed instances, replaced by newer known versions.
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

    /// Returns slots that are due for a retry; the others set the next wake-up.
    pub(super) fn due_retries(
        &mut self,
        pool: &Pool,
        listed: Vec<Stored<Instance>>,
        now: Time,
        timings: &Timings,
    ) -> Vec<Stored<Instance>> {
        let listed = self.as_known(listed);
        let mut retries = newest(self.rest.drain(..).chain(listed));
        retries.retain(|slot| slot.claim().is_some());
        self.wait_for(retries.iter().filter_map(|slot| slot.retry_at(timings)), now);
        let none = Cooldowns::default();
        let cooldowns = self.cooldowns.as_deref().unwrap_or(&none);
        retries.retain(|slot| plan::is_launch_due(pool, slot, cooldowns, now, timings));
        retries
    }

    /// Returns the pool's demand: jobs from the index, replaced by newer known versions.
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

    /// Sets the next wake-up to the earliest of these times.
    pub(super) fn wait_for(&mut self, times: impl IntoIterator<Item = Time>, now: Time) {
        let ahead = times.into_iter().filter(|at| *at > now);
        self.waits = ahead.chain(self.waits).min();
    }

    /// Notes what the pool's events require after a count or a launch, to be recorded with the next
    /// write to the pool's record.
    pub(super) fn note_warm(&mut self, warm: Vec<Warm>) {
        self.warm = (warm != self.capacity.warm).then_some(warm);
    }

    /// Notes that idle runners are launched.
    pub(super) fn launches_idle(&mut self, count: usize) {
        let all = self.warm.as_ref().unwrap_or(&self.capacity.warm);
        if count > 0 && !all.is_empty() {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.note_warm(Warm::launched(all, count));
        }
    }

    /// Returns the pool's record with what its events require.
    pub(super) fn with_warm(&self) -> Capacity {
        let mut next = Capacity::clone(&self.capacity);
        if let Some(warm) = &self.warm {
            next.warm.clone_from(warm);
        }
        next
    }

    /// Returns the counter after the commit of a launch. After a concurrent write this version is
    /// older than the table's, and the next change of it conflicts.
    pub(super) fn counted_up(&self, fresh: u32) -> Change<Capacity> {
        let mut next = self.with_warm();
        next.live = next.live.saturating_add(fresh);
        self.capacity.change(next)
    }

    /// Publishes EC2's refusals to other passes. This is advisory: no other work depends on it.
    pub(super) async fn remember<T: Table>(
        &mut self,
        table: &T,
        after: impl Fn(&Cooldowns) -> Option<Cooldowns>,
    ) {
        let mut conflicts = false;
        let noted = writes::in_rounds(async || {
            // The record was read before, so only a conflict makes it necessary to read it again.
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
                "failed to record EC2's refusals; other passes will call EC2"
            );
        }
    }

    /// Whether a planned launch requests something that EC2 has meanwhile refused.
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

/// Whether a job is unknown, or newer than the known version.
fn is_newer(job: &Stored<Job>, known: &BTreeMap<JobKey, Stored<Job>>) -> bool {
    known.get(&job.key()).is_none_or(|known| known.version() < job.version())
}

/// Returns each slot once, in its newest version.
fn newest(slots: impl Iterator<Item = Stored<Instance>>) -> Vec<Stored<Instance>> {
    let mut all: BTreeMap<InstanceName, Stored<Instance>> = BTreeMap::new();
    for slot in slots {
        let known = all.get(&slot.name).map(Stored::version);
        if known.is_none_or(|known| known < slot.version()) {
            all.insert(slot.name.clone(), slot);
        }
    }
    all.into_values().collect()
}
