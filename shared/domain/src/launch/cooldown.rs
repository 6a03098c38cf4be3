//! What EC2 refused lately. One small record that all launch passes share, so that concurrent
//! Lambdas do not hammer on what one of them has just found closed. What made machines for nothing
//! stands beside it (`launch/trouble.rs`),
//! and what GitHub takes of agents (`agent/record.rs`).
//!
//! A refusal is advice: a pass that does not know of it costs a call that EC2 refuses, and nothing
//! else. So nothing waits for it to be written.

mod bucket;
mod closes;
mod said;
mod unknown;
mod zones;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::said::subject_of_places;

use self::closes::closed_by;
use crate::SCHEMA;
use crate::agent::Agents;
use crate::backoff;
use crate::ec2::{Bucket, CooldownScope, ErrorClass, Market, Override};
use crate::ids::{LaunchId, PoolName};
use crate::launch::foreign_runners::ForeignRunners;
use crate::launch::registrations::FailingRegistrations;
use crate::launch::trouble::Trouble;
use crate::launch::{Launch, LaunchAnswer, LaunchError};
use crate::pool::{MarketPolicy, Pool};
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Most refusals that the record keeps; those that end first make room. A record of DynamoDB holds
/// 400 KB.
const MAX_COOLDOWNS: usize = 300;
/// A wait grows to this many times its first length.
const GROWS_TO: u32 = 8;

/// A refusal, and until when nobody asks again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cooldown {
    /// What was refused.
    pub closed: CooldownScope,
    /// The first refusal of an unbroken row.
    pub since: Time,
    /// The last one.
    pub at: Time,
    /// The next attempt.
    pub until: Time,
    /// How many there were in a row.
    pub times: u32,
    /// The last one's class.
    pub class: ErrorClass,
    /// EC2's code.
    pub code: String,
    /// EC2's sentence.
    pub message: String,
}

impl Cooldown {
    /// Whether it is too early to ask again.
    #[must_use]
    pub fn is_on(&self, now: Time) -> bool {
        now < self.until && !self.is_too_few()
    }

    /// A refusal is in a row with the one before for as long as that one's wait was, once more
    /// after its end.
    fn is_forgotten(&self, now: Time) -> bool {
        now.is_past(self.until, self.until.since(self.at))
    }
}

/// Why nothing is launched, and when it is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchBlock {
    /// The next attempt.
    pub until: Time,
    /// A sentence without its full stop.
    pub reason: String,
}

impl LaunchBlock {
    fn by(cooldown: &Cooldown) -> Self {
        let Cooldown { code, message, times, .. } = cooldown;
        let often = if *times > 1 { format!(", {times} times in a row") } else { String::new() };
        let what = cooldown.subject();
        let reason = format!("{what} ({code}: {message}{often})");
        Self { until: cooldown.until, reason }
    }
}

/// What to ask EC2 for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The market.
    pub market: Market,
    /// Types and subnets that are not cooling down.
    pub places: Vec<Override>,
    /// Of one subnet alone: EC2 takes them in no request together.
    pub in_one_subnet: bool,
}

/// The record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cooldowns {
    /// Version of the record's form.
    pub schema: u16,
    /// At most one of each.
    pub list: Arc<[Cooldown]>,
    /// What makes machines for nothing, at most one entry of each scope.
    pub troubles: Arc<[Trouble]>,
    /// Subnets that EC2 did not take in one request, each entry in order: two of them are of one
    /// zone. That does not change, so nothing ends it.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub apart: Arc<[Arc<[Arc<str>]>]>,
    /// What GitHub lists and takes of agents.
    #[serde(default, skip_serializing_if = "Agents::is_empty")]
    pub agents: Agents,
    /// Entities whose registrations fail without a refusal.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub failing: Arc<[FailingRegistrations]>,
    /// Pools whose jobs run on runners of another fleet.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub foreign: Arc<[ForeignRunners]>,
}

impl Default for Cooldowns {
    /// Nothing was refused.
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            list: Arc::default(),
            troubles: Arc::default(),
            apart: Arc::default(),
            agents: Agents::default(),
            failing: Arc::default(),
            foreign: Arc::default(),
        }
    }
}

impl Cooldowns {
    /// Why this is not asked for now, if it is not.
    #[must_use]
    pub fn covering(&self, closed: &CooldownScope, now: Time) -> Option<&Cooldown> {
        self.list.iter().find(|one| one.closed == *closed && one.is_on(now))
    }

    /// Why a pool does not ask for a place now, if it does not.
    #[must_use]
    pub fn covering_place(
        &self,
        of: &PoolName,
        on: Market,
        at: &Override,
        now: Time,
    ) -> Option<&Cooldown> {
        self.list.iter().find(|one| match &one.closed {
            CooldownScope::Place { market, place, pool } => {
                *market == on
                    && place == at
                    && pool.as_ref().is_none_or(|pool| pool == of)
                    && one.is_on(now)
            }
            _ => false,
        })
    }

