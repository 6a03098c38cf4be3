//! Webhooks: what happens to a delivery on its way.

use std::sync::Arc;

use muster_cloud::github::{Job as Truth, JobSpec};
use muster_domain::ids::RunnerId;
use muster_domain::job::labels::Labels;
use muster_domain::job::{Job, JobEvent, JobStatus, fold};
use muster_domain::message::JobsMessage;
use muster_domain::time::Time;

use super::{APP, Status, key_of, number_of};
use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

impl World {
    /// Sends a `workflow_job` delivery about a job as it was then.
    pub fn tell(&mut self, mut job: Truth) {
        let number = number_of(job.id);
        let is_over = job.status == Status::Completed;
        // Some `completed` events carry no labels (actions-runner-controller #1370).
        if is_over && !self.cloud_config.by_hand && self.rng.chance(50_000) {
            job.spec = Arc::new(JobSpec { labels: Vec::new(), ..JobSpec::clone(&job.spec) });
        }
        let script = &mut self.github.script;
        if script.drop_next > 0 {
            script.drop_next -= 1;
            self.github.job_mut(number).event_lost = true;
            self.narrate(|| format!("the webhook about job {number} is lost"));
            return;
        }
        if self.github.job(number).unheard {
            return;
        }
        if self.door_is_closed() {
            self.narrate(|| format!("the webhook about job {number} finds the door closed"));
            return self.fail_to_deliver(job);
        }
        if self.is_spoiled(&job) {
            let delivery = self.new_delivery(job);
            self.github.spoiled.insert(delivery);
            let after = self.between(50, 1_500);
            return self.send(delivery, after);
        }
        if self.strikes(Fault::WebhookLost) {
            // GitHub never sends it, and then often none about that job; or it does, and nobody
            // answers.
            if job.status == Status::Queued && self.rng.chance(500_000) {
                let job = self.github.job_mut(number);
                (job.unheard, job.event_lost) = (true, true);
            } else {
                self.fail_to_deliver(job);
            }
            return;
        }
        let copies = if self.strikes(Fault::WebhookDoubled) { 2 } else { 1 };
        for _ in 0..copies {
            let after = if self.strikes(Fault::WebhookLate) {
                let longest = if self.rng.chance(100_000) { HOUR } else { 5 * MINUTE };
                self.between(SECOND, longest)
            } else if self.strikes(Fault::WebhookReordered) {
                self.between(SECOND, 8 * SECOND)
            } else {
                self.webhook_takes()
            };
            let delivery = self.new_delivery(job.clone());
            self.send(delivery, after);
        }
    }

    /// Whether the webhook refuses this delivery: a scenario or an outage of the day says so.
    fn door_is_closed(&mut self) -> bool {
        let closed = self.github.script.fail_next > 0;
        self.github.script.fail_next = self.github.script.fail_next.saturating_sub(1);
        closed || self.is_away(Fault::OutageWebhook)
    }

    /// Its payload cannot be read (runs-on #527). A queued job is found all the same, and nothing is
    /// lost of it; for what happens to it later nobody asks at once.
    fn is_spoiled(&mut self, job: &Truth) -> bool {
        let script = &mut self.github.script;
        let is_told = script.spoil_next > 0;
        script.spoil_next = script.spoil_next.saturating_sub(1);
        let spoils = is_told || self.strikes(Fault::WebhookUnreadable);
        if spoils && job.status != Status::Queued {
            self.github.job_mut(number_of(job.id)).event_lost = true;
        }
        spoils
    }

    /// What the webhook makes of a delivery.
    #[must_use]
    pub fn message_of(&self, number: u32) -> Option<JobsMessage> {
        let event = self.delivery(number)?;
        let delivery = number.to_string();
        if !self.github.spoiled.contains(&number) {
            return Some(JobsMessage::JobEvent { event: Box::new(event), delivery });
        }
        let repository = event.repository.parse().ok()?;
        Some(JobsMessage::Unreadable { repository, installation: event.installation, delivery })
    }

