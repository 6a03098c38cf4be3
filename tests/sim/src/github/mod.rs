//! GitHub: jobs, runner registrations, who gets which job, and webhooks.

mod port;
mod webhook;

pub use self::webhook::run_of;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::ids::{Entity, JobKey};
use muster_domain::instance::Instance;
use muster_domain::job::labels::Labels;

use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND, TaskId};
use crate::fault::Fault;
use crate::world::World;

/// Where GitHub is with a job: the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nobody has queued it yet.
    Planned,
    /// Waits for somebody's approval of its deployment.
    Waiting,
    /// Needs a runner.
    Queued,
    /// A runner took it.
    InProgress,
    /// Over.
    Completed,
}

/// A workflow job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its key.
    pub key: JobKey,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// Of a private repository.
    pub private: bool,
    /// Its name.
    pub name: Arc<str>,
    /// The labels of `runs-on`.
    pub labels: Labels,
    /// How long its steps take; for ever when none.
    pub length: Option<Millis>,
    /// Where it is.
    pub status: Status,
    /// When it was queued.
    pub queued_at: Millis,
    /// When a runner took it.
    pub started_at: Millis,
    /// When it ended.
    pub completed_at: Millis,
    /// The registration that took it, by number and name.
    pub runner: Option<(u64, String)>,
    /// The machine that took it.
    pub machine: Option<u32>,
    /// Its hook passed: its steps run, or ran.
    pub began: bool,
    /// Its workflow was cancelled.
    pub cancelled: bool,
    /// None of its webhooks is ever sent.
    pub unheard: bool,
    /// Its runner has hooks.
    pub hooked: bool,
    /// GitHub removed its runner while nobody had told us of the job.
    pub given_up_unseen: bool,
    /// When GitHub last answered us that its runner is idle while it ran.
    pub lied_at: Option<Millis>,
    /// A scenario ended its steps.
    pub finished: bool,
    /// How it ended.
    pub conclusion: Option<&'static str>,
    /// GitHub calls its runner idle from then until then.
    lies: [(Millis, Millis); 2],
}

impl Job {
    /// A job that will be queued later.
    #[must_use]
    pub fn planned(
        number: u32,
        repository: &str,
        private: bool,
        labels: Labels,
        length: Option<Millis>,
    ) -> Self {
        Self {
            key: JobKey { repository: 77, job: 1000 + u64::from(number) },
            repository: repository.into(),
            private,
            name: format!("job {number}").into(),
            labels,
            length,
            status: Status::Planned,
            queued_at: 0,
            started_at: 0,
            completed_at: 0,
            runner: None,
            machine: None,
            began: false,
            cancelled: false,
            unheard: false,
            hooked: false,
            given_up_unseen: false,
            lied_at: None,
            finished: false,
            conclusion: None,
            lies: [(0, 0); 2],
        }
    }
}

/// A registration.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Its number.
    pub id: u64,
    /// Its name, unique among those of its entity.
    pub name: String,
    /// Where it is registered.
    pub entity: Entity,
    /// Its labels.
    pub labels: Labels,
    /// The machine whose agent uses it.
    pub machine: Option<u32>,
    /// That agent is there.
    pub connected: bool,
    /// It gets no job.
    pub barred: bool,
    /// The job that it runs.
    pub job: Option<u32>,
    /// When it was made.
    pub created_at: Millis,
    /// When we were answered that it is not busy, or that there is no such runner.
    pub not_busy: Vec<Millis>,
}

/// How a call about a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered, and not "busy".
    Answered,
    /// "Busy".
    Busy,
    /// 401 or 403.
    Refused,
    /// No answer, or a 5xx.
    Silent,
    /// The rate limit.
    Limited,
}

/// What a row's calls ask for.
fn about(row: &Instance) -> String {
    row.runner.id.map_or_else(|| row.runner_name(), |id| id.to_string())
}

/// The end of a call about a registration.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// Whose call it was.
    caller: Option<TaskId>,
    at: Millis,
    how: Outcome,
}

/// A pass lasts no longer.
const MAX_PASS: Millis = MINUTE;

