//! What must come to pass once the faults have stopped.
//!
//! The limits are those of the project's promise, and where a wait is part of the rules, that wait:
//! - a row on its way out ends within 10 minutes, counted anew whenever it waited for one of these
//!   in between:
//!   - evidence: at most the boot deadline, 10 minutes, and 20 minutes between two reads without
//!     hooks, here 35;
//!   - a job that truly runs on its machine: until the pool's longest life ends it;
//!   - a job on record that runs no more, because its machine hangs or its end was never reported:
//!     as long, since
//!     nobody can know better;
//!   - GitHub's "busy" about a runner without a job: 15, since GitHub gives up a lost runner after
//!     10;
//!   - EC2's denial of its machine: 25, of which 20 must pass;
//! - however often it changes between them, a row on its way out spends at most 90 minutes without
//!   a job to wait for: the boot deadline, evidence twice because a job came in between, a denial,
//!   and twice the ten minutes;
//! - an entry leaves the orphan ledger within 30 minutes, 20 of them a denial; a machine without a
//!   record is known as an   orphan at an age of 15 minutes, and the comparison that finds it runs
//!   every five, so it is   gone within 22;
//! - a runner without a claim idles for as long as its pool allows, 5 minutes unless told
//!   otherwise, before its end begins, here 5 more; (a runner that is kept idle and that no job can
//!   reach is noticed in 10 minutes, here 15; a pool that keeps runners idle has 40 minutes for its
//!   surplus as a whole, and 90 until nothing is missing);
//! - of a job that waits for an approval, and of one whose approval is over, the row says so within
//!   75 minutes: nobody may have told us, and GitHub is asked after an hour of silence;
//! - a job with a row is launched for, ended or explained within 10 minutes, again and again until
//!   it runs. A full or paused pool explains nothing while another one that serves the job has
//!   room.

use std::collections::BTreeMap;

use muster_domain::ids::{InstanceName, JobKey, MachineId, PoolName};
use muster_domain::instance::{DeleteReason, Instance, RunnerState, State, Waiting};
use muster_domain::pool::Pool;
use muster_domain::time::Seconds;
use muster_domain::timings::Timings;

use crate::agenda::{HOUR, MINUTE, Millis, SECOND};
use crate::choices::{MAX_SHORTAGE, MAX_SURPLUS};
use crate::ec2::{InstanceState, Machine};
use crate::github::Status;
use crate::world::World;

/// Something that must not last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suspect {
    /// On its way out, and nothing holds it.
    Row(InstanceName),
    /// On its way out, and gathers evidence.
    Evidence(InstanceName),
    /// On its way out, and held by a job that runs.
    Working(InstanceName),
    /// On its way out, and held by a job on record of which nothing is left on its machine.
    Unheard(InstanceName),
    /// On its way out, and held by GitHub's word alone.
    CalledBusy(InstanceName),
    /// On its way out, and EC2 denies knowing its machine.
    Denied(InstanceName),
    /// On its way out, and no job holds it: all such minutes together.
    Leaving(InstanceName),
    /// In the ledger.
    Orphan(MachineId),
    /// A machine without a record.
    Stray(MachineId),
    /// Its runner idles without a claim, in a pool with this limit.
    Idle(InstanceName, Seconds),
    /// Its pool keeps it idle, and no job can reach it.
    Unreachable(InstanceName),
    /// Its row takes it for waiting for an approval, and it does not; or the other way round.
    Gate(JobKey),
    /// Waits, and nobody can say what for.
    Job(JobKey),
    /// A pool with more idle runners than it wants.
    Surplus(PoolName),
    /// A pool with fewer, and nothing that hinders it.
    Shortage(PoolName),
}

impl Suspect {
    /// How long it may last.
    const fn limit(&self) -> Millis {
        match self {
            Self::Row(_) | Self::Job(_) => 10 * MINUTE,
            Self::Idle(_, limit) => limit.0 as Millis * SECOND + 5 * MINUTE,
            Self::Unreachable(_) => 15 * MINUTE,
            Self::Gate(_) => 75 * MINUTE,
            Self::Evidence(_) => 35 * MINUTE,
            Self::CalledBusy(_) => 15 * MINUTE,
            Self::Denied(_) => 25 * MINUTE,
            // Past its longest life a row is not called held any more.
            Self::Working(_) | Self::Unheard(_) => MAX_LIFE,
            Self::Leaving(_) => 90 * MINUTE,
            Self::Orphan(_) => 30 * MINUTE,
            Self::Stray(_) => 22 * MINUTE,
            Self::Surplus(_) => MAX_SURPLUS,
            Self::Shortage(_) => MAX_SHORTAGE,
        }
    }
}

