//! The tables' side of a commit: conditions of all writes first, then all writes or none.

use std::sync::Arc;

use muster_domain::ids::InstanceName;
use muster_domain::instance::{Instance, State as Life};
use muster_domain::job::Job;
use muster_domain::launch::{Launch, LaunchState};

use super::Triangle;
use super::state::{Fleet, LaunchSide, State, Worker};

/// A part of a commit, as in the `control` crate's ports.
pub(super) enum Write {
    /// A row; `replaces` none: it must not exist.
    Instance {
        /// The new record.
        next: Box<Instance>,
        /// The generation it replaces.
        replaces: Option<u64>,
    },
    /// A job.
    Job {
        /// The new record.
        next: Box<Job>,
        /// The generation it replaces.
        replaces: Option<u64>,
    },
    /// A launch.
    Launch {
        /// The new record.
        next: Box<Launch>,
        /// The generation it replaces.
        replaces: Option<u64>,
    },
    /// Adds to the counter, up to the maximum, for the holder of the lease.
    CapacityUp {
        /// How many.
        count: u32,
        /// The holder.
        holder: &'static str,
    },
    /// Takes one from the counter.
    CapacityDown,
    /// `machine#i-…` must not exist.
    Bind {
        /// The machine's number.
        machine: u8,
        /// Its owner.
        owner: InstanceName,
    },
}

/// Why a commit did not happen.
pub(super) enum Refusal {
    /// Somebody else was faster.
    Conflict,
    /// A rule of the records themselves is broken.
    Broken(String),
}

impl Triangle {
    /// The write of a changed instance, if it changed.
    pub(super) fn changed(before: &Instance, next: &Instance) -> Option<Write> {
        (before != next).then(|| Write::Instance {
            next: Box::new(next.clone()),
            replaces: Some(before.generation()),
        })
    }

    /// The write of a changed job, if it changed.
    pub(super) fn changed_job(before: Option<&Job>, next: &Job) -> Option<Write> {
        (before != Some(next)).then(|| Write::Job {
            next: Box::new(next.clone()),
            replaces: before.map(|job| job.generation),
        })
    }

    /// Writes all or nothing.
    pub(super) fn commit(&self, state: &mut State, writes: Vec<Write>) -> Result<(), Refusal> {
        for write in &writes {
            self.condition(state, write)?;
        }
        for write in writes {
            put(state, write);
        }
        Ok(())
    }

    fn condition(&self, state: &State, write: &Write) -> Result<(), Refusal> {
        let (stored, replaces, next) = match write {
            Write::Instance { next, replaces } => {
                let stored = state.row(&next.name).map(|row| row.generation());
                (stored, replaces, next.generation())
            }
            Write::Job { next, replaces } => {
                (state.job(next.key()).map(|job| job.generation), replaces, next.generation)
            }
            Write::Launch { next, replaces } => {
                (state.record(&next.id).map(|launch| launch.generation), replaces, next.generation)
            }
            Write::CapacityUp { count, holder } => {
                let fits = state.capacity.live + count <= self.pool.max;
                let held = state.capacity.is_held_by(holder);
                let refused = self.rules.counter_is_checked && !(fits && held);
                return if refused { Err(Refusal::Conflict) } else { Ok(()) };
            }
            Write::CapacityDown => {
                return if state.capacity.live == 0 { Err(Refusal::Conflict) } else { Ok(()) };
            }
            Write::Bind { machine, .. } => {
                let taken = state
                    .machines
                    .iter()
                    .any(|known| known.number == *machine && known.owner.is_some());
                let refused = taken && self.rules.machines_are_unique;
                return if refused { Err(Refusal::Conflict) } else { Ok(()) };
            }
        };
        if stored != *replaces && self.rules.generations_are_checked {
            return Err(Refusal::Conflict);
        }
        if replaces.is_some_and(|replaces| next <= replaces) {
            return Err(Refusal::Broken("a record changed and its generation did not".to_owned()));
        }
        if let Write::Instance { next, .. } = write
            && next.state() != Life::Deleted
            && state.row(&next.name).is_some_and(|row| row.state() == Life::Deleted)
        {
            return Err(Refusal::Broken(format!("I5: {} rises from the dead", next.name)));
        }
        Ok(())
    }
}

