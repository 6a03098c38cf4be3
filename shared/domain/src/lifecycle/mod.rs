//! The core: `decide`, a function from a record and observations to the next step.
//!
//! A pass repeats *observe, decide, commit, perform* until `decide` returns `Rest` or `Done`, and
//! then settles its message. `decide` requests each observation only when needed, so the happy path
//! makes no unnecessary call. It names at most one effect per commit, so that each effect has its
//! durable intent; the effect's outcome is part of the next observation. After a crash between any
//! two of these steps, the next pass recovers.

mod deleting;
mod gate;
mod reach;
mod running;
mod silence;
mod starting;
mod stop;
pub mod surplus;
mod switched;
#[cfg(test)]
mod tests;

use crate::absence::Absence;
use crate::audit::Audit;
use crate::ids::{MachineId, RunnerId};
use crate::instance::{Instance, State};
use crate::observation::{Look, Machine, Observation};
use crate::orphan::Orphan;
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Something that a pass observes on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// EC2's view of the machine.
    Machine,
    /// The machine's console output. Worth one call but no wait: a failed read counts as an empty
    /// console.
    Console,
    /// GitHub's view of the runner, by ID or, if unknown, by name.
    Runner,
    /// The launch record.
    Launch,
    /// Whether the claimed job still waits.
    ClaimedJob,
    /// Whether an idle runner exceeds what its pool keeps. Requested only for pools that keep idle
    /// runners.
    Surplus,
}

/// A change to an external system. Idempotent; its outcome is the next observation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Remove the registration from GitHub.
    Deregister(RunnerId),
    /// Terminate the machine.
    Terminate(MachineId),
    /// Request a launch pass of the pool.
    WakePool,
}

/// A record to write in the same commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// An entry of the audit log.
    Audit(Audit),
    /// An entry of the orphan ledger.
    Orphan(Orphan),
}

/// The next step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Observe this, then decide again.
    Look(Need),
    /// Commit, perform, then decide again.
    Act {
        /// The record to commit.
        next: Box<Instance>,
        /// Records to write with it.
        records: Vec<Record>,
        /// The effect to perform after the commit.
        effect: Option<Effect>,
    },
    /// Commit if anything changed, and come back at the record's due time.
    Rest(Box<Instance>),
    /// The record has ended; no pass has work left.
    Done,
}

/// The parameters of `decide` besides the record.
#[derive(Clone, Debug)]
pub struct Policy<'a> {
    /// All durations.
    pub timings: &'a Timings,
    /// Maximum lifetime of this pool's machines.
    pub max_lifetime: Seconds,
    /// The largest number of idle runners that the pool may keep, now or after an event.
    pub most_idle: u32,
}

impl Policy<'_> {
    /// Returns when a machine of this pool reaches its maximum lifetime.
    fn end_of_life(&self, instance: &Instance) -> Time {
        instance.launched_at() + self.max_lifetime
    }

    /// Returns when a runner without a job is retired, even if its pool keeps idle runners. A new
    /// one replaces it, so that every job has at least half of the maximum lifetime available.
    fn retires_at(&self, instance: &Instance) -> Time {
        instance.launched_at() + Seconds(self.max_lifetime.0 / 2)
    }

    /// Returns whether the delete does not wait for a running job: an operator ordered that, or the
    /// machine exceeds its maximum lifetime.
    fn ends_jobs(&self, instance: &Instance, now: Time) -> bool {
        instance.may_kill_job() || now >= self.end_of_life(instance)
    }
}

/// Decides the next step for an instance.
#[must_use]
pub fn decide(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let step = next_step(instance, seen, policy, now);
    if seen.deletes_off && switched::is_blocked_by_pause(instance, &step) {
        return with_machine_facts(switched::paused(instance, policy, now), seen);
    }
    with_machine_facts(step, seen)
}

/// Adds EC2's information about the machine to the step. No decision requests it, and it needs no
/// commit of its own while the machine is being deleted.
fn with_machine_facts(mut step: Step, seen: &Observation) -> Step {
    match &mut step {
        Step::Act { next, .. } | Step::Rest(next) if next.machine().is_some() => {
            next.record_make(&seen.machine_make);
            if let Some(at) = seen.machine_ended_at {
                next.record_end(at);
            }
        }
        Step::Act { .. } | Step::Rest(_) | Step::Look(_) | Step::Done => {}
    }
    step
}