    /// Each copy of a doubled one is a delivery of its own.
    fn new_delivery(&mut self, job: Truth) -> u32 {
        let number = self.github.delivered;
        self.github.delivered += 1;
        self.github.truth.deliver(number.into(), job, self.now);
        number
    }

    fn fail_to_deliver(&mut self, job: Truth) {
        let delivery = self.new_delivery(job);
        self.github.truth.attempted(delivery.into(), None, self.now);
    }

    fn send(&mut self, delivery: u32, after: Millis) {
        self.github.in_flight += 1;
        self.agenda.at(self.now + after, Event::Webhook(delivery));
    }

    /// A delivery by number, as it arrives.
    #[must_use]
    pub fn delivery(&self, number: u32) -> Option<JobEvent> {
        let delivery = self.github.truth.delivery(number.into())?;
        Some(self.event(&delivery.job))
    }

    /// A delivery was answered, or nobody was there.
    pub fn delivered(&mut self, number: u32, arrived: bool) {
        self.github.in_flight -= 1;
        self.github.truth.attempted(number.into(), arrived.then_some(200), self.now);
    }

    /// GitHub tries once more.
    pub(super) fn attempt_again(&mut self, attempt: u64) -> bool {
        let Ok(delivery) = self.github.truth.attempt_again(APP, attempt) else { return false };
        let (number, job, action) = (delivery.number, delivery.job.id, delivery.action());
        self.tally.redelivered += 1;
        self.github.redelivered.push(number as u32);
        self.narrate(|| format!("GitHub delivers {action} of job {} again", number_of(job)));
        if self.door_is_closed() || self.strikes(Fault::WebhookLost) {
            self.github.truth.attempted(number, None, self.now);
        } else {
            let after = self.between(50, 1_500);
            self.send(number as u32, after);
        }
        true
    }

    /// An event that GitHub has tried to deliver, and that never arrived: its job, and when it was
    /// tried last.
    #[must_use]
    pub fn undelivered(&self) -> Option<(u32, Millis)> {
        let failed = self.github.truth.undelivered()?;
        let delivery = self.github.truth.delivery(failed.number)?;
        Some((number_of(delivery.job.id), failed.at))
    }

    /// The row that a job has when all is told of it.
    pub(crate) fn told_of(&self, job: &Truth) -> Job {
        fold(None, self.event(job), self.time())
    }

    pub(super) fn event(&self, job: &Truth) -> JobEvent {
        let number = number_of(job.id);
        let plan = self.github.job(number);
        let unlabelled = job.spec.labels.is_empty();
        JobEvent {
            key: key_of(&plan.repository, job.id),
            status: status_of(job),
            repository: plan.repository.clone(),
            private: job.repository.private,
            user_owned: false,
            installation: Some(self.github.installation_of(&job.repository.owner)),
            run: job.run_id,
            attempt: job.run_attempt,
            name: plan.name.clone(),
            workflow: Some(job.spec.workflow.as_str()).filter(|it| !it.is_empty()).map(Into::into),
            branch: plan.branch.clone(),
            actor: (job.status == Status::Queued)
                .then(|| if job.run_attempt == 1 { "mira" } else { "muster[bot]" }.into()),
            by_person: job.status == Status::Queued
                && job.run_attempt > 1
                && !plan.deploys
                && !self.github.truth.is_by_app(job.run_id, job.run_attempt),
            deploys: plan.deploys,
            labels: if unlabelled { Labels::default() } else { plan.labels.clone() },
            runner: job.runner.as_ref().map(|runner| runner.name.clone()),
            runner_id: job.runner.as_ref().map(|runner| RunnerId(runner.id)),
            conclusion: job.conclusion.as_deref().map(str::to_owned),
            queued_at: Some(Time::from_millis(job.queued_at)),
            started_at: job.started_at.map(Time::from_millis),
            completed_at: job.completed_at.map(Time::from_millis),
        }
    }
}

/// Where a job is, in our words.
pub(super) const fn status_of(job: &Truth) -> JobStatus {
    match job.status {
        Status::Waiting => JobStatus::Waiting,
        Status::Queued => JobStatus::Queued,
        Status::InProgress => JobStatus::InProgress,
        Status::Completed => JobStatus::Completed,
    }
}
