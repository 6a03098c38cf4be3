//! The pure part of the launch pass: which runner serves which job, what to request from EC2 and,
//! in `apply`, what its response means.

mod apply;
mod idle;
mod request;

use std::collections::{BTreeSet, VecDeque};

pub use self::apply::{Answered, apply};
pub use self::idle::canary;
use self::request::planned_launch;
use crate::claim::{self, can_serve};
use crate::ec2::ErrorClass;
use crate::ec2::classify::is_of_duplicate_pools;
use crate::ids::Entity;
use crate::image::ImageChoice;
use crate::instance::{Instance, RunnerState, State};
use crate::job::Job;
use crate::launch::Launch;
use crate::launch::record::Cooldowns;
use crate::launch::record::cooldown::{LaunchOptions, next_market, slot_market};
use crate::launch::verdict::{Block, Conditions, Wanted, entity_of, verdict};
use crate::pool::Pool;
use crate::pool::warm::Warm;
use crate::stored::{Change, Stored};
use crate::time::Time;
use crate::timings::Timings;

/// Maximum number of slots in a launch: its commit writes two records per slot plus the launch and
/// the pool's counter, and DynamoDB allows 100 writes in a transaction.
pub const MAX_SLOTS: usize = 49;
/// Maximum number of jobs beyond [`MAX_SLOTS`] that join a launch instead of getting a separate
/// one. For each of them, two slots are committed without their claims, which a second commit adds:
/// fifty-four slots are forty-four with and ten without claims.
pub const MAX_BEYOND: usize = 5;
/// [`MAX_SLOTS`] if the stack has a limit, whose counter is one more write.
pub const MAX_SLOTS_OF_STACK: usize = 48;
/// [`MAX_SLOTS`] if entities have limits: each slot may add the counter of a different entity.
pub const MAX_SLOTS_COUNTED: usize = 32;

/// The tag with the stack's name.
pub const STACK_TAG: &str = "muster:stack";
/// The tag with the launch's ID.
pub const LAUNCH_TAG: &str = "muster:launch";
/// The tag with the pool's name.
pub const POOL_TAG: &str = "muster:pool";

/// The input of a launch pass.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The stack's name, for its tag.
    pub stack: &'a str,
    /// The pool.
    pub pool: &'a Pool,
    /// All conditions that can prevent a launch.
    pub conditions: Conditions,
    /// Jobs without a claim, in any order.
    pub demand: Vec<Stored<Job>>,
    /// Instances without a claim that can still take a job, including those marked as idle.
    pub supply: Vec<Stored<Instance>>,
    /// Slots whose next attempt is due.
    pub retries: Vec<Stored<Instance>>,
    /// What recent events require of the pool (`warm_on`).
    pub warm: &'a [Warm],
    /// The image to launch machines with.
    pub images: ImageChoice,
    /// Makes launch IDs unique to this pass.
    pub seed: u64,
    /// The current time.
    pub now: Time,
    /// All durations.
    pub timings: &'a Timings,
}

impl View<'_> {
    /// Returns the maximum number of slots of a launch in this pass.
    #[must_use]
    pub fn most_slots(&self) -> usize {
        let most = if self.conditions.headroom.limits_entities() {
            MAX_SLOTS_COUNTED
        } else if self.conditions.headroom.limits_stack() {
            MAX_SLOTS_OF_STACK
        } else {
            MAX_SLOTS
        };
        // Recording a probe takes one more write.
        most - usize::from(self.conditions.are_troubled())
    }
}

/// A launch with everything that is committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLaunch {
    /// The record.
    pub launch: Launch,
    /// New instances, each with the job that it claims.
    pub fresh: Vec<(Instance, Change<Job>)>,
    /// New instances without their claims, each with its job: they do not fit in one commit, so the
    /// next commit adds the claims.
    pub beyond: Vec<(Instance, Stored<Job>)>,
    /// New instances that no job needs yet.
    pub idle: Vec<Instance>,
    /// Existing slots that get a new attempt.
    pub again: Vec<Change<Instance>>,
}

