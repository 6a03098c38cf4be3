//! What listings see: the records as they were a moment ago.
//!
//! A global secondary index follows its table by itself, "eventually consistent"; each of a
//! transaction's changes comes to each index in its own time. Of one item, an index sees the writes
//! in their order; of two items, or in two indexes, either may come first.
//! Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html, "Data synchronization
//! between tables and Global Secondary Indexes", and transaction-apis.html, "Isolation levels"

use std::collections::BTreeMap;
use std::rc::Rc;

use muster_domain::ids::{InstanceName, JobKey, LaunchId, MachineId, PoolName, RunKey};
use muster_domain::instance::{Group, Instance};
use muster_domain::job::Job;
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::rerun::Rerun;
use muster_domain::stored::Stored;
use muster_domain::time::Time;

use crate::agenda::Millis;

/// A write on its way into one index.
#[derive(Debug)]
pub enum Entry {
    /// An instance, into the index of what is due.
    Due(Rc<Stored<Instance>>),
    /// An instance, into the index of its pool.
    Instance(Rc<Stored<Instance>>),
    /// A job.
    Job(Rc<Stored<Job>>),
    /// A launch.
    Launch(Rc<Stored<Launch>>),
    /// An entry of the orphan ledger, or its end.
    Orphan(MachineId, Option<Stored<Orphan>>),
    /// A workflow run with interrupted jobs.
    Rerun(Stored<Rerun>),
}

/// One item in one index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Due(InstanceName),
    Instance(InstanceName),
    Job(JobKey),
    Launch(LaunchId),
    Orphan(MachineId),
    Rerun(u64),
}

impl Entry {
    fn lane(&self) -> Lane {
        match self {
            Self::Due(next) => Lane::Due(next.name.clone()),
            Self::Instance(next) => Lane::Instance(next.name.clone()),
            Self::Job(next) => Lane::Job(next.key()),
            Self::Launch(next) => Lane::Launch(next.id.clone()),
            Self::Orphan(machine, _) => Lane::Orphan(machine.clone()),
            Self::Rerun(next) => Lane::Rerun(next.run),
        }
    }
}

type LiveKey = (Group, Time, InstanceName);
type WaitingKey = (bool, Time, JobKey);

/// The part of the indexes that belongs to one pool.
#[derive(Debug, Default)]
pub struct OfPool {
    /// Live instances.
    pub live: BTreeMap<LiveKey, Rc<Stored<Instance>>>,
    /// Waiting jobs, those without a claim first.
    pub waiting: BTreeMap<WaitingKey, Rc<Stored<Job>>>,
    /// Open launches.
    pub open: BTreeMap<(Time, LaunchId), Rc<Stored<Launch>>>,
}

/// All indexes.
#[derive(Debug)]
pub struct Index {
    pools: Vec<(PoolName, OfPool)>,
    /// Live instances by their due time.
    pub due: BTreeMap<(Time, InstanceName), Rc<Stored<Instance>>>,
    /// The orphan ledger.
    pub orphans: BTreeMap<MachineId, Stored<Orphan>>,
    /// Workflow runs with interrupted jobs that are not closed.
    pub reruns: BTreeMap<RunKey, Stored<Rerun>>,
    /// Queued jobs that no pool serves.
    pub unmatched: BTreeMap<WaitingKey, Rc<Stored<Job>>>,
    /// Jobs that wait for an approval.
    pub gated: BTreeMap<WaitingKey, Rc<Stored<Job>>>,
    in_due: BTreeMap<InstanceName, Time>,
    in_pool: BTreeMap<InstanceName, Rc<Stored<Instance>>>,
    jobs: BTreeMap<JobKey, Rc<Stored<Job>>>,
    /// What is on its way, by when it arrives and in the order of the writes.
    late: BTreeMap<(Millis, u64), Entry>,
    /// When the last write on its way about an item arrives in an index.
    last: BTreeMap<Lane, Millis>,
    /// How many writes were on their way so far.
    entered: u64,
}

impl Index {
    pub(super) fn new(pools: &[Pool]) -> Self {
        Self {
            pools: pools.iter().map(|pool| (pool.name.clone(), OfPool::default())).collect(),
            due: BTreeMap::new(),
            orphans: BTreeMap::new(),
            reruns: BTreeMap::new(),
            unmatched: BTreeMap::new(),
            gated: BTreeMap::new(),
            in_due: BTreeMap::new(),
            in_pool: BTreeMap::new(),
            jobs: BTreeMap::new(),
            late: BTreeMap::new(),
            last: BTreeMap::new(),
            entered: 0,
        }
    }

    /// Whether every listing is empty, and stays so.
    pub(super) fn is_empty(&self) -> bool {
        self.late.is_empty()
            && self.due.is_empty()
            && self.orphans.is_empty()
            && self.reruns.is_empty()
            && self.gated.is_empty()
            && self.pools.iter().all(|(_, of)| of.live.is_empty() && of.waiting.is_empty())
    }

