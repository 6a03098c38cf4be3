//! Detection of jobs that can never run.
//!
//! GitHub may leave a job `queued` in a run that has ended, and sends no event (Tuist #12673,
//! pytorch/test-infra #5164). A redelivered old event may report a job that ended long ago. Muster
//! therefore queries the run as well as the job.

use serde::{Deserialize, Serialize};

use super::{DOUBT_LASTS, Job};
use crate::time::{Seconds, Time};

/// Why a job may be unable to run, or is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The job was older than its expiry when its first event arrived. No machine is launched until
    /// GitHub confirms it.
    Old,
    /// GitHub shows neither the job nor its run, first noticed at this time.
    Unseen {
        /// When this was first noticed.
        at: Time,
        /// Whether the job was [`Doubt::Old`] before.
        old: bool,
    },
    /// The run has ended, and the job with it.
    RunEnded,
    /// GitHub no longer shows the job or its run: the job has ended.
    RunGone,
}

impl Doubt {
    /// Returns whether this doubt prevents launches for the job.
    pub(super) const fn bars(self) -> bool {
        matches!(self, Self::Old | Self::Unseen { old: true, .. })
    }

    /// Describes how the job ended, in a sentence.
    pub(crate) const fn ending(self) -> Option<&'static str> {
        match self {
            Self::Old | Self::Unseen { .. } => None,
            Self::RunEnded => {
                Some("Its run has ended at GitHub, which sent no completed event for the job.")
            }
            Self::RunGone => Some("GitHub no longer shows the job or its run."),
        }
    }
}

/// The state of a run at GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLook {
    /// The run has ended.
    Over,
    /// The run is in progress.
    GoesOn,
    /// GitHub does not show the run.
    NotShown,
}

/// The result of checking a job and its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The job has ended, for this reason.
    Over(Doubt),
    /// The job still waits; this is its next record.
    Waits(Box<Job>),
}

/// Returns whether the first delivery of a job reports a queue time so long ago that the job has
/// already expired.
#[must_use]
pub fn is_old(job: &Job, expiry: Seconds, now: Time) -> bool {
    now.is_past(job.queued_at(), expiry)
}

/// Decides from GitHub's view of a job (`is_shown`: GitHub shows it as queued) and of its run
/// whether the job has ended. A job that is not shown may still exist, so two such answers are
/// required.
#[must_use]
pub fn judge(job: &Job, is_shown: bool, run: RunLook, now: Time) -> Judgement {
    let was_barred = job.doubt.is_some_and(Doubt::bars);
    let mut next = Job { asked_at: Some(now), ..job.clone() };
    match (is_shown, run) {
        (_, RunLook::Over) => return Judgement::Over(Doubt::RunEnded),
        (false, RunLook::NotShown) => match job.doubt {
            Some(Doubt::Unseen { at, .. }) if now.is_past(at, DOUBT_LASTS) => {
                return Judgement::Over(Doubt::RunGone);
            }
            Some(Doubt::Unseen { .. }) => {}
            _ => next.doubt = Some(Doubt::Unseen { at: now, old: was_barred }),
        },
        (false, RunLook::GoesOn) => next.doubt = was_barred.then_some(Doubt::Old),
        (true, RunLook::GoesOn | RunLook::NotShown) => {
            next.doubt = None;
            if was_barred {
                // Its wait starts now; otherwise it would expire immediately.
                next.opened_at = Some(now);
            }
        }
    }
    Judgement::Waits(Box::new(next))
}

