//! The launch pass, as far as it is arithmetic: who serves whom, what to ask of EC2, and (in
//! `apply`) what its answer means.

mod apply;
mod idle;
mod request;

use std::collections::{BTreeSet, VecDeque};

pub use self::apply::{Answered, LaunchOutcome, apply};
pub use self::idle::canary;
use self::request::planned_launch;
use crate::ec2::classify::is_of_duplicate_pools;
use crate::ec2::{ErrorClass, Market};
use crate::ids::Entity;
use crate::instance::{Instance, RunnerState, State};
use crate::job::Job;
use crate::job::claim::{self, can_serve};
use crate::launch::Launch;
use crate::launch::cooldown::{Cooldowns, LaunchOptions, first_market};
use crate::launch::verdict::{Block, Conditions, Wanted, entity_of, verdict};
use crate::pool::Pool;
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
    /// All that may stand in the way.
    pub conditions: Conditions,
    /// Jobs without a claim, in any order.
    pub demand: Vec<Stored<Job>>,
    /// Instances without a claim that could still take a job, also such as are marked as idle.
    pub supply: Vec<Stored<Instance>>,
    /// Slots whose next attempt is due.
    pub retries: Vec<Stored<Instance>>,
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
        let most = if self.conditions.headroom.limits_entities() {
            MAX_SLOTS_COUNTED
        } else if self.conditions.headroom.limits_stack() {
            MAX_SLOTS_OF_STACK
        } else {
            MAX_SLOTS
        };
        // That a machine finds out stands in one record more.
        most - usize::from(self.conditions.are_troubled())
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

    /// The entities of all its machines.
    #[must_use]
    pub fn entities(&self) -> BTreeSet<&Entity> {
        let again = self.again.iter().map(Change::next);
        self.instances().chain(again).map(|instance| &instance.entity).collect()
    }
}

/// A job for which this pool does nothing now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The job.
    pub job: Stored<Job>,
    /// The slot that claims it, if it has one already: EC2 refused the launch, and refuses the next
    /// one.
    pub slot: Option<Stored<Instance>>,
    /// Why.
    pub block: Block,
}

/// A slot that waits, with nothing that its pool may ask of EC2 for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSlot {
    /// The slot.
    pub slot: Stored<Instance>,
    /// Why.
    pub block: Block,
}

/// What a launch pass does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs given to instances that are there already.
    pub claims: Vec<(Change<Job>, Change<Instance>)>,
    /// New fleet requests.
    pub launches: Vec<PlannedLaunch>,
    /// Slots that are not tried again now, due when they are.
    pub put_off: Vec<Change<Instance>>,
    /// Slots for which nothing can be launched now: their jobs may find a machine elsewhere.
    pub stuck: Vec<BlockedSlot>,
    /// Jobs for which nothing can be launched now.
    pub left: Vec<Unplaced>,
    /// Why no more of the min idle is launched, where some of it is missing.
    pub idle_block: Option<Block>,
}

impl Plan {
    /// Whether there is more to write than launches.
    #[must_use]
    pub const fn writes_beside_launches(&self) -> bool {
        !self.claims.is_empty() || !self.put_off.is_empty()
    }

    /// What stands in the way of jobs, slots and the min idle.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        let jobs = self.left.iter().map(|left| &left.block);
        jobs.chain(self.stuck.iter().map(|slot| &slot.block)).chain(&self.idle_block)
    }
}

/// Plans: free runners first, then machines up to the maximum, the oldest job first, then what is
/// missing of the min idle.
#[must_use]
pub fn plan(mut view: View<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut demand = std::mem::take(&mut view.demand);
    demand.sort_by_key(|job| (job.queued_at(), job.key()));
    // A job that a runner has taken is no other's.
    let (taken, demand): (Vec<Stored<Job>>, Vec<Stored<Job>>) =
        demand.into_iter().partition(|job| view.conditions.taken_until(job.key()).is_some());
    let mut demand = VecDeque::from(demand);
    // Those nearest to taking a job first.
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

    let mut asked: Vec<Asked> = Vec::new();
    // Slots to try again come before new ones.
    for slot in std::mem::take(&mut view.retries) {
        let wanted = Wanted::Slot(&slot);
        match verdict(view.pool, wanted, &view.conditions, view.now) {
            Ok(offer) => {
                view.conditions.take(wanted, &slot.entity);
                of_market(&mut asked, offer).again.push_back(slot);
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
                of_market(&mut asked, offer).fresh.push_back(job);
            }
            (Ok(_), None) => {}
            (Err(block), _) => plan.left.push(Unplaced { job, slot: None, block }),
        }
    }
    launches(&view, asked, &mut plan);
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

/// What is asked for on one market.
struct Asked {
    offer: LaunchOptions,
    again: VecDeque<Stored<Instance>>,
    fresh: VecDeque<Stored<Job>>,
}

/// One launch for each market, since that is a parameter of the request, cut to size.
fn launches(view: &View<'_>, mut asked: Vec<Asked>, plan: &mut Plan) {
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
pub(crate) fn next_market(pool: &Pool, slot: &Instance) -> Market {
    let waits_for_quota = slot.attempts > 1 && slot.refused == Some(ErrorClass::Quota);
    let falls_back = slot.refused.is_some_and(|class| pool.falls_back_after(class));
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

/// The slot, due when it is tried again; none when that is on record, or the pool is woken for it.
/// Not always as late as the refusal says: somebody may have mended it.
fn put_off(slot: &Stored<Instance>, block: &Block, view: &View<'_>) -> Option<Change<Instance>> {
    let until = block.until?.min(view.now + view.timings.retry_cap_seconds);
    let mut next = slot.record().clone();
    next.set_due(until);
    slot.changed(next)
}

#[cfg(test)]
pub(crate) mod tests;
