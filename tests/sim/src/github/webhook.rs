//! Webhooks: what GitHub sends, and what happens to it on the way.

use std::rc::Rc;

use muster_domain::ids::InstallationId;
use muster_domain::job::labels::Labels;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::time::Time;

use super::Status;
use crate::agenda::{Event, HOUR, MINUTE, Millis, SECOND};
use crate::fault::Fault;
use crate::world::World;

/// A delivery on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    event: Rc<JobEvent>,
    /// The first failed attempt, if this is another one.
    again: Option<u32>,
}

/// An attempt that GitHub keeps. Those that arrived at once are of no interest, and not kept here.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) event: Rc<JobEvent>,
    /// The number of the first attempt.
    pub(super) first: u32,
    pub(super) at: Millis,
    pub(super) arrived: bool,
}

impl World {
    /// Sends a `workflow_job` delivery about the job as it is now.
    pub fn tell(&mut self, number: u32) {
        let event = Rc::new(self.event(number));
        if self.github.drop_next > 0 {
            self.github.drop_next -= 1;
            self.narrate(|| format!("the webhook about job {number} is lost"));
            return;
        }
        if self.github.job(number).unheard {
            return;
        }
        if self.door_is_closed() {
            self.narrate(|| format!("the webhook about job {number} finds the door closed"));
            self.attempt_over(event, None, false);
            return;
        }
        if self.strikes(Fault::WebhookLost) {
            // GitHub never sends it, and then often none about that job; or it does, and nobody
            // answers.
            let job = self.github.job(number);
            if job.status == Status::Queued && self.rng.chance(500_000) {
                self.github.job_mut(number).unheard = true;
            } else {
                self.attempt_over(event, None, false);
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
            self.send(Sent { event: Rc::clone(&event), again: None }, after);
        }
    }

    /// A scenario says so, of this delivery and maybe the next.
    const fn door_is_closed(&mut self) -> bool {
        let closed = self.github.fail_next > 0;
        self.github.fail_next = self.github.fail_next.saturating_sub(1);
        closed
    }

    fn send(&mut self, sent: Sent, after: Millis) {
        let delivery = u32::try_from(self.github.deliveries.len()).unwrap_or(u32::MAX);
        self.github.deliveries.push(sent);
        self.github.in_flight += 1;
        self.agenda.at(self.now + after, Event::Webhook(delivery));
    }

    /// A delivery by number.
    #[must_use]
    pub fn delivery(&self, number: u32) -> Rc<JobEvent> {
        Rc::clone(&self.github.deliveries[number as usize].event)
    }

    /// A delivery was answered, or nobody was there.
    pub fn delivered(&mut self, number: u32, arrived: bool) {
        let Sent { event, again } = self.github.deliveries[number as usize].clone();
        if !arrived || again.is_some() {
            self.attempt_over(event, again, arrived);
        }
    }

    fn attempt_over(&mut self, event: Rc<JobEvent>, first: Option<u32>, arrived: bool) {
        let number = u32::try_from(self.github.attempts.len()).unwrap_or(u32::MAX);
        let attempt = Attempt { event, first: first.unwrap_or(number), at: self.now, arrived };
        self.github.attempts.push(attempt);
    }

    /// GitHub tries once more.
    pub(super) fn attempt_again(&mut self, number: u32) -> bool {
        let Some(Attempt { event, first, .. }) = self.github.attempts.get(number as usize).cloned()
        else {
            return false;
        };
        self.tally.redelivered += 1;
        self.narrate(|| {
            format!("GitHub delivers {} of job {} again", word(event.status), event.key.job - 1000)
        });
        if self.door_is_closed() || self.strikes(Fault::WebhookLost) {
            self.attempt_over(event, Some(first), false);
        } else {
            let after = self.between(50, 1_500);
            self.send(Sent { event, again: Some(first) }, after);
        }
        true
    }

    /// An event that GitHub has tried to deliver, and that never arrived: its job, and when it was
    /// tried last.
    #[must_use]
    pub fn undelivered(&self) -> Option<(u64, Millis)> {
        let attempts = &self.github.attempts;
        let arrived = |first| attempts.iter().any(|one| one.first == first && one.arrived);
        let failed = attempts.iter().rev().find(|one| !arrived(one.first))?;
        Some((failed.event.key.job - 1000, failed.at))
    }

    fn event(&mut self, number: u32) -> JobEvent {
        let job = self.github.job(number);
        let status = match job.status {
            Status::Planned | Status::Waiting => JobStatus::Waiting,
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
            run: run_of(number),
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
        if status == JobStatus::Completed && !self.cloud_config.by_hand && self.rng.chance(50_000) {
            event.labels = Labels::default();
        }
        event
    }
}

const fn word(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Waiting => "waiting",
        JobStatus::Queued => "queued",
        JobStatus::InProgress => "in_progress",
        JobStatus::Completed => "completed",
    }
}

/// The workflow run of a job: three jobs are of one run.
pub const fn run_of(job: u32) -> u64 {
    5000 + job as u64 / 3
}
