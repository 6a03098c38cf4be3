//! Webhooks: what GitHub sends, and what happens to it on the way.

use std::rc::Rc;

use domain::ids::InstallationId;
use domain::job::{JobEvent, JobStatus};
use domain::labels::Labels;
use domain::time::Time;

use super::Status;
use crate::agenda::{Event, HOUR, MINUTE, SECOND};
use crate::fault::Fault;
use crate::world::World;

impl World {
    /// Sends a `workflow_job` delivery about the job as it is now.
    pub fn tell(&mut self, number: u32) {
        let event = Rc::new(self.event(number));
        if self.github.drop_next > 0 {
            self.github.drop_next -= 1;
            self.narrate(|| format!("the webhook about job {number} is lost"));
            return;
        }
        if self.github.job(number).unheard || self.strikes(Fault::WebhookLost) {
            // Often all deliveries of a job share their fate.
            let job = self.github.job(number);
            if job.status == Status::Queued && self.rng.chance(500_000) {
                self.github.job_mut(number).unheard = true;
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
                self.between(50, 1_500)
            };
            let delivery = u32::try_from(self.github.deliveries.len()).unwrap_or(u32::MAX);
            self.github.deliveries.push(Rc::clone(&event));
            self.github.in_flight += 1;
            self.agenda.at(self.now + after, Event::Webhook(delivery));
        }
    }

    /// A delivery by number.
    #[must_use]
    pub fn delivery(&self, number: u32) -> Rc<JobEvent> {
        Rc::clone(&self.github.deliveries[number as usize])
    }

    fn event(&mut self, number: u32) -> JobEvent {
        let job = self.github.job(number);
        let status = match job.status {
            Status::Planned => JobStatus::Waiting,
            Status::Queued => JobStatus::Queued,
            Status::InProgress => JobStatus::InProgress,
            Status::Completed => JobStatus::Completed,
        };
        let time = |at| (at > 0).then(|| Time::from_millis(at));
        let mut event = JobEvent {
            key: job.key,
            status,
            repository: job.repository.clone(),
            private: job.private,
            user_owned: false,
            installation: Some(InstallationId(7)),
            run: 5000 + u64::from(number),
            attempt: 1,
            name: job.name.clone(),
            labels: job.labels.clone(),
            runner: job.runner.as_ref().map(|(_, name)| name.clone()),
            conclusion: job.conclusion.map(str::to_owned),
            queued_at: time(job.queued_at),
            started_at: time(job.started_at),
            completed_at: time(job.completed_at),
        };
        // Some `completed` events carry no labels (actions-runner-controller #1370).
        if status == JobStatus::Completed && !self.manner.by_hand && self.rng.chance(50_000) {
            event.labels = Labels::default();
        }
        event
    }
}
