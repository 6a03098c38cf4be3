//! I2–I5, I7–I14 and I15 (no machine of an image's build runs a job) of the design, asked at the very step that could break them. Elsewhere stand:
//! - I1, with the kill gate, the order of the way out, and I9 and I14 where a job begins or is
//!   killed: `kills.rs`, at the step;
//! - I6, that a forced row ends: `forced.rs`, with every minute of the schedule. Here only that no
//!   order loses a flag;
//! - I4, I10 and I13 before each call that changes EC2 or GitHub: `intents.rs`;
//! - that nothing is replaced unseen: `stale.rs`, at the step;
//! - that what is switched off stays off: `held.rs`, at the step;
//! - I2, I8 and I11 in the long run, when the faults have stopped: `liveness.rs`, every minute, and
//!   `books.rs`, at the end.
//!
//! What the product chooses is not asked here: which pool serves a job, when a launch is tried
//! again, which runner goes first. Tables in `shared/domain` ask for that.

use std::collections::{BTreeMap, BTreeSet};

use muster_control::Settings;
use muster_control::ports::Write;
use muster_domain::audit::AuditKind;
use muster_domain::ids::{Entity, InstanceName, JobKey, MachineId, PoolName};
use muster_domain::instance::{DeleteReason, Instance, State};
use muster_domain::launch::{Launch, LaunchState};
use muster_domain::orphan::Orphan;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::{Balance, Limits, Scope};
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;

use crate::agenda::Millis;
use crate::github::CallOutcome;
use crate::names::APP_OWNER;
use crate::world::World;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: &'static str,
    /// How.
    pub what: String,
    /// When.
    pub at: Millis,
}

/// What the checks remember.
#[derive(Debug, Default)]
pub struct Checker {
    /// Live rows per pool, counted here.
    live: BTreeMap<PoolName, u32>,
    /// The pools' maxima.
    pub maximum: BTreeMap<PoolName, u32>,
    /// The pools as they are now.
    pub pools: Vec<Pool>,
    /// The limits of stack and entities.
    pub limits: Limits,
    /// All durations.
    pub timings: Timings,
    /// How equal pools share jobs.
    pub balance: Balance,
    /// Live rows that each limit counts, counted here.
    counted: BTreeMap<Scope, u32>,
    /// The pools of the stack's parameters.
    pub own: Vec<Pool>,
    /// Whose the App is.
    app_owner: Option<Entity>,
    /// When a pool file was applied last.
    pub(crate) changed_at: Option<Millis>,
    /// When an operator changed a switch last.
    pub(crate) switched_at: Option<Millis>,
    /// Registrations that we removed, by name.
    pub(crate) removed: BTreeSet<String>,
    /// Jobs whose start was refused: no step of theirs may run, whatever its condition.
    pub(crate) not_started: BTreeSet<u32>,
    /// Rows that an operator forces: the first DELETE goes out before the order is on record.
    pub forced: BTreeSet<InstanceName>,
    /// Rows whose end was decided although GitHub had not let their runner go, and what had come of
    /// the asking.
    pub(crate) passages: BTreeMap<InstanceName, CallOutcome>,
    /// Since when nothing stands in the way of a forced row's end.
    pub(crate) forced_since: BTreeMap<InstanceName, Millis>,
    /// Rows whose machine was bought for a job.
    pub(crate) bought: BTreeSet<InstanceName>,
    /// Since when each job waits whose pool had room for it.
    pub(crate) waits_since: BTreeMap<JobKey, Millis>,
    /// The last wait of a row's delete ladder.
    waits: BTreeMap<InstanceName, (u32, Seconds)>,
}

impl Checker {
    /// What the stack is.
    pub fn know(&mut self, settings: &Settings) {
        self.own.clone_from(&settings.pools);
        self.pools.clone_from(&settings.pools);
        self.know_app_owner(APP_OWNER.parse().ok());
        self.limits = settings.limits.clone();
        self.timings.clone_from(&settings.timings);
        self.balance = settings.balance;
        self.maximum = settings.pools.iter().map(|pool| (pool.name.clone(), pool.max)).collect();
    }

    /// Whose the App is, whatever the stack knows of it.
    pub(crate) fn know_app_owner(&mut self, owner: Option<Entity>) {
        self.pools.iter_mut().for_each(|pool| pool.app_owner.clone_from(&owner));
        self.app_owner = owner;
    }

