//! Jobs that can never run. GitHub may leave a job `queued` in a run that has ended, and tells
//! nobody (Tuist #12673, pytorch/test-infra #5164); an old delivery that is repeated tells of a job
//! that was over long ago. So the run is asked for as well as the job.

use serde::{Deserialize, Serialize};

use super::{DOUBT_LASTS, Job};
use crate::time::{Seconds, Time};

/// Why a job may be one that can never run, or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// It was older than its expiry when first heard of. It gets no machine before GitHub has
    /// confirmed it.
    Old,
    /// GitHub showed neither the job nor its run, for the first time at this time.
    Unseen {
        /// When.
        at: Time,
        /// It was old before that.
        old: bool,
    },
    /// Its run has ended, and the job with it.
    RunEnded,
    /// GitHub shows neither the job nor its run any more: the job is over.
    RunGone,
}

impl Doubt {
    /// Keeps the job from having a machine.
    pub(super) const fn bars(self) -> bool {
        matches!(self, Self::Old | Self::Unseen { old: true, .. })
    }

    /// How the job came to its end, in a sentence.
    pub(super) const fn ending(self) -> Option<&'static str> {
        match self {
            Self::Old | Self::Unseen { .. } => None,
            Self::RunEnded => {
                Some("Its run has ended at GitHub, which sent no end of the job itself.")
            }
            Self::RunGone => Some("GitHub shows neither the job nor its run any more."),
        }
    }
}

/// What GitHub shows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLook {
    /// It has ended.
    Over,
    /// It goes on.
    GoesOn,
    /// It is not shown.
    NotShown,
}

/// What a look at a job and its run makes of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is over, for this reason.
    Over(Doubt),
    /// It waits: its next record.
    Waits(Box<Job>),
}

/// A first delivery of a job that says it was queued so long ago that it would be given up.
#[must_use]
pub fn is_old(job: &Job, expiry: Seconds, now: Time) -> bool {
    now.is_past(job.queued_at(), expiry)
}

/// Judges a look at a job that GitHub calls queued (`is_shown`) or does not show, and at its run.
/// What is not shown may be there all the same, so it is looked for twice.
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
                // It waits for us from now on: it is not to be given up at once.
                next.opened_at = Some(now);
            }
        }
    }
    Judgement::Waits(Box::new(next))
}

/// Whether GitHub is to be asked at once: a runner idled beside the job since the last question, or
/// the last answer left a doubt. Not again within some minutes.
pub(super) fn is_to_be_asked(job: &Job, now: Time) -> bool {
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

    /// Is the job shown, what of its run, what was in doubt, and what is then.
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
            assert_eq!(is_to_be_asked(&job, at(1000)), expected, "{name}");
        }
    }
}
