//! Keeps the machine of a failed job for inspection, if its pool is configured to.
//!
//! The agent has ended by then, so the machine cannot get a job. The machine asks what to do when
//! it reports its agent's end, and GitHub's `completed` event may arrive later. In every case the
//! record contains the time at which Muster ends the machine.

use super::{Instance, State};
use crate::pool::Pool;
use crate::time::{Seconds, Time};

/// How long to wait for GitHub's `completed` event, which normally arrives within seconds. Less
/// than the time that a machine has to shut down, so that a waiting machine is not terminated for
/// it.
const HEARD_WITHIN: Seconds = Seconds(60);
/// Interval at which the machine asks again.
const ASKS_EVERY: Seconds = Seconds(5);

/// What a machine does after its agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum AfterEnd {
    /// Shut down.
    ShutsDown,
    /// GitHub has not reported the job's conclusion yet: ask again after this time.
    Asks(Seconds),
    /// Stay up for inspection, and shut down after this time.
    Stays(Seconds),
}

impl Instance {
    /// Returns what the machine does after reporting its agent's end. Repeated calls return the
    /// remainder of one period, not a new one.
    pub fn after_end(&mut self, pool: Option<&Pool>, now: Time) -> AfterEnd {
        let Some((until, ended)) = pool.and_then(|pool| self.may_be_kept_until(pool)) else {
            return AfterEnd::ShutsDown;
        };
        let is_heard = self.runner.github_completed_at.is_some();
        if !is_heard && now < ended + HEARD_WITHIN {
            return AfterEnd::Asks(ASKS_EVERY);
        }
        if !is_heard || !self.runner.failed || until <= now {
            return AfterEnd::ShutsDown;
        }
        if self.kept_until != Some(until) {
            self.kept_until = Some(until);
            self.tell(now, format!("its job failed: kept for inspection until {until}"));
        }
        AfterEnd::Stays(until.since(now))
    }

    /// Returns until when the machine can be kept and when its agent ended. `None` if no job failed
    /// or the machine is being deleted.
    fn may_be_kept_until(&self, pool: &Pool) -> Option<(Time, Time)> {
        let exit = self.runner.exit.as_ref()?;
        let is_wanted = self.state == State::Running
            && self.mark.is_none()
            && self.order.is_none()
            && self.spot_notice_at.is_none();
        let ran_its_job =
            self.runner.has_taken_job() && exit.code.is_some() && exit.foreign.is_none();
        // EC2 is about to end it.
        let is_interrupted = exit.stopped_for.is_some();
        if pool.keep_failed_seconds.0 == 0 || !is_wanted || !ran_its_job || is_interrupted {
            return None;
        }
        let life = self.launched_at() + pool.max_lifetime_seconds;
        let until = self.kept_until.unwrap_or(exit.at + pool.keep_failed_seconds);
        Some((until.min(life), exit.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::{DeleteReason, StopCause};
    use crate::testkit::{CLAIMED, With, active, at, pool, timings};

    fn keeping() -> Pool {
        Pool { keep_failed_seconds: Seconds(900), ..pool() }
    }

    /// An instance whose agent ended at 200 and whose job's conclusion is known.
    fn ended(failed: Option<bool>) -> Instance {
        active().with(|i| {
            i.runner_ended(Some(0), None, at(200), &timings());
            if let Some(failed) = failed {
                i.github_completed(CLAIMED, failed, at(201), &timings());
            }
        })
    }

    #[test]
    fn a_failed_job_keeps_its_machine_as_long_as_the_pool_says() {
        let mut failed = ended(Some(true));
        assert_eq!(failed.after_end(Some(&keeping()), at(202)), AfterEnd::Stays(Seconds(898)));
        assert_eq!(failed.kept_until, Some(at(1100)));
        // Repeated requests, even after the pool's period was extended, keep the first deadline.
        let longer = Pool { keep_failed_seconds: Seconds(7200), ..keeping() };
        assert_eq!(failed.after_end(Some(&longer), at(302)), AfterEnd::Stays(Seconds(798)));
        assert_eq!(failed.after_end(Some(&keeping()), at(1100)), AfterEnd::ShutsDown);
    }

    #[test]
    fn it_asks_until_github_has_said_how_its_job_did_and_not_for_long() {
        let mut unheard = ended(None);
        assert_eq!(unheard.after_end(Some(&keeping()), at(200)), AfterEnd::Asks(ASKS_EVERY));
        assert_eq!(unheard.after_end(Some(&keeping()), at(259)), AfterEnd::Asks(ASKS_EVERY));
        assert_eq!(unheard.after_end(Some(&keeping()), at(260)), AfterEnd::ShutsDown);
        assert!(HEARD_WITHIN < timings().shutdown_grace_seconds);
    }

    #[test]
    fn what_nobody_wants_to_look_at_shuts_down() {
        let keeping = keeping();
        let old = Pool { max_lifetime_seconds: Seconds(150), ..keeping.clone() };
        let with = |change: fn(&mut Instance)| ended(Some(true)).with(change);
        for (why, mut instance, pool) in [
            ("its pool keeps none", ended(Some(true)), Some(&pool())),
            ("its pool is gone", ended(Some(true)), None),
            ("its job did well", ended(Some(false)), Some(&keeping)),
            ("EC2 takes it", with(|i| i.spot_notice(at(201))), Some(&keeping)),
            ("it is too old", ended(Some(true)), Some(&old)),
            (
                "it is on its way out",
                with(|i| i.to_pending_delete(DeleteReason::Ordered, at(201))),
                Some(&keeping),
            ),
            (
                "EC2 takes it, and only the machine has reported that",
                active().with(|i| {
                    i.runner_stopped(StopCause::Interruption, 0, at(200), &timings());
                    i.github_completed(CLAIMED, true, at(201), &timings());
                }),
                Some(&keeping),
            ),
            (
                "its boot failed",
                active().with(|i| {
                    i.github_completed(CLAIMED, true, at(199), &timings());
                    i.runner_ended(None, None, at(200), &timings());
                }),
                Some(&keeping),
            ),
        ] {
            assert_eq!(instance.after_end(pool, at(202)), AfterEnd::ShutsDown, "{why}");
            assert_eq!(instance.kept_until, None, "{why}");
        }
    }
}
