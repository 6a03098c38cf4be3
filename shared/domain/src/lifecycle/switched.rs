//! Deletes that an operator has paused.

use super::{Effect, Policy, Step, act, rest_until};
use crate::instance::{DeleteReason, Instance, State, Waiting};
use crate::time::Time;

/// Returns whether the step starts or performs a delete that the pause blocks. Forced deletes are
/// not blocked, nor are steps that record a machine as gone, stopped or never started: its job must
/// not wait.
pub(super) fn is_blocked_by_pause(instance: &Instance, step: &Step) -> bool {
    let Step::Act { next, effect, .. } = step else { return false };
    let destroys = match effect {
        Some(Effect::Deregister(_) | Effect::Terminate(_)) => true,
        Some(Effect::WakePool) | None => false,
    };
    let marks = instance.state() == State::Running
        && next.mark().is_some_and(|mark| is_our_choice(&mark.reason));
    !instance.is_forced() && (destroys || marks)
}

/// Returns whether the machine could continue to run. With the other reasons, it has ended or its
/// delete was ordered.
const fn is_our_choice(reason: &DeleteReason) -> bool {
    use DeleteReason as Reason;
    match reason {
        Reason::Idle
        | Reason::JobCompleted
        | Reason::MaxLifetime
        | Reason::Retired
        | Reason::Outdated
        | Reason::BuildEnded => true,
        Reason::Ordered
        | Reason::RunnerEnded
        | Reason::BootTimeout
        | Reason::Unreachable
        | Reason::NotNeeded
        | Reason::LaunchFailed
        | Reason::MachineGone
        | Reason::MachineStopped
        | Reason::SpotNotice => false,
    }
}

/// Makes the delete wait. Removes a mark that no operator ordered: while deletes are paused, the
/// runner counts as supply again.
pub(super) fn paused(instance: &Instance, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    if instance.state() == State::Running && instance.mark().is_some() {
        next.clear_mark(now, "deletes are paused");
        return act(next);
    }
    let waits = instance.mark().is_some_and(|mark| mark.waiting != Some(Waiting::SwitchedOff));
    if waits {
        next.update_mark(|mark| mark.waiting = Some(Waiting::SwitchedOff));
    }
    rest_until(next, now + policy.timings.busy_poll_seconds)
}
