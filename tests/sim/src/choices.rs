//! What the pool file and the operators' switches say, asked at the very commit that could go
//! against it:
//! - I7 for the limits of stack and entities: each counter is the number of rows that it counts,
//!   and not above the limit;
//! - no launch by a pool that is paused, disabled or switched off, and none for a job that is too
//!   young;
//! - a job comes to the best pool that serves it, moves to none that does not, and does not run to
//!   and fro;
//! - the min idle is never undercut by a scale-down, and none begins soon after a launch;
//! - nothing is deregistered or terminated while deletes are off, but by force, or by runner-api
//!   taking back what nobody got.
//!
//! A pass reads a switch before it commits, and clocks are off by some seconds: what is newer than
//! that is excused.

use std::rc::Rc;

use muster_control::Settings;
use muster_control::ports::Write;
use muster_domain::ids::{Entity, JobKey, MachineId, PoolName};
use muster_domain::instance::{DeleteReason, Instance, RunnerState, State};
use muster_domain::job::Job;
use muster_domain::launch::cooldown::first_market;
use muster_domain::launch::plan::MAX_SLOTS;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;
use muster_domain::stored::{Stored, Version};
use muster_domain::switches::SwitchedOff;
use muster_domain::time::Seconds;

use crate::agenda::{HOUR, MINUTE, Millis, SECOND};
use crate::executor::LATEST_LANDING;
use crate::invariants::Checker;
use crate::world::World;

/// Most moves of a job within an hour with no launch for it between them. One of 1,200 days of
/// hundreds of jobs, in which EC2 refused two pools by turns, had five.
const MAX_MOVES: usize = 6;
/// A function's time limit and the error of a clock.
const JUST_NOW: Millis = 70 * SECOND;
/// How late a listing may be, besides.
const LATE: Millis = 140 * SECOND;

impl Checker {
    /// What the stack is.
    pub fn know(&mut self, settings: &Settings) {
        self.pools.clone_from(&settings.pools);
        self.own.clone_from(&settings.pools);
        self.limits = settings.limits.clone();
        self.balance = settings.balance;
        self.maximum = settings.pools.iter().map(|pool| (pool.name.clone(), pool.max)).collect();
    }

