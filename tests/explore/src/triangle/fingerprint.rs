//! What tells states of the triangle apart.

use muster_domain::launch::LaunchState;
use muster_domain::time::Seconds;

use super::state::{Agent, Fleet, LaunchSide, MachineSide, State, Worker};
use super::{Fault, HOLDERS, Triangle};
use crate::key::Key;

impl Triangle {
    pub(super) fn fingerprint_of(&self, state: &State) -> u64 {
        let mut key = Key::new(state.now, &self.timings, None);
        key.num(u64::from(state.faults));
        key.bit(state.wake);
        key.num(state.replay.map_or(0, |replay| replay as u64 + 1));
        key.maybe_until(state.capacity.lease_until);
        key.bit(state.capacity.holder.is_some());
        self.jobs(state, &mut key);
        key.num(state.rows.len() as u64);
        for (index, row) in state.rows.iter().enumerate() {
            key.instance(row);
            // Who was made first decides who gets a job first.
            for other in &state.rows[..index] {
                key.bit(other.created_at <= row.created_at);
            }
        }
        key.num(state.launches.len() as u64);
        for launch in &state.launches {
            launch_fingerprint(state, launch, &mut key);
        }
        for machine in &state.machines {
            self.machine(state, machine, &mut key);
        }
        // The two Lambdas are alike.
        let mut workers = [0, 1].map(|index: usize| self.worker(state, index));
        workers.sort_unstable();
        workers.iter().for_each(|worker| key.num(*worker));
        key.finish()
    }

    fn jobs(&self, state: &State, key: &mut Key<'_>) {
        let twice = state.faults > 0 && self.config.kinds.contains(&Fault::Duplicate);
        for job in &state.jobs {
            match &job.row {
                Some(row) => key.job(row),
                None => key.num(0),
            }
            key.num(job.truth as u64);
            key.num(u64::from(job.queue));
            if job.queue != 0 || twice {
                key.maybe_text(job.runner.as_deref());
                key.num(u64::from(job.sent));
            }
        }
    }

    fn machine(&self, state: &State, machine: &MachineSide, key: &mut Key<'_>) {
        key.num(u64::from(machine.number));
        key.bit(machine.alive);
        if !machine.alive {
            return;
        }
        key.text(machine.launch.as_str());
        key.bit(machine.hangs);
        key.maybe_text(machine.owner.as_ref().map(muster_domain::ids::InstanceName::as_str));
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
        let stray = !state.is_owned(machine);
        let horizon = if stray { self.timings.orphan_age_seconds } else { Seconds(0) };
        key.age(machine.launched_at, horizon);
    }

    fn worker(&self, state: &State, index: usize) -> u64 {
        let mut key = Key::new(state.now, &self.timings, None);
        match &state.workers[index] {
            Worker::Idle => {}
            Worker::Ingest(pass) => pass.fingerprint(state, &mut key),
            Worker::ScaleUp(pass) => pass.fingerprint(state, HOLDERS[index], &mut key),
            Worker::Reap(pass) => pass.fingerprint(state, &mut key),
        }
        key.finish()
    }
}

fn launch_fingerprint(state: &State, launch: &LaunchSide, key: &mut Key<'_>) {
    match &launch.record {
        Some(record) => key.launch(record),
        None => key.text(launch.id.as_str()),
    }
    key.bit(launch.given_up);
    let settled = launch.record.as_ref().is_some_and(|own| own.state == LaunchState::Settled);
    let called = state.workers.iter().any(|worker| match worker {
        Worker::ScaleUp(pass) => pass.call.as_ref().is_some_and(|call| call.launch.id == launch.id),
        _ => false,
    });
    if settled && !called && launch.fleet != Fleet::UnderWay {
        // Nobody asks for it again.
        return;
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
