//! The launch pass, as far as it is arithmetic: who serves whom, what to ask of EC2, what its answer means.

use std::collections::VecDeque;

use crate::claim;
use crate::ids::{InstanceName, LaunchId, MachineId};
use crate::instance::{Instance, RunnerState, Slot, State};
use crate::job::Job;
use crate::launch::{
    ErrorClass, Launch, LaunchAnswer, LaunchError, LaunchRequest, Market, Override,
};
use crate::pool::{MarketPolicy, Pool};
use crate::time::Time;
use crate::timings::Timings;

/// Most slots of one launch: its commit writes two records a slot besides the launch and the
/// counter, and DynamoDB takes 100 writes in a transaction.
pub const MAX_SLOTS: usize = 48;

/// The tag that names the stack.
pub const STACK_TAG: &str = "muster:stack";
/// The tag that names the launch.
pub const LAUNCH_TAG: &str = "muster:launch";
/// The tag that names the pool.
pub const POOL_TAG: &str = "muster:pool";

/// What a launch pass knows.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The stack's name, for the tag.
    pub stack: &'a str,
    /// The pool.
    pub pool: &'a Pool,
    /// Live instances of the pool.
    pub live: u32,
    /// Jobs without a claim whose time has come, in any order.
    pub demand: Vec<Job>,
    /// Instances without a claim that could still take a job.
    pub supply: Vec<Instance>,
    /// Slots whose next attempt is due.
    pub retries: Vec<Instance>,
    /// Makes launch ids of this pass differ from those of any other.
    pub seed: u64,
    /// The time.
    pub now: Time,
    /// All durations.
    pub timings: &'a Timings,
}

/// A launch with everything that is committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLaunch {
    /// The record.
    pub launch: Launch,
    /// New instances, each with the job it claims.
    pub fresh: Vec<(Instance, Job)>,
    /// Instances that get another attempt.
    pub again: Vec<Instance>,
}

/// What a launch pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs given to instances that are there already.
    pub claims: Vec<(Job, Instance)>,
    /// New fleet requests.
    pub launches: Vec<PlannedLaunch>,
    /// How many jobs wait because the pool is at its maximum.
    pub over_maximum: usize,
}

/// Plans: free runners first, then machines up to the maximum.
#[must_use]
pub fn plan(view: View<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut demand = view.demand.clone();
    demand.sort_by_key(|job| (job.queued_at(), job.key()));
    let mut demand = VecDeque::from(demand);
    let mut supply = view.supply.clone();
    // Those nearest to taking a job first.
    supply.sort_by_key(|instance| (nearness(instance), instance.created_at, instance.name.clone()));
    for mut instance in supply {
        let Some(index) = demand.iter().position(|job| can_serve(view.pool, &instance, job)) else {
            continue;
        };
        if let Some(mut job) = demand.remove(index) {
            claim::assign(&mut job, &mut instance, view.now);
            plan.claims.push((job, instance));
        }
    }

    let room = view.pool.max.saturating_sub(view.live) as usize;
    plan.over_maximum = demand.len().saturating_sub(room);
    demand.truncate(room);
    launches(&view, demand.into(), &mut plan);
    plan
}

/// Whether a machine of this pool, registered where this instance is, could be given the job.
#[must_use]
pub fn can_serve(pool: &Pool, instance: &Instance, job: &Job) -> bool {
    instance.pool == pool.name
        && pool.serves(job).is_ok()
        && pool.entity_for(job).as_ref() == Some(&instance.entity)
}

fn nearness(instance: &Instance) -> u8 {
    match instance.runner.state {
        RunnerState::Idle => 0,
        RunnerState::Installing => 1,
        RunnerState::Pending
        | RunnerState::Active
        | RunnerState::Failed
        | RunnerState::Terminated => {
            if instance.machine().is_some() {
                2
            } else {
                3
            }
        }
    }
}