    /// Why a pool does not ask for a type now, if a quota that counts it is used up.
    #[must_use]
    pub fn covering_quota(
        &self,
        of: &PoolName,
        on: Market,
        at: &Override,
        now: Time,
    ) -> Option<&Cooldown> {
        let buckets =
            [Some(Bucket::Pool(of.clone())), Bucket::from_instance_type(&at.instance_type)];
        let mut quotas = buckets.into_iter().flatten();
        quotas.find_map(|bucket| self.covering(&CooldownScope::Quota { market: on, bucket }, now))
    }

    /// What nobody asks for now.
    #[must_use]
    pub fn on(&self, now: Time) -> Vec<Cooldown> {
        self.list.iter().filter(|one| one.is_on(now)).cloned().collect()
    }

    /// The pools that EC2 refuses, as a whole or in each of their places. Between two attempts as
    /// well: only a success ends it, or quiet.
    pub fn refused_pools<'a>(
        &'a self,
        pools: &'a [Pool],
        now: Time,
    ) -> impl Iterator<Item = &'a Pool> {
        pools.iter().filter(move |pool| self.is_refused(pool, now))
    }

    fn is_refused(&self, pool: &Pool, now: Time) -> bool {
        let whole = CooldownScope::Pool(pool.name.clone());
        let known: Vec<&Cooldown> = self.list.iter().filter(|one| !one.is_forgotten(now)).collect();
        let on = first_market(pool.market);
        let is_closed = |at: &Override| {
            known.iter().any(|one| {
                let is_here = matches!(&one.closed, CooldownScope::Place { market, place, pool: of }
                    if *market == on && place == at && of.as_ref() == Some(&pool.name));
                let goes_on = pool.falls_back_after(one.class);
                is_here && one.class.is_refusal() && !goes_on
            })
        };
        known.iter().any(|one| one.closed == whole) || pool.places().iter().all(is_closed)
    }

    /// What to ask for, beginning with a market.
    ///
    /// # Errors
    /// Why nothing at all.
    pub fn offer(
        &self,
        pool: &Pool,
        first: Market,
        now: Time,
    ) -> Result<LaunchOptions, LaunchBlock> {
        let whole = [CooldownScope::Calls, CooldownScope::Pool(pool.name.clone())];
        if let Some(cooldown) = whole.iter().find_map(|closed| self.covering(closed, now)) {
            return Err(LaunchBlock::by(cooldown));
        }
        let refusals = match self.on_market(pool, first, now) {
            Ok(offer) => return Ok(offer),
            Err(refusals) => refusals,
        };
        let falls_back = first == Market::Spot
            && refusals.iter().any(|one| {
                matches!(one.closed, CooldownScope::Unknown { .. })
                    || pool.falls_back_after(one.class)
            });
        let more = match falls_back.then(|| self.on_market(pool, Market::OnDemand, now)) {
            Some(Ok(offer)) => return Ok(offer),
            Some(Err(more)) => more,
            None => Vec::new(),
        };
        let soonest = refusals.into_iter().chain(more).min_by_key(|one| one.until);
        // There is one: a market without refusals has an offer.
        Err(soonest
            .map_or_else(|| LaunchBlock { until: now, reason: String::new() }, LaunchBlock::by))
    }

    /// The places of a market that are left, or why none is.
    fn on_market(
        &self,
        pool: &Pool,
        market: Market,
        now: Time,
    ) -> Result<LaunchOptions, Vec<&Cooldown>> {
        if let Some(unknown) = self.giving_way(pool, market, now) {
            return Err(vec![unknown]);
        }
        let mut refusals = Vec::new();
        let mut places = pool.places();
        places.retain(|place| {
            let quota = self.covering_quota(&pool.name, market, place, now);
            let cooldown = quota.or_else(|| self.covering_place(&pool.name, market, place, now));
            refusals.extend(cooldown);
            cooldown.is_none()
        });
        if places.is_empty() && !refusals.is_empty() {
            return Err(refusals);
        }
        let in_one_subnet = self.are_apart(&places);
        Ok(LaunchOptions { market, places, in_one_subnet })
    }

    /// The record after the end of a machine of this pool, if that changes it: the quotas that may
    /// have counted it have room again. Of which type it was, and on which market, nobody has
    /// written down; one that is opened in vain costs a call.
    #[must_use]
    pub fn after_end(&self, pool: &Pool) -> Option<Self> {
        let counts = |closed: &CooldownScope| match closed {
            CooldownScope::Quota { market, bucket } => pool.may_be_counted_in(*market, bucket),
            CooldownScope::Calls
            | CooldownScope::Pool(_)
            | CooldownScope::Place { .. }
            | CooldownScope::Unknown { .. } => false,
        };
        let list: Arc<[Cooldown]> =
            self.list.iter().filter(|one| !counts(&one.closed)).cloned().collect();
        (list.len() < self.list.len()).then_some(Self { list, ..self.clone() })
    }

    /// The record after something was learnt of agents, if that changes it.
    #[must_use]
    pub fn with_agents(&self, agents: Option<Agents>) -> Option<Self> {
        agents.map(|agents| Self { agents, ..self.clone() })
    }

    /// The record after EC2's answer to a launch, if that changes it.
    #[must_use]
    pub fn after(
        &self,
        launch: &Launch,
        answer: &Result<LaunchAnswer, LaunchError>,
        now: Time,
        timings: &Timings,
    ) -> Option<Self> {
        if let Some(subnets) = zones::refused_together(launch, answer) {
            return self.with_apart(subnets);
        }
        let remembered = self.list.iter().filter(|one| !one.is_forgotten(now));
        let mut list: Vec<Cooldown> = remembered.cloned().collect();
        let known = list.clone();
        // A replay's machines may be older than the refusal.
        if !launch.is_replay() && answer.as_ref().is_ok_and(|answer| !answer.machines.is_empty()) {
            list.retain(|one| !is_opened(launch, &one.closed));
        }
        for (closed, error) in closed_by(launch, answer) {
            close(&mut list, closed, error, &launch.id, now, timings);
        }
        (list != known).then(|| {
            list.sort_by_key(|one| std::cmp::Reverse(one.until));
            list.truncate(MAX_COOLDOWNS);
            Self { list: list.into(), ..self.clone() }
        })
    }
}

