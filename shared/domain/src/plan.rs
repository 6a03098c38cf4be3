//! The launch pass, as far as it is arithmetic: who serves whom, what to ask of EC2, what its answer means.

mod idle;

use std::collections::VecDeque;

use crate::claim;
use crate::ids::{Entity, InstanceName, LaunchId, MachineId};
use crate::instance::{Instance, RunnerState, Slot, State};
use crate::job::{Hold, Job};
use crate::launch::{
    ErrorClass, Launch, LaunchAnswer, LaunchError, LaunchRequest, Market, Override,
};
use crate::limits::{Full, Room};
use crate::pool::{MarketPolicy, Pool};
use crate::time::Time;
use crate::timings::Timings;

/// Most slots of one launch: its commit writes two records a slot besides the launch and the
/// counters of pool and stack, and DynamoDB takes 100 writes in a transaction.
pub const MAX_SLOTS: usize = 48;
/// The same where entities have limits: each slot may come with the counter of an entity of its own.
pub const MAX_SLOTS_COUNTED: usize = 32;

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
    /// What the limits of stack and entities leave.
    pub room: Room,
    /// Set after machines of the min idle brought no runner.
    pub idle_hold: Option<Hold>,
    /// Why no machine is launched now, whatever the demand: an operator's switch, or the pool file.
    pub held: Option<String>,
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

impl View<'_> {
    fn most_slots(&self) -> usize {
        if self.room.limits_entities() { MAX_SLOTS_COUNTED } else { MAX_SLOTS }
    }
}

/// A launch with everything that is committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLaunch {
    /// The record.
    pub launch: Launch,
    /// New instances, each with the job it claims.
    pub fresh: Vec<(Instance, Job)>,
    /// New instances that no job needs yet.
    pub idle: Vec<Instance>,
    /// Instances that get another attempt.
    pub again: Vec<Instance>,
}

/// A job for which this pool does nothing now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The job.
    pub job: Job,
    /// What stands in the way, in a sentence without its end.
    pub why: String,
}

/// What a launch pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs given to instances that are there already.
    pub claims: Vec<(Job, Instance)>,
    /// New fleet requests.
    pub launches: Vec<PlannedLaunch>,
    /// How many jobs wait because the pool, or what it counts against, is at its maximum.
    pub over_maximum: usize,
    /// Jobs that another pool may serve: this one has no room for them, or launches nothing.
    pub left: Vec<Left>,
}

/// Plans: free runners first, then machines up to the maximum, the oldest job first, then what is missing of the min
/// idle.
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

    let mut room =
        PoolRoom { left: view.pool.max.saturating_sub(view.live), limits: view.room.clone() };
    let demand = launched_for(&view, demand, &mut room, &mut plan);
    if view.held.is_none() {
        launches(&view, demand, &mut plan);
        idle::top_up(&view, &mut room, &mut plan);
    }
    plan
}

/// What pool and limits leave while a plan is made.
struct PoolRoom {
    left: u32,
    limits: Room,
}

impl PoolRoom {
    fn take(&mut self, entity: &Entity) -> Result<(), Full> {
        if self.left == 0 {
            return Err(Full::Pool);
        }
        self.limits.take(entity)?;
        self.left -= 1;
        Ok(())
    }
}

/// The jobs that a machine is launched for now. A job that is too young waits for a runner that comes free; one for
/// which there is no room is left over, and a younger one of another entity may pass it.
fn launched_for(
    view: &View<'_>,
    demand: VecDeque<Job>,
    room: &mut PoolRoom,
    plan: &mut Plan,
) -> Vec<Job> {
    let mut launched_for = Vec::new();
    for job in demand {
        let obstacle = match (view.pool.serves(&job), &view.held) {
            (Err(mismatch), _) => Some(mismatch.to_string()),
            (Ok(()), _) if !view.pool.is_old_enough(&job, view.now) => continue,
            (Ok(()), Some(held)) => Some(held.clone()),
            (Ok(()), None) => view.pool.entity_for(&job).and_then(|entity| {
                let full = room.take(&entity).err()?;
                plan.over_maximum += 1;
                Some(full.to_string())
            }),
        };
        match obstacle {
            Some(why) => plan.left.push(Left { job, why }),
            None => launched_for.push(job),
        }
    }
    launched_for
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
            let most = view.most_slots();
            let again: Vec<Instance> = again.drain(..again.len().min(most)).collect();
            let fresh: Vec<Job> = fresh.drain(..fresh.len().min(most - again.len())).collect();
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

fn launch_id(view: &View<'_>, number: usize) -> Option<LaunchId> {
    format!("{}-{:08x}-{number}", view.pool.name, view.seed & 0xffff_ffff).parse().ok()
}

fn planned_launch(
    view: &View<'_>,
    market: Market,
    number: usize,
    again: Vec<Instance>,
    fresh: Vec<Job>,
) -> Option<PlannedLaunch> {
    let pool = view.pool;
    let id = launch_id(view, number)?;
    let again: Vec<Instance> = again
        .into_iter()
        .map(|mut instance| {
            instance.relaunch(id.clone(), view.now, view.timings);
            instance.template_version = Some(pool.launch_template_version.clone());
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
            let instance = planned(view, slot);
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
    Some(PlannedLaunch { launch, fresh, idle: Vec::new(), again })
}

/// A new instance, counted wherever a limit asks for it.
fn planned(view: &View<'_>, slot: Slot) -> Instance {
    let mut instance = Instance::planned(slot, view.now, view.timings);
    instance.template_version = Some(view.pool.launch_template_version.clone());
    instance.counted_in = view.room.scopes_of(&instance.entity);
    instance
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
