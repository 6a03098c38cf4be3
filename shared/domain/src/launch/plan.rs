//! The launch pass, as far as it is arithmetic: who serves whom, what to ask of EC2, and (in
//! `apply`) what its answer means.

mod apply;
mod idle;
mod request;
mod room;

use std::collections::{BTreeMap, VecDeque};

pub use self::apply::{Answered, LaunchOutcome, apply};
use self::request::planned_launch;
use self::room::{PoolHeadroom, launched_for};
use crate::ec2::classify::is_of_duplicate_pools;
use crate::ec2::{ErrorClass, Market};
use crate::entity::Allowance;
use crate::ids::Entity;
use crate::instance::{Instance, RunnerState, State};
use crate::job::claim::{self, can_serve};
use crate::job::{Hold, Job};
use crate::launch::Launch;
use crate::launch::cooldown::{Cooldowns, LaunchBlock, LaunchOptions, first_market};
use crate::pool::Pool;
use crate::pool::limits::Headroom;
use crate::stored::{Change, Stored};
use crate::time::Time;
use crate::timings::Timings;

/// Most slots of one launch: its commit writes two records a slot besides the launch and the
/// counter of its pool, and DynamoDB takes 100 writes in a transaction.
pub const MAX_SLOTS: usize = 49;
/// Most jobs that go with a full launch rather than with one of their own. For each of them two
/// slots come without their claims, which a commit of their own makes up for: fifty-four slots are
/// forty-four with and ten without.
pub const MAX_BEYOND: usize = 5;
/// The same where the stack has a limit, whose counter is one more.
pub const MAX_SLOTS_OF_STACK: usize = 48;
/// The same where entities have limits: each slot may come with the counter of an entity of its
/// own.
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
    pub room: Headroom,
    /// Where the pool's last machines served nothing: how many may be launched now, and why no
    /// more.
    pub trouble: Option<(u32, LaunchBlock)>,
    /// Why no machine is launched now, whatever the demand: an operator's switch, or the
    /// configuration.
    pub held: Option<String>,
    /// Jobs without a claim whose time has come, in any order.
    pub demand: Vec<Stored<Job>>,
    /// Instances without a claim that could still take a job, also such as are marked as idle.
    pub supply: Vec<Stored<Instance>>,
    /// Slots whose next attempt is due.
    pub retries: Vec<Stored<Instance>>,
    /// What EC2 refused lately.
    pub cooldowns: &'a Cooldowns,
    /// Where GitHub is in the way: how many machines may be launched for an entity.
    pub allowances: BTreeMap<Entity, Allowance>,
    /// Makes launch ids of this pass differ from those of any other.
    pub seed: u64,
    /// The time.
    pub now: Time,
    /// All durations.
    pub timings: &'a Timings,
}

impl View<'_> {
    /// Most slots of one launch here.
    #[must_use]
    pub fn most_slots(&self) -> usize {
        if self.room.limits_entities() {
            MAX_SLOTS_COUNTED
        } else if self.room.limits_stack() {
            MAX_SLOTS_OF_STACK
        } else {
            MAX_SLOTS
        }
    }
}

/// A launch with everything that is committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLaunch {
    /// The record.
    pub launch: Launch,
    /// New instances, each with the job it claims.
    pub fresh: Vec<(Instance, Change<Job>)>,
    /// New instances without their claims, each with its job: one commit does not hold them all,
    /// the next one claims.
    pub beyond: Vec<(Instance, Stored<Job>)>,
    /// New instances that no job needs yet.
    pub idle: Vec<Instance>,
    /// Instances that get another attempt.
    pub again: Vec<Change<Instance>>,
}

impl PlannedLaunch {
    /// The instances that come with it.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        let fresh = self.fresh.iter().map(|(instance, _)| instance);
        let beyond = self.beyond.iter().map(|(instance, _)| instance);
        fresh.chain(beyond).chain(&self.idle)
    }
}

/// A job for which this pool does nothing now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The job.
    pub job: Stored<Job>,
    /// The slot that claims it, if it has one already: EC2 refused the launch, and refuses the next
    /// one.
    pub slot: Option<Stored<Instance>>,
    /// What stands in the way, in a sentence without its end.
    pub why: String,
    /// The pool launches machines, and this one is not among those that it has room for now.
    pub waits_for_room: bool,
}

/// A slot that waits, with nothing that its pool could ask of EC2 for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSlot {
    /// The slot.
    pub slot: Stored<Instance>,
    /// What stands in the way, in a sentence without its end.
    pub why: String,
}

