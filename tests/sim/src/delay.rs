//! How long a job waits for its claim: nobody is lost who waits for hours, and nobody is served
//! well. The clock begins with the row. It counts where the job's pool had room for all who waited
//! there, and stops counting where a reason to wait is written into the row.

use muster_domain::ids::JobKey;
use muster_domain::job::Job;
use muster_domain::pool::Pool;
use muster_domain::pool::limits::Scope;

use crate::agenda::{MINUTE, Millis, SECOND};
use crate::world::World;

/// One launch pass with its calls, and the message before it.
const PROMPT: Millis = 5 * SECOND;

impl World {
    /// Asked before every commit of a job.
    pub(crate) fn note_delay(&mut self, next: &Job) {
        let key = next.key();
        let has_reason = next.hold.is_some() || next.moved.is_some();
        if next.claim.is_some() {
            self.note_claimed(key);
        } else if !next.is_demand() || has_reason {
            self.checker.waits_since.remove(&key);
        } else if !self.tables.jobs.contains_key(&key) && self.has_room_for(next) {
            self.checker.waits_since.insert(key, self.now);
        }
    }

    fn note_claimed(&mut self, key: JobKey) {
        let Some(since) = self.checker.waits_since.remove(&key) else { return };
        let tally = &mut self.tally;
        let count = match self.now - since {
            ..=PROMPT => &mut tally.claimed_promptly,
            ..=MINUTE => &mut tally.claimed_in_a_minute,
            _ => &mut tally.claimed_later,
        };
        *count += 1;
    }

    /// Whether its pool can launch for it at once, beside all that wait there or anywhere.
    fn has_room_for(&self, job: &Job) -> bool {
        let pool = |pool: &&Pool| job.pool.as_ref() == Some(&pool.name);
        let Some(pool) = self.checker.pools.iter().find(pool) else { return false };
        let is_due = pool.launches_at(job).as_millis() <= self.now;
        let refused = self.is_refused(pool) || self.is_barred(pool, job);
        is_due && !pool.paused && !refused && !self.is_crowded(pool, job)
    }

    /// Whether those who wait take all the room, in the pool or in a limit.
    fn is_crowded(&self, pool: &Pool, job: &Job) -> bool {
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let waiting = self.tables.jobs.values().filter(|job| job.is_demand()).count() as u32;
        let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
        let is_full = |(scope, max): &(Scope, u32)| self.tables.counted(scope) + waiting >= *max;
        live + self.waiting_in(pool) >= pool.max || limits.iter().flatten().any(|one| is_full(one))
    }
}