impl PlannedLaunch {
    /// Returns the new instances of the launch.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        let fresh = self.fresh.iter().map(|(instance, _)| instance);
        let beyond = self.beyond.iter().map(|(instance, _)| instance);
        fresh.chain(beyond).chain(&self.idle)
    }

    /// Returns the entities of all its machines.
    #[must_use]
    pub fn entities(&self) -> BTreeSet<&Entity> {
        let again = self.again.iter().map(Change::next);
        self.instances().chain(again).map(|instance| &instance.entity).collect()
    }
}

/// A job that this pool cannot serve now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The job.
    pub job: Stored<Job>,
    /// The slot that claims it, if any: EC2 refused its launch, and would refuse the next.
    pub slot: Option<Stored<Instance>>,
    /// The reason.
    pub block: Block,
}

/// A waiting slot for which the pool has no request to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSlot {
    /// The slot.
    pub slot: Stored<Instance>,
    /// The reason.
    pub block: Block,
}

/// The actions of a launch pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs assigned to existing instances.
    pub claims: Vec<(Change<Job>, Change<Instance>)>,
    /// New fleet requests.
    pub launches: Vec<PlannedLaunch>,
    /// Slots that are not retried now, with their next due time.
    pub put_off: Vec<Change<Instance>>,
    /// Slots that cannot be launched now: their jobs may find a machine in a different pool.
    pub stuck: Vec<BlockedSlot>,
    /// Jobs that cannot be served now.
    pub left: Vec<Unplaced>,
    /// Why no further idle runners are launched, if fewer are there than wanted.
    pub idle_block: Option<Block>,
    /// What the pool's events still require, without its idle launches. Empty if nothing is warm.
    pub warm: Vec<Warm>,
}

impl Plan {
    /// Returns whether it writes anything besides launches.
    #[must_use]
    pub const fn writes_beside_launches(&self) -> bool {
        !self.claims.is_empty() || !self.put_off.is_empty()
    }

    /// Returns the blocks of jobs, slots and idle runners.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let jobs = self.left.iter().map(|left| &left.block);
        jobs.chain(self.stuck.iter().map(|slot| &slot.block)).chain(&self.idle_block)
    }
}

