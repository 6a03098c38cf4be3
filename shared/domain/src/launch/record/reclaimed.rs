//! Types and subnets of which EC2 has reclaimed Spot capacity lately. A launch avoids them while it has
//! a choice, because EC2 often reclaims the next machine there as well. A pool that leaves the type to
//! EC2 leaves this to its allocation strategy, too.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Cooldowns;
use crate::backoff;
use crate::ec2::{Make, Market, Override};
use crate::time::{Seconds, Time};

/// How long a place is avoided; it doubles with each further interruption, up to the maximum.
const FIRST_WAIT: Seconds = Seconds(600);
const MAX_WAIT: Seconds = Seconds(4800);
/// Interruptions within this time count once, and are written once: EC2 reclaims many machines
/// together.
const TOGETHER: Seconds = Seconds(60);
/// Maximum number of places in the record; those that end last are kept.
const MAX_PLACES: usize = 100;

/// A type and subnet that launches avoid on Spot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReclaimedPlace {
    /// The type and subnet.
    pub place: Override,
    /// The subnet's zone, if EC2 reported it.
    pub zone: Option<Arc<str>>,
    /// The last interruption.
    pub at: Time,
    /// Until when the place is avoided.
    pub until: Time,
    /// Number of consecutive interruptions, each after the wait of the one before.
    pub times: u32,
}

impl ReclaimedPlace {
    /// Returns whether a later interruption starts a new series. A series lasts as long past the end
    /// of its last wait as that wait was.
    fn is_forgotten(&self, now: Time) -> bool {
        now.is_past(self.until, self.until.since(self.at))
    }
}

impl Cooldowns {
    /// Returns until when a place is avoided on Spot. `None` if it is not.
    #[must_use]
    pub fn avoids(&self, place: &Override, now: Time) -> Option<Time> {
        let known = self.reclaimed.iter().find(|one| one.place == *place)?;
        (now < known.until).then_some(known.until)
    }

    /// Returns the places that are avoided on Spot now.
    #[must_use]
    pub fn avoided(&self, now: Time) -> Vec<ReclaimedPlace> {
        self.reclaimed.iter().filter(|one| now < one.until).cloned().collect()
    }

    /// Returns the record after EC2 reclaimed a machine, if that changes it. `at`: by EC2's clock.
    #[must_use]
    pub fn after_reclaim(&self, make: &Make, at: Time, now: Time) -> Option<Self> {
        let (kind, subnet) = (make.kind.clone()?, make.subnet.clone()?);
        if make.market != Some(Market::Spot) {
            return None;
        }
        let place = Override { instance_type: kind, subnet };
        let at = at.min(now);
        let known = self.reclaimed.iter().find(|one| one.place == place);
        let known = known.filter(|one| !one.is_forgotten(at));
        let times = match known {
            Some(one) if !at.is_past(one.at, TOGETHER) => return None,
            Some(one) if at < one.until => one.times,
            Some(one) => one.times.saturating_add(1),
            None => 1,
        };
        let until = at + backoff::grown(FIRST_WAIT, times, MAX_WAIT);
        if until <= now {
            return None;
        }
        let next = ReclaimedPlace { zone: make.zone.clone(), at, until, times, place };
        let others = |one: &&ReclaimedPlace| one.place != next.place && !one.is_forgotten(now);
        let mut list: Vec<ReclaimedPlace> = self.reclaimed.iter().filter(others).cloned().collect();
        list.push(next);
        list.sort_by_key(|one| std::cmp::Reverse(one.until));
        list.truncate(MAX_PLACES);
        Some(Self { reclaimed: list.into(), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::at;

    fn make(kind: &str, market: Market) -> Make {
        let (kind, zone) = (Some(kind.into()), Some("us-east-1a".into()));
        Make { kind, zone, subnet: Some("subnet-a".into()), market: Some(market) }
    }

    /// Each row: when EC2 reclaimed a machine, when Muster heard of it, and until when the place is
    /// avoided after that, with the number of times.
    #[test]
    fn a_place_is_avoided_longer_with_each_interruption_after_a_wait() {
        let rows: [(u32, u32, Option<(u32, u32)>); 12] = [
            (1_000, 1_000, Some((1_600, 1))),
            // The same event again, and another machine of the same reclaim.
            (1_000, 1_000, None),
            (1_059, 1_061, None),
            // A third one, after a minute.
            (1_060, 1_061, Some((1_660, 1))),
            // EC2's clock is ahead.
            (9_000, 1_700, Some((2_900, 2))),
            // An old event changes nothing.
            (1_100, 2_900, None),
            (2_900, 2_900, Some((5_300, 3))),
            (5_300, 5_300, Some((10_100, 4))),
            (10_100, 10_100, Some((14_900, 5))),
            // The series lasts as long as its last wait was.
            (19_699, 19_699, Some((24_499, 6))),
            (29_299, 29_299, Some((29_899, 1))),
            // Heard of an hour later.
            (36_000, 39_600, None),
        ];
        let (mut known, spot) = (Cooldowns::default(), make("m7i.large", Market::Spot));
        let place = Override { instance_type: "m7i.large".into(), subnet: "subnet-a".into() };
        for (when, heard, expected) in rows {
            let next = known.after_reclaim(&spot, at(when), at(heard));
            let of = |next: &Cooldowns| (next.avoids(&place, at(heard)), next.reclaimed[0].times);
            let expected = expected.map(|(until, times)| (Some(at(until)), times));
            assert_eq!(next.as_ref().map(of), expected, "reclaimed at {when}, heard at {heard}");
            known = next.unwrap_or(known);
        }
        assert_eq!(known.avoids(&place, at(29_898)), Some(at(29_899)));
        assert_eq!(known.avoids(&place, at(29_899)), None);
        assert_eq!((known.avoided(at(29_898)).len(), known.avoided(at(29_899)).len()), (1, 0));
    }

    #[test]
    fn only_a_known_place_on_spot_is_avoided() {
        let spot = || make("m7i.large", Market::Spot);
        let rows = [
            (spot(), true),
            (make("m7i.large", Market::OnDemand), false),
            (Make { market: None, ..spot() }, false),
            (Make { kind: None, ..spot() }, false),
            (spot().without_subnet(), false),
            (Make { zone: None, ..spot() }, true),
        ];
        for (make, is_avoided) in rows {
            let next = Cooldowns::default().after_reclaim(&make, at(1), at(1));
            assert_eq!(next.is_some(), is_avoided, "{make:?}");
        }
        // Of more places than fit, those that are avoided longest are kept.
        let mut all = Cooldowns::default();
        for n in 0..=100 {
            let kind = format!("m{n}.large");
            all = all.after_reclaim(&make(&kind, Market::Spot), at(n), at(n)).expect("a place");
        }
        assert_eq!(
            (all.reclaimed.len(), &*all.reclaimed[0].place.instance_type),
            (100, "m100.large")
        );
        assert!(all.reclaimed.iter().all(|one| &*one.place.instance_type != "m0.large"));
    }
}
