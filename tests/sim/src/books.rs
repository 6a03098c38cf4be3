//! What the books of GitHub and EC2 say at the end of the day, hours after the last fault and the
//! last new job:
//! - GitHub: every job that one of our pools serves has ended, or waits for an approval and its row
//!   says so; every job that it told us of has a row, if a pool is meant for it; every delivery
//!   that failed was repeated;
//! - EC2: every machine of ours has ended, but those that a min idle keeps; and so has every row
//!   and every entry of the ledger;
//! - EC2's images: a build has ended, each family has an image or a reason to wait, and every image and every snapshot
//!   stands in the record;
//! - the record of usage: each machine that has ended has a line;
//! - the audit trail: a row has an order if, and only if, there is a line about it.
//!
//! Counted and not judged are the registrations that GitHub is left with: it strikes those itself.

use std::collections::BTreeSet;

use muster_domain::audit::AuditKind;
use muster_domain::ids::{ImageId, instance_of_runner};
use muster_domain::image::{self, Family, Images};
use muster_domain::instance::{Instance, RunnerState, State};
use muster_domain::job::Job;
use muster_domain::pool::Pool;

use crate::agenda::{HOUR, MINUTE};
use crate::ec2::Machine;
use crate::github::Status;
use crate::world::World;

impl World {
    /// Whether nothing is left of anything.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.violation.is_some()
            || (self.is_all_at_rest()
                && self.queues.is_empty()
                && self.github.in_flight == 0
                && self.undelivered().is_none()
                && !self.tables.has_inquiries()
                && self.unsettled_images().is_none()
                && !self.github.queued().any(|job| self.is_ours(job))
                // GitHub gives up a lost runner after some minutes.
                && !self.github.known().any(|(_, job)| job.status == Status::InProgress))
    }

    /// Whether nothing lives and nothing waits but what is kept idle.
    fn is_all_at_rest(&self) -> bool {
        let kept = self.tables.live_rows().filter(|row| self.is_kept(row)).count();
        self.tables.live.len() == kept
            && self.ec2.live() == kept
            && self.tables.orphans.values().all(|orphan| orphan.launch.is_none())
            && self.tables.index.reruns.is_empty()
            && self.tables.index.is_at_rest(kept, |job| self.is_served(job))
    }

    /// Whether a row is one of a min idle, at rest.
    fn is_kept(&self, row: &Instance) -> bool {
        let pool = self.checker.pool(&row.pool);
        pool.is_some_and(|pool| pool.idle_wanted() > 0 && row.is_kept_idle_by(pool))
            && row.state() == State::Running
            && row.runner.state == RunnerState::Idle
    }

    /// A job with a row that one of our pools serves.
    fn is_ours(&self, job: u32) -> bool {
        let row = self.tables.jobs.get(&self.github.job(job).key);
        row.is_some_and(|row| self.is_served(row))
    }

    /// Whether a job is queued that a pool serves, and that is not on record.
    pub(crate) fn has_unannounced(&self) -> bool {
        self.github.known().any(|(job, truth)| {
            truth.status == Status::Queued
                && !self.tables.jobs.contains_key(&job.key)
                && !self.github.truth.is_ghost(truth)
                && self.is_served(&self.told_of(truth))
        })
    }

    pub(crate) fn is_served(&self, row: &Job) -> bool {
        self.checker.pools.iter().any(|pool| pool.serves(row).is_ok())
    }

    /// Whether a runner's pool does not serve a job. GitHub asks for labels and groups alone.
    pub(crate) fn is_foreign(&self, runner: &str, job: u32) -> bool {
        let row = instance_of_runner(runner).and_then(|name| self.tables.instances.get(&name));
        let pool = row.and_then(|row| self.checker.pools.iter().find(|pool| pool.name == row.pool));
        let told = self.github.truth_of(job).map(|truth| self.told_of(truth));
        pool.zip(told).is_some_and(|(pool, told)| pool.serves(&told).is_err())
    }

    /// Closes the books.
    pub fn look_for_leftovers(&mut self) {
        if self.violation.is_some() {
            return;
        }
        self.close_githubs_book();
        self.close_ec2s_book();
        self.close_the_images();
        self.close_the_usage();
        self.close_the_audit();
        self.close_the_reruns();
    }

    fn close_githubs_book(&mut self) {
        let lost: Vec<u32> = self.github.queued().filter(|job| self.is_ours(*job)).collect();
        self.tally.lost += lost.len() as u64;
        if let Some(job) = lost.first() {
            self.broken("I8", || format!("job {job} is still queued"));
        }
        if let Some((job, at)) = self.undelivered() {
            self.broken("I8", || {
                let at = at / MINUTE;
                format!("a delivery of job {job} failed in minute {at}, and was never repeated")
            });
        }
        let mut wrong = None;
        for (job, truth) in self.github.known() {
            let row = self.tables.jobs.get(&job.key);
            match truth.status {
                Status::Completed if truth.conclusion.as_deref() == Some("cancelled") => {
                    self.tally.cancelled += 1;
                }
                Status::Queued if !self.is_served(&self.told_of(truth)) => self.tally.not_ours += 1,
                Status::Queued if row.is_none() => {
                    self.tally.never_heard_of += 1;
                    if !job.event_lost && !job.turned_away {
                        wrong = Some((job.key, "has no row, and no fault took its event"));
                    }
                }
                Status::Waiting
                    if row.is_some_and(|row| row.is_waiting() && self.is_served(row)) =>
                {
                    wrong =
                        Some((job.key, "waits for an approval, and its row says for a machine"));
                }
                Status::InProgress => wrong = Some((job.key, "is still in progress")),
                _ => {}
            }
            let is_unseen = truth.began_at.is_some() && job.lied_at.is_some() && !job.hooked;
            self.tally.unseen_jobs += u64::from(is_unseen);
        }
        if let Some((key, what)) = wrong {
            self.broken("I8", || format!("job {key} {what}"));
        }
        let is_known = |name: &str| {
            let row = instance_of_runner(name).and_then(|name| self.tables.instances.get(&name));
            row.is_some_and(|row| row.state().is_live())
        };
        let left = self.github.truth.runners().filter(|runner| !is_known(&runner.name)).count();
        self.tally.registrations_left += left as u64;
    }

    fn close_ec2s_book(&mut self) {
        let row = self.tables.live_rows().find(|row| !self.is_kept(row)).cloned();
        if let Some(row) = row {
            self.broken("I11", || {
                format!("{} is still {}: {:?}", row.name, row.state(), row.events.last())
            });
        }
        let leaked = |machine: &&Machine| {
            let owner = self.owner(&machine.id);
            machine.launch.is_some() && !owner.is_some_and(|row| self.is_kept(row))
        };
        let living = self.ec2.living().filter(leaked);
        let leaked: Vec<String> =
            living.map(|one| format!("machine {} of launch {:?}", one.id, one.launch)).collect();
        self.tally.leaked += leaked.len() as u64;
        if let Some(machine) = leaked.first() {
            self.broken("I2", || format!("{machine} still lives"));
        }
        let orphan = self.tables.orphans.values().find(|orphan| orphan.launch.is_some());
        if let Some(machine) = orphan.map(|orphan| orphan.machine.clone()) {
            self.broken("I2", || format!("{machine} is still in the ledger"));
        }
    }

    /// What keeps the images from rest, if anything does.
    fn unsettled_images(&self) -> Option<String> {
        let images = self.tables.images.as_deref()?;
        if let Some((key, build)) = images.build() {
            return Some(format!("{key} is still being built: {}", build.waits_for()));
        }
        let pools: Vec<Pool> = self.checker.pools.clone();
        let now = self.time();
        let none = Family::default();
        let due = image::families(&pools).into_iter().find(|(key, _)| {
            let family = images.families.get(key).unwrap_or(&none);
            let waits = family.not_before.is_some_and(|at| now < at) || family.blocked.is_some();
            images.on && !waits && (family.ordered_by.is_some() || family.current.is_none())
        });
        due.map(|(key, _)| format!("{key} has no image, and nothing that it waits for"))
    }

    /// I15, in the long run.
    fn close_the_images(&mut self) {
        let mut wrong = self.unsettled_images();
        let none = Images::default();
        let images = self.tables.images.as_deref().unwrap_or(&none);
        let known = |id: &str| {
            let id: Option<ImageId> = id.parse().ok();
            id.is_some_and(|id| images.uses(&id) || images.unused.contains_key(&id))
        };
        let young = self.now - 4 * HOUR;
        for image in self.ec2.images().filter(|image| !known(&image.id) && image.created_at < young)
        {
            wrong = Some(format!("image {} stands in no record", image.id));
        }
        for snapshot in self.ec2.snapshots().filter(|one| one.created_at < young) {
            let listed =
                images.unused.values().any(|unused| unused.snapshots.contains(&snapshot.id));
            let belongs = self.ec2.images().any(|image| image.id == snapshot.image);
            if !listed && !belongs && !known(&snapshot.image) {
                wrong = Some(format!("snapshot {} of {} is left", snapshot.id, snapshot.image));
            }
        }
        for (image, machine) in self.ec2.images_made() {
            let row = self.owner(&machine.id);
            if row.is_some_and(|row| {
                row.builds().is_none() || row.runner.n > 0 || row.runner.has_taken_job()
            }) {
                wrong = Some(format!(
                    "image {} was made of {}, which is no builder",
                    image.id, machine.id
                ));
            }
        }
        let made = self.ec2.images_made().count() as u64;
        let current =
            images.families.values().filter(|family| family.current.is_some()).count() as u64;
        self.tally.images_made += made;
        self.tally.images_current += current;
        if let Some(wrong) = wrong {
            self.broken("I15", || wrong);
        }
    }

    /// I14, of all orders at once. Of a record that has expired only its lines are left.
    fn close_the_audit(&mut self) {
        let rows = self.tables.instances.values();
        let ordered: BTreeSet<&str> =
            rows.filter(|row| row.order().is_some()).map(|row| row.name.as_str()).collect();
        let lines = self.tables.audits.iter().filter(|line| line.kind == AuditKind::Ordered);
        let is_there =
            |name: &&str| name.parse().is_ok_and(|name| self.tables.instances.contains_key(&name));
        let told: BTreeSet<&str> =
            lines.map(|line| line.subject.as_str()).filter(is_there).collect();
        let differs = ordered.symmetric_difference(&told).next().map(ToString::to_string);
        if let Some(name) = differs {
            self.broken("I14", || {
                format!("an order for {name}, and no line; or the other way round")
            });
        }
    }
}
