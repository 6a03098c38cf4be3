//! Changes of an instance's machine side: launch, binding and deletion.

use super::record::{DeleteMark, DeleteOrder, DeleteReason, Waiting};
use super::{Instance, LAUNCH_ATTEMPTS, QUOTA_ATTEMPTS, State};
use crate::backoff;
use crate::ec2::{ErrorClass, LaunchError, Make, StateReason};
use crate::ids::{LaunchId, MachineId};
use crate::provider::ErrorDetail;
use crate::time::Time;
use crate::timings::Timings;

/// The operation name that [`Instance::ended_by_ec2`] records.
const MACHINES_END: &str = "the machine's end";

impl Instance {
    /// Binds a machine to the slot, once. Also allowed after a delete was ordered: the machine of a
    /// late launch response must never be lost.
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

    /// Records the machine's make from EC2's description. The first value is kept: a machine does
    /// not change.
    pub(crate) fn record_make(&mut self, make: &Make) {
        self.make = self.make.or(make);
    }

    /// Records when the machine ended: the earliest time from EC2's events and its description.
    pub(crate) fn record_end(&mut self, at: Time) {
        self.ended_at = Some(self.ended_at.map_or(at, |known| known.min(at)));
    }

    /// Returns whether a machine of `launch` can be bound to this slot.
    #[must_use]
    pub fn is_free_slot_of(&self, launch: &LaunchId) -> bool {
        self.state.is_live()
            && self.state != State::PendingCreate
            && self.machine.is_none()
            && self.launch == *launch
    }

    /// Handles a definite launch failure for this slot: schedules the next attempt, or moves to
    /// `error` after the last one.
    pub fn launch_failed(&mut self, error: &LaunchError, now: Time, timings: &Timings) {
        if self.state != State::Creating {
            return;
        }
        let is_uncounted = match error.class {
            // Throttled: no launch was attempted.
            ErrorClass::Throttle => true,
            // Capacity returns when one of our machines ends. The first of these refusals still
            // count as attempts, because the pool's fallback depends on them.
            ErrorClass::Quota => self.attempts >= QUOTA_ATTEMPTS,
            _ => false,
        };
        if !is_uncounted {
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

    /// Returns whether the wait before the slot's next launch attempt is over. This differs from
    /// the due time, which also moves when a launch pass is requested.
    #[must_use]
    pub fn is_retry_due(&self, now: Time, timings: &Timings) -> bool {
        self.retry_at(timings).is_some_and(|at| at <= now)
    }

    /// Returns when that wait ends, if the slot is waiting.
    #[must_use]
    pub fn retry_at(&self, timings: &Timings) -> Option<Time> {
        let waits = self.state == State::PendingCreate;
        waits.then(|| self.since + backoff::launch_wait(self.attempts, timings))
    }

    /// Adds the slot to a new launch.
    pub fn relaunch(&mut self, launch: LaunchId, now: Time, timings: &Timings) {
        self.move_to(State::Creating, now, &format!("attempt {}", self.attempts + 1));
        self.launch = launch;
        self.relaunched_at = Some(now);
        self.due_at = Some(now + timings.creating_lease_seconds);
    }

    /// Sets the delete mark: from now on the instance gets no configuration and no claim and, for
    /// some reasons, no job.
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

    /// Records EC2's announcement of a Spot interruption. A repeated announcement has no effect.
    pub fn spot_notice(&mut self, at: Time) {
        if self.spot_notice_at.is_none() {
            self.spot_notice_at = Some(at);
            self.tell(at, "EC2 announced a Spot interruption".to_owned());
        }
    }

    /// Removes the mark because of evidence against the delete. Only valid before anything
    /// irreversible was done, that is, while the state is `running`.
    pub fn clear_mark(&mut self, now: Time, why: &str) {
        if self.mark.take().is_some() {
            self.tell(now, format!("delete mark cleared: {why}"));
        }
    }

    /// Removes the mark because of a new claim, which is written in this change.
    pub(crate) fn keep_for_a_job(&mut self, now: Time) {
        if self.mark.take().is_some() {
            self.tell(now, "delete mark cleared: a job needs it".to_owned());
        }
    }

    /// Updates the mark's evidence.
    pub fn update_mark(&mut self, change: impl FnOnce(&mut DeleteMark)) {
        if let Some(mark) = &mut self.mark {
            change(mark);
        }
    }

    /// Records an operator's delete order and starts the deletion. Allowed in every live state;
    /// does nothing in `deleted`.
    pub fn order_delete(&mut self, order: &DeleteOrder, now: Time) {
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

    /// Starts the deletion. The claim ends now rather than with the instance: EC2 or GitHub can
    /// delay that for hours, and the job must not wait for it.
    pub fn to_pending_delete(&mut self, reason: DeleteReason, now: Time) {
        self.set_mark(reason, now);
        let why = self.mark.as_ref().map_or("", |mark| mark.reason.as_str());
        self.clear_claim(now, "being deleted");
        self.move_to(State::PendingDelete, now, why);
        self.due_at = Some(now);
    }

    /// Records EC2's reason for the machine's end, which EC2 or another AWS user caused.
    pub fn ended_by_ec2(&mut self, why: &StateReason, now: Time) {
        self.tell(now, format!("EC2: {}: {}", why.code, why.message));
        self.last_error = Some(ErrorDetail {
            at: now,
            operation: MACHINES_END.to_owned(),
            code: why.code.clone(),
            message: why.message.clone(),
        });
    }

    /// Returns EC2's code for the machine's end, unless the machine ended itself.
    pub(crate) fn ended_by(&self) -> Option<&str> {
        let last = self.last_error.as_ref().filter(|error| error.operation == MACHINES_END);
        last.map(|error| error.code.as_str())
    }

    /// Moves to `deleting` after the graceful stop: terminate next, under a lease.
    pub fn to_deleting(&mut self, now: Time, why: &str, timings: &Timings) {
        self.move_to(State::Deleting, now, why);
        self.update_mark(|mark| mark.waiting = None);
        self.due_at = Some(now + timings.deleting_lease_seconds);
    }

    /// Handles a failed TerminateInstances: returns to the pending delete state, counts the attempt
    /// and schedules the next.
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

    /// Returns to the graceful stop because a job was discovered after the end was decided and
    /// before EC2 acted. The stop then waits for that job.
    pub fn back_to_stop(&mut self, now: Time) {
        self.leave_deleting(now, "a job runs after all");
        self.due_at = Some(now);
    }

    /// Returns to the pending delete state that the instance came from. The assertion matters: the
    /// transition table alone would also let these calls start a delete.
    fn leave_deleting(&mut self, now: Time, why: &str) {
        assert!(self.state == State::Deleting, "instance {} is {}", self.name, self.state);
        let to = if self.is_forced() { State::PendingForceDelete } else { State::PendingDelete };
        self.move_to(to, now, why);
    }

    /// Ends the record. The claim ends as well; its job is released in this commit.
    pub fn to_deleted(&mut self, now: Time, why: &str) {
        self.clear_claim(now, "instance deleted");
        self.move_to(State::Deleted, now, why);
        self.due_at = None;
        self.wake = None;
    }
}

#[cfg(test)]
mod tests;