    /// What the pools are after a file was applied. A maximum that was lowered ends nothing, so the
    /// larger one holds.
    pub(crate) fn know_also(&mut self, pools: &[Pool], now: Millis) {
        for pool in pools {
            self.pools.retain(|known| known.name != pool.name);
            let mut pool = pool.clone();
            pool.app_owner.clone_from(&self.app_owner);
            // Where a file names no launch template it is the stack's.
            match (&pool.own_template, self.own.first()) {
                (Some(own), _) => pool.launch_template_version = own.version.clone(),
                (None, Some(own)) => {
                    pool.launch_template_version.clone_from(&own.launch_template_version);
                }
                (None, None) => {}
            }
            let maximum = self.maximum.entry(pool.name.clone()).or_default();
            *maximum = pool.max.max(*maximum);
            self.pools.push(pool);
        }
        self.changed_at = Some(now);
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }
}

impl World {
    /// The row that owns a machine.
    pub(crate) fn owner(&self, machine: &MachineId) -> Option<&Instance> {
        let name = self.tables.owners.get(machine)?;
        self.tables.instances.get(name).map(|row| row.record())
    }
}

/// Commits.
impl World {
    /// Everything that a commit must not do, seen from what stood there before.
    pub(crate) fn before_commit(&mut self, writes: &[Write]) {
        for write in writes {
            self.check_seen(write);
            self.check_held(write);
            if let Write::Instance(next) = write {
                self.check_instance(next, writes);
            }
            if let Write::Job(next) = write {
                self.note_delay(next);
            }
            if let Write::OrphanGone(machine) = write {
                self.check_struck(machine);
                self.check_struck_line(machine, writes);
            }
        }
    }

    fn check_instance(&mut self, next: &Instance, writes: &[Write]) {
        let before = self.tables.instances.get(&next.name).cloned();
        let name = &next.name;
        let limits = self.checker.limits.for_entity(&next.entity);
        if before.is_none() && !limits.iter().all(|(scope, _)| next.counted_in.contains(scope)) {
            self.broken("I7", || format!("{name} is not counted in {limits:?}"));
        }
        if next.state().is_live() && next.due_at().is_none() {
            self.broken("I11", || format!("{name} is {} without a due time", next.state()));
        }
        if next.builds().is_some() && next.runner.n > 0 {
            self.broken("I15", || format!("{name} builds an image, and got a configuration"));
        }
        if next.build.is_some() && next.runner.has_taken_job() {
            self.broken("I15", || format!("{name} builds or tries an image, and ran a job"));
        }
        let Some(before) = before else { return };
        if before.state() != next.state() {
            let (from, to) = (before.state(), next.state());
            self.narrate(|| {
                let why = next.events.last().map_or("", |event| &*event.what);
                let why = why.split_once(": ").map_or(why, |(_, why)| why);
                format!("{name}: {from} → {to} ({why})")
            });
        }
        if !before.state().is_live() {
            self.broken("I5", || format!("{name} is deleted and is written again"));
        }
        if next.state() == State::Deleted {
            self.check_death(next, writes);
        }
        self.check_order(&before, next, writes);
        let ordered = next.mark().is_some_and(|mark| mark.reason == DeleteReason::Ordered);
        if ordered && next.order().is_none() {
            self.broken("I14", || {
                format!("{name} is marked as ordered, and nobody's order stands")
            });
        }
        if before.runner.started.is_none() && next.runner.started.is_some() {
            let removed = self.checker.removed.contains(&next.runner_name());
            // A mark that only gathers evidence is taken back by the job itself, and a delete of
            // ours that has yet to ask GitHub waits for it.
            let decided = before.order().is_some()
                || before.mark().is_some_and(|mark| {
                    matches!(mark.reason, DeleteReason::SpotNotice | DeleteReason::MaxLifetime)
                        || mark.removing_until.is_some()
                        || mark.deregistered
                });
            let ends = !matches!(before.state(), State::Running | State::PendingDelete);
            if ends || decided || removed {
                self.broken("I9", || format!("{name} becomes active after its end was decided"));
            }
        }
        self.note_bought(&before, next);
        self.check_ladder(&before, next);
        self.check_gate_of(next);
        self.note_passage(&before, next);
    }