/// All of GitHub.
#[derive(Debug)]
pub struct Github {
    /// Every job there ever was.
    pub jobs: Vec<Job>,
    /// Registrations that exist.
    pub runners: BTreeMap<u64, Runner>,
    names: BTreeMap<(Entity, String), u64>,
    /// Jobs that need a runner.
    pub queued: Vec<u32>,
    /// Registrations whose agent waits for a job.
    pub idle: Vec<u64>,
    deliveries: Vec<webhook::Sent>,
    /// Deliveries that failed, and what came of each later.
    attempts: Vec<webhook::Attempt>,
    /// How many deliveries are on their way.
    pub in_flight: usize,
    removed: BTreeMap<(Entity, String), (Millis, u64)>,
    next_runner: u64,
    /// How the last minute's calls about a registration ended, the last one of each caller and the
    /// newest at the end; by its number or, where we know none, by its name.
    outcomes: BTreeMap<String, Vec<Ended>>,
    /// A scenario's lies: every runner is called idle.
    pub always_lies: bool,
    /// A scenario's lost webhooks: that many of the next are never sent.
    pub drop_next: u32,
    /// A scenario's failed webhooks: that many of the next find our door closed.
    pub fail_next: u32,
    /// A scenario's owner whose installation is refused.
    pub refuses: std::collections::BTreeSet<String>,
    /// A scenario's owner for whom nothing but the registration of runners is refused.
    pub forbids_runners: Option<String>,
    /// A scenario's runner groups that are gone: a configuration that names one is wrong.
    pub deleted_groups: std::collections::BTreeSet<u64>,
    /// A scenario's owner whose installation has used its rate limit up, and until when.
    pub limits: Option<(String, Millis)>,
    /// The same for registrations alone: a secondary limit.
    pub limits_runners: Option<(String, Millis)>,
    /// A scenario's GitHub that gives jobs to runners without being told to.
    pub gives_jobs: bool,
    /// A scenario's lists and looks that show no runner.
    pub hides_runners: bool,
    /// A scenario's DELETEs of runners, which are not done and not answered.
    pub removes_nothing: bool,
    /// A scenario's GitHub that goes on calling a dead runner busy.
    pub never_gives_up: bool,
}

impl Github {
    /// No jobs, no runners.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            jobs: Vec::new(),
            runners: BTreeMap::new(),
            names: BTreeMap::new(),
            queued: Vec::new(),
            idle: Vec::new(),
            deliveries: Vec::new(),
            attempts: Vec::new(),
            in_flight: 0,
            removed: BTreeMap::new(),
            next_runner: 100 + seed % 50,
            outcomes: BTreeMap::new(),
            always_lies: false,
            drop_next: 0,
            fail_next: 0,
            refuses: std::collections::BTreeSet::new(),
            forbids_runners: None,
            deleted_groups: std::collections::BTreeSet::new(),
            limits: None,
            limits_runners: None,
            gives_jobs: false,
            hides_runners: false,
            removes_nothing: false,
            never_gives_up: false,
        }
    }

    /// A job by number.
    #[must_use]
    pub fn job(&self, number: u32) -> &Job {
        &self.jobs[number as usize]
    }

    /// A job by number.
    pub fn job_mut(&mut self, number: u32) -> &mut Job {
        &mut self.jobs[number as usize]
    }

    /// A job by key.
    #[must_use]
    pub fn job_of(&self, key: JobKey) -> Option<&Job> {
        self.jobs.iter().find(|job| job.key == key)
    }

    /// Whether GitHub would give this job to this runner.
    #[must_use]
    pub fn serves(&self, runner: &Runner, job: &Job) -> bool {
        let fits = runner.entity.covers(&job.repository) && runner.labels.can_run(&job.labels);
        fits && !runner.barred
    }

    /// A call about a registration has ended.
    fn note_outcome(&mut self, about: String, ended: Ended) {
        let all = self.outcomes.entry(about).or_default();
        all.retain(|one| one.caller != ended.caller && one.at >= ended.at - MAX_PASS);
        all.push(ended);
    }

    /// How our last call about this row's registration ended.
    #[must_use]
    pub fn last_outcome(&self, row: &Instance) -> Option<Outcome> {
        self.outcomes.get(&about(row))?.last().map(|one| one.how)
    }

    /// How this caller's own last call about it ended, in the pass that it is in. Another pass may
    /// have heard otherwise.
    #[must_use]
    pub fn outcome_for(
        &self,
        caller: Option<TaskId>,
        row: &Instance,
        now: Millis,
    ) -> Option<Outcome> {
        let all = self.outcomes.get(&about(row))?;
        let own = all.iter().find(|one| one.caller == caller && one.at >= now - MAX_PASS)?;
        Some(own.how)
    }

    fn remove_runner(&mut self, id: u64, now: Millis) -> Option<Runner> {
        let runner = self.runners.remove(&id)?;
        let name = (runner.entity.clone(), runner.name.clone());
        self.names.remove(&name);
        self.removed.insert(name, (now, id));
        self.idle.retain(|other| *other != id);
        Some(runner)
    }
}

