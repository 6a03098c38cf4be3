//! How long a job waits for its claim: nobody is lost who waits for hours, and nobody is served
//! well. The clock begins with the row. It counts where the job's pool had room for all who waited
//! there, and stops counting where a reason to wait is written into the row, where others take the
//! last room, where an operator changes what is launched, and where the pools are others.

use muster_domain::ids::{JobKey, PoolName};
use muster_domain::job::Job;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;

use crate::agenda::{MINUTE, Millis, SECOND};
use crate::world::World;

/// No reason holds a job for longer at once: GitHub's limits end with the hour.
const MAX_HOLD: Millis = 65 * MINUTE;
/// One launch pass with its calls, and the message before it.
const PROMPT: Millis = 5 * SECOND;

impl World {
    /// Asked before every commit of a job.
    pub(crate) fn note_delay(&mut self, next: &Job) {
        let key = next.key();
        let held_for = next.hold.as_ref().map_or(0, |hold| hold.until.as_millis() - self.now);
        if held_for > MAX_HOLD {
            self.broken("hold", || format!("job {key} is held for {} minutes", held_for / MINUTE));
        }
        let has_reason = next.hold.is_some() || next.moved.is_some();
        if next.claim.is_some() {
            self.note_claimed(key);
        } else if !next.is_demand() || has_reason {
            self.checker.waits_since.remove(&key);
        } else if !self.tables.jobs.contains_key(&key) && self.has_room_for(next) {
            self.checker.waits_since.insert(key, self.now);
        }
    }

    /// Asked after each launch and each end: where one took the last room, those who wait do so for
    /// a reason.
    pub(crate) fn note_room_taken(&mut self, pool: &PoolName) {
        let live = self.tables.capacities.get(pool).map_or(0, |capacity| capacity.live);
        let max = self.checker.maximum.get(pool).copied().unwrap_or(0);
        let limits = &self.checker.limits;
        let stack = limits.stack.map(|max| (Scope::Stack, max));
        let entities = limits.entities.iter().map(|(one, max)| (Scope::Entity(one.clone()), *max));
        if stack.into_iter().chain(entities).any(|(scope, max)| self.tables.counted(&scope) >= max)
        {
            self.checker.waits_since.clear();
        } else if live >= max {
            let jobs = &self.tables.jobs;
            let elsewhere =
                |key: &JobKey| jobs.get(key).is_none_or(|job| job.pool.as_ref() != Some(pool));
            self.checker.waits_since.retain(|key, _| elsewhere(key));
        }
    }

    fn note_claimed(&mut self, key: JobKey) {
        let Some(since) = self.checker.waits_since.remove(&key) else { return };
        if self.is_changed_since(since) {
            return;
        }
        let waited = (self.now - since) / SECOND;
        if waited > PROMPT / SECOND {
            self.say(|| format!("  job {key} has waited {waited} s for its claim"));
        }
        let tally = &mut self.tally;
        let count = if self.now - since <= PROMPT {
            &mut tally.claimed_promptly
        } else if self.now - since <= MINUTE {
            &mut tally.claimed_in_a_minute
        } else {
            &mut tally.claimed_later
        };
        *count += 1;
    }

    /// Whether somebody has changed since then what is launched.
    fn is_changed_since(&self, since: Millis) -> bool {
        let changed = [self.checker.changed_at, self.checker.switched_at];
        changed.into_iter().flatten().any(|at| at >= since - MINUTE)
    }

    /// Whether its pool can launch for it at once, beside all that wait there or anywhere.
    fn has_room_for(&self, job: &Job) -> bool {
        let pool = |pool: &&Pool| job.pool.as_ref() == Some(&pool.name);
        let Some(pool) = self.checker.pools.iter().find(pool) else { return false };
        let is_due = pool.launches_at(job).as_millis() <= self.now;
        let switches = self.tables.switches.as_ref();
        let off = switches.is_some_and(|all| all.launches_off(&pool.name).is_some());
        let refused = off || self.is_refused(pool) || self.is_barred(pool, job);
        is_due && !pool.paused && !refused && !self.is_crowded(pool, job)
    }

    /// Whether those who wait take all the room, in the pool or in a limit.
    fn is_crowded(&self, pool: &Pool, job: &Job) -> bool {
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let waiting = self.tables.jobs.values().filter(|job| job.is_demand()).count() as u32;
        let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
        let is_full = |(scope, max): &(Scope, u32)| self.tables.counted(scope) + waiting >= *max;
        live + self.waiting_in(pool) >= pool.max || limits.iter().flatten().any(is_full)
    }
}
