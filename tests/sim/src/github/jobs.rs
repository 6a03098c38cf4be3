//! Workflows and their jobs: what GitHub is asked to do, and what follows from it.

use std::sync::Arc;

use muster_cloud::github::{GitHubError, Job as Truth, JobBehaviour, JobNumbers, JobSpec, News};

use super::{Github, Job, REPOSITORY, Status, id_of, number_of};
use crate::agenda::{Event, MINUTE, Millis};
use crate::world::World;

/// How long GitHub waits before it fails the job of a silent runner.
const PATIENCE: Millis = 10 * MINUTE;

/// How long GitHub waits for a runner to take the job that it was given
/// (docs.github.com/actions, "Routing precedence for self-hosted runners").
const PICK_UP: Millis = MINUTE;

/// The workflow run of a job: three jobs are of one run.
pub(super) const fn run_of(job: u32) -> u64 {
    5000 + job as u64 / 3
}

impl Job {
    fn spec(&self) -> JobSpec {
        let (owner, repo) = self.repository.split_once('/').unwrap_or_default();
        JobSpec {
            owner: owner.to_owned(),
            repo: repo.to_owned(),
            private: self.private,
            labels: self.labels.iter().map(str::to_owned).collect(),
            name: self.name.to_string(),
            workflow: String::new(),
            run_id: None,
            run_attempt: None,
            gated: false,
            duration_ms: None,
            behaviour: JobBehaviour::default(),
        }
    }
}

impl Github {
    fn queue(&mut self, number: u32, now: Millis) -> Result<(), GitHubError> {
        let mut spec = self.job(number).spec();
        // A job that is queued late joins the attempt that runs.
        spec.run_attempt = Some(self.truth.last_attempt(self.run_of(number)));
        self.install(&spec.owner);
        let (job, run) = (id_of(number), self.run_of(number));
        let numbers = JobNumbers { job, run, repository: REPOSITORY };
        self.truth.queue_job(Arc::new(spec), numbers, now)
    }

    /// Ends the work of a job. False while its steps do not run.
    pub fn finish(&mut self, number: u32, how: &str) -> bool {
        let runs = self.truth_of(number).is_some_and(|job| job.began_at.is_some());
        runs && self.truth.finish_job(id_of(number), how).is_ok()
    }

    /// Ends the work of every job that a runner has.
    pub fn finish_all(&mut self) {
        let taken = |job: &&Truth| job.status == Status::InProgress && !job.is_over();
        let jobs: Vec<u64> = self.truth.jobs().filter(taken).map(|job| job.id).collect();
        for job in jobs {
            let _ = self.truth.finish_job(job, "success");
        }
    }
}

impl World {
    /// A workflow queues a job.
    pub fn queue_job(&mut self, number: u32) {
        if self.github.status(number).is_some() || self.github.queue(number, self.now).is_err() {
            return;
        }
        self.tally.jobs += 1;
        self.narrate(|| format!("job {number} is queued"));
        self.carry_out_news();
        self.dispatch_soon();
    }

    /// A workflow is cancelled.
    pub fn cancel_job(&mut self, number: u32) {
        let status = self.github.status(number);
        if status == Some(Status::InProgress) && self.runs_to_its_end(number) {
            return;
        }
        match status {
            Some(Status::Queued) => {
                self.narrate(|| format!("job {number} is cancelled in the queue"));
            }
            Some(Status::InProgress) => self.narrate(|| format!("job {number} is cancelled")),
            // GitHub ends a waiting one itself: no runner is told.
            Some(Status::Waiting | Status::Completed) | None => {}
        }
        if self.github.truth.cancel_job(id_of(number), self.now).is_ok() {
            self.carry_out_news();
            self.wake_machine_of(number);
        }
    }

    /// Lets the machine that has a job look what became of it.
    pub fn wake_machine_of(&mut self, number: u32) {
        let truth = self.github.truth_of(number);
        let taken = truth.filter(|job| job.status == Status::InProgress);
        if let Some(machine) = taken.and_then(|job| self.machine_with(job)) {
            self.wake_machine(machine);
        }
    }

    /// GitHub finds that the job's environment is protected: somebody must approve first. It says
    /// `queued` before it does (cdk-github-runners #382, RunsOn #539).
    pub fn gate_job(&mut self, number: u32) {
        if self.github.truth.gate_job(id_of(number)).is_ok() {
            self.tally.gated += 1;
            self.narrate(|| format!("job {number} waits for an approval"));
            self.carry_out_news();
        }
    }

