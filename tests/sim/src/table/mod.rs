//! The tables: records by key, and indexes that may be late.

mod index;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use muster_control::notices::Notices;
use muster_control::ports::{CommitError, Unavailable, Write};
use muster_domain::audit::Audit;
use muster_domain::ids::{AppName, InstanceName, JobKey, LaunchId, MachineId, PoolName, RunKey};
use muster_domain::image::Images;
use muster_domain::inquiry::Inquiries;
use muster_domain::instance::Instance;
use muster_domain::job::{Job, JobStatus};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Scope;
use muster_domain::pool_set::PoolSet;
use muster_domain::redelivery::Redeliveries;
use muster_domain::rerun::Rerun;
use muster_domain::stored::{Change, Committed, Stored};
use muster_domain::switches::Switches;
use muster_domain::time::Time;
use muster_domain::usage::{Date, Line, PartOfDay, Prices};

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

use self::index::Entry;
pub use self::index::Index;

/// How many actions DynamoDB takes in one transaction.
const MAX_ACTIONS: usize = 100;

/// All records.
#[derive(Debug)]
pub struct Tables {
    /// Instances, tombstones included.
    pub instances: BTreeMap<InstanceName, Rc<Stored<Instance>>>,
    /// Those of them that are of another version.
    pub unreadable: BTreeSet<InstanceName>,
    /// Keys of other records that cannot be read, as DynamoDB has them, until they are written anew.
    pub broken: BTreeSet<String>,
    /// `machine#i-…`: who owns a machine.
    pub owners: BTreeMap<MachineId, InstanceName>,
    /// Their records as the bind has written them.
    pub bound: BTreeMap<MachineId, Stored<Instance>>,
    /// Jobs.
    pub jobs: BTreeMap<JobKey, Rc<Stored<Job>>>,
    /// Launches.
    pub launches: BTreeMap<LaunchId, Rc<Stored<Launch>>>,
    /// Pools' counters.
    pub capacities: BTreeMap<PoolName, Stored<Capacity>>,
    /// The counters of limits.
    pub counters: BTreeMap<Scope, u32>,
    /// The orphan ledger.
    pub orphans: BTreeMap<MachineId, Stored<Orphan>>,
    /// Workflow runs with interrupted jobs.
    pub reruns: BTreeMap<RunKey, Stored<Rerun>>,
    /// The audit trail.
    pub audits: Vec<Audit>,
    /// Lines of usage, by their end and what they are about.
    pub usage: BTreeMap<(Time, String), Line>,
    /// Days of usage that were rolled up, item by item.
    pub days: BTreeMap<(Date, usize), PartOfDay>,
    /// The last prices.
    pub prices: Option<Stored<Prices>>,
    /// Prices by when they were learned.
    pub prices_by_hour: BTreeMap<Time, Prices>,
    /// Named points in time.
    pub cursors: BTreeMap<String, Time>,
    /// What operators have switched off.
    pub switches: Option<Stored<Switches>>,
    /// What EC2 refused lately.
    pub cooldowns: Option<Stored<Cooldowns>>,
    /// The machine images.
    pub images: Option<Stored<Images>>,
    /// Which repositories GitHub is to be asked about.
    pub inquiries: Option<Stored<Inquiries>>,
    /// How far GitHub's list of webhook deliveries was read.
    pub redeliveries: BTreeMap<AppName, Stored<Redeliveries>>,
    /// What was told as notices.
    pub notices: Option<Stored<Notices>>,
    /// The set of pools that was applied last.
    pub pools: Option<Stored<PoolSet>>,
    /// Its versions.
    pub pool_versions: BTreeMap<u64, PoolSet>,
    /// How many records one page of a listing holds. Small, so that paging happens.
    pub page: usize,
    /// What listings see.
    pub index: Index,
    /// Names of live instances: for the checks, so that they never walk the tombstones.
    pub live: BTreeSet<InstanceName>,
    /// Waiting jobs by the instance that they claim: for the checks.
    claims: BTreeSet<(InstanceName, JobKey)>,
}

