//! What the end of a machine says of the next one.

use super::{DeleteReason, Instance, RunnerState, registration};

impl Instance {
    /// Why `next`, the record after this one, is that of a machine that served nothing, if it has
    /// just become that: the next one may well end like it. EC2 takes back what it has announced
    /// for its own reasons, what GitHub refuses is told of its owner, and a runner that was given a
    /// job which its pool does not serve works.
    #[must_use]
    pub fn served_nothing(&self, next: &Self) -> Option<String> {
        let exit = next.runner.exit.as_ref();
        let is_refused = exit.is_some_and(|exit| exit.refused.is_some() || exit.foreign.is_some());
        // How its agent ended proves nothing but that its version was refused: `run.sh` ends with 0
        // for a taken session or a crash as well (actions/runner, run-helper.sh.template). But no job
        // runs untold: a start that was not reported fails.
        if is_refused || self.spot_notice_at.is_some() || self.runner.has_taken_job() {
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

    /// What has just become of it, before a job reached it.
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
                Some(format!("its machine did not start a runner{why}"))
            }
            DeleteReason::Unreachable => Some("its runner did not stay connected".to_owned()),
            DeleteReason::RunnerEnded if !self.passed_over => Some(ended.to_owned()),
            DeleteReason::MachineGone | DeleteReason::MachineStopped
                if self.runner.state != RunnerState::Idle =>
            {
                if let Some(why) = next.refused_agent() {
                    return Some(why);
                }
                let what = "its machine ended before its runner was there";
                // An error that was known before did not cause this end.
                let told = next.last_error.as_ref().filter(|_| next.last_error != self.last_error);
                Some(match told {
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
            | DeleteReason::Outdated => None,
        }
    }
}