    /// Somebody approves: it is queued once more.
    pub fn approve_job(&mut self, number: u32) {
        if self.github.truth.approve_job(id_of(number), self.now).is_ok() {
            self.tally.approved += 1;
            self.narrate(|| format!("job {number} is approved"));
            self.carry_out_news();
            self.dispatch_soon();
        }
    }

    /// Somebody rejects: it ends without a runner.
    pub fn reject_job(&mut self, number: u32) {
        if self.github.truth.reject_job(id_of(number), self.now).is_ok() {
            self.carry_out_news();
        }
    }

    /// GitHub gives up on the runner of a job; where it does not, it thinks again an hour later.
    pub fn lost_runner(&mut self, number: u32) {
        if self.github.script.never_gives_up {
            self.agenda.at(self.now + 60 * MINUTE, Event::LostRunner(number));
            return;
        }
        self.github.truth.give_up(id_of(number), self.now);
        self.github.job_mut(number).given_up = true;
        self.carry_out_news();
    }

    pub(super) fn dispatch_soon(&mut self) {
        let by_hand = self.cloud_config.by_hand && !self.github.script.gives_jobs;
        let truth = &self.github.truth;
        if by_hand || truth.queued().is_empty() || truth.idle().is_empty() {
            return;
        }
        let after = self.pick_up_takes();
        self.agenda.at(self.now + after, Event::Dispatch);
    }

    /// Gives queued jobs to idle runners: any job to any runner that fits.
    pub fn dispatch(&mut self) {
        let mut pairs = self.github.truth.candidates();
        while !pairs.is_empty() {
            let (job, runner) = pairs[self.rng.index(pairs.len())];
            self.assign(number_of(job), runner);
            pairs.retain(|(other, taken)| *other != job && *taken != runner);
        }
    }

    /// A runner takes a job.
    pub fn assign(&mut self, number: u32, id: u64) {
        let Some(runner) = self.github.truth.runner(id) else { return };
        let name = runner.name.clone();
        self.narrate(|| format!("GitHub gives job {number} to {name}"));
        if !self.is_connected(id) {
            self.github.truth.offer(id_of(number), id);
            return self.agenda.at(self.now + PICK_UP, Event::OfferLapses(id));
        }
        let lies = self.plan_lies();
        self.github.job_mut(number).lies = lies;
        if self.github.truth.assign(id_of(number), id, self.now).is_err() {
            return;
        }
        self.carry_out_news();
        if let Some(machine) = self.machine_of(id) {
            self.ec2.at_mut(machine).job = Some(number);
            self.wake_machine(machine);
        }
    }

    /// What follows from what has just happened at GitHub.
    pub(super) fn carry_out_news(&mut self) {
        for job in self.github.truth.take_cancelled() {
            self.wake_machine_of(number_of(job));
        }
        for news in self.github.truth.take_news() {
            match news {
                News::Webhook(job) => {
                    if job.status == Status::Completed {
                        self.note_end(&job);
                    }
                    self.tell(job);
                }
                News::Silent(job) => {
                    self.agenda.at(self.now + PATIENCE, Event::LostRunner(number_of(job)));
                }
                // Our machines know themselves how long they work and when they die.
                News::Works { .. } | News::Dies { .. } => {}
            }
        }
    }

    fn note_end(&mut self, job: &Truth) {
        if let Some(machine) = self.machine_with(job) {
            let machine = self.ec2.at_mut(machine);
            machine.job = None;
            machine.works_on = None;
        }
        let number = number_of(job.id);
        let conclusion = job.conclusion.as_deref().unwrap_or_default();
        self.narrate(|| format!("job {number} ends: {conclusion}"));
    }

    /// The machine that took a job.
    pub(crate) fn machine_with(&self, job: &Truth) -> Option<u32> {
        self.machine_by_id(job.runner.as_ref()?.machine.as_deref()?)
    }

    /// The machine whose agent uses a registration.
    pub(crate) fn machine_of(&self, runner: u64) -> Option<u32> {
        self.machine_by_id(self.github.truth.session(runner)?.machine.as_deref()?)
    }

    fn machine_by_id(&self, id: &str) -> Option<u32> {
        self.ec2.number(&id.parse().ok()?)
    }
}
