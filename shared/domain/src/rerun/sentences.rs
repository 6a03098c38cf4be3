//! What becomes of an interrupted job, in sentences for operators.

use std::borrow::Cow;

use super::{Interruption, Rerun, RerunCall, RerunOutcome, RerunState, RerunWait, RerunWatch};
use crate::job::Job;
use crate::time::Time;

impl Rerun {
    /// Explains a job of this run: how it was interrupted, and what became of it. Empty for a job
    /// that was not interrupted.
    #[must_use]
    pub fn explain(&self, job: &Job, now: Time) -> Vec<String> {
        let ordered = "Muster ordered this attempt, because EC2 took the machine of the one before: \
                       its machine is On-Demand if the pool allows that.";
        let mut lines: Vec<String> = job.rerun.then(|| ordered.to_owned()).into_iter().collect();
        let event = &job.last_event;
        let is_its = |one: &&Interruption| {
            let by_id = one.runner.is_some() && one.runner == event.runner_id;
            by_id || job.ran_on().as_ref() == Some(&one.instance)
        };
        let Some(one) = self.lost.iter().find(is_its) else { return lines };
        let who =
            if one.is_spot { "Spot took its machine back" } else { "Its machine's host failed" };
        let at = one.at.clock(now);
        lines.push(format!("{who} at {at}, after {} of work.", one.worked));
        lines.push(self.sentence(now));
        lines
    }

    /// Describes the state of the run's re-run in a sentence.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        match &self.state {
            RerunState::Open(_) if self.denied_since.is_some() => {
                "GitHub does not allow Muster to re-run it: the App needs the permission actions: \
                 write, and the owner must accept it. Muster tries again every hour for a day."
                    .to_owned()
            }
            RerunState::Open(RerunWatch { wait: RerunWait::TooOften, since, .. }) => {
                RerunOutcome::TooOften.sentence(&since.clock(now))
            }
            RerunState::Open(watch) => {
                let waits = match watch.wait {
                    RerunWait::Run => "the workflow run has ended",
                    RerunWait::Answer => "GitHub answers Muster's queries about the run",
                    RerunWait::Missing => "GitHub shows the run, which it does not at the moment",
                    RerunWait::Machine => "the machines of the run's other failed jobs have ended",
                    RerunWait::NewerRun | RerunWait::TooOften => {
                        "a newer run of the same branch has ended"
                    }
                };
                format!("Muster re-runs it when {waits}; next check at {}.", watch.due.clock(now))
            }
            RerunState::Intended { attempt, call, due, .. } => {
                let what = match call {
                    RerunCall::Job(_) => "the job",
                    RerunCall::Failed => "the failed jobs",
                };
                let due = due.clock(now);
                format!("Muster is re-running {what} of attempt {attempt}; next check at {due}.")
            }
            RerunState::Done { at, outcome } => outcome.sentence(&at.clock(now)),
        }
    }
}

impl RerunOutcome {
    fn sentence(&self, at: &str) -> String {
        match self {
            Self::Rerun { attempt, jobs: 1 } => {
                format!("Muster re-ran it at {at}: attempt {attempt}.")
            }
            Self::Rerun { attempt, jobs } => {
                format!("Muster re-ran {jobs} jobs of the run at {at}: attempt {attempt}.")
            }
            _ => format!("Muster did not re-run it: {}.", self.why_not()),
        }
    }

    /// Returns why Muster did not re-run an interrupted job. Empty if it did.
    #[must_use]
    pub fn why_not(&self) -> Cow<'static, str> {
        let why = match self {
            Self::Rerun { .. } => "",
            Self::ByOthers { attempt } => {
                return format!("attempt {attempt} was started by others").into();
            }
            Self::Gone => "GitHub no longer shows the run",
            Self::TooOld => "GitHub re-runs a run only for 30 days",
            Self::InTime => "GitHub shows that it ended by itself before",
            Self::Cancelled => "the run was cancelled",
            Self::Mixed => {
                "other jobs of the run failed by themselves, and GitHub cannot re-run only the \
                 interrupted ones; Re-run failed jobs on GitHub re-runs all of them"
            }
            Self::Deploys => {
                "it belongs to a deployment environment, and may have deployed a part; \
                 rerun_on_interruption: all re-runs such jobs too"
            }
            Self::Superseded => "a newer run replaced this run",
            Self::TooOften => "the run was interrupted three times",
            Self::Off => "rerun_on_interruption of its pool is false",
            Self::PoolGone => "its pool no longer exists",
            Self::NotAllowed => {
                "the App has no permission to; accept actions: write on GitHub to allow re-runs"
            }
            Self::Refused { message } => return format!("GitHub refused: {message}").into(),
            Self::Unanswered => "GitHub did not answer; see the run on GitHub",
        };
        why.into()
    }
}
