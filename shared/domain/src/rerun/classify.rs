//! Which of an attempt's jobs to re-run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Interruption, RerunOutcome};
use crate::ids::RunnerId;
use crate::time::{Seconds, Time};

/// A fail-fast matrix cancels its other jobs within this time after one of them failed: an agent has
/// five minutes to end a cancelled job.
/// Source: docs.github.com/en/actions, "Canceling a workflow run"
const FAIL_FAST: Seconds = Seconds(6 * 60);

/// A job in GitHub's list of an attempt's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptJob {
    /// GitHub's ID of the job.
    pub id: u64,
    /// The ID of the runner that took it.
    pub runner_id: Option<RunnerId>,
    /// The name of that runner.
    pub runner: Option<String>,
    /// The conclusion.
    pub conclusion: Option<String>,
    /// When it ended.
    pub completed_at: Option<Time>,
}

impl AttemptJob {
    /// Returns whether a re-run of the failed jobs leaves it out.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.conclusion.as_deref(), Some("success" | "skipped" | "neutral"))
    }

    fn is_cancelled(&self) -> bool {
        self.conclusion.as_deref() == Some("cancelled")
    }

    fn was_cut(&self, lost: &[Interruption]) -> bool {
        lost.iter().any(|one| {
            let ends = match self.conclusion.as_deref() {
                None | Some("failure") => true,
                Some("cancelled") => one.is_stopped,
                Some(_) => false,
            };
            ends && one.ran(self) && self.completed_at.is_none_or(|at| at >= one.cut_from)
        })
    }
}

/// A call that re-runs jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunCall {
    /// Re-runs one job and its dependents. GitHub refuses a job of an earlier attempt, so the call has
    /// no effect if a different re-run came first.
    Job(u64),
    /// Re-runs all jobs that did not succeed, of any attempt.
    Failed,
}

/// What to do about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Make the call, for this number of jobs.
    Call(RerunCall, u32),
    /// Re-run nothing.
    Nothing(RerunOutcome),
}

/// Chooses the call for an attempt that has ended. It never re-runs a job that failed by itself, so
/// several interrupted jobs next to such a job stay: no call re-runs only some of several jobs.
///
/// `attempt` and `conclusion` are the run's. `deploys`: jobs that the pool does not re-run, because they
/// deploy.
#[must_use]
pub fn classify(
    attempt: u32,
    conclusion: Option<&str>,
    jobs: &[AttemptJob],
    lost: &[Interruption],
    deploys: &BTreeSet<u64>,
) -> Choice {
    let bad: Vec<&AttemptJob> = jobs.iter().filter(|job| !job.is_good()).collect();
    let (cut, others): (Vec<_>, Vec<_>) = bad.into_iter().partition(|job| job.was_cut(lost));
    if cut.is_empty() {
        return Choice::Nothing(RerunOutcome::InTime);
    }
    // A later attempt also lists the jobs that it did not repeat. What a person cancelled in an earlier
    // attempt must not count as a sibling of what was interrupted there.
    let is_of_attempt = |job: &&&AttemptJob| {
        attempt == 1 || lost.iter().any(|one| one.attempt == Some(attempt) && one.ran(job))
    };
    let first = cut.iter().filter(is_of_attempt).map(|job| job.completed_at).min().flatten();
    // A cancelled run's conclusion is `cancelled`. The jobs' names are no evidence: the author of a
    // workflow chooses those of a matrix.
    let by_fail_fast = |job: &AttemptJob| {
        let is_soon = |at: Time| first.is_some_and(|first| at >= first && at <= first + FAIL_FAST);
        conclusion == Some("failure") && job.completed_at.is_some_and(is_soon)
    };
    let (cancelled, failed): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|job| job.is_cancelled());
    if !cancelled.iter().all(|job| by_fail_fast(job)) {
        return Choice::Nothing(RerunOutcome::Cancelled);
    }
    let may = |job: &&AttemptJob| !deploys.contains(&job.id);
    let (ours, siblings) = (cut.iter().copied().filter(may), cancelled.iter().copied().filter(may));
    let (ours, siblings): (Vec<_>, Vec<_>) = (ours.collect(), siblings.collect());
    let left = failed.len() + cut.len() - ours.len() + cancelled.len() - siblings.len();
    match (ours.as_slice(), siblings.len(), left) {
        ([], _, _) => Choice::Nothing(RerunOutcome::Deploys),
        ([one], 0, _) => Choice::Call(RerunCall::Job(one.id), 1),
        (all, more, 0) => {
            Choice::Call(RerunCall::Failed, u32::try_from(all.len() + more).unwrap_or(u32::MAX))
        }
        _ => Choice::Nothing(RerunOutcome::Mixed),
    }
}
