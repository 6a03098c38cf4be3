//! Jobs, and the fold that makes one of any number of events in any order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::SCHEMA;
use crate::ids::{Entity, InstallationId, InstanceName, JobKey, PoolName};
use crate::labels::Labels;
use crate::time::{Seconds, Time};

/// Where GitHub is with a job. The order is the rank: a job only moves up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Held back by a deployment protection rule; no machine is needed yet.
    Waiting,
    /// Needs a runner.
    Queued,
    /// A runner took it.
    InProgress,
    /// Over, however it ended.
    Completed,
}

/// What one `workflow_job` delivery says. This is also the message on the jobs queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEvent {
    /// Which job.
    pub key: JobKey,
    /// The status that this event reports.
    pub status: JobStatus,
    /// `owner/repo`, for people and for GitHub's paths.
    pub repository: Arc<str>,
    /// Whether the repository is private. Jobs of public ones are refused by default.
    pub private: bool,
    /// Whether a person rather than an organization owns the repository: its runners can only be registered
    /// at the repository itself.
    #[serde(default)]
    pub user_owned: bool,
    /// The App's installation that sent the event.
    pub installation: Option<InstallationId>,
    /// The workflow run and its attempt.
    pub run: u64,
    /// See `run`.
    pub attempt: u32,
    /// The job's name. Text of the workflow's author: shown, never interpreted.
    pub name: Arc<str>,
    /// The labels of `runs-on`. Empty in some `completed` events (ARC #1370).
    pub labels: Labels,
    /// The runner that took the job, by name.
    pub runner: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
    /// When GitHub queued the job.
    pub queued_at: Option<Time>,
    /// When a runner took it.
    pub started_at: Option<Time>,
    /// When it ended.
    pub completed_at: Option<Time>,
}

/// Why no launch is tried for a job right now, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// No launch before this time.
    pub until: Time,
    /// What went wrong, in a sentence.
    pub reason: String,
    /// How many instances were lost for this job so far.
    pub failures: u32,
}

/// How a job came to a pool that was not the first choice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moved {
    /// The pool that had no room for it.
    pub from: PoolName,
    /// When.
    pub at: Time,
    /// What stood in the way there, in a sentence.
    pub why: String,
}

/// The record of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// Version of the record's form.
    pub schema: u16,
    /// Bumped by every write.
    pub generation: u64,
    /// All that GitHub said, merged.
    #[serde(flatten)]
    pub said: JobEvent,
    /// When the first event reached us.
    pub seen_at: Time,
    /// The pool that serves the job.
    pub pool: Option<PoolName>,
    /// Why no pool serves it, if none does.
    pub unmatched: Option<String>,
    /// The instance that is to serve it. Not a binding: GitHub gives a job to any matching runner.
    pub claim: Option<InstanceName>,
    /// Set while launching for this job is held back.
    pub hold: Option<Hold>,
    /// Set when the job was given up as expired; it needs no runner any more.
    pub expired: bool,
    /// Its last move to another pool.
    #[serde(default)]
    pub moved: Option<Moved>,
    /// When GitHub was last asked for the job, because nothing had been heard of it for long.
    #[serde(default)]
    pub asked_at: Option<Time>,
    /// When we first heard that it was queued. Before, it may have waited for days for somebody's approval.
    #[serde(default)]
    pub queued_seen_at: Option<Time>,
}

impl Job {
    /// The job as another pool's. What held it back was about the pool that it leaves.
    #[must_use]
    pub fn moved_to(&self, pool: &PoolName, why: &str, now: Time) -> Self {
        let moved = self.pool.clone().map(|from| Moved { from, at: now, why: why.to_owned() });
        let generation = self.generation + 1;
        let hold = self.hold.clone().map(|hold| Hold { until: hold.until.min(now), ..hold });
        Self { pool: Some(pool.clone()), hold, moved, generation, ..self.clone() }
    }

    /// The job's key.
    #[must_use]
    pub const fn key(&self) -> JobKey {
        self.said.key
    }

    /// Where GitHub is with it, as far as we were told.
    #[must_use]
    pub const fn status(&self) -> JobStatus {
        self.said.status
    }

    /// Queued at GitHub and served by one of our pools: it must end in a runner, an end event or a reason.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.status() == JobStatus::Queued && self.pool.is_some() && !self.expired
    }

    /// Queued, and no pool served it when it came. A pool that is applied later may.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        self.status() == JobStatus::Queued && self.pool.is_none() && !self.expired
    }

    /// Waiting without a claim: the launch pass must find it a runner.
    #[must_use]
    pub fn is_demand(&self) -> bool {
        self.is_waiting() && self.claim.is_none()
    }

    /// Whether the launch pass may act for it now.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.is_demand() && self.hold.as_ref().is_none_or(|hold| hold.until <= now)
    }

    /// Whether it has waited for `silence` since anything was heard of it.
    #[must_use]
    pub fn is_silent(&self, silence: Seconds, now: Time) -> bool {
        let heard = self.asked_at.unwrap_or_else(|| self.seen_at.max(self.queued_at()));
        self.is_waiting() && now.is_past(heard, silence)
    }

    /// When GitHub queued it; when we first heard of it where GitHub did not say.
    #[must_use]
    pub fn queued_at(&self) -> Time {
        self.said.queued_at.unwrap_or(self.seen_at)
    }

    /// Since when it could have had a runner: since GitHub queued it, or, after a wait for somebody's approval, since we
    /// heard that this was over. GitHub's own time is that of the job's creation, also then.
    #[must_use]
    pub fn waits_since(&self) -> Time {
        match self.queued_seen_at {
            Some(queued) if queued > self.seen_at => queued.max(self.queued_at()),
            _ => self.queued_at(),
        }
    }

    /// Where it stands among the waiting jobs of its pool. A job on hold stands where its time comes: many of them
    /// must not hide the others from a listing that is cut.
    #[must_use]
    pub fn listed_at(&self) -> Time {
        self.hold.as_ref().map_or(self.queued_at(), |hold| hold.until.max(self.queued_at()))
    }

    /// The runner that GitHub says took it, as an instance of ours.
    #[must_use]
    pub fn ran_on(&self) -> Option<InstanceName> {
        self.said.runner.as_deref().and_then(crate::ids::instance_of_runner)
    }

    /// The owner of the repository, as an entity.
    #[must_use]
    pub fn repository_entity(&self) -> Option<Entity> {
        self.said.repository.parse().ok()
    }
}