    /// What the pools are after a file was applied. A maximum that was lowered ends nothing, so the
    /// larger one holds.
    pub(crate) fn know_also(&mut self, pools: &[Pool], now: Millis) {
        for pool in pools {
            self.pools.retain(|known| known.name != pool.name);
            let mut pool = pool.clone();
            if let Some(own) = self.own.first() {
                pool.launch_template_id.clone_from(&own.launch_template_id);
                pool.launch_template_version.clone_from(&own.launch_template_version);
                pool.template_device.clone_from(&own.template_device);
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

    fn count_in(&mut self, next: &Instance, replaces: Option<Version>) {
        for scope in &next.counted_in {
            let counted = self.counted.entry(scope.clone()).or_default();
            if replaces.is_none() {
                *counted += 1;
            } else if !next.state().is_live() {
                *counted = counted.saturating_sub(1);
            }
        }
    }
}

/// How specific a pool is for a job, and its priority: the larger the better. Written apart from
/// the rule that it checks.
fn worth(pool: &Pool) -> (u32, u32) {
    let specific = match pool.entity.as_ref().map(muster_domain::ids::Entity::as_str) {
        None => 0,
        Some(name) if name.starts_with("enterprises/") => 1,
        Some(name) if name.contains('/') => 3,
        Some(_) => 2,
    };
    (specific, pool.priority)
}

impl World {
    /// How long ago what was switched, or applied, may be unknown to who calls now: a pass may have
    /// begun before, and its last call may arrive after its end.
    const fn just_now(&self) -> Millis {
        JUST_NOW + if self.is_landing { LATEST_LANDING } else { 0 }
    }

    /// Whether every pass knows that something is switched off. The order may have arrived after
    /// the end of who gave it, long after the time that it names.
    fn is_off_for_long(&self, off: &SwitchedOff) -> bool {
        let stored = self.checker.switched_at.unwrap_or_default();
        self.now - off.since.as_millis().max(stored) > self.just_now()
    }

    /// Whether no pass that is still under way may have begun with other pools.
    pub(crate) fn is_settled(&self) -> bool {
        self.checker.changed_at.is_none_or(|at| self.now - at > self.just_now())
    }

    pub(crate) fn choices_before(&mut self, writes: &[Write]) {
        if !self.is_settled() {
            return;
        }
        // Some of its jobs are claimed by a commit of their own.
        let overfull = writes
            .iter()
            .any(|write| matches!(write, Write::Launch(next) if next.slots.len() > MAX_SLOTS));
        for write in writes {
            match write {
                Write::Instance(next) if next.replaces().is_none() => {
                    self.check_new_row(next, overfull);
                }
                Write::Instance(next) => self.check_scale_down(next),
                Write::Job(next) => self.check_choice(next),
                _ => {}
            }
        }
    }

    pub(crate) fn choices_after(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::Instance(next) = write {
                self.checker.count_in(next, next.replaces());
            }
        }
        for write in writes {
            if let Write::Instance(next) = write {
                next.counted_in.iter().for_each(|scope| self.check_limit(scope));
            }
            if let Write::CountUp { scope, .. } | Write::CountDown(scope) = write {
                self.check_limit(scope);
            }
        }
    }

    fn check_limit(&mut self, scope: &Scope) {
        let counted = self.checker.counted.get(scope).copied().unwrap_or(0);
        let stored = self.tables.counted(scope);
        let most = self.checker.limits.max(scope).unwrap_or(0);
        if counted != stored {
            self.broken("I7", || format!("{scope}: counter {stored}, rows {counted}"));
        }
        if stored > most {
            self.broken("I7", || format!("{scope}: {stored} live of {most}"));
        }
    }

    fn check_new_row(&mut self, next: &Instance, overfull: bool) {
        let Some(pool) = self.checker.pool(&next.pool).cloned() else { return };
        let name = &next.name;
        let limits = self.checker.limits.for_entity(&next.entity);
        if !limits.iter().all(|(scope, _)| next.counted_in.contains(scope)) {
            self.broken("I7", || format!("{name} is not counted in {limits:?}"));
        }
        if pool.paused || !pool.enabled {
            self.broken("held", || format!("{name} is launched by a pool that is held"));
        }
        let off = self.tables.switches.as_ref().and_then(|all| all.launches_off(&pool.name));
        if off.is_some_and(|off| self.is_off_for_long(off)) {
            self.broken("held", || format!("{name} is launched although that is off"));
        }
        let job = next.claim().and_then(|key| self.tables.jobs.get(&key));
        let queued = job.map(|job| job.queued_at() + pool.job_age_seconds);
        if queued.is_some_and(|from| self.now + 5 * SECOND < from.as_millis()) {
            self.broken("age", || format!("{name} is launched for a job that is too young"));
        }
        let hold = self.tables.capacities.get(&pool.name).and_then(|one| one.idle_hold.clone());
        let early = hold.is_some_and(|hold| {
            let wait = i64::from(15_u32.saturating_mul(1 << (hold.failures - 1).min(8)).min(3600));
            let held_for = self.now - (hold.until.as_millis() - wait * SECOND);
            held_for > JUST_NOW && self.now + 5 * SECOND < hold.until.as_millis()
        });
        if next.claim().is_none() && !overfull && early {
            self.broken("min-idle", || format!("{name} is launched while that is held back"));
        }
        if next.claim().is_none() && !overfull && pool.min_idle == 0 {
            self.broken("min-idle", || format!("{name} is launched for nobody"));
        }
    }

    /// A job's first pool is the best one that serves it; a later one serves it.
    fn check_choice(&mut self, next: &Job) {
        let before = self.tables.jobs.get(&next.key()).and_then(|job| job.pool.clone());
        if next.claim.is_some() {
            self.checker.moves.remove(&next.key());
        }
        let Some(name) = next.pool.as_ref().filter(|name| before.as_ref() != Some(name)) else {
            return;
        };
        let Some(pool) = self.checker.pool(name).cloned() else { return };
        let key = next.key();
        if pool.serves(next).is_err() {
            self.broken("choice", || format!("job {key} comes to {name}, which does not serve it"));
        }
        if before.is_some() && next.moved.is_none() {
            self.broken("choice", || format!("job {key} moves to {name} without a reason"));
        }
        if before.is_some() {
            self.check_moves(key);
        }
        let better = self.checker.pools.iter().find(|other| {
            before.is_none() && other.serves(next).is_ok() && worth(other) > worth(&pool)
        });
        if let Some(better) = better.map(|pool| pool.name.clone()) {
            self.broken("choice", || format!("job {key} comes to {name} and not to {better}"));
        }
    }

    /// A job looks for a machine, and does not run to and fro between pools that have none.
    fn check_moves(&mut self, job: JobKey) {
        let now = self.now;
        let moves = self.checker.moves.entry(job).or_default();
        moves.retain(|at| now - at < HOUR);
        moves.push(now);
        let count = moves.len();
        if count > MAX_MOVES {
            self.broken("waste", || format!("job {job} moved {count} times and got no machine"));
        }
    }

    /// A mark for idleness: only above the min idle, and not soon after a launch.
    fn check_scale_down(&mut self, next: &Instance) {
        let Some(before) = self.tables.instances.get(&next.name).cloned() else { return };
        let marked = next.drain().is_some_and(|drain| drain.reason == DeleteReason::Idle)
            && before.drain().is_none();
        let Some(pool) = self.checker.pool(&next.pool).filter(|_| marked).cloned() else { return };
        if pool.idle_wanted() == 0 || !before.is_kept_idle_by(&pool) {
            return;
        }
        let (now, name) = (self.now, &next.name);
        let ready = before.runner.state == RunnerState::Idle
            && before.claim().is_none()
            && now - before.runner.since.as_millis() > 290 * SECOND;
        if !ready {
            self.broken("min-idle", || format!("{name} is no idle runner, and ends as one"));
        }
        // Those that were idle a moment ago may have looked so.
        let stays = |row: &&Instance| {
            let recent = |at: muster_domain::time::Time| now - at.as_millis() < LATE;
            row.name != *name
                && row.pool == pool.name
                && row.runner.state >= RunnerState::Idle
                && (row.is_kept_idle_by(&pool)
                    || row.claimed_at.is_some_and(recent)
                    || recent(row.runner.since)
                    || row.drain().is_some_and(|drain| recent(drain.at)))
        };
        // Also one that has ended since: the pass that decided had looked a moment before.
        let count = self.tables.instances.values().map(|row| row.record()).filter(stays).count();
        if count < pool.idle_wanted() as usize {
            self.broken("min-idle", || format!("{name} ends, and {count} idle runners are left"));
        }
        let scaled_up = self.tables.capacities.get(&pool.name).and_then(|one| one.scaled_up_at);
        let since = scaled_up.map(|at| now - at.as_millis());
        if since.is_some_and(|since| (JUST_NOW..590 * SECOND).contains(&since)) {
            self.broken("min-idle", || format!("{name} ends soon after a launch"));
        }
    }

    /// Deletes are off, and this is none that passes.
    pub(crate) fn check_deletes_off(&mut self, row: Option<&Instance>, what: &str) {
        let off = self.tables.switches.as_ref().and_then(|all| all.deletes_off());
        let long = off.is_some_and(|off| self.is_off_for_long(off));
        if long && !row.is_some_and(Instance::is_forced) {
            self.broken("held", || format!("{what} although deletes are off"));
        }
    }

    pub(crate) fn check_terminate_allowed(&mut self, id: &MachineId) {
        let row = self.owner(id).cloned();
        // The ledger goes on when deletes come on again, and an entry of force was ordered.
        self.check_deletes_off(row.as_ref(), &format!("terminate of {id}"));
    }

    /// The faults are over: nothing stays switched off.
    pub(crate) fn switch_all_on(&mut self) {
        if let Some(switches) = &mut self.tables.switches {
            let on = switches.change(muster_domain::switches::Switches::default());
            *switches = on.stored(&muster_domain::stored::Committed::by_table());
        }
    }

    /// Whether a row is one of a min idle, at rest.
    pub(crate) fn is_kept(&self, row: &Instance) -> bool {
        self.checker
            .pool(&row.pool)
            .is_some_and(|pool| pool.idle_wanted() > 0 && row.is_kept_idle_by(pool))
            && row.state() == State::Running
            && row.runner.state == RunnerState::Idle
    }

    /// The live rows that are kept idle, where each pool has no more than it wants.
    pub(crate) fn kept(&self) -> usize {
        let rows = self.tables.live_rows();
        let rows: Vec<&Instance> = rows.filter(|row| self.is_kept(row)).collect();
        let of = |pool: &Pool| {
            let count = rows.iter().filter(|row| row.pool == pool.name).count();
            count.min(pool.idle_wanted() as usize)
        };
        self.checker.pools.iter().map(of).sum()
    }

    /// What a pool's own launches wait for: its maximum, a limit, or the pool file. Jobs in front
    /// of it take the room first.
    pub(crate) fn is_held_up(&self, pool: &Pool, job: &Job) -> bool {
        let own = job.pool.as_ref() == Some(&pool.name);
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let in_front = if own { self.waiting_before(job) } else { 0 };
        let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
        let reached = limits
            .iter()
            .flatten()
            .any(|(scope, max)| self.tables.counted(scope) + in_front >= *max);
        let young = self.now < pool.launches_at(job).as_millis() + 2 * MINUTE;
        let refused = self.is_refused(pool) && (!own || self.is_refusal_told(pool));
        // Jobs that wait there already have its room, and GitHub may refuse its runners.
        let taken = !own && live + self.waiting_in(pool) >= pool.max;
        let barred = !own && self.is_barred(pool, job);
        let full = live + in_front >= pool.max;
        full || reached || pool.paused || young || refused || taken || barred
    }

    /// The pools that serve a job with the room that they have, in words.
    pub(crate) fn rooms_for(&self, job: &Job) -> String {
        let rooms = self.checker.pools.iter().filter(|pool| pool.serves(job).is_ok()).map(|pool| {
            let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
            let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
            let limits: Vec<String> = limits
                .iter()
                .flatten()
                .map(|(scope, max)| format!("{scope:?} {} of {max}", self.tables.counted(scope)))
                .collect();
            let waiting = self.waiting_in(pool);
            format!("{} {live} of {}, {waiting} wait, {limits:?}", pool.name, pool.max)
        });
        let rooms: Vec<String> = rooms.collect();
        format!("in {:?}, {} in front; {}", job.pool, self.waiting_before(job), rooms.join("; "))
    }

    /// How many jobs of its pool wait whose time came before its own.
    fn waiting_before(&self, job: &Job) -> u32 {
        let before = |other: &&Rc<Stored<Job>>| {
            other.pool == job.pool
                && other.is_demand()
                && (other.listed_at(), other.key()) < (job.listed_at(), job.key())
        };
        self.tables.jobs.values().filter(before).count() as u32
    }

    pub(crate) fn waiting_in(&self, pool: &Pool) -> u32 {
        let here =
            |job: &&Rc<Stored<Job>>| job.pool.as_ref() == Some(&pool.name) && job.is_demand();
        self.tables.jobs.values().filter(here).count() as u32
    }

    /// Whether it is on record that GitHub refuses the runners that the pool would start for a job.
    pub(crate) fn is_barred(&self, pool: &Pool, job: &Job) -> bool {
        let entity = pool.entity_for(job);
        let health = entity.and_then(|entity| self.tables.entities.get(&entity));
        health.is_some_and(|health| health.held_in(pool, self.time()).is_some())
    }

    /// Whether the jobs for which the pool has room have EC2's refusal on record: those behind them
    /// wait for these.
    fn is_refusal_told(&self, pool: &Pool) -> bool {
        let lately = self.time() - Seconds(120);
        self.tables.jobs.values().any(|job| {
            let told = job.hold.as_ref().is_some_and(|hold| hold.until > lately);
            job.pool.as_ref() == Some(&pool.name) && job.is_waiting() && told
        })
    }

    /// Whether it is on record that EC2 refuses what the pool would ask for.
    pub(crate) fn is_refused(&self, pool: &Pool) -> bool {
        let refused = self.tables.cooldowns.as_ref();
        refused.is_some_and(|all| all.offer(pool, first_market(pool.market), self.time()).is_err())
    }

    /// Whether a pool keeps fewer runners idle than it wants although nothing hinders it.
    pub(crate) fn is_short_of_idle(&self, pool: &Pool) -> bool {
        if pool.paused || pool.idle_wanted() == 0 {
            return false;
        }
        let Some(entity) = &pool.entity else { return false };
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let limits = self.checker.limits.for_entity(entity);
        let reached = limits.iter().any(|(scope, max)| self.tables.counted(scope) >= *max);
        let rows = self.tables.live_rows();
        let there = rows.filter(|row| row.pool == pool.name && row.is_kept_idle_by(pool)).count();
        there < pool.idle_wanted() as usize
            && live < pool.max
            && !reached
            && !self.is_refused(pool)
            && !self.is_robbed(pool, entity)
    }

    /// Whether GitHub gives the pool's runners to jobs that no pool of ours serves, as soon as they
    /// come up.
    fn is_robbed(&self, pool: &Pool, entity: &Entity) -> bool {
        let carried = pool.labels.carried();
        self.github.queued().any(|number| {
            let job = self.github.job(number);
            let takes = entity.covers(&job.repository) && carried.can_run(&job.labels);
            takes && !self.is_ours(number)
        })
    }

    /// Whether a pool has more idle runners than it wants and jobs could take.
    pub(crate) fn has_surplus(&self, pool: &Pool) -> bool {
        let rows = self.tables.live_rows();
        let idle = rows.filter(|row| row.pool == pool.name && self.is_kept(row)).count();
        let waits =
            |job: &&Rc<Stored<Job>>| job.is_demand() && job.pool.as_ref() == Some(&pool.name);
        let demand = self.tables.jobs.values().filter(waits).count();
        pool.idle_wanted() > 0 && idle > pool.idle_wanted() as usize + demand
    }
}

/// How long a surplus may last: after a launch ten minutes, the idle limit, five halvings, and what
/// a mark that is taken back costs.
pub(crate) const MAX_SURPLUS: Millis = 40 * MINUTE;
/// How long a min idle may be short: the longest wait after failures, and a boot.
pub(crate) const MAX_SHORTAGE: Millis = 90 * MINUTE;
