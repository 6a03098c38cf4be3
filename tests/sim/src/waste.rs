//! That nothing is lost can be had by launching again and again: how often is asked here.

use domain::instance::Instance;

use crate::agenda::HOUR;
use crate::world::World;

/// Most machines for one job within an hour. What is launched in vain is held back for 15 seconds and then longer, up to
/// five minutes: 16 of them. The others are for a job whose runner goes to another job.
const MOST: usize = 20;

impl World {
    /// Asked for every change of a record.
    pub(crate) fn check_waste(&mut self, before: &Instance, next: &Instance) {
        let is_bound = before.machine().is_none() && next.machine().is_some();
        let Some(job) = next.claim().filter(|_| is_bound) else { return };
        let now = self.now;
        let bound = self.checker.bound.entry(job).or_default();
        bound.retain(|at| now < *at + HOUR);
        bound.push(now);
        let count = bound.len();
        if count > MOST {
            self.broken("waste", || format!("{count} machines within an hour for job {job}"));
        }
    }
}