/// Returns whether GitHub should be queried now: a runner idled without getting the job since the
/// last query, or the last answer left a doubt. Never more often than every `DOUBT_LASTS`.
pub(super) fn is_query_due(job: &Job, now: Time) -> bool {
    let doubt = job.doubt.is_some_and(|doubt| doubt.ending().is_none());
    let asked_since = |at: Time| job.asked_at.is_some_and(|asked| asked >= at);
    let passed = job.passed_over.is_some_and(|passed| !asked_since(passed.at));
    (doubt || passed) && job.asked_at.is_none_or(|asked| now.is_past(asked, DOUBT_LASTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::PassedOver;
    use crate::testkit::{With as _, at, job};

    fn doubted(doubt: Option<Doubt>) -> Job {
        job(1).with(|job| job.doubt = doubt)
    }

    /// Columns: is the job shown, state of the run, doubt before, doubt after.
    #[test]
    fn a_job_is_over_with_its_run_or_when_neither_is_shown_twice() {
        use Doubt::{Old, RunEnded, RunGone, Unseen};
        use RunLook::{GoesOn, NotShown, Over};
        let unseen = |second, old| Some(Unseen { at: at(second), old });
        let rows = [
            ("a matrix with max-parallel", true, GoesOn, None, Ok(None)),
            ("the run has ended", true, Over, None, Err(RunEnded)),
            ("and the job is not shown", false, Over, None, Err(RunEnded)),
            ("old, and the run has ended", true, Over, Some(Old), Err(RunEnded)),
            ("the job alone is shown", true, NotShown, None, Ok(None)),
            ("the run alone is shown", false, GoesOn, None, Ok(None)),
            ("neither, once", false, NotShown, None, Ok(unseen(1000, false))),
            ("and at once again", false, NotShown, unseen(701, false), Ok(unseen(701, false))),
            ("and minutes later", false, NotShown, unseen(700, false), Err(RunGone)),
            ("shown again", true, GoesOn, unseen(700, false), Ok(None)),
            ("the run alone again", false, GoesOn, unseen(700, false), Ok(None)),
            ("old and confirmed", true, GoesOn, Some(Old), Ok(None)),
            ("old, and the run alone", false, GoesOn, Some(Old), Ok(Some(Old))),
            ("old, and neither", false, NotShown, Some(Old), Ok(unseen(1000, true))),
            ("old, and twice neither", false, NotShown, unseen(700, true), Err(RunGone)),
            ("old, and then the run alone", false, GoesOn, unseen(700, true), Ok(Some(Old))),
        ];
        for (name, is_shown, run, before, expected) in rows {
            let after = match judge(&doubted(before), is_shown, run, at(1000)) {
                Judgement::Over(why) => Err(why),
                Judgement::Waits(next) => {
                    assert_eq!(next.asked_at, Some(at(1000)), "{name}");
                    Ok(next.doubt)
                }
            };
            assert_eq!(after, expected, "{name}");
        }
    }

    #[test]
    fn an_old_job_is_no_demand_until_github_has_confirmed_it() {
        let old = doubted(Some(Doubt::Old));
        assert!(old.is_waiting() && !old.is_demand());
        assert_eq!(old.waits_since(), old.seen_at, "it is not given up unasked");
        let Judgement::Waits(next) = judge(&old, true, RunLook::GoesOn, at(1000)) else {
            panic!("it is over")
        };
        assert!(next.is_demand());
        assert_eq!(next.waits_since(), at(1000), "nor once it is confirmed");
        let expiry = Seconds(100);
        let aged = |queued| job(1).with(|job| job.last_event.queued_at = Some(at(queued)));
        assert!(is_old(&aged(900), expiry, at(1000)) && !is_old(&aged(901), expiry, at(1000)));
    }

    #[test]
    fn github_is_asked_after_each_runner_in_vain_and_some_minutes_apart() {
        let passed = |when| Some(PassedOver { times: 1, at: at(when) });
        let rows = [
            ("nothing is wrong", None, None, None, false),
            ("passed over", passed(900), None, None, true),
            ("long since asked", passed(900), None, Some(600), true),
            ("asked a moment before", passed(900), None, Some(899), false),
            ("asked since", passed(600), None, Some(650), false),
            ("old", None, Some(Doubt::Old), None, true),
            ("old, just asked", None, Some(Doubt::Old), Some(701), false),
            ("old, no answer", None, Some(Doubt::Old), Some(700), true),
            ("over", None, Some(Doubt::RunEnded), None, false),
        ];
        for (name, passed_over, doubt, asked, expected) in rows {
            let job = doubted(doubt).with(|job| {
                (job.passed_over, job.asked_at) = (passed_over, asked.map(at));
            });
            assert_eq!(is_query_due(&job, at(1000)), expected, "{name}");
        }
    }
}