/// Plans a launch pass: assigns free runners, then launches machines up to the maximum, oldest job
/// first, then the missing idle runners.
#[must_use]
pub fn plan(mut view: View<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut demand = std::mem::take(&mut view.demand);
    demand.sort_by_key(|job| (job.queued_at(), job.key()));
    // A job that a runner has already taken is not assigned again.
    let (taken, demand): (Vec<Stored<Job>>, Vec<Stored<Job>>) =
        demand.into_iter().partition(|job| view.conditions.taken_until(job.key()).is_some());
    let mut demand = VecDeque::from(demand);
    // Instances closest to taking a job first.
    view.supply.sort_by(|a, b| {
        let rank = |one: &Instance| (nearness(one), one.mark().is_some(), one.created_at);
        rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
    });
    for instance in &view.supply {
        let Some(index) = demand.iter().position(|job| can_serve(view.pool, instance, job)) else {
            continue;
        };
        if let Some(job) = demand.remove(index) {
            let (mut claims, mut claimed) = (job.record().clone(), instance.record().clone());
            claimed.keep_for_a_job(view.now);
            claim::assign(&mut claims, &mut claimed, view.now, view.timings);
            plan.claims.push((job.change(claims), instance.change(claimed)));
        }
    }

    let mut asked: Vec<MarketRequest> = Vec::new();
    // Slots to retry come before new ones.
    for slot in std::mem::take(&mut view.retries) {
        let wanted = Wanted::Slot(&slot);
        match verdict(view.pool, wanted, &view.conditions, view.now) {
            Ok(offer) => {
                view.conditions.take(wanted, &slot.entity);
                market_entry(&mut asked, offer).again.push_back(slot);
            }
            Err(block) => {
                plan.put_off.extend(put_off(&slot, &block, &view));
                plan.stuck.push(BlockedSlot { slot, block });
            }
        }
    }
    for job in taken.into_iter().chain(demand) {
        let wanted = Wanted::Job(&job);
        match (verdict(view.pool, wanted, &view.conditions, view.now), entity_of(view.pool, wanted))
        {
            (Ok(offer), Some(entity)) => {
                view.conditions.take(wanted, &entity);
                market_entry(&mut asked, offer).fresh.push_back(job);
            }
            (Ok(_), None) => {}
            (Err(block), _) => plan.left.push(Unplaced { job, slot: None, block }),
        }
    }
    launches(&mut view, asked, &mut plan);
    idle::top_up(&mut view, &mut plan);
    plan
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

/// What to request on one market.
struct MarketRequest {
    offer: LaunchOptions,
    again: VecDeque<Stored<Instance>>,
    fresh: VecDeque<Stored<Job>>,
}

/// Plans the launches: at least one per market, which is a parameter of the request, split at the
/// maximum size.
fn launches(view: &mut View<'_>, mut asked: Vec<MarketRequest>, plan: &mut Plan) {
    asked.sort_by_key(|one| one.offer.market);
    for MarketRequest { offer, mut again, mut fresh } in asked {
        while !again.is_empty() || !fresh.is_empty() {
            let most = view.images.most_slots(view.most_slots());
            let again: Vec<Stored<Instance>> = again.drain(..again.len().min(most)).collect();
            // Avoids a separate EC2 call for the few jobs that exceed the maximum.
            let goes_with = again.is_empty() && most == MAX_SLOTS;
            let all = goes_with && fresh.len() <= MAX_SLOTS + MAX_BEYOND;
            let count = if all { fresh.len() } else { fresh.len().min(most - again.len()) };
            let fresh: Vec<Stored<Job>> = fresh.drain(..count).collect();
            let number = plan.launches.len();
            if let Some(launch) = planned_launch(view, &offer, number, again, fresh) {
                plan.launches.push(launch);
            }
        }
    }
}

fn market_entry(asked: &mut Vec<MarketRequest>, offer: LaunchOptions) -> &mut MarketRequest {
    let index = asked.iter().position(|one| one.offer.market == offer.market);
    let index = index.unwrap_or_else(|| {
        asked.push(MarketRequest { offer, again: VecDeque::new(), fresh: VecDeque::new() });
        asked.len() - 1
    });
    &mut asked[index]
}

/// Returns whether to launch a waiting slot now: its wait is over, or it is the remainder of a Spot
/// launch, which On-Demand takes over immediately.
#[must_use]
pub fn is_launch_due(
    pool: &Pool,
    slot: &Instance,
    cooldowns: &Cooldowns,
    now: Time,
    timings: &Timings,
) -> bool {
    // A quota has its own wait, which may end early because one of our machines ended.
    let is_open_again = slot.state() == State::PendingCreate
        && slot.refused == Some(ErrorClass::Quota)
        && cooldowns.offer(pool, next_market(pool, slot), now).is_ok();
    slot.is_retry_due(now, timings) || is_asked_at_once(pool, slot) || is_open_again
}

/// Returns whether a slot is the remainder of a Spot launch.
#[must_use]
pub fn falls_back_at_once(pool: &Pool, slot: &Instance) -> bool {
    slot.state() == State::PendingCreate
        && slot.attempts == 1
        && slot.refused.is_some()
        && slot_market(pool, slot) != next_market(pool, slot)
}

/// Returns whether to retry a slot in this pass: it is the remainder of a Spot launch, or was
/// refused because of two subnets in one zone, which the next request avoids.
#[must_use]
pub fn is_asked_at_once(pool: &Pool, slot: &Instance) -> bool {
    let is_of_zones = slot.state() == State::PendingCreate
        && slot.attempts == 1
        && slot
            .last_error
            .as_ref()
            .is_some_and(|last| is_of_duplicate_pools(&last.code, &last.message));
    is_of_zones || falls_back_at_once(pool, slot)
}

/// Returns the slot with its next due time. `None` if that is already recorded, or if the pool will
/// be woken for it. The time is capped below the refusal's own: the cause may be fixed earlier.
fn put_off(slot: &Stored<Instance>, block: &Block, view: &View<'_>) -> Option<Change<Instance>> {
    let until = block.until?.min(view.now + view.timings.retry_cap_seconds);
    let mut next = slot.record().clone();
    next.set_due(until);
    slot.changed(next)
}

#[cfg(test)]
pub(crate) mod tests;
