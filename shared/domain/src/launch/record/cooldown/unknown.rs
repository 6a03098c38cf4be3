//! Launches with an unknown outcome: EC2 reports an internal failure, and no machine appears. A
//! machine may exist nevertheless, so a pool changes the market only after several in a row.

use super::{Cooldown, Cooldowns, wait};
use crate::ec2::{CooldownScope, ErrorClass, Market};
use crate::instance::State;
use crate::launch::{Launch, LaunchOutcome, LaunchState};
use crate::pool::{MarketPolicy, Pool};
use crate::time::{Seconds, Time};
use crate::timings::Timings;

/// Number of consecutive launches with an unknown outcome after which a pool tries the other
/// market.
const IN_A_ROW: u32 = 3;

/// Returns the first wait. It exceeds the lookup time of a launch, so that the next launch
/// continues the series.
pub(super) const fn first_wait(timings: &Timings) -> Seconds {
    Seconds(timings.launch_lookup_seconds.0.saturating_mul(2))
}

impl Cooldown {
    /// Returns whether the series is still too short to close anything.
    pub(super) const fn is_too_few(&self) -> bool {
        matches!(self.closed, CooldownScope::Unknown { .. }) && self.times < IN_A_ROW
    }
}

impl Cooldowns {
    /// Returns why a pool that can use a different market avoids this one, if it does.
    pub(super) fn giving_way(&self, pool: &Pool, market: Market, now: Time) -> Option<&Cooldown> {
        let gives_way = market == Market::Spot && pool.market == MarketPolicy::SpotThenOnDemand;
        let closed = CooldownScope::Unknown { market, pool: pool.name.clone() };
        gives_way.then(|| self.covering(&closed, now)).flatten()
    }

    /// Returns the record after the outcome of a launch, if that changes it.
    #[must_use]
    pub fn after_outcome(
        &self,
        outcome: &LaunchOutcome,
        now: Time,
        timings: &Timings,
    ) -> Option<Self> {
        let launch: &Launch = &outcome.launch;
        let closed =
            CooldownScope::Unknown { market: launch.request.market, pool: launch.pool.clone() };
        let known = self.list.iter().find(|one| one.closed == closed);
        let others: Vec<Cooldown> =
            self.list.iter().filter(|one| one.closed != closed).cloned().collect();
        if !outcome.bound.is_empty() {
            known?;
            return Some(Self { list: others.into(), ..self.clone() });
        }
        if launch.state != LaunchState::Settled {
            return None;
        }
        let silent = outcome.failed.iter().find(|slot| {
            matches!(slot.state(), State::PendingCreate | State::Error)
                && slot.refused == Some(ErrorClass::Ambiguous)
        })?;
        let last = silent.last_error.as_ref()?;
        let times = match known.filter(|one| !one.is_forgotten(now)) {
            // Concurrent launches count once.
            Some(one) if launch.created_at < one.at => return None,
            Some(one) => one.times.saturating_add(1),
            None => 1,
        };
        let wait = wait(
            &closed,
            ErrorClass::Ambiguous,
            times.saturating_sub(IN_A_ROW - 1).max(1),
            &launch.id,
            timings,
        );
        let next = Cooldown {
            since: known.filter(|_| times > 1).map_or(now, |one| one.since),
            at: now,
            until: now + wait,
            times,
            class: ErrorClass::Ambiguous,
            code: last.code.clone(),
            message: last.message.clone(),
            closed,
        };
        Some(Self { list: others.into_iter().chain([next]).collect(), ..self.clone() })
    }
}