fn put(state: &mut State, write: Write) {
    match write {
        Write::Instance { mut next, .. } => {
            // The story is for people; it would only make states large.
            next.events = Arc::default();
            let next = Arc::new(*next);
            match state.rows.iter_mut().find(|row| row.name == next.name) {
                Some(row) => *row = next,
                None => state.rows.push(next),
            }
        }
        Write::Job { next, .. } => {
            let number = super::state::number(next.key());
            state.jobs[number].row = Some(Arc::new(*next));
        }
        Write::Launch { next, .. } => put_launch(state, *next),
        Write::CapacityUp { count, .. } => Arc::make_mut(&mut state.capacity).live += count,
        Write::CapacityDown => Arc::make_mut(&mut state.capacity).live -= 1,
        Write::Bind { machine, owner } => {
            if let Some(known) = state.machines.iter_mut().find(|known| known.number == machine) {
                Arc::make_mut(known).owner = Some(owner);
            }
        }
    }
}

fn put_launch(state: &mut State, next: Launch) {
    match state.launches.iter_mut().find(|launch| launch.id == next.id) {
        Some(launch) => Arc::make_mut(launch).record = Some(Arc::new(next)),
        None => state.launches.push(Arc::new(LaunchSide {
            id: next.id.clone(),
            record: Some(Arc::new(next)),
            fleet: Fleet::Unseen,
            given_up: false,
        })),
    }
}

/// Forgets what nobody can ask for again, so that worlds close: tombstones, settled launches and
/// dead machines that no record, message or Lambda names. Real ones go by their TTL.
pub(super) fn forget(state: &mut State) {
    let working = |state: &State, text: &str| {
        state.workers.iter().any(|worker| match worker {
            Worker::Idle => false,
            Worker::Ingest(ingest) => ingest.names(text),
            Worker::ScaleUp(scale_up) => scale_up.names(text),
            Worker::Reap(reap) => reap.names(text),
        })
    };
    let keep_row = |state: &State, row: &Instance| {
        let name = row.name.as_str();
        row.state().is_live()
            || state.machines.iter().any(|machine| {
                machine.alive && machine.owner.as_ref().is_some_and(|own| own.as_str() == name)
            })
            || state.jobs.iter().any(|job| names_runner(job, name))
            || working(state, name)
    };
    let rows = std::mem::take(&mut state.rows);
    let keep: Vec<bool> = rows.iter().map(|row| keep_row(state, row)).collect();
    state.rows = rows.into_iter().zip(keep).filter_map(|(row, keep)| keep.then_some(row)).collect();

    let launches = std::mem::take(&mut state.launches);
    let keep_launch = |launch: &Arc<LaunchSide>| {
        let open = launch.record.as_ref().is_some_and(|own| own.state == LaunchState::Open);
        open || launch.fleet == Fleet::UnderWay
            || state.rows.iter().any(|row| row.launch == launch.id)
            || state.machines.iter().any(|machine| machine.alive && machine.launch == launch.id)
            || working(state, launch.id.as_str())
    };
    state.launches = launches.into_iter().filter(keep_launch).collect();

    let machines = std::mem::take(&mut state.machines);
    let keep_machine = |machine: &Arc<super::state::MachineSide>| {
        let id = super::state::machine_id(machine.number);
        machine.alive
            || state.rows.iter().any(|row| row.machine() == Some(&id))
            || state.launches.iter().any(|launch| match &launch.fleet {
                Fleet::Launched { machines, .. } => {
                    machines.contains(&machine.number)
                        && launch.record.as_ref().is_some_and(|own| own.state == LaunchState::Open)
                }
                _ => false,
            })
            || state.workers.iter().any(|worker| match worker {
                Worker::ScaleUp(scale_up) => scale_up.knows(&id),
                _ => false,
            })
    };
    state.machines = machines.into_iter().filter(keep_machine).collect();
    state.rows.sort_by(|a, b| a.name.cmp(&b.name));
    state.launches.sort_by(|a, b| a.id.cmp(&b.id));
    state.machines.sort_by_key(|machine| machine.number);
}

fn names_runner(job: &super::state::JobSide, name: &str) -> bool {
    // Only an event that is not folded yet can ask for the row again.
    job.queue != 0 && job.runner.as_ref().is_some_and(|runner| runner.starts_with(name))
}
