//! Recent refusals by EC2.

mod bucket;
mod closes;
mod sentences;
mod unknown;
mod zones;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::sentences::{next_try, subject_of_places};

use self::closes::closed_by;
use super::Cooldowns;
use crate::backoff;
use crate::ec2::{Bucket, CooldownScope, ErrorClass, LaunchError, Market, Override};
use crate::ids::{LaunchId, PoolName};
use crate::instance::Instance;
use crate::launch::{Launch, LaunchAnswer};
use crate::pool::{MarketPolicy, Pool};
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Maximum number of refusals in the record; those that end first are dropped. DynamoDB limits an
/// item to 400 KB.
const MAX_COOLDOWNS: usize = 300;
/// Maximum growth of a wait, as a multiple of its first length.
const GROWS_TO: u32 = 8;

/// A refusal, and until when the request is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cooldown {
    /// The refused scope.
    pub closed: CooldownScope,
    /// The first refusal of an unbroken series.
    pub since: Time,
    /// The last refusal.
    pub at: Time,
    /// When the next attempt is due.
    pub until: Time,
    /// Number of consecutive refusals.
    pub times: u32,
    /// The class of the last refusal.
    pub class: ErrorClass,
    /// EC2's error code.
    pub code: String,
    /// EC2's error message.
    pub message: String,
}

impl Cooldown {
    /// Returns whether it is too early to repeat the request.
    #[must_use]
    pub fn is_on(&self, now: Time) -> bool {
        now < self.until && !self.is_too_few()
    }

    /// Returns whether a later refusal starts a new series. A series lasts as long past the end of
    /// its last wait as that wait was.
    fn is_forgotten(&self, now: Time) -> bool {
        now.is_past(self.until, self.until.since(self.at))
    }
}

/// Why a pool launches no machine, and when it tries again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchBlock {
    /// When the next attempt is due.
    pub until: Time,
    /// The reason, in a sentence without a full stop.
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

/// What to request from EC2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The market.
    pub market: Market,
    /// Types and subnets that are not in a cooldown.
    pub places: Vec<Override>,
    /// Whether to request a single subnet: EC2 rejects these subnets in one request.
    pub in_one_subnet: bool,
}

impl Cooldowns {
    /// Returns the refusal that currently prevents requests in this scope, if any.
    #[must_use]
    pub fn covering(&self, closed: &CooldownScope, now: Time) -> Option<&Cooldown> {
        self.list.iter().find(|one| one.closed == *closed && one.is_on(now))
    }

    /// Returns the refusal that currently prevents a pool from requesting a place, if any.
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

    /// Returns the exhausted quota that currently prevents a pool from requesting a type, if any.
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

    /// Returns all refusals in effect.
    #[must_use]
    pub fn on(&self, now: Time) -> Vec<Cooldown> {
        self.list.iter().filter(|one| one.is_on(now)).cloned().collect()
    }

    /// Returns the pools that EC2 refuses, either entirely or in each of their places. Includes the
    /// time between two attempts: only a success, or a long time without a refusal, ends it.
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
                let falls_back_here = pool.falls_back_after(one.class);
                is_here && one.class.is_refusal() && !falls_back_here
            })
        };
        known.iter().any(|one| one.closed == whole) || pool.places().iter().all(is_closed)
    }

    /// Returns what to request, trying `first` before any fallback market.
    ///
    /// # Errors
    /// Why no request can be made.
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
            Ok(offer) => return Ok(self.without_reclaimed(offer, now)),
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
        // Always present: a market without refusals has an offer.
        Err(soonest
            .map_or_else(|| LaunchBlock { until: now, reason: String::new() }, LaunchBlock::by))
    }

    /// Returns the offer without places of which EC2 has reclaimed Spot capacity lately. If there are
    /// no others, it stays as it is: an interruption keeps no pool from launching, and a large pool,
    /// which EC2 interrupts somewhere all the time, does not become On-Demand.
    fn without_reclaimed(&self, offer: LaunchOptions, now: Time) -> LaunchOptions {
        if offer.market != Market::Spot || self.reclaimed.is_empty() {
            return offer;
        }
        let is_left = |place: &&Override| self.avoids(place, now).is_none();
        let places: Vec<Override> = offer.places.iter().filter(is_left).cloned().collect();
        if places.is_empty() {
            return offer;
        }
        let in_one_subnet = self.are_apart(&places);
        LaunchOptions { market: offer.market, places, in_one_subnet }
    }

    /// Returns the available places of a market, or the refusals if there are none.
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

    /// Returns the record after a machine of this pool ended, if that changes it: the quotas that
    /// may have counted it have room again. The machine's type and market are not recorded;
    /// reopening a quota unnecessarily only costs a call.
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

    /// Returns the record after EC2's response to a launch, if that changes it.
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
        // A replay may return machines that are older than the refusal.
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

/// Returns whether machines of this launch prove that a scope is open. EC2 does not report here
/// which of the types they have; reopening a scope too early only costs a call.
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
        // The launch's own outcome is more precise: see `after_outcome`.
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
    // Responses to concurrent calls count as a single refusal.
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

/// Returns the wait after a refusal; it grows with each consecutive refusal. Throttled passes retry
/// at different times.
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

/// Returns the market that a pool's launch tries first.
#[must_use]
pub const fn first_market(policy: MarketPolicy) -> Market {
    match policy {
        MarketPolicy::Spot | MarketPolicy::SpotThenOnDemand => Market::Spot,
        MarketPolicy::OnDemand => Market::OnDemand,
    }
}

/// Returns the market that a slot's next attempt tries first. A slot waits for a quota without a
/// limit, and the second refusal may have been On-Demand's: then it tries Spot again, and while
/// Spot is refused, the offer falls back.
pub(crate) fn next_market(pool: &Pool, slot: &Instance) -> Market {
    let waits_for_quota = slot.attempts > 1 && slot.refused == Some(ErrorClass::Quota);
    let falls_back = slot.refused.is_some_and(|class| pool.falls_back_after(class));
    let first = slot_market(pool, slot);
    match first {
        _ if slot.attempts == 0 || waits_for_quota || !falls_back => first,
        Market::Spot => Market::OnDemand,
        Market::OnDemand => Market::Spot,
    }
}

/// Returns the market that a slot's first attempt tries first.
pub(crate) fn slot_market(pool: &Pool, slot: &Instance) -> Market {
    let is_mixed = pool.market == MarketPolicy::SpotThenOnDemand;
    if slot.prefers_on_demand && is_mixed { Market::OnDemand } else { first_market(pool.market) }
}

/// Reclassifies refusals while a pool's configuration is new: EC2 may not see everything it names
/// yet.
///
/// # Errors
/// EC2's own error, reclassified.
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