/// Groups slots by market, since that is a parameter of the request, and cuts the groups to size.
fn launches(view: &View<'_>, demand: Vec<Job>, plan: &mut Plan) {
    for market in [Market::Spot, Market::OnDemand] {
        let mut again: VecDeque<Instance> = view
            .retries
            .iter()
            .filter(|instance| market_of(view.pool.market, instance.attempts) == market)
            .cloned()
            .collect();
        let mut fresh: VecDeque<Job> = if market_of(view.pool.market, 0) == market {
            demand.clone().into()
        } else {
            VecDeque::new()
        };
        while !again.is_empty() || !fresh.is_empty() {
            let again: Vec<Instance> = again.drain(..again.len().min(MAX_SLOTS)).collect();
            let fresh: Vec<Job> = fresh.drain(..fresh.len().min(MAX_SLOTS - again.len())).collect();
            let number = plan.launches.len();
            if let Some(launch) = planned_launch(view, market, number, again, fresh) {
                plan.launches.push(launch);
            }
        }
    }
}

fn market_of(policy: MarketPolicy, attempts: u32) -> Market {
    match policy {
        MarketPolicy::Spot => Market::Spot,
        MarketPolicy::OnDemand => Market::OnDemand,
        MarketPolicy::SpotThenOnDemand if attempts == 0 => Market::Spot,
        MarketPolicy::SpotThenOnDemand => Market::OnDemand,
    }
}

fn planned_launch(
    view: &View<'_>,
    market: Market,
    number: usize,
    again: Vec<Instance>,
    fresh: Vec<Job>,
) -> Option<PlannedLaunch> {
    let pool = view.pool;
    let id: LaunchId =
        format!("{}-{:08x}-{number}", pool.name, view.seed & 0xffff_ffff).parse().ok()?;
    let again: Vec<Instance> = again
        .into_iter()
        .map(|mut instance| {
            instance.relaunch(id.clone(), view.now, view.timings);
            instance.launched_from(pool);
            instance
        })
        .collect();
    let fresh: Vec<(Instance, Job)> = fresh
        .into_iter()
        .enumerate()
        .filter_map(|(index, mut job)| {
            let slot = Slot {
                name: format!("{id}-{index}").parse().ok()?,
                pool: pool.name.clone(),
                entity: pool.entity_for(&job)?,
                installation: job.said.installation,
                launch: id.clone(),
                claim: Some(job.key()),
            };
            let mut instance = Instance::planned(slot, view.now, view.timings);
            instance.launched_from(pool);
            claim::set_job_claim(&mut job, Some(instance.name.clone()));
            Some((instance, job))
        })
        .collect();
    let slots: Vec<InstanceName> = again
        .iter()
        .chain(fresh.iter().map(|(instance, _)| instance))
        .map(|instance| instance.name.clone())
        .collect();
    if slots.is_empty() {
        return None;
    }
    let request = request(view.stack, pool, &id, market, u32::try_from(slots.len()).ok()?);
    let launch = Launch::open(id, pool.name.clone(), request, slots, view.now, view.timings);
    Some(PlannedLaunch { launch, fresh, again })
}

fn request(
    stack: &str,
    pool: &Pool,
    id: &LaunchId,
    market: Market,
    capacity: u32,
) -> LaunchRequest {
    let overrides = pool.instance_types.iter().flat_map(|instance_type| {
        pool.subnets
            .iter()
            .map(|subnet| Override { instance_type: instance_type.clone(), subnet: subnet.clone() })
    });
    let tags = [
        (STACK_TAG, stack),
        (LAUNCH_TAG, id.as_str()),
        (POOL_TAG, pool.name.as_str()),
        ("Name", id.as_str()),
    ];
    LaunchRequest {
        template_id: pool.launch_template_id.clone(),
        template_version: pool.launch_template_version.clone(),
        overrides: overrides.collect(),
        market,
        capacity,
        tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec(),
    }
}

/// What EC2's answer, or the look by tag, makes of a launch and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The launch, settled or still open.
    pub launch: Launch,
    /// Slots that got a machine.
    pub bound: Vec<(MachineId, Instance)>,
    /// Slots that certainly got none.
    pub failed: Vec<Instance>,
    /// Slots of a launch that stays open: due when it is to be looked for again.
    pub waiting: Vec<Instance>,
}

/// What is known after a call: EC2's answer, and for a replay what carries the launch's tag.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The answer to this call.
    pub answer: Result<LaunchAnswer, LaunchError>,
    /// Machines found by tag, where that was looked at.
    pub found: Vec<MachineId>,
}

