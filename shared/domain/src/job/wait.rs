//! How long a job waited for a runner. Metrics, `explain`, usage lines, `waits`, `costs` and
//! `simulate` share this definition.

use super::Job;
use crate::time::Time;

/// The conclusion of a job whose `if:` was false. Such a job never requests a runner.
/// Source: docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job
const SKIPPED: &str = "skipped";

impl Job {
    /// Returns the time from which the job could have had a runner: when GitHub queued it or, if it
    /// waited for an approval, when we learned of the approval. GitHub's own time is always that of
    /// the job's creation.
    #[must_use]
    pub fn waits_since(&self) -> Time {
        if self.is_unconfirmed() {
            return self.seen_at;
        }
        self.opened_at.map_or(self.queued_at(), |opened| opened.max(self.queued_at()))
    }

    /// Returns when a runner started the job. GitHub also reports a start for jobs that no runner
    /// took, so this requires a runner.
    #[must_use]
    pub fn started_at(&self) -> Option<Time> {
        let event = &self.last_event;
        event.started_at.filter(|_| event.runner.is_some())
    }

    /// Returns how long the job waited for its runner, in milliseconds. `None` if no runner took
    /// it, or if it started before it waited: a copy that a re-run created, or an approval whose
    /// event was late.
    #[must_use]
    pub fn waited(&self) -> Option<u64> {
        u64::try_from(self.started_at()?.as_millis() - self.waits_since().as_millis()).ok()
    }

    /// Returns whether the job is a copy that a re-run created. When failed jobs are re-run, GitHub
    /// copies each job that succeeded: the copy has a new ID, but the runner and the times of the
    /// first attempt, so it ended before it was created (ARC #4315).
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.ended_before(self.queued_at())
    }

    /// Returns whether the job ended without ever needing a runner: a copy, a skipped job, or a job
    /// that was cancelled before its approval.
    #[must_use]
    pub fn never_waited(&self) -> bool {
        let is_skipped = self.last_event.conclusion.as_deref() == Some(SKIPPED);
        is_skipped || self.ended_before(self.waits_since())
    }

    fn ended_before(&self, at: Time) -> bool {
        self.is_completed() && self.last_event.completed_at.is_some_and(|ended| ended < at)
    }
}
