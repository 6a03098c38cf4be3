//! Deletes that an operator has switched off.

use super::{Effect, Policy, Step, act, rest_until};
use crate::instance::{DeleteReason, Instance, State, Waiting};
use crate::time::Time;

/// Whether the step begins or carries out a delete that the switch holds back. Force passes. So
/// does what takes note that a machine is gone, stopped or never started: its job must not wait for
/// it.
pub(super) fn asks_switch(instance: &Instance, step: &Step) -> bool {
    let Step::Act { next, effect, .. } = step else { return false };
    let destroys = match effect {
        Some(Effect::Deregister(_) | Effect::Terminate(_)) => true,
        Some(Effect::WakePool) | None => false,
    };
    let marks = instance.state() == State::Running
        && next.mark().is_some_and(|mark| is_our_choice(&mark.reason));
    !instance.is_forced() && (destroys || marks)
}

/// Whether the machine could as well live on. The other reasons say that its end has come, or was
/// ordered.
const fn is_our_choice(reason: &DeleteReason) -> bool {
    use DeleteReason as Reason;
    match reason {
        Reason::Idle
        | Reason::JobCompleted
        | Reason::MaxLifetime
        | Reason::Retired
        | Reason::Outdated => true,
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

/// Waits. A mark without an order is taken back: the runner is supply again for as long as deletes
/// are off.
pub(super) fn held_back(instance: &Instance, policy: &Policy<'_>, now: Time) -> Step {
    let mut next = instance.clone();
    if instance.state() == State::Running && instance.mark().is_some() {
        next.clear_mark(now, "deletes are switched off");
        return act(next);
    }
    let waits = instance.mark().is_some_and(|mark| mark.waiting != Some(Waiting::SwitchedOff));
    if waits {
        next.update_mark(|mark| mark.waiting = Some(Waiting::SwitchedOff));
    }
    rest_until(next, now + policy.timings.busy_poll_seconds)
}
