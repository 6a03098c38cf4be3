//! The product: `decide`, a function from a record and what was seen to the next step.
//!
//! A pass repeats *observe, decide, commit, perform* until `decide` answers `Rest` or `Done`, and
//! then settles its message. `decide` asks for a look when it needs one, so the happy path costs no
//! call that is not needed; it names at most one effect per commit, so that each effect has its
//! durable intent; and an effect's outcome is part of the next observation. A crash between any two
//! of the verbs heals by running the pass again.

mod deleting;
mod gate;
mod reach;
mod running;
mod silence;
mod starting;
mod stop;
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

/// What a pass looks at when asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// EC2's view of the machine.
    Machine,
    /// What stands on the machine's console. Worth a call and no wait: a failed look is as good as an
    /// empty console.
    Console,
    /// GitHub's view of the runner, by id or, where none is known, by name.
    Runner,
    /// The launch record.
    Launch,
    /// Whether the claimed job still waits.
    ClaimedJob,
    /// Whether an idle runner is more than its pool wants. Asked only of pools that keep runners
    /// idle.
    Surplus,
}

/// Something done to the outside. Idempotent; its outcome is the next observation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Remove the registration from GitHub.
    Deregister(RunnerId),
    /// Terminate the machine.
    Terminate(MachineId),
    /// Have the pool's launch pass run.
    WakePool,
}

/// Something to be written in the same commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A line of the audit trail.
    Audit(Audit),
    /// An entry of the orphan ledger.
    Orphan(Orphan),
}

/// The next step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look, then decide again.
    Look(Need),
    /// Commit, perform, then decide again.
    Act {
        /// The record to commit.
        next: Box<Instance>,
        /// Written with it.
        records: Vec<Record>,
        /// Performed after it.
        effect: Option<Effect>,
    },
    /// Commit if anything changed, and come back at the record's due time.
    Rest(Box<Instance>),
    /// Nothing is left to do, for ever.
    Done,
}

/// What `decide` may lean on besides the record.
#[derive(Clone, Debug)]
pub struct Policy<'a> {
    /// All durations.
    pub timings: &'a Timings,
    /// The longest life of a machine of this pool.
    pub max_lifetime: Seconds,
    /// How many runners the pool keeps idle.
    pub min_idle: u32,
}

impl Policy<'_> {
    /// When a machine of this pool has lived for as long as it may.
    fn end_of_life(&self, instance: &Instance) -> Time {
        instance.launched_at() + self.max_lifetime
    }

    /// When a runner without a job goes, whatever its pool keeps idle. Its place is taken by a new
    /// one, so that any job has at least half of the longest life before it.
    fn retires_at(&self, instance: &Instance) -> Time {
        instance.launched_at() + Seconds(self.max_lifetime.0 / 2)
    }

    /// Whether its end waits for no job: so ordered, or it is older than its pool allows.
    fn ends_jobs(&self, instance: &Instance, now: Time) -> bool {
        instance.may_kill_job() || now >= self.end_of_life(instance)
    }
}

/// The next step for an instance.
#[must_use]
pub fn decide(instance: &Instance, seen: &Observation, policy: &Policy<'_>, now: Time) -> Step {
    let step = next_step(instance, seen, policy, now);
    if seen.deletes_off && switched::asks_switch(instance, &step) {
        return noting(switched::held_back(instance, policy, now), seen);
    }
    noting(step, seen)
}

/// The step, with what EC2 has told of the machine beside it. No decision asks for that, and it
/// costs no commit of its own on the way of a machine that ends.
fn noting(mut step: Step, seen: &Observation) -> Step {
    match &mut step {
        Step::Act { next, .. } | Step::Rest(next) if next.machine().is_some() => {
            next.note_make(&seen.machine_make);
            if let Some(at) = seen.machine_ended_at {
                next.note_end(at);
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

/// The record of a machine that EC2 shows after it denied knowing it: denials count as its end only
/// when nothing stood between them.
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

/// Comes back when the record says, which some other pass has decided.
fn rest(instance: &Instance) -> Step {
    Step::Rest(Box::new(instance.clone()))
}

/// Whether the record's own time has not come yet. A duplicate or early message must not shorten a
/// wait.
fn is_early(instance: &Instance, now: Time) -> bool {
    instance.due_at().is_some_and(|due| now < due)
}

/// The machine's end, as far as it is certain.
enum Death {
    /// EC2 said so, or did not know the machine at any look for long.
    Certain(&'static str),
    /// Absent, but not for long enough: look again then.
    Unconfirmed(Box<Instance>, Time),
    /// It lives, or nobody looked.
    No,
}

/// "Absent" counts only for a machine old enough that EC2 must know it, and then as
/// [`Absence`](crate::absence) says.
fn death(instance: &Instance, seen: &Observation, timings: &Timings, now: Time) -> Death {
    match seen.machine {
        Look::Seen(Machine::Gone) => Death::Certain("EC2 says that the machine is gone"),
        Look::Seen(Machine::Absent) if seen.machine_told_gone => {
            Death::Certain("EC2 said that the machine ends, and does not know it any more")
        }
        Look::Seen(Machine::Absent) => {
            let born = instance.bound_at.unwrap_or(instance.created_at);
            let old_enough = born + timings.absence_limit_seconds;
            let absence = Absence::denied(instance.absence, now);
            if instance.absence.is_none() && now < old_enough {
                return Death::Unconfirmed(Box::new(instance.clone()), old_enough);
            }
            if absence.is_certain(timings) {
                return Death::Certain("EC2 did not know the machine at any look");
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
