//! What must come to pass once the faults have stopped.

use std::collections::BTreeSet;

use domain::ids::JobKey;
use domain::instance::{RunnerState, State, Waiting};
use domain::time::Time;

use crate::agenda::{MINUTE, Millis};
use crate::github::Status;
use crate::world::World;

impl World {
    /// Ten minutes without a fault: no row is held up on its way out by anything but a job, or by the wait
    /// for evidence.
    pub fn look_for_stuck_rows(&mut self, faults_end: Millis) {
        let limit = Time::from_millis(self.now - 10 * MINUTE);
        let mut stuck = Vec::new();
        for name in &self.tables.live {
            let Some(row) = self.tables.instances.get(name) else { continue };
            let ending = matches!(
                row.state(),
                State::PendingDelete | State::PendingForceDelete | State::Deleting
            );
            let waiting = row.drain().and_then(|drain| drain.waiting.as_ref());
            let for_evidence = matches!(
                waiting,
                Some(
                    Waiting::JobRunning
                        | Waiting::Busy
                        | Waiting::SecondRead
                        | Waiting::Registering
                )
            );
            let since = row.since().max(Time::from_millis(faults_end));
            if ending && !for_evidence && since <= limit {
                stuck.push(format!("{name} is {} since {}, {waiting:?}", row.state(), row.since()));
            }
        }
        if let Some(what) = stuck.pop() {
            self.broken("stuck", || what);
        }
    }

    /// Twelve minutes without a fault, more than a boot deadline: every job that waits is explained.
    /// `suspects` were not explained at the look before; for a moment any job may be between two passes.
    #[must_use]
    pub fn unexplained_jobs(&self, suspects: Option<&BTreeSet<JobKey>>) -> BTreeSet<JobKey> {
        let now = self.time();
        let starving = self.tables.jobs.values().filter(|job| {
            let truth = self.github.job_of(job.key()).map(|job| job.status);
            if !job.is_waiting() || truth != Some(Status::Queued) {
                return false;
            }
            let full = job.pool.as_ref().is_some_and(|pool| {
                let live = self.tables.capacities.get(pool).map_or(0, |capacity| capacity.live);
                live >= self.checker.maximum.get(pool).copied().unwrap_or(0)
            });
            let held = job.hold.as_ref().is_some_and(|hold| hold.until > now);
            // Its runner may still come up.
            let boots =
                job.claim.as_ref().and_then(|name| self.tables.instances.get(name)).is_some_and(
                    |row| {
                        let young = now.since(row.created_at).0 < 660;
                        young && row.drain().is_none() && row.runner.state <= RunnerState::Idle
                    },
                );
            !full && !held && !boots
        });
        let starving = starving.map(|job| job.key());
        starving.filter(|key| suspects.is_none_or(|before| before.contains(key))).collect()
    }

    /// Jobs that were not explained at several looks.
    pub fn accuse(&mut self, suspects: &BTreeSet<JobKey>) {
        let Some(job) = suspects.first().and_then(|key| self.tables.jobs.get(key)).cloned() else {
            return;
        };
        self.broken("starving", || {
            format!("job {} waits, claim {:?}, hold {:?}", job.key(), job.claim, job.hold)
        });
    }

    /// Whether nothing is left of anything.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.violation.is_some()
            || (self.tables.is_quiet(self.time())
                && self.ec2.live() == 0
                && self.queues.is_empty()
                && self.github.queued.is_empty())
    }

    fn count_the_unserved(&mut self) {
        for job in &self.github.jobs {
            let served = self.checker.pools.iter().any(|pool| {
                let covers = pool.entity.as_ref().is_none_or(|one| one.covers(&job.repository));
                covers
                    && pool.labels.can_run(&job.labels)
                    && (job.private || pool.public_repositories)
            });
            match job.status {
                Status::Completed if job.conclusion == Some("cancelled") => {
                    self.tally.cancelled += 1;
                }
                Status::Queued if !served => self.tally.not_ours += 1,
                Status::Queued => self.tally.never_heard_of += 1,
                _ => {}
            }
        }
    }

    /// Hours without a fault and without new jobs: nothing is left of anything.
    pub fn look_for_leftovers(&mut self) {
        let truth_waits = self.github.jobs.iter().find(|job| {
            job.status == Status::Queued
                && self.tables.jobs.get(&job.key).is_some_and(|row| row.pool.is_some())
        });
        if let Some(job) = truth_waits {
            let what = format!("job {} is still queued", job.key);
            self.broken("I8", || what);
        }
        self.count_the_unserved();
        self.tally.registrations_left += self.github.runners.len() as u64;
        let row = self.tables.live.iter().next().and_then(|name| self.tables.instances.get(name));
        if let Some(row) = row.cloned() {
            self.broken("I11", || {
                format!("{} is still {}: {:?}", row.name, row.state(), row.events.last())
            });
        }
        let leaked = self
            .ec2
            .machines
            .iter()
            .find(|machine| machine.launch.is_some() && !machine.power.is_gone());
        if let Some(machine) = leaked {
            let what = format!("machine {} of launch {:?} still lives", machine.id, machine.launch);
            self.broken("I2", || what);
        }
        if let Some(orphan) = self.tables.orphans.keys().next().cloned() {
            self.broken("I2", || format!("{orphan} is still in the ledger"));
        }
    }
}
