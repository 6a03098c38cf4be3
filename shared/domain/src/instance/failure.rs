//! What the end of a machine says of the next one.

use super::{DeleteReason, Instance, RunnerState};

impl Instance {
    /// Why `next`, the record after this one, is the end of a machine that no job needed yet and
    /// that brought no runner: there is no use in launching the next one at once. A runner that
    /// ended by itself without a job has not failed either.
    #[must_use]
    pub fn failed_idle(&self, next: &Self) -> Option<String> {
        let drain = next.drain.as_ref().filter(|_| self.drain.is_none())?;
        if self.claim.is_some() || self.runner.has_taken_job() {
            return None;
        }
        match drain.reason {
            DeleteReason::NotNeeded | DeleteReason::LaunchFailed => {
                let fault = self.last_error.as_ref()?;
                Some(format!("the launch failed: {}: {}", fault.code, fault.message))
            }
            DeleteReason::BootTimeout => Some("the machine did not start a runner".to_owned()),
            DeleteReason::RunnerEnded
            | DeleteReason::MachineGone
            | DeleteReason::MachineStopped
                if self.never_listened() =>
            {
                Some("the machine ended before its runner had a job".to_owned())
            }
            DeleteReason::RunnerEnded
            | DeleteReason::MachineGone
            | DeleteReason::MachineStopped
            | DeleteReason::Ordered
            | DeleteReason::JobCompleted
            | DeleteReason::Idle
            | DeleteReason::MaxLifetime
            | DeleteReason::Retired
            | DeleteReason::Unreachable
            | DeleteReason::SpotNotice
            | DeleteReason::Outdated => None,
        }
    }

    /// Whether `next`, the record after this one, is the end of a machine before its agent could be
    /// given the job that it was launched for: the next one may well end like it. EC2 takes back
    /// what it has announced for its own reasons.
    #[must_use]
    pub fn died_unheard(&self, next: &Self) -> bool {
        let ended = next.drain.as_ref().is_some_and(|drain| {
            matches!(drain.reason, DeleteReason::MachineGone | DeleteReason::MachineStopped)
        });
        ended
            && self.drain.is_none()
            && self.spot_notice_at.is_none()
            && !self.runner.has_taken_job()
            && self.never_listened()
    }

    fn never_listened(&self) -> bool {
        self.runner.state != RunnerState::Idle && !self.may_have_run_a_job()
    }

    /// Whether its agent may have run its one job, and nobody told us. Its exit code proves
    /// nothing: `run.sh` ends with 0 for a refused version, a taken session or a crash as well
    /// (actions/runner, run-helper.sh.template). But with hooks no job runs untold: a start that
    /// was not reported fails.
    fn may_have_run_a_job(&self) -> bool {
        let ended_well = self.runner.exit.as_ref().is_some_and(|exit| exit.code == Some(0));
        ended_well && !self.runner.hooks
    }
}