/// Merges an event into a job's record. Returns the record unchanged (same generation) when the
/// event says nothing new.
///
/// Order-free: every field is a join (the larger status, the earlier time, the text that is there),
/// so any order and any repetition of the same events ends in the same record. Deliveries are
/// late, doubled and out of order, and a late `queued` must not revive a job that has ended.
#[must_use]
pub fn fold(job: Option<Job>, event: JobEvent, now: Time) -> Job {
    let is_queued = |job: &Job| job.status() >= JobStatus::Queued;
    let Some(mut job) = job else {
        let queued_seen_at = (event.status >= JobStatus::Queued).then_some(now);
        return Job {
            schema: SCHEMA,
            generation: 0,
            said: event,
            seen_at: now,
            pool: None,
            unmatched: None,
            claim: None,
            hold: None,
            expired: false,
            moved: None,
            asked_at: None,
            queued_seen_at,
        };
    };
    let said = join(job.said.clone(), event);
    if said != job.said {
        let was_queued = is_queued(&job);
        job.said = said;
        if !was_queued && is_queued(&job) {
            job.queued_seen_at = Some(now);
        }
        job.generation += 1;
    }
    job
}

fn join(a: JobEvent, b: JobEvent) -> JobEvent {
    JobEvent {
        key: a.key,
        status: a.status.max(b.status),
        repository: a.repository.max(b.repository),
        // Public once is public: the stricter reading wins.
        private: a.private && b.private,
        user_owned: a.user_owned || b.user_owned,
        installation: a.installation.max(b.installation),
        run: a.run.max(b.run),
        attempt: a.attempt.max(b.attempt),
        name: a.name.max(b.name),
        labels: a.labels.max(b.labels),
        runner: a.runner.max(b.runner),
        conclusion: a.conclusion.max(b.conclusion),
        queued_at: earlier(a.queued_at, b.queued_at),
        started_at: earlier(a.started_at, b.started_at),
        completed_at: earlier(a.completed_at, b.completed_at),
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(status: JobStatus) -> JobEvent {
        let at = |millis| Some(Time::from_millis(millis));
        let started = status >= JobStatus::InProgress;
        JobEvent {
            key: JobKey { repository: 1, job: 2 },
            status,
            repository: "acme/web".into(),
            private: true,
            user_owned: false,
            installation: Some(InstallationId(7)),
            run: 3,
            attempt: 1,
            name: "build".into(),
            // Some `completed` events carry no labels.
            labels: match status {
                JobStatus::Completed => Labels::default(),
                _ => Labels::new(["linux"]),
            },
            runner: started.then(|| "default-x-0-1".into()),
            conclusion: (status == JobStatus::Completed).then(|| "success".into()),
            queued_at: at(1000),
            started_at: started.then(|| Time::from_millis(2000)),
            completed_at: (status == JobStatus::Completed).then(|| Time::from_millis(3000)),
        }
    }

    fn fold_all(events: &[JobEvent]) -> Job {
        let start = None;
        let mut job = events
            .iter()
            .fold(start, |job, event| Some(fold(job, event.clone(), Time::from_millis(9000))))
            .expect("at least one event");
        job.generation = 0;
        job
    }

    /// Every order of four events, each up to three times, in every interleaving of length twelve
    /// would be 369,600; all sequences of length seven over the four events cover the same joins.
    #[test]
    fn every_order_and_repetition_ends_in_the_same_job() {
        use JobStatus::{Completed, InProgress, Queued, Waiting};
        let events = [Waiting, Queued, InProgress, Completed].map(event);
        let expected = fold_all(&events);
        let mut seen_all = 0;
        for code in 0..4_u32.pow(7) {
            let picks: Vec<usize> = (0..7).map(|i| (code / 4_u32.pow(i) % 4) as usize).collect();
            if (0..4).all(|n| picks.contains(&n)) {
                let sequence: Vec<JobEvent> = picks.iter().map(|n| events[*n].clone()).collect();
                assert_eq!(fold_all(&sequence), expected, "{picks:?}");
                seen_all += 1;
            }
        }
        assert_eq!(seen_all, 8400);
    }

    #[test]
    fn a_repeated_event_changes_nothing() {
        let once = fold(None, event(JobStatus::Queued), Time::from_millis(1));
        let twice = fold(Some(once.clone()), event(JobStatus::Queued), Time::from_millis(2));
        assert_eq!(once, twice);
    }

    #[test]
    fn a_late_queued_does_not_revive_an_ended_job() {
        let ended = fold(None, event(JobStatus::Completed), Time::from_millis(1));
        let job = fold(Some(ended), event(JobStatus::Queued), Time::from_millis(2));
        assert_eq!(job.status(), JobStatus::Completed);
        assert!(!job.is_waiting());
    }
}