    /// Whether every listing is as it will stay: shows so many live instances, and no job that
    /// waits for a machine.
    pub(crate) fn is_at_rest(&self, live: usize, waits: impl Fn(&Job) -> bool) -> bool {
        let shown: usize = self.pools.iter().map(|(_, of)| of.live.len()).sum();
        let busy = |of: &OfPool| of.waiting.values().any(|job| waits(job)) || !of.open.is_empty();
        self.late.is_empty()
            && self.orphans.values().all(|orphan| orphan.launch.is_none())
            && shown == live
            && !self.unmatched.values().any(|job| waits(job))
            && !self.pools.iter().any(|(_, of)| busy(of))
    }

    /// The part of a pool.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&OfPool> {
        self.pools.iter().find(|(own, _)| own == name).map(|(_, of)| of)
    }

    /// Makes room for the pools of a set.
    pub(crate) fn know(&mut self, pools: &[Pool]) {
        for pool in pools {
            if self.pool(&pool.name).is_none() {
                self.pools.push((pool.name.clone(), OfPool::default()));
            }
        }
    }

    /// Enters a write that its index shows after `delay`, and never before an earlier one about the
    /// same item.
    pub fn enter(&mut self, now: Millis, delay: Millis, entry: Entry) {
        if delay == 0 && self.late.is_empty() {
            return self.show(entry);
        }
        let lane = entry.lane();
        let before = self.last.get(&lane).copied();
        if delay == 0 && before.is_none() {
            return self.show(entry);
        }
        let visible = before.map_or(now + delay, |last| last.max(now + delay));
        self.last.insert(lane, visible);
        self.late.insert((visible, self.entered), entry);
        self.entered += 1;
    }

    /// Shows what has become visible.
    pub fn catch_up(&mut self, now: Millis) {
        while let Some(first) = self.late.first_entry().filter(|first| first.key().0 <= now) {
            let ((visible, _), entry) = first.remove_entry();
            let lane = entry.lane();
            if self.last.get(&lane) == Some(&visible) {
                self.last.remove(&lane);
            }
            self.show(entry);
        }
    }

    fn show(&mut self, entry: Entry) {
        match entry {
            Entry::Due(next) => self.show_due(&next),
            Entry::Instance(next) => self.show_instance(next),
            Entry::Job(next) => self.show_job(next),
            Entry::Launch(next) => self.show_launch(next),
            Entry::Orphan(machine, Some(next)) => drop(self.orphans.insert(machine, next)),
            Entry::Rerun(next) => {
                let run = next.key();
                self.reruns.remove(&run);
                self.reruns.extend(next.due().is_some().then_some((run, next)));
            }
            Entry::Orphan(machine, None) => drop(self.orphans.remove(&machine)),
        }
    }

    fn of(&mut self, name: &PoolName) -> Option<&mut OfPool> {
        self.pools.iter_mut().find(|(own, _)| own == name).map(|(_, of)| of)
    }

    fn show_due(&mut self, next: &Rc<Stored<Instance>>) {
        if let Some(old) = self.in_due.remove(&next.name) {
            self.due.remove(&(old, next.name.clone()));
        }
        if let Some(due) = next.due_at().filter(|_| next.state().is_live()) {
            self.due.insert((due, next.name.clone()), Rc::clone(next));
            self.in_due.insert(next.name.clone(), due);
        }
    }

    fn show_instance(&mut self, next: Rc<Stored<Instance>>) {
        if let Some(old) = self.in_pool.remove(&next.name)
            && let Some(of) = self.of(&old.pool)
        {
            of.live.remove(&live_key(&old));
        }
        if !next.state().is_live() {
            return;
        }
        if let Some(of) = self.of(&next.pool) {
            of.live.insert(live_key(&next), Rc::clone(&next));
        }
        self.in_pool.insert(next.name.clone(), next);
    }

    fn show_job(&mut self, next: Rc<Stored<Job>>) {
        if let Some(old) = self.jobs.remove(&next.key()) {
            let key = waiting_key(&old);
            match &old.pool {
                _ if old.is_gated() => _ = self.gated.remove(&key),
                Some(pool) => _ = self.of(pool).and_then(|of| of.waiting.remove(&key)),
                None => _ = self.unmatched.remove(&key),
            }
        }
        if next.is_gated() {
            self.gated.insert(waiting_key(&next), Rc::clone(&next));
            self.jobs.insert(next.key(), next);
            return;
        }
        if next.is_unmatched() {
            self.unmatched.insert(waiting_key(&next), Rc::clone(&next));
            self.jobs.insert(next.key(), next);
            return;
        }
        if !next.is_waiting() {
            return;
        }
        if let Some(of) = next.pool.as_ref().and_then(|pool| self.of(pool)) {
            of.waiting.insert(waiting_key(&next), Rc::clone(&next));
            self.jobs.insert(next.key(), next);
        }
    }

    fn show_launch(&mut self, next: Rc<Stored<Launch>>) {
        let key = (next.created_at, next.id.clone());
        if let Some(of) = self.of(&next.pool) {
            match next.state {
                LaunchState::Open => of.open.insert(key, next),
                LaunchState::Settled => of.open.remove(&key),
            };
        }
    }
}

fn live_key(instance: &Instance) -> LiveKey {
    let (group, since) = instance.listed_in();
    (group, since, instance.name.clone())
}

fn waiting_key(job: &Job) -> WaitingKey {
    let at = if job.is_gated() { job.heard_at() } else { job.queued_at() };
    (job.claim.is_some(), at, job.key())
}
