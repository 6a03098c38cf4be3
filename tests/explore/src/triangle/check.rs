//! What must hold in every state of the triangle, what tells states apart, and a state in words.

use std::fmt::Write as _;

use domain::instance::{Instance, State as Life};
use domain::launch::LaunchState;
use domain::time::Seconds;

use super::machines::is_called;
use super::state::{Agent, Fleet, State, Worker, machine_id};
use super::{HOLDERS, Triangle};
use crate::key::Key;

impl Triangle {
    pub(super) fn violation_of(&self, state: &State) -> Option<String> {
        counter(state, self.pool.max)
            .or_else(|| machines_have_one_owner(state))
            .or_else(|| machines_are_intended(state))
            .or_else(|| machines_are_awaited(state))
            .or_else(|| state.rows.iter().find_map(|row| row_is_sound(row)))
            .or_else(|| claims_are_level(state))
    }

    pub(super) fn fingerprint_of(&self, state: &State) -> u64 {
        let mut key = Key::new(state.now, &self.timings, None);
        for part in self.parts_of(state) {
            key.num(part.1);
        }
        key.finish()
    }

    pub(super) fn parts_of(&self, state: &State) -> [(&'static str, u64); 6] {
        let new = || Key::new(state.now, &self.timings, None);
        [
            ("misc", {
                let mut key = new();
                key.num(u64::from(state.faults));
                key.bit(state.wake);
                key.num(state.replay.map_or(0, |replay| replay as u64 + 1));
                key.maybe_until(state.capacity.lease_until);
                key.bit(state.capacity.holder.is_some());
                key.finish()
            }),
            ("jobs", {
                let mut key = new();
                for job in &state.jobs {
                    match &job.row {
                        Some(row) => key.job(row),
                        None => key.num(0),
                    }
                    key.num(job.truth as u64);
                    key.num(u64::from(job.queue));
                    let twice = self.config.kinds.contains(&super::Fault::Duplicate);
                    if job.queue != 0 || (twice && state.faults > 0) {
                        key.maybe_text(job.runner.as_deref());
                        key.num(u64::from(job.sent));
                    }
                }
                key.finish()
            }),
            ("rows", {
                let mut key = new();
                for (index, row) in state.rows.iter().enumerate() {
                    key.instance(row);
                    // Who was made first decides who gets a job first.
                    for other in &state.rows[..index] {
                        key.bit(other.created_at <= row.created_at);
                    }
                }
                key.finish()
            }),
            ("launches", {
                let mut key = new();
                for launch in &state.launches {
                    match &launch.record {
                        Some(record) => key.launch(record),
                        None => key.text(launch.id.as_str()),
                    }
                    key.bit(launch.given_up);
                    let settled =
                        launch.record.as_ref().is_some_and(|own| own.state == LaunchState::Settled);
                    let called = state.workers.iter().any(|worker| match worker {
                        Worker::ScaleUp(pass) => {
                            pass.call.as_ref().is_some_and(|call| call.launch.id == launch.id)
                        }
                        _ => false,
                    });
                    if settled && !called && launch.fleet != Fleet::UnderWay {
                        // Nobody asks for it again.
                        continue;
                    }
                    match &launch.fleet {
                        Fleet::Unseen => key.num(1),
                        Fleet::UnderWay => key.num(2),
                        Fleet::Launched { machines, short } => {
                            key.num(3 + u64::from(*short));
                            machines.iter().for_each(|machine| key.num(u64::from(*machine)));
                        }
                    }
                }
                key.finish()
            }),
            ("machines", {
                let mut key = new();
                for machine in &state.machines {
                    self.machine_fingerprint(state, machine, &mut key);
                }
                key.finish()
            }),
            ("workers", {
                // The two Lambdas are alike.
                let mut workers = [0, 1].map(|index: usize| {
                    let mut key = new();
                    match &state.workers[index] {
                        Worker::Idle => {}
                        Worker::Ingest(pass) => pass.fingerprint(state, &mut key),
                        Worker::ScaleUp(pass) => pass.fingerprint(state, HOLDERS[index], &mut key),
                        Worker::Reap(pass) => pass.fingerprint(state, &mut key),
                    }
                    key.finish()
                });
                workers.sort_unstable();
                let mut key = new();
                workers.iter().for_each(|worker| key.num(*worker));
                key.finish()
            }),
        ]
    }

    fn machine_fingerprint(
        &self,
        state: &State,
        machine: &super::state::MachineSide,
        key: &mut Key<'_>,
    ) {
        key.num(u64::from(machine.number));
        key.bit(machine.alive);
        if !machine.alive {
            return;
        }
        key.text(machine.launch.as_str());
        key.bit(machine.hangs);
        key.maybe_text(machine.owner.as_ref().map(domain::ids::InstanceName::as_str));
        key.bit(machine.registered);
        match &machine.agent {
            Agent::Boot => key.num(1),
            Agent::Asked(name) => {
                key.num(2);
                key.text(name);
            }
            Agent::Listening(_) => key.num(3),
            Agent::Given(_, job) => key.num(4 + u64::from(*job)),
            Agent::Working(_, job) => key.num(8 + u64::from(*job)),
            Agent::Exited => key.num(12),
        }
        // Only the sweep asks how old a machine is, and only of one that nobody owns.
        let stray = machine.alive && !state.is_owned(machine);
        let horizon = if stray { self.timings.orphan_age_seconds } else { Seconds(0) };
        key.age(machine.launched_at, horizon);
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

/// Every machine has a live owner, or a slot of its launch is still there for it. A stray is allowed
/// only after a long look for an ambiguous launch, or when EC2 carried a launch out late.
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
        let clean = row.due_at().is_none() && row.claim().is_none() && row.wake().is_none();
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
            row.runner.state.word()
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