impl World {
    /// A workflow queues a job.
    pub fn queue_job(&mut self, number: u32) {
        let now = self.now;
        let job = self.github.job_mut(number);
        if job.status != Status::Planned {
            return;
        }
        job.status = Status::Queued;
        job.queued_at = now;
        self.tally.jobs += 1;
        self.github.queued.push(number);
        self.narrate(|| format!("job {number} is queued"));
        self.tell(number);
        self.dispatch_soon();
    }

    /// A workflow is cancelled.
    pub fn cancel_job(&mut self, number: u32) {
        match self.github.job(number).status {
            Status::Queued => {
                self.narrate(|| format!("job {number} is cancelled in the queue"));
                self.github.job_mut(number).cancelled = true;
                self.github.queued.retain(|other| *other != number);
                self.complete(number, "cancelled");
            }
            Status::InProgress => {
                self.narrate(|| format!("job {number} is cancelled"));
                let job = self.github.job_mut(number);
                job.cancelled = true;
                if let Some(machine) = job.machine {
                    self.wake_machine(machine);
                }
            }
            // GitHub ends such a job itself: no runner is told.
            Status::Waiting => self.complete(number, "cancelled"),
            Status::Planned | Status::Completed => {}
        }
    }

    /// GitHub finds that the job's environment is protected: somebody must approve first. It says
    /// `queued` before it does (cdk-github-runners #382, RunsOn #539).
    pub fn gate_job(&mut self, number: u32) {
        if self.github.job(number).status != Status::Queued {
            return;
        }
        self.github.job_mut(number).status = Status::Waiting;
        self.github.queued.retain(|other| *other != number);
        self.tally.gated += 1;
        self.narrate(|| format!("job {number} waits for an approval"));
        self.tell(number);
    }

    /// Somebody approves: it is queued once more. Its times stay those of its creation.
    pub fn approve_job(&mut self, number: u32) {
        if self.github.job(number).status != Status::Waiting {
            return;
        }
        self.github.job_mut(number).status = Status::Queued;
        self.github.queued.push(number);
        self.tally.approved += 1;
        self.narrate(|| format!("job {number} is approved"));
        self.tell(number);
        self.dispatch_soon();
    }

    /// Somebody rejects: it ends without a runner.
    pub fn reject_job(&mut self, number: u32) {
        if self.github.job(number).status == Status::Waiting {
            self.complete(number, "failure");
        }
    }

    fn dispatch_soon(&mut self) {
        let by_hand = self.cloud_config.by_hand && !self.github.gives_jobs;
        if by_hand || self.github.queued.is_empty() || self.github.idle.is_empty() {
            return;
        }
        let after = self.between(200, 3_000);
        self.agenda.at(self.now + after, Event::Dispatch);
    }

    /// Gives queued jobs to idle runners: any job to any runner that fits.
    pub fn dispatch(&mut self) {
        loop {
            let mut pairs = Vec::new();
            for job in &self.github.queued {
                for id in &self.github.idle {
                    let fits =
                        self.github.runners.get(id).is_some_and(|runner| {
                            self.github.serves(runner, self.github.job(*job))
                        });
                    if fits {
                        pairs.push((*job, *id));
                    }
                }
            }
            if pairs.is_empty() {
                return;
            }
            let (job, runner) = pairs[self.rng.index(pairs.len())];
            self.assign(job, runner);
        }
    }

    /// A runner takes a job.
    pub fn assign(&mut self, number: u32, id: u64) {
        let Some(runner) = self.github.runners.get_mut(&id) else { return };
        runner.job = Some(number);
        let (name, machine) = (runner.name.clone(), runner.machine);
        self.github.idle.retain(|other| *other != id);
        self.github.queued.retain(|other| *other != number);
        self.narrate(|| format!("GitHub gives job {number} to {name}"));
        let now = self.now;
        let early = if self.strikes(Fault::BusyLieEarly) {
            (now, now + self.between(25 * SECOND, MINUTE))
        } else {
            (0, 0)
        };
        let late = if self.strikes(Fault::BusyLieLate) {
            // Seen for up to 12 minutes; nothing says that it cannot last longer.
            let longest = if self.rng.chance(100_000) { HOUR } else { 12 * MINUTE };
            (now + self.between(MINUTE, 8 * MINUTE), now + self.between(9 * MINUTE, longest))
        } else {
            (0, 0)
        };
        let job = self.github.job_mut(number);
        job.status = Status::InProgress;
        job.started_at = now;
        job.runner = Some((id, name));
        job.machine = machine;
        job.lies = [early, late];
        self.tell(number);
        if let Some(machine) = machine {
            self.ec2.at_mut(machine).job = Some(number);
            self.wake_machine(machine);
        }
    }

