//! Peers' ways of turning job events into machines.

use std::collections::BTreeMap;
use std::rc::Rc;

use muster_control::context::Context;
use muster_control::jobs::ingest::Ingest;
use muster_control::ports::{Compute, Github, Jobs, Launches, Registrar, Table, Write};
use muster_domain::claim;
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::image::ImageChoice;
use muster_domain::instance::{DeleteReason, Instance};
use muster_domain::job::{Job, JobEvent, JobStatus};
use muster_domain::launch::Launch;
use muster_domain::launch::plan::{self, Answered, PlannedLaunch, View};
use muster_domain::launch::record::Cooldowns;
use muster_domain::launch::verdict::Conditions;
use muster_domain::message::JobsMessage;
use muster_domain::pool::capacity::Capacity;
use muster_domain::pool::limits::Headroom;
use muster_domain::provider::ProviderError;
use muster_domain::stored::{Change, Stored};
use muster_domain::switches::Switches;

use crate::agenda::Which;
use crate::door::Door;
use crate::invocations::{Call, acknowledge};
use crate::queue::{Body, Received};

fn event_of(received: &Received) -> Option<&JobEvent> {
    match &*received.body {
        Body::Jobs(JobsMessage::JobEvent { event, .. }) => Some(event),
        _ => None,
    }
}

/// The incumbent's scale-up (R1, R2, R4): a `queued` message is a launch, seen before or not,
/// and when some launches fail, that many messages come again, counted from the batch's first.
pub(super) async fn launch_per_message(door: &Door, batch: &[Received]) {
    let settings = &door.sim.settings;
    let mut queued = Vec::new();
    for event in batch.iter().filter_map(event_of) {
        // The rows are there for everybody else; nobody reads demand from them.
        let _ = Ingest { context: Context::new(door, &(), &(), &(), settings) }
            .fold(event, door.now())
            .await;
        if event.status == JobStatus::Queued {
            queued.push(event.key);
        }
    }
    let mut failed = 0;
    for key in queued {
        if launch_one(door, key).await.is_none() {
            failed += 1;
        }
    }
    let done: Vec<&Received> = batch.iter().skip(failed).collect();
    acknowledge(door, Which::Jobs, &done).await;
}

/// One machine for one message; none when it failed, and why does not matter.
async fn launch_one(door: &Door, key: JobKey) -> Option<()> {
    let settings = &door.sim.settings;
    let read = Jobs::job(door, key).await.ok()??;
    // Whether it has a runner already, nobody asks.
    let job = Stored::read(Job { claim: None, ..read.record().clone() }, read.version());
    let pool = settings.pool(job.pool.as_ref()?)?;
    let stored = door.capacity(&pool.name).await.ok()?;
    let plan = plan::plan(View {
        warm: &[],
        stack: &settings.stack,
        pool,
        conditions: Conditions::new(
            Switches::default(),
            Cooldowns::default(),
            stored.as_ref().map_or(0, |capacity| capacity.live),
            Headroom::default(),
        ),
        demand: vec![job],
        supply: Vec::new(),
        retries: Vec::new(),
        images: ImageChoice::default(),
        seed: door.random(),
        now: door.now(),
        timings: &settings.timings,
    });
    // None: the pool is at its maximum.
    let planned = plan.launches.into_iter().next()?;
    let (slot, job) = planned.fresh.first().cloned()?;
    let committed = door.commit(&planned_writes(&pool.name, stored, &planned)).await.ok()?;
    let launch = Change::create(planned.launch).stored(&committed);
    let (slot, job) = (Change::create(slot).stored(&committed), job.stored(&committed));
    let answer = Compute::launch(door, &launch.id, &launch.request).await;
    let answered = Answered { at: door.now(), answer, found: BTreeMap::new() };
    let (now, timings) = (door.now(), &settings.timings);
    let outcome = plan::apply(&launch, vec![slot.clone()], &answered, |_| false, now, timings);
    let Some((machine, bound)) = outcome.bound.first() else {
        give_up(door, &launch, &slot, &job).await;
        return None;
    };
    let writes = [
        launch.change(launch.settled()).into(),
        Write::BindMachine { machine: machine.clone(), instance: slot.name.clone() },
        bound.clone().into(),
    ];
    door.commit(&writes).await.ok().map(drop)
}

