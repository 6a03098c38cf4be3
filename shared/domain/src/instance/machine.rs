//! Changes of an instance's machine side: launch, binding, the way out.

use super::record::{DeleteMark, DeleteReason, ErrorDetail, Order, Waiting};
use super::{Instance, LAUNCH_ATTEMPTS, QUOTA_ATTEMPTS, State};
use crate::backoff;
use crate::ec2::{ErrorClass, Make, StateReason};
use crate::ids::{LaunchId, MachineId};
use crate::launch::LaunchError;
use crate::time::Time;
use crate::timings::Timings;

/// What [`Instance::ended_by_ec2`] calls it.
const MACHINES_END: &str = "the machine's end";

impl Instance {
    /// Binds a machine to the slot, once. Also after a delete was ordered: a late launch answer
    /// must never drop a machine.
    pub fn bind(&mut self, machine: MachineId, now: Time, timings: &Timings) {
        assert!(self.machine.is_none(), "instance {} has a machine already", self.name);
        assert!(self.state.is_live(), "instance {} is deleted", self.name);
        self.tell(now, format!("machine {machine} bound"));
        self.machine = Some(machine);
        self.bound_at = Some(now);
        self.bought_for_job = self.claim.is_some();
        self.attempts = 0;
        if self.state == State::Creating {
            self.move_to(State::Running, now, "machine launched");
            self.due_at = Some(self.launched_at() + timings.boot_deadline_seconds);
        } else {
            self.due_at = Some(now);
        }
    }

    /// EC2 says what the machine is. Its first word stays: a machine does not change.
    pub(crate) fn note_make(&mut self, make: &Make) {
        self.make = self.make.or(make);
    }

    /// Notes when EC2 says that the machine ended: the earliest of its events and its description.
    pub(crate) fn note_end(&mut self, at: Time) {
        self.ended_at = Some(self.ended_at.map_or(at, |known| known.min(at)));
    }

    /// Whether a machine of `launch` may be bound to it.
    #[must_use]
    pub fn is_free_slot_of(&self, launch: &LaunchId) -> bool {
        self.state.is_live()
            && self.state != State::PendingCreate
            && self.machine.is_none()
            && self.launch == *launch
    }

    /// EC2 certainly launched nothing for this slot: wait for the next attempt, or give up.
    pub fn launch_failed(&mut self, error: &LaunchError, now: Time, timings: &Timings) {
        if self.state != State::Creating {
            return;
        }
        let says_nothing_of_the_request = match error.class {
            // Nothing was tried.
            ErrorClass::Throttle => true,
            // There is room again with the next machine that ends. Counted at first, for what the
            // pool does after a refusal.
            ErrorClass::Quota => self.attempts >= QUOTA_ATTEMPTS,
            _ => false,
        };
        if !says_nothing_of_the_request {
            self.attempts += 1;
        }
        self.refused = Some(error.class);
        self.last_error = Some(ErrorDetail {
            at: now,
            operation: "CreateFleet".to_owned(),
            code: error.code.clone(),
            message: error.sentence(),
        });
        if self.attempts < LAUNCH_ATTEMPTS {
            self.move_to(State::PendingCreate, now, &error.to_string());
            self.due_at = Some(now + backoff::launch_wait(self.attempts, timings));
        } else {
            self.move_to(State::Error, now, &format!("{error} (attempt {})", self.attempts));
            self.due_at = Some(now);
        }
    }

    /// Whether the wait before the slot's next launch attempt is over. Not the due time: that one
    /// also moves when somebody is asked to launch.
    #[must_use]
    pub fn is_retry_due(&self, now: Time, timings: &Timings) -> bool {
        self.retry_at(timings).is_some_and(|at| at <= now)
    }

    /// When that wait is over, of a slot that waits.
    #[must_use]
    pub fn retry_at(&self, timings: &Timings) -> Option<Time> {
        let waits = self.state == State::PendingCreate;
        waits.then(|| self.since + backoff::launch_wait(self.attempts, timings))
    }

    /// Joins the slot to a new launch.
    pub fn relaunch(&mut self, launch: LaunchId, now: Time, timings: &Timings) {
        self.move_to(State::Creating, now, &format!("attempt {}", self.attempts + 1));
        self.launch = launch;
        self.relaunched_at = Some(now);
        self.due_at = Some(now + timings.creating_lease_seconds);
    }

    /// Sets the delete mark: from here on it gets no configuration and no claim, and, by some
    /// marks, no job.
    pub fn set_mark(&mut self, reason: DeleteReason, now: Time) {
        if self.mark.is_none() {
            self.tell(now, format!("marked for delete: {}", reason.as_str()));
            self.mark = Some(DeleteMark {
                at: now,
                reason,
                not_busy_since: None,
                gate_passed: false,
                removing_until: None,
                deregistered: false,
                waiting: None,
                silences: 0,
                kill_told: false,
            });
        }
    }