    /// A job ends.
    pub fn complete(&mut self, number: u32, conclusion: &'static str) {
        let now = self.now;
        let job = self.github.job_mut(number);
        if job.status == Status::Completed {
            return;
        }
        job.status = Status::Completed;
        job.completed_at = now;
        job.conclusion = Some(conclusion);
        if let Some(machine) = job.machine {
            let machine = self.ec2.at_mut(machine);
            machine.job = None;
            machine.works_on = None;
        }
        self.narrate(|| format!("job {number} ends: {conclusion}"));
        self.tell(number);
    }

    /// An agent presents its registration. False when there is none any more.
    pub fn connect(&mut self, machine: u32, id: u64) -> bool {
        let Some(runner) = self.github.runners.get_mut(&id) else { return false };
        runner.machine = Some(machine);
        runner.connected = true;
        self.ec2.at_mut(machine).runner = Some(id);
        self.github.idle.push(id);
        self.dispatch_soon();
        true
    }

    /// An agent could not take the job that it was given. GitHub has used its registration up and
    /// gives the job to another; the agent listens on (actions/runner #4617).
    pub fn forget_runner(&mut self, machine: u32) {
        let Some(id) = self.ec2.at(machine).runner else { return };
        let is_idle = self.github.runners.get(&id).is_some_and(|runner| runner.job.is_none());
        if is_idle {
            self.ec2.at_mut(machine).deaf = true;
            self.github.remove_runner(id, self.now);
            self.narrate(|| format!("GitHub forgets runner {id}"));
        }
    }

    /// An agent is done with its job; being ephemeral, its registration goes with it.
    pub fn agent_done(&mut self, id: u64, number: u32, conclusion: &'static str) {
        self.github.remove_runner(id, self.now);
        self.complete(number, conclusion);
    }

    /// The agent's process is gone without a word.
    pub fn runner_lost(&mut self, machine: u32, why: &str) {
        let machine = self.ec2.at_mut(machine);
        let (works_on, job) = (machine.works_on.take(), machine.job.take());
        let Some(id) = machine.runner.take() else { return };
        self.github.idle.retain(|other| *other != id);
        if let Some(runner) = self.github.runners.get_mut(&id) {
            runner.connected = false;
        }
        let Some(number) = job else { return };
        if works_on.is_some() && why != "terminated" {
            self.tally.lost_to_cloud += 1;
        }
        // GitHub waits for ten minutes before it fails the job.
        self.agenda.at(self.now + 10 * MINUTE, Event::LostRunner(number));
    }

    /// GitHub gives up on the runner of a job.
    pub fn lost_runner(&mut self, number: u32) {
        let gives_up = !self.github.never_gives_up;
        if gives_up && self.github.job(number).status == Status::InProgress {
            if let Some((id, _)) = self.github.job(number).runner.clone() {
                self.github.remove_runner(id, self.now);
            }
            self.complete(number, "failure");
        }
    }

    /// Whether GitHub shows the runner as busy.
    fn looks_busy(&mut self, id: u64) -> bool {
        let busy = self.is_called_busy(id);
        if !busy {
            self.says_quiet(id);
        }
        busy
    }

    /// GitHub answers that the runner is not busy, or not there.
    fn says_quiet(&mut self, id: u64) {
        let now = self.now;
        if let Some(runner) = self.github.runners.get_mut(&id) {
            runner.not_busy.push(now);
        }
    }

    fn is_called_busy(&mut self, id: u64) -> bool {
        let Some(number) = self.github.runners.get(&id).and_then(|runner| runner.job) else {
            return self.strikes(Fault::BusyLieIdle);
        };
        let now = self.now;
        let lies = self.github.job(number).lies;
        let lying = lies.iter().any(|(from, until)| (*from..*until).contains(&now));
        if lying || self.github.always_lies {
            self.narrate(|| "GitHub calls a busy runner idle".to_owned());
            self.lies_about(id);
            return false;
        }
        true
    }

    /// GitHub hides from us that a runner is busy.
    pub(super) fn lies_about(&mut self, id: u64) {
        if let Some(number) = self.github.runners.get(&id).and_then(|runner| runner.job) {
            self.github.job_mut(number).lied_at = Some(self.now);
        }
    }
}
