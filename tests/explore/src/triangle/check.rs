//! What must hold in every state of the triangle, and a state in words.

use std::fmt::Write as _;

use muster_domain::instance::{Instance, State as Life};

use super::Triangle;
use super::machines::is_called;
use super::state::{Agent, State, machine_id};

impl Triangle {
    pub(super) fn violation_of(&self, state: &State) -> Option<String> {
        counter(state, self.pool.max)
            .or_else(|| machines_have_one_owner(state))
            .or_else(|| machines_are_intended(state))
            .or_else(|| machines_are_awaited(state))
            .or_else(|| state.rows.iter().find_map(|row| row_is_sound(row)))
            .or_else(|| claims_are_level(state))
    }
}

fn counter(state: &State, max: u32) -> Option<String> {
    let live = state.rows.iter().filter(|row| row.state().is_live()).count();
    let counted = state.capacity.live as usize;
    if live != counted {
        return Some(format!("I7: the counter says {counted}, there are {live} live rows"));
    }
    (counted > max as usize).then(|| format!("I7: {counted} live rows, the maximum is {max}"))
}

fn machines_have_one_owner(state: &State) -> Option<String> {
    let live: Vec<&Instance> =
        state.rows.iter().map(|row| &**row).filter(|row| row.state().is_live()).collect();
    for (index, row) in live.iter().enumerate() {
        let Some(machine) = row.machine() else { continue };
        if live[..index].iter().any(|other| other.machine() == Some(machine)) {
            return Some(format!("I3: two live rows hold {machine}"));
        }
        let known = state.machine(machine);
        if known.is_some_and(|known| known.owner.as_ref() != Some(&row.name)) {
            return Some(format!("I3: {machine} of {} is entered as somebody else's", row.name));
        }
    }
    None
}

/// What EC2 launched was written down before; only its own pass may still know better.
fn machines_are_intended(state: &State) -> Option<String> {
    let unknown = state.machines.iter().find(|machine| {
        machine.alive && state.record(&machine.launch).is_none() && !is_called(state, machine)
    });
    unknown.map(|machine| format!("I13: no record speaks of {}", machine_id(machine.number)))
}

/// Every machine has a live owner, or a slot of its launch is still there for it. A stray is
/// allowed only after a long look for an ambiguous launch, or when EC2 carried a launch out late.
fn machines_are_awaited(state: &State) -> Option<String> {
    for launch in state.launches.iter().filter(|launch| launch.record.is_some()) {
        let unowned = state.machines.iter().filter(|machine| {
            machine.alive && machine.launch == launch.id && machine.owner.is_none()
        });
        let free = state.rows.iter().filter(|row| row.is_free_slot_of(&launch.id)).count();
        let unowned = unowned.count();
        if unowned > free && !launch.given_up {
            return Some(format!(
                "I2/I4: {unowned} machine(s) of launch {} wait for {free} slot(s)",
                launch.id
            ));
        }
    }
    let lost = state.machines.iter().find(|machine| {
        machine.alive
            && machine.owner.is_some()
            && !state.is_owned(machine)
            && machine.agent != Agent::Exited
    });
    lost.map(|machine| format!("I2: the row of {} is gone, it runs", machine_id(machine.number)))
}

fn row_is_sound(row: &Instance) -> Option<String> {
    if row.state() == Life::Deleted {
        let clean = row.due_at().is_none() && row.claim().is_none() && row.wake_nonce().is_none();
        return (!clean).then(|| format!("I5: deleted row {} has a due time or claim", row.name));
    }
    if row.due_at().is_none() {
        return Some(format!("I11: nothing is due for {}", row.name));
    }
    if row.machine().is_none() && row.state() == Life::Running {
        return Some(format!("I3: {} runs without a machine", row.name));
    }
    None
}

/// A waiting job that has a claim has it on an instance that can still serve it, and both know.
fn claims_are_level(state: &State) -> Option<String> {
    for job in state.jobs.iter().flat_map(|job| &job.row).filter(|job| job.is_waiting()) {
        let Some(name) = &job.claim else { continue };
        let Some(holder) = state.row(name) else {
            return Some(format!("I8: job {} waits for {name}, which is gone", job.key()));
        };
        let can_serve = holder.state().is_serving() || holder.state() == Life::Error;
        let waits_marked =
            holder.drain().is_some() && holder.due_at().is_none_or(|due| due > state.now);
        if !can_serve || waits_marked {
            return Some(format!(
                "I8: job {} waits for {name}, which is {}, or marked",
                job.key(),
                holder.state()
            ));
        }
        if holder.claim() != Some(job.key()) {
            return Some(format!("I8: job {} waits for {name}, which claims another", job.key()));
        }
    }
    for row in state.rows.iter().filter(|row| row.state().is_live()) {
        let Some(job) = row.claim().and_then(|key| state.job(key)) else { continue };
        if job.is_waiting() && job.claim.as_ref() != Some(&row.name) {
            return Some(format!(
                "I8: {} claims job {}, which waits elsewhere",
                row.name,
                job.key()
            ));
        }
    }
    None
}

/// A state in one line.
pub(super) fn describe(state: &State) -> String {
    let mut text = format!("t={}", state.now.as_secs() - 1000);
    for (number, job) in state.jobs.iter().enumerate() {
        let row = job.row.as_ref().map_or_else(
            || "no row".to_owned(),
            |row| {
                let claim = row.claim.as_ref().map_or("-", |claim| claim.as_str());
                format!("{:?} claim {claim}", row.status())
            },
        );
        let _ = write!(text, " | job {} {:?}: {row}", number + 1, job.truth);
    }
    for row in &state.rows {
        let machine = row.machine().map_or("-", |machine| machine.as_str());
        let claim = row.claim().map_or(0, |claim| claim.job);
        let mark = if row.drain().is_some() { " marked" } else { "" };
        let due = row.due_at().map_or(-1, |due| due.as_secs() - 1000);
        let _ = write!(
            text,
            " | {} {}/{}{mark} {machine} claims {claim} due {due}",
            row.name,
            row.state(),
            row.runner.state.as_str()
        );
    }
    for launch in &state.launches {
        let record = launch.record.as_ref().map(|record| (record.state, record.calls));
        let _ = write!(text, " | launch {} {record:?} {:?}", launch.id, launch.fleet);
    }
    for machine in state.machines.iter().filter(|machine| machine.alive) {
        let _ = write!(text, " | machine {} {:?}", machine.number, machine.agent);
    }
    text
}