    /// I2: what a record lets go of is gone, or stands in the ledger.
    fn check_death(&mut self, next: &Instance, writes: &[Write]) {
        let Some(id) = next.machine() else { return };
        let in_ledger =
            writes.iter().any(|write| matches!(write, Write::Orphan(next) if next.machine == *id));
        if in_ledger {
            self.tally.given_up += 1;
            let audited = has_audit(writes, AuditKind::GivenUp);
            if !audited {
                self.broken("I14", || format!("{} is given up without an audit", next.name));
            }
            return;
        }
        let gone = self.ec2.has_ended(id);
        if !gone {
            self.broken("I2", || format!("{} is deleted, and its machine {id} lives", next.name));
        }
    }

    /// I2: what is struck from the ledger is gone, or was never a machine of ours.
    fn check_struck(&mut self, id: &MachineId) {
        let ours = self.tables.orphans.get(id).is_none_or(|orphan| orphan.launch.is_some());
        let gone = !ours || self.ec2.has_ended(id);
        if !gone {
            self.broken("I2", || format!("{id} is struck from the ledger, and lives"));
        }
    }

    /// I14: a refusal that an operator is told of has its line.
    pub(crate) fn check_refusal(&mut self, name: &str, by: &str) {
        let told =
            self.tables.audits.iter().any(|line| {
                line.kind == AuditKind::Refused && line.subject == name && line.by == by
            });
        if !told {
            self.broken("I14", || format!("{by} is refused the end of {name} without an audit"));
        }
    }

    /// I14: every order has its line. An order only gains flags.
    fn check_order(&mut self, before: &Instance, next: &Instance, writes: &[Write]) {
        if before.order() != next.order() && !has_audit(writes, AuditKind::Ordered) {
            self.broken("I14", || format!("an order for {} without an audit", next.name));
        }
        let lost = before.order().is_some_and(|before| {
            next.order().is_none_or(|next| {
                (before.force && !next.force)
                    || (before.kill_running_job && !next.kill_running_job)
                    || (before.bypass_github_unauthorized && !next.bypass_github_unauthorized)
            })
        });
        if lost {
            self.broken("I6", || format!("the order for {} loses a flag", next.name));
        }
    }

    /// I12: the waits of the delete ladder never shrink, and are capped.
    fn check_ladder(&mut self, before: &Instance, next: &Instance) {
        let failed = before.state() == State::Deleting
            && next.state() == State::PendingDelete
            && next.attempts > before.attempts;
        let Some(due) = next.due_at().filter(|_| failed) else { return };
        let wait = due.since(next.since());
        let last = self.checker.waits.insert(next.name.clone(), (next.attempts, wait));
        let shrinks = last.is_some_and(|(attempts, last)| next.attempts > attempts && wait < last);
        if shrinks || wait > Seconds(300) {
            self.broken("I12", || format!("{} waits {wait} after {last:?}", next.name));
        }
    }

    /// Everything that must hold once a commit is in the tables.
    pub(crate) fn after_commit(&mut self, writes: &[Write]) {
        let mut pools = BTreeSet::new();
        for write in writes {
            match write {
                Write::Instance(next) => {
                    let live = self.checker.live.entry(next.pool.clone()).or_default();
                    if next.replaces().is_none() {
                        *live += 1;
                        let claim = next.claim().map(|job| job.to_string()).unwrap_or_default();
                        self.narrate(|| format!("{}: planned for job {claim}", next.name));
                    } else if !next.state().is_live() {
                        *live = live.saturating_sub(1);
                    }
                    pools.insert(next.pool.clone());
                    self.check_owner(next);
                    self.check_claims_of(next);
                }
                Write::Job(next) => self.check_claim(next.key()),
                Write::Launch(next) => {
                    self.check_settled(next);
                    self.check_market(next, writes);
                }
                Write::Orphan(next) if next.replaces().is_none() => self.check_stray(next),
                Write::Switches(_) => self.checker.switched_at = Some(self.now),
                Write::CapacityDown(pool) | Write::CapacityUp { pool, .. } => {
                    pools.insert(pool.clone());
                }
                _ => {}
            }
        }
        for pool in pools {
            self.check_count(&pool);
        }
        self.check_limits(writes);
    }

