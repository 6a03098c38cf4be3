//! How long a job waits for its claim: counted for the report, and not judged. The clock begins
//! with the row, where the job's pool had room for all who waited there, and is not read where a
//! reason to wait has come into the row since.

use muster_domain::ids::JobKey;
use muster_domain::job::Job;
use muster_domain::pool::limits::Scope;

use crate::agenda::{MINUTE, Millis, SECOND};
use crate::world::World;

/// One launch pass with its calls, and the message before it.
const PROMPT: Millis = 5 * SECOND;

impl World {
    /// Asked before every commit of a job.
    pub(crate) fn note_delay(&mut self, next: &Job) {
        // The report is not a replay's, and looks at all that wait.
        if self.replayed.is_some() {
            return;
        }
        let key = next.key();
        if next.claim.is_some() {
            self.note_claimed(key);
        } else if !next.is_demand() || self.is_braked(next) || next.moved.is_some() {
            self.checker.waits_since.remove(&key);
        } else if !self.tables.jobs.contains_key(&key) && self.has_room_for(next) {
            self.checker.waits_since.insert(key, self.now);
        }
    }

    fn note_claimed(&mut self, key: JobKey) {
        let Some(since) = self.checker.waits_since.remove(&key) else { return };
        let waited = self.now - since;
        if waited > PROMPT {
            self.say(|| format!("  job {key} has waited {} s for its claim", waited / SECOND));
        }
        let tally = &mut self.tally;
        let count = if waited <= PROMPT {
            &mut tally.claimed_promptly
        } else if waited <= MINUTE {
            &mut tally.claimed_in_a_minute
        } else {
            &mut tally.claimed_later
        };
        *count += 1;
    }

    /// Whether its pool may launch for it now, and has room beside all that wait.
    fn has_room_for(&self, job: &Job) -> bool {
        let Some(pool) = job.pool.as_ref().and_then(|name| self.checker.pool(name)) else {
            return false;
        };
        let waiting = self.tables.jobs.values().filter(|job| job.is_demand());
        let (mut here, mut all) = (0, 0);
        for other in waiting {
            all += 1;
            here += u32::from(other.pool == job.pool);
        }
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
        let is_full = |(scope, max): &(Scope, u32)| self.tables.counted(scope) + all >= *max;
        let is_due = pool.launches_at(job).as_millis() <= self.now;
        is_due && live + here < pool.max && !limits.iter().flatten().any(is_full)
    }
}
