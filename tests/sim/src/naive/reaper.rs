//! Peers' ways of ending machines.

use std::collections::BTreeSet;

use muster_control::ports::{Compute, Github, Instances, Queue, QueueError, Registrar};
use muster_domain::ids::{MachineId, RunnerId};
use muster_domain::instance::{Instance, State};
use muster_domain::job::JobStatus;
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::observation::{Deregistration, Machine, RunnerSeen};
use muster_domain::provider::ProviderError;
use muster_domain::time::Seconds;
use serde_json::Value;

use crate::agenda::{MINUTE, Millis};
use crate::door::Door;
use crate::invocations::sweep;
use crate::queue::{Body, Received};

/// Younger machines are left alone.
const MIN_AGE: Millis = 5 * MINUTE;
/// A machine without a registration is given this long to boot.
const BOOT_TIME: Millis = 10 * MINUTE;

/// The incumbent's scale-down: it knows machines and GitHub's answers, and nothing else.
pub(super) async fn scale_down(door: &Door) {
    let rows: Vec<Instance> = {
        let world = door.sim.world.borrow();
        let mut rows: Vec<Instance> = world.tables.live_rows().cloned().collect();
        rows.sort_by_key(|row| (row.entity.clone(), row.created_at));
        rows
    };
    for row in rows {
        // An error for one owner ends the loop for all (R5).
        if scale_down_one(door, &row).await.is_err() {
            return;
        }
    }
}

async fn scale_down_one(door: &Door, row: &Instance) -> Result<(), ProviderError> {
    let Some(machine) = row.machine() else { return Ok(()) };
    let age = door.now().as_millis() - row.created_at.as_millis();
    if age < MIN_AGE {
        return Ok(());
    }
    match door.runner_named(&registrar(row), &row.runner_name()).await? {
        // Busy and offline is busy (R7).
        RunnerSeen::Busy(_) => {}
        // One look is proof, and so is the 204 (#5085, #5228).
        RunnerSeen::NotBusy(id) | RunnerSeen::Offline(id) => end(door, row, id).await?,
        // Not in the list: an orphan (#4391).
        RunnerSeen::Absent if age >= BOOT_TIME => {
            one(door, machine).await;
        }
        RunnerSeen::Absent => {}
    }
    Ok(())
}

/// DELETE, and then at once terminate.
async fn end(door: &Door, row: &Instance, runner: RunnerId) -> Result<(), ProviderError> {
    let answer = door.deregister(&registrar(row), runner).await?;
    if let (Deregistration::Done, Some(machine)) = (answer, row.machine()) {
        one(door, machine).await;
    }
    Ok(())
}

/// One machine a call, and whatever is answered.
async fn one(door: &Door, machine: &MachineId) {
    let _ = door.terminate(&BTreeSet::from([machine.clone()])).await;
}

fn registrar(row: &Instance) -> Registrar {
    Registrar { entity: row.entity.clone(), installation: row.installation }
}

/// A job has ended, says GitHub: its runner ends, whatever it does.
pub(super) async fn end_completed(door: &Door, batch: &[Received]) {
    for received in batch {
        let Body::Jobs(JobsMessage::JobEvent { event, .. }) = &*received.body else { continue };
        let row = match event.runner.as_deref().and_then(muster_domain::ids::instance_of_runner) {
            Some(name) if event.status == JobStatus::Completed => door.instance(&name).await,
            _ => continue,
        };
        let Ok(Some(row)) = row else { continue };
        // Its machine may be gone by now, and mostly is.
        let lives = match row.machine() {
            Some(machine) => {
                let seen = door.machine(machine).await;
                seen.is_ok_and(|seen| seen.state == Machine::Running)
            }
            None => false,
        };
        if let (true, Some(machine)) = (lives, row.machine()) {
            one(door, machine).await;
        }
    }
}

/// The sweep, without its look for rows whose time has come.
pub(super) async fn sweep_without_rows(door: &Door) {
    sweep(door, &WithoutRows(door)).await;
}

struct WithoutRows<'a>(&'a Door);

impl Queue for WithoutRows<'_> {
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError> {
        self.0.send_jobs(messages).await
    }

    async fn send_wakes(&self, wakes: &[WakePool], delay: Seconds) -> Result<(), QueueError> {
        self.0.send_wakes(wakes, delay).await
    }

    async fn send_reap(&self, _: &[ReapMessage]) -> Result<(), QueueError> {
        Ok(())
    }

    async fn hide(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.0.hide(receipt, wait).await
    }

    async fn hide_job(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.0.hide_job(receipt, wait).await
    }

    async fn hide_wake(&self, receipt: &str, wait: Seconds) -> Result<(), QueueError> {
        self.0.hide_wake(receipt, wait).await
    }
}

/// GARM's list of states in which an operator may delete: the machine being made is not in it.
pub(super) fn refuses_order(door: &Door, number: u32) -> bool {
    let mut world = door.sim.world.borrow_mut();
    let name = world.requests.get(number as usize).and_then(Option::as_ref).and_then(|request| {
        request.get("name").and_then(Value::as_str).and_then(|name| name.parse().ok())
    });
    let state = name.and_then(|name| world.tables.instances.get(&name)).map(|row| row.state());
    let refused = matches!(state, Some(State::Creating | State::PendingCreate | State::Deleting));
    if refused {
        world.narrate(|| "the operator is answered: not in this state".to_owned());
    }
    refused
}