    /// I2: a launch is not called settled while a machine of it looks for its slot, unless it was
    /// looked for in vain for long enough.
    fn check_settled(&mut self, launch: &Launch) {
        let looked_for = self.now - launch.created_at.as_millis();
        if launch.state == LaunchState::Open || looked_for >= 295_000 {
            return;
        }
        let lost = self.ec2.living().find(|machine| {
            machine.launch.as_ref() == Some(&launch.id)
                && !self.tables.owners.contains_key(&machine.id)
        });
        let what = lost.map(|machine| format!("{} is settled without {}", launch.id, machine.id));
        if let Some(what) = what {
            self.broken("I2", || what);
        }
    }

    /// A machine that lives and whose launch is still open is no stray.
    fn check_stray(&mut self, orphan: &Orphan) {
        let launch = self.ec2.number(&orphan.machine).and_then(|number| {
            let launch = self.ec2.at(number).launch.as_ref();
            let id = launch.filter(|_| !self.ec2.is_gone(number))?;
            self.tables.launches.get(id)
        });
        let open = launch.is_some_and(|launch| launch.state == LaunchState::Open);
        if open && orphan.instance.is_none() {
            self.broken("I2", || {
                format!("{} is taken for a stray, its launch is open", orphan.machine)
            });
        }
    }

    /// I3: a row's machine is its own.
    fn check_owner(&mut self, next: &Instance) {
        if let Some(machine) = next.machine()
            && self.tables.owners.get(machine) != Some(&next.name)
        {
            self.broken("I3", || format!("{} has {machine}, which it does not own", next.name));
        }
    }

    /// I8: a job that waits with a claim is waited for by an instance that knows it and may still
    /// serve it. Otherwise nobody would make it demand again before EC2 and GitHub have let that
    /// instance end.
    fn check_claim(&mut self, key: muster_domain::ids::JobKey) {
        let Some(job) = self.tables.jobs.get(&key) else { return };
        let Some(name) = job.claim.as_ref().filter(|_| job.is_waiting()) else { return };
        let answered = self.tables.instances.get(name).is_some_and(|instance| {
            let given_up =
                instance.mark().is_some_and(|mark| mark.reason == DeleteReason::BootTimeout);
            // A failed launch keeps its claim for the one pass that it takes to be cleared away.
            let serves = instance.state().is_serving() || instance.state() == State::Error;
            serves && !given_up && instance.claim() == Some(key)
        });
        if !answered {
            let name = name.clone();
            self.broken("I8", || format!("job {key} waits for {name}, which does not know it"));
        }
    }

    fn check_claims_of(&mut self, next: &Instance) {
        let keys: Vec<_> =
            self.tables.jobs_for(&next.name).into_iter().chain(next.claim()).collect();
        for key in keys {
            self.check_claim(key);
        }
    }

    /// I7: the counter is the number of live rows, and not above the maximum.
    fn check_count(&mut self, pool: &PoolName) {
        let counted = self.checker.live.get(pool).copied().unwrap_or(0);
        let stored = self.tables.capacities.get(pool).map_or(0, |capacity| capacity.live);
        let maximum = self.checker.maximum.get(pool).copied().unwrap_or(u32::MAX);
        if counted != stored {
            self.broken("I7", || format!("pool {pool}: counter {stored}, live rows {counted}"));
        }
        if stored > maximum {
            self.broken("I7", || format!("pool {pool}: {stored} live of {maximum}"));
        }
    }

    /// I7, of the limits of stack and entities.
    fn check_limits(&mut self, writes: &[Write]) {
        let mut scopes = BTreeSet::new();
        for write in writes {
            match write {
                Write::Instance(next) => {
                    for scope in &next.counted_in {
                        let counted = self.checker.counted.entry(scope.clone()).or_default();
                        if next.replaces().is_none() {
                            *counted += 1;
                        } else if !next.state().is_live() {
                            *counted = counted.saturating_sub(1);
                        }
                    }
                    scopes.extend(&next.counted_in);
                }
                Write::CountUp { scope, .. } | Write::CountDown(scope) => {
                    scopes.insert(scope);
                }
                _ => {}
            }
        }
        for scope in scopes {
            let counted = self.checker.counted.get(scope).copied().unwrap_or(0);
            let stored = self.tables.counted(scope);
            let most = self.checker.limits.max(scope).unwrap_or(0);
            if counted != stored || stored > most {
                self.broken("I7", || format!("{scope}: {stored} of {most}, live rows {counted}"));
            }
        }
    }
}

fn has_audit(writes: &[Write], kind: AuditKind) -> bool {
    writes.iter().any(|write| matches!(write, Write::Audit(line) if line.kind == kind))
}
