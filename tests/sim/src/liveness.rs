//! What must not last, once the faults have stopped. Looked at every minute.
//!
//! Each limit is twice what the design says:
//! - a row on its way out ends within 20 minutes, counted anew whenever it waited for somebody
//!   outside: for a job that runs on its machine, or that its machine was to report the end of (its
//!   age ends both); or for the word of GitHub or EC2, which it has within 70 minutes: the boot
//!   deadline and 20 minutes between two reads, or 20 minutes of denials;
//! - an entry leaves the orphan ledger within an hour, and a machine without a record is known or
//!   gone within 44 minutes;
//! - a job with a row is launched for, ended or explained within 20 minutes, again and again until
//!   it runs. Its row explains it with a reason, and its pool with having no room.
//!
//! That all of it ends at last is asked in `books.rs`.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, JobKey, MachineId};
use muster_domain::instance::{Instance, RunnerState, State, Waiting};
use muster_domain::job::Job;
use muster_domain::time::Seconds;

use crate::agenda::{MINUTE, Millis, SECOND};
use crate::ec2::{InstanceState, Machine};
use crate::world::World;

/// Something that must not last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suspect {
    /// On its way out, and nothing holds it.
    Row(InstanceName),
    /// On its way out, and held by the word of GitHub or EC2 alone.
    Held(InstanceName),
    /// In the ledger.
    Orphan(MachineId),
    /// A machine without a record.
    Stray(MachineId),
    /// Waits, and nobody can say what for.
    Job(JobKey),
}

impl Suspect {
    /// How long it may last.
    const fn limit(&self) -> Millis {
        match self {
            Self::Row(_) | Self::Job(_) => 20 * MINUTE,
            Self::Stray(_) => 44 * MINUTE,
            Self::Orphan(_) => 60 * MINUTE,
            Self::Held(_) => 70 * MINUTE,
        }
    }
}

/// What was seen at every look so far, and since when.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<Suspect, Millis>);

impl World {
    /// Looks at everything that must not last. Once a minute, when no fault strikes any more.
    pub(crate) fn look(&mut self, watch: &mut Watch) {
        let now = self.now;
        let mut seen = BTreeMap::new();
        for suspect in self.suspects() {
            let since = watch.0.get(&suspect).copied().unwrap_or(now);
            if now - since > suspect.limit() {
                self.tally.lost += u64::from(matches!(suspect, Suspect::Job(_)));
                let what = self.tell_of(&suspect);
                self.broken("liveness", || {
                    format!("for {} minutes: {what}", (now - since) / MINUTE)
                });
                return;
            }
            seen.insert(suspect, since);
        }
        watch.0 = seen;
    }

    fn suspects(&self) -> Vec<Suspect> {
        let rows = self.tables.live_rows();
        let mut all: Vec<Suspect> = rows.filter_map(|row| self.suspect_row(row)).collect();
        let orphans = self.tables.orphans.values().filter(|orphan| orphan.launch.is_some());
        all.extend(orphans.map(|orphan| Suspect::Orphan(orphan.machine.clone())));
        all.extend(self.strays());
        all.extend(self.unexplained_jobs());
        all
    }

    fn suspect_row(&self, row: &Instance) -> Option<Suspect> {
        let ending = matches!(
            row.state(),
            State::PendingDelete | State::PendingForceDelete | State::Deleting
        );
        let waiting = row.mark().filter(|_| ending)?.waiting.as_ref();
        let name = row.name.clone();
        match waiting {
            Some(Waiting::SecondRead | Waiting::Registering | Waiting::Absent) => {
                Some(Suspect::Held(name))
            }
            Some(Waiting::Busy) if self.may_work(row) && !self.works(row) => {
                Some(Suspect::Held(name))
            }
            Some(Waiting::Busy | Waiting::JobRunning) if self.may_work(row) => None,
            _ => Some(Suspect::Row(name)),
        }
    }

    /// Whether EC2 calls the machine of a row running, and the row is young enough to wait for a
    /// job on it.
    fn may_work(&self, row: &Instance) -> bool {
        let machine = row.machine().and_then(|id| self.ec2.number(id));
        let runs =
            machine.is_some_and(|number| self.ec2.instance(number).state == InstanceState::Running);
        let life = self.checker.pool(&row.pool).map(|pool| i64::from(pool.max_lifetime_seconds.0));
        let oldest = life.map(|life| row.launched_at().as_millis() + life * SECOND);
        runs && oldest.is_none_or(|oldest| self.now < oldest)
    }