fn planned_writes(
    pool: &PoolName,
    stored: Option<Stored<Capacity>>,
    planned: &PlannedLaunch,
) -> Vec<Write> {
    let empty = || Capacity::empty(pool.clone());
    let mut counter = stored.as_deref().map_or_else(empty, Capacity::clone);
    counter.live += 1;
    let mut writes = vec![
        Change::create(planned.launch.clone()).into(),
        Change::from_read(stored.as_ref(), counter).into(),
    ];
    for (instance, job) in &planned.fresh {
        writes.push(Change::create(instance.clone()).into());
        writes.push(job.clone().into());
    }
    writes
}

/// The failed slot is cleared away; the message is what would try again.
async fn give_up(door: &Door, launch: &Stored<Launch>, slot: &Stored<Instance>, job: &Stored<Job>) {
    let mut ended = slot.record().clone();
    ended.to_pending_delete(DeleteReason::LaunchFailed, door.now());
    let mut writes: Vec<Write> =
        vec![launch.change(launch.settled()).into(), slot.change(ended).into()];
    let released = claim::release(job, &slot.name);
    writes.extend(released.map(|released| Write::from(job.change(released))));
    let _ = door.commit(&writes).await;
}

/// The row says what the delivery says that was processed last (RunsOn #539).
pub(super) async fn write_as_delivered(door: &Door, batch: &[Received]) {
    for event in batch.iter().filter_map(event_of) {
        change_job(door, event.key, |job| job.last_event = event.clone()).await;
    }
}

/// Whether GitHub refuses the installation of anybody in the batch (R3): asked before a launch, as
/// the incumbent does.
pub(super) async fn is_refused(door: &Door, batch: &[Received]) -> bool {
    for event in batch.iter().filter_map(event_of) {
        let (owner, _) = event.repository.split_once('/').unwrap_or_default();
        let Ok(entity) = owner.parse() else { continue };
        let registrar = Registrar { entity, installation: event.installation };
        let asked = Github::job(door, &registrar, &event.repository, event.key.job).await;
        if matches!(asked, Err(ProviderError::Unauthorized(_))) {
            return true;
        }
    }
    false
}

/// A job whose launches have failed is left alone from then on (RunsOn #537, #543).
pub(super) async fn give_up_after_failures(door: &Door) {
    for pool in &door.sim.settings.pools {
        let waiting = door.waiting_jobs(&pool.name, 100).await.unwrap_or_default();
        for job in waiting.iter().filter(|job| door.sim.world.borrow().is_braked(job)) {
            change_job(door, job.key(), |job| job.expired = true).await;
        }
    }
}

/// What GitHub says of a job that a runner took changes the job's row and nobody's claim. Answers
/// with the rest of the batch, for our own function.
pub(super) async fn keep_claims(door: &Door, batch: &[Received]) -> Call {
    let (mut taken, mut rest) = (Vec::new(), Vec::new());
    for received in batch {
        match event_of(received) {
            Some(event) if event.status >= JobStatus::InProgress => {
                change_job(door, event.key, |job| {
                    *job = muster_domain::job::fold(Some(job.clone()), event.clone(), door.now());
                })
                .await;
                taken.push(received);
            }
            _ => rest.push(received.clone()),
        }
    }
    acknowledge(door, Which::Jobs, &taken).await;
    Call::ScaleUp(Rc::new(rest))
}

async fn change_job(door: &Door, key: JobKey, change: impl FnOnce(&mut Job)) {
    let Ok(Some(stored)) = Jobs::job(door, key).await else { return };
    let mut next = stored.record().clone();
    change(&mut next);
    if let Some(change) = stored.changed(next) {
        let _ = door.commit(&[change.into()]).await;
    }
}