/// Applies an answer to a launch. `slots` are its instances as they stand now; `owned` says which machines
/// have an owner already.
///
/// Only the first call's answer, or a definite one that a replay cannot get after a success, settles a
/// launch. After an ambiguous call neither an empty replay nor an empty look by tag proves anything
/// alone; the launch stays open until `launch_lookup` has passed, and what shows up later is an orphan.
#[must_use]
pub fn apply(
    launch: &Launch,
    slots: Vec<Instance>,
    answered: &Answered,
    owned: impl Fn(&MachineId) -> bool,
    now: Time,
    timings: &Timings,
) -> Outcome {
    let (answer_machines, errors) = match &answered.answer {
        Ok(answer) => (answer.machines.as_slice(), answer.errors.as_slice()),
        Err(error) => ([].as_slice(), std::slice::from_ref(error)),
    };
    let mut machines: Vec<MachineId> = answer_machines
        .iter()
        .chain(&answered.found)
        .filter(|machine| !owned(machine))
        .cloned()
        .collect();
    machines.sort();
    machines.dedup();

    let mut free: VecDeque<Instance> =
        slots.into_iter().filter(|slot| slot.is_free_slot_of(&launch.id)).collect();
    let mut bound = Vec::new();
    for machine in machines {
        let Some(mut slot) = free.pop_front() else {
            break;
        };
        slot.bind(machine.clone(), now, timings);
        bound.push((machine, slot));
    }

    let settled = free.is_empty()
        || is_definite(launch, &answered.answer, now, timings)
        || launch.is_given_up(now, timings);
    if !settled {
        let again_at = now + timings.launch_retry_seconds;
        let is_refused = matches!(&answered.answer, Err(error) if error.class.is_definite());
        let waiting = free
            .into_iter()
            .filter(|slot| slot.state() == State::Creating)
            .map(|mut slot| {
                slot.set_due(again_at);
                slot
            })
            .collect();
        return Outcome {
            launch: launch.released(again_at, is_refused),
            bound,
            failed: Vec::new(),
            waiting,
        };
    }
    let error = worst(errors);
    let failed = free
        .into_iter()
        .map(|mut slot| {
            slot.launch_failed(&error, now, timings);
            slot
        })
        .collect();
    Outcome { launch: launch.settled(), bound, failed, waiting: Vec::new() }
}

/// Whether the answer says for certain how many machines there are.
fn is_definite(
    launch: &Launch,
    answer: &Result<LaunchAnswer, LaunchError>,
    now: Time,
    timings: &Timings,
) -> bool {
    let first = launch.calls <= 1;
    match answer {
        // A replay that lists machines or errors repeats the first answer; one that lists nothing may
        // have left the machines out.
        Ok(answer) => first || !answer.machines.is_empty() || !answer.errors.is_empty(),
        Err(error) if first => error.class.is_definite(),
        // A replay refused for capacity shows that the token is unknown: the earlier call never happened,
        // unless it is still under way. Any other refusal (throttling, permissions) comes before EC2 looks at
        // the token.
        Err(error) => error.class == ErrorClass::Capacity && !launch.may_be_under_way(now, timings),
    }
}

/// The error that says most about what to do: the one that will not heal by itself first.
fn worst(errors: &[LaunchError]) -> LaunchError {
    errors.iter().max_by_key(|error| weight(error.class)).cloned().unwrap_or_else(|| LaunchError {
        class: ErrorClass::Ambiguous,
        code: "NoAnswer".to_owned(),
        message: "EC2 did not say whether it launched; nothing was found".to_owned(),
    })
}

const fn weight(class: ErrorClass) -> u8 {
    match class {
        ErrorClass::Authorization => 8,
        ErrorClass::Configuration => 7,
        ErrorClass::Quota => 6,
        ErrorClass::Blocked => 5,
        ErrorClass::Idempotency => 4,
        ErrorClass::Consistency => 3,
        ErrorClass::Capacity => 2,
        ErrorClass::Throttle => 1,
        ErrorClass::Ambiguous => 0,
    }
}

#[cfg(test)]
mod tests;