    /// Whether an agent with a job runs on the machine: the truth.
    fn works(&self, row: &Instance) -> bool {
        let machine = row.machine().and_then(|id| self.ec2.number(id));
        machine.map(|number| self.ec2.at(number)).is_some_and(|machine| {
            machine.task.is_some() && (machine.job.is_some() || machine.works_on.is_some())
        })
    }

    /// Machines of ours that no live record and no ledger entry knows.
    fn strays(&self) -> Vec<Suspect> {
        if self.ec2.live() == 0 {
            return Vec::new();
        }
        let stray = |machine: &&Machine| {
            machine.launch.is_some()
                && !self.owner(&machine.id).is_some_and(|row| row.state().is_live())
                && !self.tables.orphans.contains_key(&machine.id)
        };
        let strays = self.ec2.living().filter(stray);
        strays.map(|machine| Suspect::Stray(machine.id.clone())).collect()
    }

    /// Jobs that wait without a runner that comes up, a reason in their row, or a pool that is full.
    fn unexplained_jobs(&self) -> Vec<Suspect> {
        let now = self.time();
        let waiting = self.github.queued().filter_map(|number| {
            let row = self.tables.jobs.get(&self.github.job(number).key)?;
            (row.is_waiting() || row.is_unmatched()).then_some(row)
        });
        let unexplained = waiting.filter(|job| {
            let held = self.is_braked(job);
            let claim = job.claim.as_ref().and_then(|name| self.tables.instances.get(name));
            let boots = claim.is_some_and(|row| {
                let young = now.since(row.launched_at()).0 < 660;
                young && row.mark().is_none() && row.runner.state <= RunnerState::Idle
            });
            // Its slot says what EC2 refused, and when it is tried again.
            let retries = claim.is_some_and(|row| {
                let soon = row.due_at().is_some_and(|due| now < due + Seconds(120));
                row.state() == State::PendingCreate && row.last_error.is_some() && soon
            });
            self.is_served(job) && !held && !boots && !retries && !self.has_no_room(job)
        });
        unexplained.map(|job| Suspect::Job(job.key())).collect()
    }

    /// Whether the pool of a job, or a limit, is full with those that wait in front of it.
    fn has_no_room(&self, job: &Job) -> bool {
        let Some(pool) = job.pool.as_ref().and_then(|name| self.checker.pool(name)) else {
            return false;
        };
        let in_front = self.waiting_before(job);
        let live = self.tables.capacities.get(&pool.name).map_or(0, |capacity| capacity.live);
        let limits = pool.entity_for(job).map(|entity| self.checker.limits.for_entity(&entity));
        let mut limits = limits.iter().flatten();
        let reached = limits.any(|(scope, max)| self.tables.counted(scope) + in_front >= *max);
        let young = self.time() < pool.launches_at(job) + Seconds(120);
        young || reached || live + in_front >= pool.max
    }

    /// How many jobs of its pool wait whose time came before its own.
    fn waiting_before(&self, job: &Job) -> u32 {
        let place = (job.queued_at(), job.key());
        let others = self.tables.jobs.values().filter(|other| other.pool == job.pool);
        let before =
            others.filter(|other| other.is_demand() && (other.queued_at(), other.key()) < place);
        before.count() as u32
    }

    fn tell_of(&self, suspect: &Suspect) -> String {
        match suspect {
            Suspect::Row(name) | Suspect::Held(name) => {
                let row = self.tables.instances.get(name);
                let mark = row.and_then(|row| row.mark());
                format!("{suspect:?} is {:?}: {mark:?}", row.map(|row| row.state()))
            }
            Suspect::Job(key) => {
                let Some(job) = self.tables.jobs.get(key) else { return format!("job {key}") };
                let (pool, claim, block) = (&job.pool, &job.claim, self.block_of(job));
                let in_front = self.waiting_before(job);
                format!("job {key} waits in {pool:?} behind {in_front}, {claim:?}, {block:?}")
            }
            Suspect::Orphan(machine) => format!("{machine} is in the ledger"),
            Suspect::Stray(machine) => format!("{machine} has no record"),
        }
    }
}
