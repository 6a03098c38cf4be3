//! That nothing is lost can be had by launching again and again: how often is asked here.

use domain::instance::Instance;

use crate::agenda::HOUR;
use crate::world::World;

/// Most machines for one job within an hour. What is launched in vain is held back for 15 seconds and then longer, up to
/// five minutes: 16 of them. The others are for a job whose runner goes to another job.
const MOST: usize = 20;

impl World {
    /// Asked for every new record.
    pub(crate) fn check_waste(&mut self, next: &Instance) {
        let Some(job) = next.claim() else { return };
        let now = self.now;
        let planned = self.checker.planned.entry(job).or_default();
        planned.retain(|at| now < *at + HOUR);
        planned.push(now);
        let count = planned.len();
        if count > MOST {
            self.broken("waste", || format!("{count} machines within an hour for job {job}"));
        }
    }
}