/// Whether machines of this launch show that something is open. EC2 does not say here which of the
/// types they are of; one that is opened too early costs a call.
fn is_opened(launch: &Launch, closed: &CooldownScope) -> bool {
    match closed {
        CooldownScope::Calls => true,
        CooldownScope::Pool(pool) => *pool == launch.pool,
        CooldownScope::Quota { market, bucket } => {
            let asks = |place: &Override| {
                Bucket::from_instance_type(&place.instance_type).as_ref() == Some(bucket)
            };
            let is_asked = *bucket == Bucket::Pool(launch.pool.clone())
                || launch.request.overrides.iter().any(asks);
            *market == launch.request.market && is_asked
        }
        // What became of the launch itself says more: see `after_outcome`.
        CooldownScope::Place { .. } | CooldownScope::Unknown { .. } => false,
    }
}

fn close(
    list: &mut Vec<Cooldown>,
    closed: CooldownScope,
    error: &LaunchError,
    id: &LaunchId,
    now: Time,
    timings: &Timings,
) {
    let before = list.iter().position(|one| one.closed == closed);
    let before = before.map(|index| list.swap_remove(index));
    // Answers to calls that were out together are one refusal.
    let times = match &before {
        Some(one) if one.is_on(now) => one.times,
        Some(one) => one.times.saturating_add(1),
        None => 1,
    };
    let until = now + wait(&closed, error.class, times, id, timings);
    list.push(Cooldown {
        closed,
        since: before.as_ref().map_or(now, |one| one.since),
        at: now,
        until: before.map_or(until, |one| one.until.max(until)),
        times,
        class: error.class,
        code: error.code.clone(),
        message: error.message.clone(),
    });
}

/// How long nobody asks: longer with each refusal in a row. Throttled passes come back at different
/// times.
fn wait(
    closed: &CooldownScope,
    class: ErrorClass,
    times: u32,
    id: &LaunchId,
    timings: &Timings,
) -> Seconds {
    let first = match closed {
        CooldownScope::Calls => timings.throttle_wait_seconds,
        CooldownScope::Quota { .. } => timings.quota_wait_seconds,
        CooldownScope::Pool(_) => timings.pool_pause_seconds,
        CooldownScope::Place { .. } if class.is_refusal() => timings.pool_pause_seconds,
        CooldownScope::Place { .. } => timings.place_wait_seconds,
        CooldownScope::Unknown { .. } => unknown::first_wait(timings),
    };
    let wait = backoff::grown(first, times, Seconds(first.0.saturating_mul(GROWS_TO)));
    match closed {
        CooldownScope::Calls => Seconds(wait.0 + id.scatter() % wait.0.max(1)),
        _ => wait,
    }
}

/// Where the launch of a pool begins.
#[must_use]
pub const fn first_market(policy: MarketPolicy) -> Market {
    match policy {
        MarketPolicy::Spot | MarketPolicy::SpotThenOnDemand => Market::Spot,
        MarketPolicy::OnDemand => Market::OnDemand,
    }
}

/// The answer as it counts while a pool's configuration is new: what it names may not be visible to
/// EC2 everywhere yet.
///
/// # Errors
/// EC2's own, softened.
pub fn while_settling(
    answer: Result<LaunchAnswer, LaunchError>,
) -> Result<LaunchAnswer, LaunchError> {
    let soften = |mut error: LaunchError| {
        if error.class.is_refusal() {
            error.class = ErrorClass::Consistency;
        }
        error
    };
    match answer {
        Ok(mut answer) => {
            answer.errors = answer.errors.into_iter().map(soften).collect();
            Ok(answer)
        }
        Err(error) => Err(soften(error)),
    }
}

#[cfg(test)]
mod tests;
