//! That nothing is lost can be had by launching again and again: how often is asked here.

use muster_domain::instance::{Instance, State};

use crate::agenda::HOUR;
use crate::world::World;

/// Most machines that are bought for one job and end without any job, within an hour. Such a job is
/// held back for 30 seconds and then longer, up to five minutes: 15 of them. A few ends may come
/// late.
const MOST: usize = 18;

impl World {
    /// Asked for every change of a record. Machines that other jobs took are no waste.
    pub(crate) fn check_waste(&mut self, before: &Instance, next: &Instance) {
        if before.machine().is_none() && next.machine().is_some() {
            self.checker.bought.extend(next.claim().map(|job| (next.name.clone(), job)));
        }
        let ends = before.state() != State::Deleted && next.state() == State::Deleted;
        if !ends || next.runner.has_taken_job() {
            return;
        }
        let Some(job) = self.checker.bought.remove(&next.name) else { return };
        let now = self.now;
        let ended = self.checker.in_vain.entry(job).or_default();
        ended.retain(|at| now < *at + HOUR);
        ended.push(now);
        let count = ended.len();
        if count > MOST {
            self.broken("waste", || {
                format!("{count} machines in vain within an hour for job {job}")
            });
        }
    }
}
