//! Which ends of a machine suggest that the pool's next machine will fail too.

use super::{DeleteReason, Instance, RunnerState, registration};

impl Instance {
    /// Returns why this machine never ran a job, if the transition to `next` shows that: the next
    /// machine will probably end the same way.
    ///
    /// Not counted: Spot interruptions, which EC2 announced or, without a job, the machine reported; refusals by GitHub, which are recorded
    /// for their owner; and a runner that got a job which its pool does not serve, because such a
    /// runner works. The record of images counts the machines of a build.
    #[must_use]
    pub fn served_nothing(&self, next: &Self) -> Option<String> {
        let exit = next.runner.exit.as_ref();
        let is_excused = exit.is_some_and(|exit| {
            exit.refused.is_some() || exit.foreign.is_some() || exit.stopped_for.is_some()
        });
        // The agent's exit code proves only whether its version was refused: `run.sh` also exits
        // with 0 after a session conflict or a crash (actions/runner, run-helper.sh.template). But
        // no job runs unreported: a job start fails if it cannot be reported.
        if is_excused
            || self.build.is_some()
            || self.spot_notice_at.is_some()
            || self.runner.has_taken_job()
        {
            return None;
        }
        let ended = match next.runner.state {
            RunnerState::Failed => "its machine failed to boot".to_owned(),
            _ => {
                next.refused_agent().unwrap_or_else(|| "its runner ended without a job".to_owned())
            }
        };
        let why = self.ended_for_nothing(next, &ended)?;
        Some(next.with_last_words(&why))
    }

    /// Returns how the machine ended before any job reached it, if it just did.
    fn ended_for_nothing(&self, next: &Self, ended: &str) -> Option<String> {
        let exit = next.runner.exit.as_ref();
        if next.passed_over && !self.passed_over {
            return exit.map(|_| ended.to_owned());
        }
        let mark = next.mark.as_ref().filter(|_| self.mark.is_none())?;
        match mark.reason {
            DeleteReason::BootTimeout => {
                let why = next.unregistered.as_ref().map(|one| registration::cause(&one.last));
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Some(format!("the machine did not start a runner{why}"))
            }
            DeleteReason::Unreachable => Some("the runner did not stay connected".to_owned()),
            DeleteReason::RunnerEnded if !self.passed_over => Some(ended.to_owned()),
            DeleteReason::MachineGone | DeleteReason::MachineStopped
                if self.runner.state != RunnerState::Idle =>
            {
                if let Some(why) = next.refused_agent() {
                    return Some(why);
                }
                let what = "the machine ended before its runner started";
                // An error that was known before did not cause this end.
                let new_error =
                    next.last_error.as_ref().filter(|_| next.last_error != self.last_error);
                Some(match new_error {
                    Some(fault) => format!("{what}: {}: {}", fault.code, fault.message),
                    None => what.to_owned(),
                })
            }
            DeleteReason::RunnerEnded
            | DeleteReason::MachineGone
            | DeleteReason::MachineStopped
            | DeleteReason::NotNeeded
            | DeleteReason::LaunchFailed
            | DeleteReason::Ordered
            | DeleteReason::JobCompleted
            | DeleteReason::Idle
            | DeleteReason::MaxLifetime
            | DeleteReason::Retired
            | DeleteReason::SpotNotice
            | DeleteReason::Outdated
            | DeleteReason::BuildEnded => None,
        }
    }
}