    /// EC2 announced that it takes the machine back. Told once, however often it is announced.
    pub fn spot_notice(&mut self, now: Time) {
        if self.spot_notice_at.is_none() {
            self.spot_notice_at = Some(now);
            self.tell(now, "EC2 takes the machine back (spot notice)".to_owned());
        }
    }

    /// Takes the mark back: evidence against the delete came up. Only while nothing irreversible
    /// was done, that is before the row left `running`.
    pub fn clear_mark(&mut self, now: Time, why: &str) {
        if self.mark.take().is_some() {
            self.tell(now, format!("delete mark cleared: {why}"));
        }
    }

    /// Takes the mark back for a claim, which is the change of the record.
    pub(crate) fn keep_for_a_job(&mut self, now: Time) {
        if self.mark.take().is_some() {
            self.tell(now, "delete mark cleared: a job needs it".to_owned());
        }
    }

    /// Changes the mark's evidence.
    pub fn update_mark(&mut self, change: impl FnOnce(&mut DeleteMark)) {
        if let Some(mark) = &mut self.mark {
            change(mark);
        }
    }

    /// Records an operator's order and moves on the way out. Allowed in every live state; a no-op
    /// for `deleted`.
    pub fn order_delete(&mut self, order: &Order, now: Time) {
        if !self.state.is_live() {
            return;
        }
        let order = self.order.as_ref().map_or_else(|| order.clone(), |own| own.joined(order));
        let (force, words) = (order.force, format!("ordered by {}: {}", order.by, order.reason));
        self.order = Some(order);
        self.set_mark(DeleteReason::Ordered, now);
        self.clear_claim(now, "delete ordered");
        let to = if force { State::PendingForceDelete } else { State::PendingDelete };
        if self.state != to && self.state.may_become(to) && (force || self.state != State::Deleting)
        {
            self.move_to(to, now, &words);
        }
        self.due_at = Some(now);
    }

    /// Starts the way out. The claim ends here and not at its end: EC2 or GitHub may hold that up
    /// for hours, and the job must not wait for it.
    pub fn to_pending_delete(&mut self, reason: DeleteReason, now: Time) {
        self.set_mark(reason, now);
        let why = self.mark.as_ref().map_or("", |mark| mark.reason.as_str());
        self.clear_claim(now, "on its way out");
        self.move_to(State::PendingDelete, now, why);
        self.due_at = Some(now);
    }

    /// EC2 has ended the machine, or somebody through it, and says why.
    pub fn ended_by_ec2(&mut self, why: &StateReason, now: Time) {
        self.tell(now, format!("EC2: {}: {}", why.code, why.message));
        self.last_error = Some(ErrorDetail {
            at: now,
            operation: MACHINES_END.to_owned(),
            code: why.code.clone(),
            message: why.message.clone(),
        });
    }

    /// EC2's code for why the machine has ended, where it was not the machine itself.
    pub(crate) fn ended_by(&self) -> Option<&str> {
        let last = self.last_error.as_ref().filter(|error| error.operation == MACHINES_END);
        last.map(|error| error.code.as_str())
    }

    /// The graceful stop says go: terminate next, under a lease.
    pub fn to_deleting(&mut self, now: Time, why: &str, timings: &Timings) {
        self.move_to(State::Deleting, now, why);
        self.update_mark(|mark| mark.waiting = None);
        self.due_at = Some(now + timings.deleting_lease_seconds);
    }

    /// EC2 refused or failed: back to the way out, one attempt more, and wait.
    pub fn terminate_failed(&mut self, fault: ErrorDetail, now: Time, timings: &Timings) {
        self.attempts += 1;
        let why = format!("attempt {} failed: {}: {}", self.attempts, fault.code, fault.message);
        self.last_error = Some(fault);
        let wait = if self.is_forced() {
            timings.retry_step_seconds
        } else {
            backoff::delete_wait(self.attempts, timings)
        };
        self.leave_deleting(now, &why);
        self.update_mark(|mark| mark.waiting = Some(Waiting::Provider));
        self.due_at = Some(now + wait);
    }

    /// A job became known after the end was decided and before EC2 acted: back to the way out,
    /// where it is waited for.
    pub fn back_to_stop(&mut self, now: Time) {
        self.leave_deleting(now, "a job runs after all");
        self.due_at = Some(now);
    }

    /// Back to the way out by which it came. The table alone would let these calls start a delete
    /// as well.
    fn leave_deleting(&mut self, now: Time, why: &str) {
        assert!(self.state == State::Deleting, "instance {} is {}", self.name, self.state);
        let to = if self.is_forced() { State::PendingForceDelete } else { State::PendingDelete };
        self.move_to(to, now, why);
    }

    /// The end. The claim ends as well; the job it stood for is released in the same commit.
    pub fn to_deleted(&mut self, now: Time, why: &str) {
        self.clear_claim(now, "instance deleted");
        self.move_to(State::Deleted, now, why);
        self.due_at = None;
        self.wake = None;
    }
}

#[cfg(test)]
mod tests;