fn next_step(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    if let Some(next) = shown_again(instance, seen, now) {
        return act(next);
    }
    match instance.state() {
        State::PendingCreate => starting::pending_create(instance, seen, policy, now),
        State::Creating => starting::creating(instance, seen, policy, now),
        State::Running => running::running(instance, seen, policy, now),
        State::Error => starting::error(instance, now),
        State::PendingDelete | State::PendingForceDelete => stop::stop(instance, seen, policy, now),
        State::Deleting => deleting::deleting(instance, seen, policy, now),
        State::Deleted => Step::Done,
    }
}

/// Returns the record of a machine that EC2 shows again after denying it: denials count as its end
/// only if they are uninterrupted.
fn shown_again(instance: &Instance, seen: &Observation, now: Time) -> Option<Instance> {
    let is_shown = match seen.machine {
        Look::Seen(Machine::Pending | Machine::Running | Machine::Stopped) => true,
        Look::Seen(Machine::Gone | Machine::Absent) | Look::Unknown | Look::Failed(_) => false,
    };
    (is_shown && instance.absence.is_some()).then(|| {
        let mut next = instance.clone();
        next.absence = None;
        next.tell(now, "EC2 shows the machine again".to_owned());
        next
    })
}

/// Commits `next` and decides again.
fn act(next: Instance) -> Step {
    Step::Act { next: Box::new(next), records: Vec::new(), effect: None }
}

/// Commits `next`, performs `effect`, and decides again.
fn perform(next: Instance, effect: Effect) -> Step {
    Step::Act { next: Box::new(next), records: Vec::new(), effect: Some(effect) }
}

/// Comes back at `at`.
fn rest_until(mut next: Instance, at: Time) -> Step {
    next.set_due(at);
    Step::Rest(Box::new(next))
}

/// Comes back at the record's due time, which a different pass has set.
fn rest(instance: &Instance) -> Step {
    Step::Rest(Box::new(instance.clone()))
}

/// Returns whether the record is not due yet. A duplicate or early message must not shorten a wait.
fn is_early(instance: &Instance, now: Time) -> bool {
    instance.due_at().is_some_and(|due| now < due)
}

/// How certain the machine's end is.
enum Death {
    /// EC2 reported it, or did not know the machine at any check for long.
    Certain(&'static str),
    /// Absent, but not for long enough: check again at this time.
    Unconfirmed(Box<Instance>, Time),
    /// It is alive, or was not checked.
    No,
}

/// Evaluates the machine's end. "Absent" counts only for a machine that EC2 must know by its age,
/// and then as described in [`Absence`](crate::absence).
fn death(instance: &Instance, seen: &Observation, timings: &Timings, now: Time) -> Death {
    match seen.machine {
        Look::Seen(Machine::Gone) => Death::Certain("EC2 reports that the machine is gone"),
        Look::Seen(Machine::Absent) if seen.machine_told_gone => {
            Death::Certain("EC2 reported that the machine is ending, and no longer knows it")
        }
        Look::Seen(Machine::Absent) => {
            let born = instance.bound_at.unwrap_or(instance.created_at);
            let old_enough = born + timings.absence_limit_seconds;
            let absence = Absence::denied(instance.absence, now);
            if instance.absence.is_none() && now < old_enough {
                return Death::Unconfirmed(Box::new(instance.clone()), old_enough);
            }
            if absence.is_certain(timings) {
                return Death::Certain("EC2 did not know the machine in any check");
            }
            let mut next = instance.clone();
            next.absence = Some(absence);
            if instance.absence.is_none() {
                next.tell(now, "EC2 does not know the machine".to_owned());
            }
            Death::Unconfirmed(Box::new(next), absence.look_again_at(timings))
        }
        Look::Seen(Machine::Pending | Machine::Running | Machine::Stopped)
        | Look::Unknown
        | Look::Failed(_) => Death::No,
    }
}