/// What a launch pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs given to instances that are there already.
    pub claims: Vec<(Change<Job>, Change<Instance>)>,
    /// New fleet requests.
    pub launches: Vec<PlannedLaunch>,
    /// Jobs for which nothing can be launched now, with the reason.
    pub held: Vec<Change<Job>>,
    /// Slots that are not tried again now, due when they are.
    pub put_off: Vec<Change<Instance>>,
    /// The same, and those that are due as they were: their jobs may find a machine elsewhere.
    pub stuck: Vec<BlockedSlot>,
    /// How many jobs wait because the pool, or what it counts against, is at its maximum.
    pub over_maximum: usize,
    /// Some of them for the maximum of their entity alone: a younger job of another one has room.
    pub entity_full: bool,
    /// Jobs that another pool may serve: this one has no room for them, or launches nothing.
    pub left: Vec<Unplaced>,
}

impl Plan {
    /// Whether there is more to write than launches.
    #[must_use]
    pub const fn writes_beside_launches(&self) -> bool {
        !self.claims.is_empty() || !self.held.is_empty() || !self.put_off.is_empty()
    }
}

/// Plans: free runners first, then machines up to the maximum, the oldest job first, then what is
/// missing of the min idle.
#[must_use]
pub fn plan(mut view: View<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut demand = std::mem::take(&mut view.demand);
    demand.sort_by_key(|job| (job.queued_at(), job.key()));
    let mut demand = VecDeque::from(demand);
    // Those nearest to taking a job first.
    view.supply.sort_by(|a, b| {
        let rank = |one: &Instance| (nearness(one), one.drain().is_some(), one.created_at);
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

    let mut room = PoolHeadroom {
        left: view.pool.max.saturating_sub(view.live),
        limits: view.room.clone(),
        allowances: view.allowances.clone(),
        trouble: view.trouble.clone(),
    };
    if view.held.is_none() {
        view.retries = retried(&view, &mut room, &mut plan);
    }
    let demand = launched_for(&view, demand, &mut room, &mut plan);
    match &view.held {
        None => {
            launches(&view, demand, &mut plan);
            idle::top_up(&view, &mut room, &mut plan);
        }
        Some(why) => {
            let stuck =
                |slot: &Stored<Instance>| BlockedSlot { slot: slot.clone(), why: why.clone() };
            plan.stuck.extend(view.retries.iter().map(stuck));
        }
    }
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

/// The slots to try again that GitHub is not in the way of. They come before new ones.
fn retried(view: &View<'_>, room: &mut PoolHeadroom, plan: &mut Plan) -> Vec<Stored<Instance>> {
    let mut goes_on = |slot: &&Stored<Instance>| {
        if let Some((most, block)) = &mut room.trouble {
            if *most == 0 {
                plan.put_off.extend(put_off(slot, block, view));
                plan.stuck.push(BlockedSlot { slot: (*slot).clone(), why: block.reason.clone() });
                return false;
            }
            // What EC2 refuses uses nothing up.
            let offer = view.cooldowns.offer(view.pool, next_market(view.pool, slot), view.now);
            *most -= u32::from(offer.is_ok());
        }
        let allowance = room.allowances.get_mut(&slot.entity).filter(|one| one.holds_slots);
        let Some(allowance) = allowance else { return true };
        if allowance.most == 0 {
            plan.put_off.extend(put_off(slot, &allowance.held, view));
            if allowance.elsewhere {
                let why = allowance.held.reason.clone();
                plan.stuck.push(BlockedSlot { slot: (*slot).clone(), why });
            }
            return false;
        }
        // What EC2 refuses uses nothing up.
        let offer = view.cooldowns.offer(view.pool, next_market(view.pool, slot), view.now);
        allowance.most -= u32::from(offer.is_ok());
        true
    };
    view.retries.iter().filter(|slot| goes_on(slot)).cloned().collect()
}

/// What is asked for on one market.
struct Asked {
    offer: LaunchOptions,
    again: VecDeque<Stored<Instance>>,
    fresh: VecDeque<Stored<Job>>,
}

/// Groups slots by market, since that is a parameter of the request, and cuts the groups to size.
/// What cannot be asked for waits, with the reason on record.
fn launches(view: &View<'_>, demand: Vec<Stored<Job>>, plan: &mut Plan) {
    let mut asked: Vec<Asked> = Vec::new();
    for slot in &view.retries {
        match view.cooldowns.offer(view.pool, next_market(view.pool, slot), view.now) {
            Ok(offer) => of_market(&mut asked, offer).again.push_back(slot.clone()),
            Err(held) => {
                plan.put_off.extend(put_off(slot, &held, view));
                plan.stuck.push(BlockedSlot { slot: slot.clone(), why: held.reason });
            }
        }
    }
    match view.cooldowns.offer(view.pool, first_market(view.pool.market), view.now) {
        Ok(offer) => of_market(&mut asked, offer).fresh.extend(demand),
        Err(held) => {
            for job in demand {
                plan.held.push(hold(&job, &held, view));
                let why = held.reason.clone();
                plan.left.push(Unplaced { job, slot: None, why, waits_for_room: false });
            }
        }
    }
    asked.sort_by_key(|one| one.offer.market);
    for Asked { offer, mut again, mut fresh } in asked {
        while !again.is_empty() || !fresh.is_empty() {
            let most = view.most_slots();
            let again: Vec<Stored<Instance>> = again.drain(..again.len().min(most)).collect();
            // A few jobs more than fit would cost a call of EC2 of their own.
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

fn of_market(asked: &mut Vec<Asked>, offer: LaunchOptions) -> &mut Asked {
    let index = asked.iter().position(|one| one.offer.market == offer.market);
    let index = index.unwrap_or_else(|| {
        asked.push(Asked { offer, again: VecDeque::new(), fresh: VecDeque::new() });
        asked.len() - 1
    });
    &mut asked[index]
}

/// Where the next attempt of a slot begins. A slot waits for a quota without end, and the second
/// refusal may have been that of on-demand's: then spot is asked again, and while it is closed, the
/// offer falls back by itself.
fn next_market(pool: &Pool, slot: &Instance) -> Market {
    let code = slot.last_error.as_ref().map_or("", |fault| fault.code.as_str());
    let waits_for_quota = slot.attempts > 1 && slot.refused == Some(ErrorClass::Quota);
    let falls_back = slot.refused.is_some_and(|class| pool.falls_back_after(class, code));
    if slot.attempts > 0 && !waits_for_quota && falls_back {
        return Market::OnDemand;
    }
    first_market(pool.market)
}

/// Whether a slot that waits for its next attempt is to be launched now: its wait is over, or it is
/// the rest of a spot launch, which on-demand takes over at once.
#[must_use]
pub fn is_launch_due(
    pool: &Pool,
    slot: &Instance,
    cooldowns: &Cooldowns,
    now: Time,
    timings: &Timings,
) -> bool {
    // A quota's wait is its own, and may be over before its time: a machine of ours has ended.
    let is_open_again = slot.state() == State::PendingCreate
        && slot.refused == Some(ErrorClass::Quota)
        && cooldowns.offer(pool, next_market(pool, slot), now).is_ok();
    slot.is_retry_due(now, timings) || is_asked_at_once(pool, slot) || is_open_again
}

/// Whether a machine may be launched for a job of the demand: it is not held back, or what held it
/// back is over.
#[must_use]
pub fn is_job_due(job: &Job, cooldowns: &Cooldowns, now: Time) -> bool {
    let closed = job.hold.as_ref().and_then(|hold| hold.closed.as_ref());
    let is_open_again = closed.is_some_and(|closed| cooldowns.covering(closed, now).is_none());
    job.is_due(now) || (job.is_demand() && is_open_again)
}

/// A slot that EC2 has just refused, if the pool offers nothing else for it.
#[must_use]
pub fn stuck(
    pool: &Pool,
    slot: &Stored<Instance>,
    cooldowns: &Cooldowns,
    now: Time,
) -> Option<BlockedSlot> {
    let held = cooldowns.offer(pool, next_market(pool, slot), now).err()?;
    Some(BlockedSlot { slot: slot.clone(), why: held.reason })
}

/// Whether a slot is the rest of a spot launch.
#[must_use]
pub fn falls_back_at_once(pool: &Pool, slot: &Instance) -> bool {
    slot.state() == State::PendingCreate
        && slot.attempts == 1
        && slot.refused.is_some()
        && first_market(pool.market) != next_market(pool, slot)
}

/// Whether a slot is asked for again in the same pass: it is the rest of a spot launch, or was
/// refused for two subnets of one zone, which the next request does not have.
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

/// When to look again. Not always as late as the refusal says: somebody may have mended it, and
/// then another launch finds out.
fn look_again(held: &LaunchBlock, view: &View<'_>) -> Time {
    held.until.min(view.now + view.timings.retry_cap_seconds)
}

fn hold(job: &Stored<Job>, held: &LaunchBlock, view: &View<'_>) -> Change<Job> {
    let failures = job.hold.as_ref().map_or(0, |hold| hold.failures);
    let LaunchBlock { reason, closed, .. } = held.clone();
    let hold = Hold { until: look_again(held, view), reason, failures, closed };
    job.change(Job { hold: Some(hold), ..job.record().clone() })
}

/// The slot, due when it is tried again; none when that is on record.
fn put_off(
    slot: &Stored<Instance>,
    held: &LaunchBlock,
    view: &View<'_>,
) -> Option<Change<Instance>> {
    let mut next = slot.record().clone();
    next.set_due(look_again(held, view));
    slot.changed(next)
}

#[cfg(test)]
pub(crate) mod tests;