/// The longest life of a machine in all pools of the schedules.
const MAX_LIFE: Millis = 4 * HOUR;

/// What was seen at every look so far, and since when. Minutes in which a job holds a row are not
/// counted as leaving: its beginning moves on with them.
#[derive(Debug, Default)]
pub(crate) struct Watch(BTreeMap<Suspect, Millis>);

impl Watch {
    /// The clock of a row on its way out does not begin anew, and stands still while a job holds
    /// it.
    fn leaving(&self, row: &InstanceName, held: bool, now: Millis) -> Millis {
        let since = self.0.get(&Suspect::Leaving(row.clone())).copied();
        since.map_or(now, |since| since + if held { MINUTE } else { 0 })
    }
}

impl World {
    /// Looks at everything that must not last. Once a minute, when no fault strikes any more.
    pub(crate) fn look(&mut self, watch: &mut Watch) {
        let now = self.now;
        let mut seen = BTreeMap::new();
        for suspect in self.suspects() {
            let since = match &suspect {
                Suspect::Leaving(row) => watch.leaving(row, self.is_held(row), now),
                other => watch.0.get(other).copied().unwrap_or(now),
            };
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
        let mut all: Vec<Suspect> = rows.flat_map(|row| self.suspect_row(row)).collect();
        all.extend(self.tables.orphans.keys().cloned().map(Suspect::Orphan));
        all.extend(self.strays());
        all.extend(self.unexplained_jobs());
        all.extend(self.mistaken_gates());
        let pools = || self.checker.pools.iter();
        let name = |pool: &Pool| pool.name.clone();
        all.extend(pools().filter(|pool| self.has_surplus(pool)).map(name).map(Suspect::Surplus));
        all.extend(
            pools().filter(|pool| self.is_short_of_idle(pool)).map(name).map(Suspect::Shortage),
        );
        all
    }

    fn suspect_row(&self, row: &Instance) -> Vec<Suspect> {
        let idles = row.state() == State::Running
            && row.runner.state == RunnerState::Idle
            && row.runner.exit.is_none()
            && row.drain().is_none()
            && row.claim().is_none();
        // At half of its life it goes, so that no late job is cut short.
        let keeps = self.checker.pool(&row.pool).is_some_and(|pool| {
            let half = i64::from(pool.max_lifetime_seconds.0) * SECOND / 2;
            pool.idle_wanted() > 0 && self.now < row.launched_at().as_millis() + half
        });
        if idles && keeps && !row.passed_over {
            let unreachable = self.is_unreachable(row);
            return Vec::from_iter(unreachable.then(|| Suspect::Unreachable(row.name.clone())));
        }
        if idles {
            let own = self.checker.pool(&row.pool).and_then(|pool| pool.idle_limit_seconds);
            let limit = own.unwrap_or(Timings::default().idle_limit_seconds);
            return vec![Suspect::Idle(row.name.clone(), limit)];
        }
        let ending = matches!(
            row.state(),
            State::PendingDelete | State::PendingForceDelete | State::Deleting
        );
        if !ending {
            return Vec::new();
        }
        let waiting = row.drain().and_then(|drain| drain.waiting.as_ref());
        let name = row.name.clone();
        let why = match waiting {
            Some(Waiting::SecondRead | Waiting::Registering) => Suspect::Evidence(name),
            Some(Waiting::Absent) => Suspect::Denied(name),
            _ if !self.is_held(&row.name) => Suspect::Row(name),
            _ if self.works(row) => Suspect::Working(name),
            Some(Waiting::Busy) => Suspect::CalledBusy(name),
            _ => Suspect::Unheard(name),
        };
        vec![why, Suspect::Leaving(row.name.clone())]
    }

    /// Whether GitHub has no connected agent for a row that idles: the truth.
    fn is_unreachable(&self, row: &Instance) -> bool {
        !row.runner.id.is_some_and(|id| self.is_connected(id.0))
    }

    /// Whether a row says that it waits for a job, on a machine that EC2 calls running, and is
    /// young enough to.
    fn is_held(&self, row: &InstanceName) -> bool {
        self.tables.instances.get(row).is_some_and(|row| {
            let machine = row.machine().and_then(|id| self.ec2.number(id));
            let runs = machine
                .is_some_and(|number| self.ec2.instance(number).state == InstanceState::Running);
            let waits = row.drain().is_some_and(|drain| {
                matches!(drain.waiting, Some(Waiting::JobRunning | Waiting::Busy))
            });
            let pool = self.checker.pools.iter().find(|pool| pool.name == row.pool);
            let life = pool.map(|pool| i64::from(pool.max_lifetime_seconds.0) * SECOND);
            let young = life.is_none_or(|life| self.now < row.launched_at().as_millis() + life);
            waits && runs && young
        })
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

    /// Jobs that wait without a runner that comes up, a reason on record, or a full pool.
    fn unexplained_jobs(&self) -> Vec<Suspect> {
        let now = self.time();
        let waiting = self.github.queued().filter_map(|number| {
            let row = self.tables.jobs.get(&self.github.job(number).key)?;
            (row.is_waiting() || row.is_unmatched()).then_some(row)
        });
        let unexplained = waiting.filter(|job| {
            let serving = self.checker.pools.iter().filter(|pool| pool.serves(job).is_ok());
            let full = { serving }.all(|pool| self.is_held_up(pool, job));
            let held = job.hold.as_ref().is_some_and(|hold| hold.until > now);
            let claim = job.claim.as_ref().and_then(|name| self.tables.instances.get(name));
            let boots = claim.is_some_and(|row| {
                let young = now.since(row.launched_at()).0 < 660;
                young && row.drain().is_none() && row.runner.state <= RunnerState::Idle
            });
            // Its slot says what EC2 refused, and when it is tried again.
            let retries = claim.is_some_and(|row| {
                let soon = row.due_at().is_some_and(|due| now < due + Seconds(120));
                row.state() == State::PendingCreate && row.last_error.is_some() && soon
            });
            !full && !held && !boots && !retries
        });
        unexplained.map(|job| Suspect::Job(job.key())).collect()
    }

    /// Rows that say of an approval what is not so.
    fn mistaken_gates(&self) -> impl Iterator<Item = Suspect> {
        let mistaken = self.github.known().filter(|(job, truth)| {
            let is_gated = match truth.status {
                Status::Waiting => true,
                Status::Queued => false,
                Status::InProgress | Status::Completed => return false,
            };
            let row = self.tables.jobs.get(&job.key).filter(|row| row.pool.is_some());
            row.is_some_and(|row| if is_gated { row.is_waiting() } else { row.is_gated() })
        });
        mistaken.map(|(job, _)| Suspect::Gate(job.key))
    }

    fn tell_of(&self, suspect: &Suspect) -> String {
        match suspect {
            Suspect::Row(name)
            | Suspect::Evidence(name)
            | Suspect::Working(name)
            | Suspect::Unheard(name)
            | Suspect::CalledBusy(name)
            | Suspect::Denied(name)
            | Suspect::Leaving(name)
            | Suspect::Unreachable(name)
            | Suspect::Idle(name, _) => {
                let row = self.tables.instances.get(name);
                let drain = row.and_then(|row| row.drain());
                format!("{suspect:?} is {:?}: {drain:?}", row.map(|row| row.state()))
            }
            Suspect::Gate(key) => {
                let gate = self.tables.jobs.get(key).map(|job| (job.status(), job.gate));
                format!("the row of job {key} says {gate:?}")
            }
            Suspect::Job(key) => {
                let job = self.tables.jobs.get(key);
                let (claim, hold) = (job.map(|job| &job.claim), job.map(|job| &job.hold));
                let rooms = job.map(|job| self.rooms_for(job)).unwrap_or_default();
                format!("job {key} waits, claim {claim:?}, hold {hold:?}; {rooms}")
            }
            Suspect::Surplus(pool) | Suspect::Shortage(pool) => {
                let hold = self.tables.capacities.get(pool).map(|one| &one.idle_hold);
                format!("{suspect:?} of idle runners, hold {hold:?}")
            }
            Suspect::Orphan(machine) => format!("{machine} is in the ledger"),
            Suspect::Stray(machine) => format!("{machine} has no record"),
        }
    }

    /// Whether nothing is left of anything.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.violation.is_some()
            || (self.is_all_at_rest()
                && self.queues.is_empty()
                && self.github.in_flight == 0
                && self.undelivered().is_none()
                && !self.github.queued().any(|job| self.is_ours(job)))
    }

    /// Whether nothing lives and nothing waits but what is kept idle.
    fn is_all_at_rest(&self) -> bool {
        let kept = self.kept();
        self.tables.live.len() == kept
            && self.ec2.live() == kept
            && self.tables.orphans.is_empty()
            && self.tables.index.is_at_rest(kept, |job| self.is_served(job))
            && !self.checker.pools.iter().any(|pool| self.is_short_of_idle(pool))
            && !self.tables.live_rows().any(|row| self.is_unreachable(row))
    }

    /// A job with a row that one of our pools serves, now or when the pause ends that the pool file
    /// orders.
    pub(crate) fn is_ours(&self, job: u32) -> bool {
        let row = self.tables.jobs.get(&self.github.job(job).key);
        row.is_some_and(|row| self.is_served(row))
    }

    pub(crate) fn is_served(&self, row: &muster_domain::job::Job) -> bool {
        let serves = |pool: &Pool| pool.serves(row).is_ok() && !pool.paused;
        self.checker.pools.iter().any(serves)
    }

    /// And I8: a job that nobody here knows has lost its event to a fault.
    fn count_the_unserved(&mut self) {
        let mut forgotten = None;
        for (job, truth) in self.github.known() {
            let served = self.is_to_be_served(job);
            match truth.status {
                Status::Completed if truth.conclusion.as_deref() == Some("cancelled") => {
                    self.tally.cancelled += 1;
                }
                Status::Queued if !served => self.tally.not_ours += 1,
                Status::Queued if !self.tables.jobs.contains_key(&job.key) => {
                    self.tally.never_heard_of += 1;
                    if !job.event_lost && !job.turned_away {
                        forgotten = Some(job.key);
                    }
                }
                _ => {}
            }
            if truth.began_at.is_some() && job.lied_at.is_some() && !job.hooked {
                self.tally.unseen_jobs += 1;
            }
        }
        if let Some(key) = forgotten {
            self.broken("I8", || format!("job {key} has no row, and no fault took its event"));
        }
    }

    /// What lives on for ever: the runners that are kept idle, those among them whose place a new
    /// one takes, and that new one.
    fn may_be_left(&self, row: &Instance) -> bool {
        let keeps = self.checker.pool(&row.pool).is_some_and(|pool| pool.idle_wanted() > 0);
        let comes = keeps && self.now - row.launched_at().as_millis() < 30 * MINUTE;
        let retires = row.drain().is_some_and(|drain| {
            drain.reason == DeleteReason::Retired
                && self.now - drain.at.as_millis() < Suspect::Leaving(row.name.clone()).limit()
        });
        retires || comes || self.is_kept(row)
    }

    /// Hours without a fault and without new jobs: nothing is left of anything.
    pub fn look_for_leftovers(&mut self) {
        if self.violation.is_some() {
            return;
        }
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
        self.count_the_unserved();
        let kept = self.kept();
        self.tally.registrations_left +=
            self.github.truth.runners().count().saturating_sub(kept) as u64;
        let row = self.tables.live_rows().find(|row| !self.may_be_left(row)).cloned();
        if let Some(row) = row {
            self.broken("I11", || {
                format!("{} is still {}: {:?}", row.name, row.state(), row.events.last())
            });
        }
        let lives = |machine: &&Machine| {
            machine.launch.is_some()
                && !self.owner(&machine.id).is_some_and(|row| self.may_be_left(row))
        };
        let leaked: Vec<String> = self
            .ec2
            .living()
            .filter(lives)
            .map(|machine| format!("machine {} of launch {:?}", machine.id, machine.launch))
            .collect();
        self.tally.leaked += leaked.len() as u64;
        if let Some(machine) = leaked.first() {
            self.broken("I2", || format!("{machine} still lives"));
        }
        if let Some(orphan) = self.tables.orphans.keys().next().cloned() {
            self.broken("I2", || format!("{orphan} is still in the ledger"));
        }
    }
}