/// A record that has ended, and that the table removes some time later.
#[derive(Clone, Debug)]
pub enum Expiring {
    /// A tombstone, with the item of its machine.
    Instance(InstanceName),
    /// A completed job.
    Job(JobKey),
    /// A settled launch.
    Launch(LaunchId),
}

/// The item that a write concerns: a transaction takes one action per item.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item<'a> {
    Instance(&'a InstanceName),
    Machine(&'a MachineId),
    Job(JobKey),
    Launch(&'a LaunchId),
    Pool(&'a PoolName),
    Counter(&'a Scope),
    Orphan(&'a MachineId),
    Rerun(u64),
    Switches,
    Cooldowns,
    Images,
    Inquiries,
    Redeliveries(AppName),
    Notices,
    Pools,
    PoolsVersion(u64),
    Audit(usize),
    Usage(Time, String),
    UsageDay(Date, usize),
    Prices,
}

fn item_of(write: &Write, number: usize) -> Item<'_> {
    match write {
        Write::Instance(next) => Item::Instance(&next.next().name),
        Write::Job(next) => Item::Job(next.key()),
        Write::Launch(next) => Item::Launch(&next.next().id),
        Write::Capacity(next) => Item::Pool(&next.next().pool),
        Write::CapacityUp { pool, .. } | Write::CapacityDown(pool) => Item::Pool(pool),
        Write::CountUp { scope, .. } | Write::CountDown(scope) => Item::Counter(scope),
        Write::BindMachine { machine, .. } => Item::Machine(machine),
        Write::Orphan(next) => Item::Orphan(&next.next().machine),
        Write::OrphanGone(machine) => Item::Orphan(machine),
        Write::Rerun(next) => Item::Rerun(next.run),
        Write::Switches(_) => Item::Switches,
        Write::Cooldowns(_) => Item::Cooldowns,
        Write::Images(_) => Item::Images,
        Write::Inquiries(_) => Item::Inquiries,
        Write::Redeliveries(next) => Item::Redeliveries(next.app),
        Write::Notices(_) => Item::Notices,
        Write::Pools(_) | Write::PoolsUnchanged(_) => Item::Pools,
        Write::PoolsVersion(set) => Item::PoolsVersion(set.version),
        Write::PoolsVersionGone(version) => Item::PoolsVersion(*version),
        Write::Audit(_) => Item::Audit(number),
        Write::Usage(line) => Item::Usage(line.at, line.subject()),
        Write::UsageDay(part) => Item::UsageDay(part.date, part.part),
        Write::Prices(_) => Item::Prices,
    }
}

impl Tables {
    /// Empty tables.
    #[must_use]
    pub fn new(pools: &[Pool]) -> Self {
        Self {
            instances: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            broken: BTreeSet::new(),
            owners: BTreeMap::new(),
            bound: BTreeMap::new(),
            jobs: BTreeMap::new(),
            launches: BTreeMap::new(),
            capacities: BTreeMap::new(),
            counters: BTreeMap::new(),
            orphans: BTreeMap::new(),
            reruns: BTreeMap::new(),
            audits: Vec::new(),
            usage: BTreeMap::new(),
            days: BTreeMap::new(),
            prices: None,
            prices_by_hour: BTreeMap::new(),
            cursors: BTreeMap::new(),
            switches: None,
            cooldowns: None,
            images: None,
            inquiries: None,
            redeliveries: BTreeMap::new(),
            notices: None,
            pools: None,
            pool_versions: BTreeMap::new(),
            page: 40,
            index: Index::new(pools),
            live: BTreeSet::new(),
            claims: BTreeSet::new(),
        }
    }

    /// The rows that are not deleted, by name.
    pub fn live_rows(&self) -> impl Iterator<Item = &Instance> {
        self.live.iter().filter_map(|name| self.instances.get(name)).map(|row| row.record())
    }

    /// Whether a sweep would find nothing at all.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let drains = |set: &Stored<PoolSet>| set.pools.iter().any(Pool::is_removed);
        self.live.is_empty()
            && self.orphans.is_empty()
            && self.index.is_empty()
            && !self.pools.as_ref().is_some_and(drains)
            && !self.has_inquiries()
    }

    /// Whether GitHub is still to be asked about a repository.
    pub(crate) fn has_inquiries(&self) -> bool {
        let asks =
            |all: &Stored<Inquiries>| all.repositories.values().any(|one| one.due_at.is_some());
        self.inquiries.as_ref().is_some_and(asks)
    }

    /// Whether every condition of a commit holds. DynamoDB looks at all of them before it writes
    /// any.
    fn conditions_hold(&self, writes: &[Write]) -> bool {
        writes.iter().all(|write| match write {
            Write::Instance(next) => {
                is_replaced(self.instances.get(&next.name).map(AsRef::as_ref), next)
            }
            Write::Job(next) => is_replaced(self.jobs.get(&next.key()).map(AsRef::as_ref), next),
            Write::Launch(next) => {
                is_replaced(self.launches.get(&next.id).map(AsRef::as_ref), next)
            }
            Write::Capacity(next) => is_replaced(self.capacities.get(&next.pool), next),
            Write::CapacityUp { pool, count, max, holder, wakes, .. } => {
                self.capacities.get(pool).is_some_and(|stored| {
                    stored.is_held_by(holder)
                        && stored.live.saturating_add(*count) <= *max
                        && wakes.is_none_or(|wakes| wakes == stored.wakes)
                })
            }
            Write::CapacityDown(pool) => {
                let down =
                    |other: &&Write| matches!(other, Write::CapacityDown(one) if one == pool);
                let count = writes.iter().filter(down).count();
                self.capacities.get(pool).is_some_and(|stored| stored.live as usize >= count)
            }
            Write::CountUp { scope, count, max } => {
                self.counted(scope).saturating_add(*count) <= *max
            }
            Write::CountDown(scope) => {
                let down = |other: &&Write| matches!(other, Write::CountDown(one) if one == scope);
                self.counted(scope) as usize >= writes.iter().filter(down).count()
            }
            Write::BindMachine { machine, .. } => !self.owners.contains_key(machine),
            Write::Orphan(next) => is_replaced(self.orphans.get(&next.machine), next),
            Write::Rerun(next) => is_replaced(self.reruns.get(&next.key()), next),
            Write::Switches(next) => is_replaced(self.switches.as_ref(), next),
            Write::Cooldowns(next) => is_replaced(self.cooldowns.as_ref(), next),
            Write::Images(next) => is_replaced(self.images.as_ref(), next),
            Write::Inquiries(next) => is_replaced(self.inquiries.as_ref(), next),
            Write::Redeliveries(next) => is_replaced(self.redeliveries.get(&next.app), next),
            Write::Notices(next) => is_replaced(self.notices.as_ref(), next),
            Write::Pools(next) => is_replaced(self.pools.as_ref(), next),
            Write::Prices(next) => is_replaced(self.prices.as_ref(), next),
            Write::PoolsVersion(set) => !self.pool_versions.contains_key(&set.version),
            Write::PoolsUnchanged(version) => self.pools.as_ref().map(Stored::version) == *version,
            Write::OrphanGone(_)
            | Write::PoolsVersionGone(_)
            | Write::Audit(_)
            | Write::Usage(_)
            | Write::UsageDay(_) => true,
        })
    }

    /// The items of those writes whose own condition does not hold.
    fn refused<'a>(&self, writes: &'a [Write]) -> Vec<Item<'a>> {
        let refused = |write: &Write| !self.conditions_hold(std::slice::from_ref(write));
        let items = writes.iter().enumerate().filter(|(_, write)| refused(write));
        items.map(|(number, write)| item_of(write, number)).collect()
    }

    /// `delay` tells of each entry how long its way into its index is.
    fn apply(&mut self, writes: &[Write], now: Millis, mut delay: impl FnMut() -> Millis) {
        for write in writes {
            match write {
                Write::Instance(next) => {
                    let next = Rc::new(written(next));
                    if next.state().is_live() {
                        self.live.insert(next.name.clone());
                    } else {
                        self.live.remove(&next.name);
                    }
                    self.instances.insert(next.name.clone(), Rc::clone(&next));
                    self.index.enter(now, delay(), Entry::Due(Rc::clone(&next)));
                    self.index.enter(now, delay(), Entry::Instance(next));
                }
                Write::Job(next) => {
                    let next = Rc::new(written(next));
                    self.note_claim(&next);
                    self.jobs.insert(next.key(), Rc::clone(&next));
                    self.index.enter(now, delay(), Entry::Job(next));
                }
                Write::Launch(next) => {
                    let next = Rc::new(written(next));
                    self.launches.insert(next.id.clone(), Rc::clone(&next));
                    self.index.enter(now, delay(), Entry::Launch(next));
                }
                Write::Capacity(next) => {
                    self.capacities.insert(next.pool.clone(), written(next));
                }
                Write::CapacityUp { pool, count, .. } => self.count(pool, i64::from(*count)),
                Write::CapacityDown(pool) => self.count(pool, -1),
                Write::CountUp { scope, count, .. } => {
                    *self.counters.entry(scope.clone()).or_default() += count;
                }
                Write::CountDown(scope) => {
                    let counted = self.counters.entry(scope.clone()).or_default();
                    *counted = counted.saturating_sub(1);
                }
                Write::BindMachine { machine, instance } => {
                    self.owners.insert(machine.clone(), instance.clone());
                    let bound = writes.iter().find_map(|write| match write {
                        Write::Instance(next) if next.name == *instance => Some(written(next)),
                        _ => None,
                    });
                    self.bound.extend(bound.map(|bound| (machine.clone(), bound)));
                }
                Write::Orphan(next) => {
                    let (machine, next) = (next.machine.clone(), written(next));
                    self.broken.remove(&format!("orphan#{machine}"));
                    self.orphans.insert(machine.clone(), next.clone());
                    self.index.enter(now, delay(), Entry::Orphan(machine, Some(next)));
                }
                Write::Rerun(next) => {
                    let next = written(next);
                    self.broken.remove(&format!("rerun#{}", next.key()));
                    self.reruns.insert(next.key(), next.clone());
                    self.index.enter(now, delay(), Entry::Rerun(next));
                }
                Write::Switches(next) => {
                    self.broken.remove("switches");
                    self.switches = Some(written(next));
                }
                Write::Cooldowns(next) => {
                    self.broken.remove("cooldowns");
                    self.cooldowns = Some(written(next));
                }
                Write::Images(next) => {
                    self.broken.remove("images");
                    self.images = Some(written(next));
                }
                Write::Inquiries(next) => {
                    self.broken.remove("inquiries");
                    self.inquiries = Some(written(next));
                }
                Write::Redeliveries(next) => {
                    self.broken.remove("redeliveries");
                    self.redeliveries.insert(next.app, written(next));
                }
                Write::Notices(next) => {
                    self.broken.remove("notices");
                    self.notices = Some(written(next));
                }
                Write::Pools(next) => {
                    self.broken.remove("pools");
                    self.index.know(&next.pools);
                    self.pools = Some(written(next));
                }
                Write::PoolsVersion(set) => {
                    self.pool_versions.insert(set.version, PoolSet::clone(set));
                }
                Write::PoolsUnchanged(_) => {}
                Write::PoolsVersionGone(version) => drop(self.pool_versions.remove(version)),
                Write::OrphanGone(machine) => {
                    self.orphans.remove(machine);
                    self.index.enter(now, delay(), Entry::Orphan(machine.clone(), None));
                }
                // Its key is made of all that it says: written twice it is one.
                Write::Audit(line) if self.audits.contains(line) => {}
                Write::Audit(line) => self.audits.push(line.clone()),
                Write::Usage(line) => {
                    self.usage.insert((line.at, line.subject()), Line::clone(line));
                }
                Write::UsageDay(part) => {
                    self.days.insert((part.date, part.part), PartOfDay::clone(part));
                }
                Write::Prices(next) => {
                    self.broken.remove("prices");
                    self.prices_by_hour.insert(next.at, next.next().clone());
                    self.prices = Some(written(next));
                }
            }
        }
    }

    /// How many instances a limit counts.
    #[must_use]
    pub fn counted(&self, scope: &Scope) -> u32 {
        self.counters.get(scope).copied().unwrap_or(0)
    }

    fn note_claim(&mut self, next: &Job) {
        let old = self.jobs.get(&next.key()).and_then(|job| job.claim.clone());
        if let Some(claim) = old {
            self.claims.remove(&(claim, next.key()));
        }
        if let Some(claim) = next.claim.clone().filter(|_| next.is_waiting()) {
            self.claims.insert((claim, next.key()));
        }
    }

    /// The waiting jobs that claim an instance.
    #[must_use]
    pub fn jobs_for(&self, name: &InstanceName) -> Vec<JobKey> {
        let first = (name.clone(), JobKey { app: AppName::MAIN, repository: 0, job: 0 });
        let own = self.claims.range(first..).take_while(|(claim, _)| claim == name);
        own.map(|(_, key)| *key).collect()
    }

    fn count(&mut self, pool: &PoolName, change: i64) {
        if let Some(stored) = self.capacities.get_mut(pool) {
            let live = u32::try_from(i64::from(stored.live) + change).unwrap_or(u32::MAX);
            let next = Capacity { live, ..stored.record().clone() };
            *stored = written(&stored.change(next));
        }
    }
}

/// Whether a change replaces what is stored.
fn is_replaced<T>(stored: Option<&Stored<T>>, next: &Change<T>) -> bool {
    next.is_repair() || stored.map(Stored::version) == next.replaces()
}

/// The record as it is stored now.
fn written<T: Clone>(next: &Change<T>) -> Stored<T> {
    next.clone().stored(&Committed::by_table())
}

/// The largest item that DynamoDB takes, bytes.
const MAX_ITEM: usize = 400 * 1024;

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether DynamoDB refuses a write for its size. Its own form is about as long as the JSON.
fn is_too_large(write: &Write) -> bool {
    let mut length = Length(0);
    let counted = match write {
        Write::Instance(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Job(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Switches(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Pools(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Redeliveries(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Notices(next) => serde_json::to_writer(&mut length, next.next()),
        Write::Prices(next) => serde_json::to_writer(&mut length, next.next()),
        Write::UsageDay(part) => serde_json::to_writer(&mut length, part),
        _ => Ok(()),
    };
    counted.is_err() || length.0 > MAX_ITEM
}

/// How long a counter stays contended after a collision.
const CONTENTION: Millis = 3 * SECOND;

fn is_count(write: &Write) -> bool {
    matches!(
        write,
        Write::CapacityUp { .. }
            | Write::CapacityDown(_)
            | Write::CountUp { .. }
            | Write::CountDown(_)
    )
}

impl World {
    /// Whether a commit meets another one that is under way. Collisions at a counter come in
    /// bursts: all machines of a pool that end together count it down.
    /// Source: docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html,
    /// "Transaction conflict handling in DynamoDB"
    fn collides(&mut self, writes: &[Write]) -> bool {
        let counts = writes.iter().any(is_count);
        let meets_again = counts && self.now < self.contended_until && self.between(0, 1) == 1;
        if !meets_again && !self.strikes(Fault::CommitCollided) {
            return false;
        }
        if counts {
            self.contended_until = self.now + CONTENTION;
        }
        true
    }

    /// A commit, with everything that can go wrong.
    fn commit(&mut self, writes: &[Write]) -> Result<Committed, CommitError> {
        self.note_writes(writes);
        if !self.check_form(writes) {
            return Err(CommitError::Unavailable(Unavailable::new("not a transaction")));
        }
        let refused = |write: &Write| {
            is_too_large(write)
                || matches!(write, Write::Job(next) if Some(next.key()) == self.refused_item)
        };
        if writes.iter().any(refused) {
            return Err(CommitError::Unavailable(Unavailable::new("ValidationException")));
        }
        if self.is_away(Fault::OutageTable) || self.strikes(Fault::CommitRefused) {
            return Err(CommitError::Unavailable(Unavailable::new("throttled")));
        }
        if self.collides(writes) || !self.tables.conditions_hold(writes) {
            let refused = format!("{:?}", self.tables.refused(writes));
            self.say(|| format!("  commit: conflict, {refused} of {}", writes.len()));
            self.calls.conflicts += 1;
            return Err(CommitError::Conflict);
        }
        self.calls.commits += 1;
        self.before_commit(writes);
        self.narrate_commit(writes);
        self.note_leases(writes);
        let longest = self.longest_delay();
        let (now, rng) = (self.now, &mut self.rng);
        let delay = || if longest == 0 { 0 } else { rng.between(0, longest) };
        self.tables.apply(writes, now, delay);
        self.plan_expiry(writes);
        for write in writes {
            if let Write::Pools(next) = write {
                self.checker.know_also(&next.pools, self.now);
            }
        }
        self.after_commit(writes);
        if self.strikes(Fault::CommitAnswerLost) {
            return Err(CommitError::Unavailable(Unavailable::new("the answer was lost")));
        }
        Ok(Committed::by_table())
    }

    /// What ended in this commit is removed some time later.
    fn plan_expiry(&mut self, writes: &[Write]) {
        let Some(kept) = self.kept else { return };
        for write in writes {
            let expiring = match write {
                Write::Instance(next) if !next.state().is_live() => {
                    Expiring::Instance(next.name.clone())
                }
                Write::Job(next) if next.status() == JobStatus::Completed => {
                    Expiring::Job(next.key())
                }
                Write::Launch(next) if next.state == LaunchState::Settled => {
                    Expiring::Launch(next.id.clone())
                }
                _ => continue,
            };
            // DynamoDB removes within days of the time, and shows the record until then.
            let late = if self.strikes(Fault::TtlLate) { 20 * HOUR } else { 10 * MINUTE };
            let at = self.now + kept + self.between(0, late);
            let number = u32::try_from(self.expiring.len()).unwrap_or(u32::MAX);
            self.expiring.push(expiring);
            self.agenda.at(at, Event::Expire(number));
        }
    }

    /// The table removes a record.
    pub(crate) fn expire(&mut self, number: u32) {
        match &self.expiring[number as usize] {
            Expiring::Instance(name) => {
                let gone = self.tables.instances.remove(name);
                let machine = gone.as_ref().and_then(|gone| gone.machine());
                if let Some(machine) = machine {
                    self.tables.owners.remove(machine);
                    self.tables.bound.remove(machine);
                }
            }
            Expiring::Job(key) => drop(self.tables.jobs.remove(key)),
            Expiring::Launch(id) => drop(self.tables.launches.remove(id)),
        }
    }

    /// How long what is written now may be on its way into an index: five seconds, a minute in
    /// rare cases.
    fn longest_delay(&mut self) -> Millis {
        if !self.strikes(Fault::IndexLate) {
            return 0;
        }
        if self.rng.chance(20_000) { 60_000 } else { 5_000 }
    }

    /// What DynamoDB refuses as invalid, whatever stands in the tables.
    fn check_form(&mut self, writes: &[Write]) -> bool {
        // A row that ends also writes the end of its `machine#` item.
        let ends = writes.iter().filter(|write| {
            matches!(write, Write::Instance(next)
                if !next.state().is_live() && next.machine().is_some())
        });
        let actions = writes.len() + ends.count();
        if actions > MAX_ACTIONS {
            self.broken("form", || format!("a commit of {actions} actions"));
        }
        let mut items: Vec<Item<'_>> =
            writes.iter().enumerate().map(|(number, write)| item_of(write, number)).collect();
        // The real table makes one action of several of these.
        let downs = writes.iter().filter_map(|write| match write {
            Write::CapacityDown(pool) => Some(pool),
            _ => None,
        });
        for pool in downs.collect::<BTreeSet<_>>() {
            items.retain(|item| *item != Item::Pool(pool));
            items.push(Item::Pool(pool));
        }
        let downs = writes.iter().filter_map(|write| match write {
            Write::CountDown(scope) => Some(scope),
            _ => None,
        });
        for scope in downs.collect::<BTreeSet<_>>() {
            items.retain(|item| *item != Item::Counter(scope));
            items.push(Item::Counter(scope));
        }
        items.sort_unstable();
        if items.windows(2).any(|pair| pair[0] == pair[1]) {
            self.broken("form", || format!("two actions on one item: {writes:?}"));
        }
        if writes.is_empty() {
            self.broken("form", || "an empty commit".to_owned());
        }
        actions <= MAX_ACTIONS
    }
}
