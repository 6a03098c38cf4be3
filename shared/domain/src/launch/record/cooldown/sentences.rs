//! Sentences about EC2's refusals, and how long they are reported.

use std::collections::BTreeSet;

use super::{Cooldown, Cooldowns};
use crate::ec2::{CooldownScope, ErrorClass, Market, Override};
use crate::time::Time;

/// Maximum number of places that a sentence lists.
const PLACES: usize = 3;

impl Cooldown {
    /// Describes the refusal, without code and message.
    #[must_use]
    pub fn subject(&self) -> String {
        match (&self.closed, self.class) {
            (CooldownScope::Place { market, place, .. }, class) => {
                subject_of_places(class, &[(*market, place)])
            }
            (CooldownScope::Calls, ErrorClass::Throttle)
            | (CooldownScope::Quota { .. }, ErrorClass::Quota)
            | (CooldownScope::Pool(_) | CooldownScope::Unknown { .. }, _) => {
                self.closed.to_string()
            }
            (CooldownScope::Calls, _) => "EC2 refuses launches".to_owned(),
            (CooldownScope::Quota { market, bucket }, _) => {
                format!("EC2 refuses {market} launches of {bucket}")
            }
        }
    }

    /// Returns the sentence about the refusal, with the next attempt.
    #[must_use]
    pub fn sentence(&self, now: Time) -> String {
        let Self { code, message, times, until, .. } = self;
        let (subject, next) = (self.subject(), next_try(*until, now));
        format!("{subject}: {code}: {message}; {times} times, {next}")
    }
}

/// Returns when EC2 is called again: at a time, or by the next launch.
#[must_use]
pub fn next_try(until: Time, now: Time) -> String {
    match until > now {
        true => format!("next try {}", until.clock(now)),
        false => "next try with the next launch".to_owned(),
    }
}

/// Describes the refusal of these places. Only the class capacity means that there is no capacity.
#[must_use]
pub fn subject_of_places(class: ErrorClass, places: &[(Market, &Override)]) -> String {
    let markets: BTreeSet<Market> = places.iter().map(|(market, _)| *market).collect();
    let names: BTreeSet<String> = places.iter().map(|(_, place)| place.to_string()).collect();
    let more = names.len().saturating_sub(PLACES);
    let mut listed = names.into_iter().take(PLACES).collect::<Vec<_>>().join(", ");
    if more > 0 {
        listed = format!("{listed} and {more} more");
    }
    match (class, markets.first()) {
        (ErrorClass::Capacity, Some(market)) if markets.len() == 1 => {
            format!("no {market} capacity for {listed}")
        }
        (ErrorClass::Capacity, _) => format!("no capacity for {listed}"),
        (ErrorClass::Throttle, _) => format!("EC2 throttles launches of {listed}"),
        (ErrorClass::Ambiguous, _) => format!("EC2 gives no definite answer about {listed}"),
        _ => format!("EC2 refuses {listed}"),
    }
}

impl Cooldowns {
    /// Returns the refusals to report: during their waits, and after them until the next attempt is
    /// overdue. A problem is not solved between two attempts.
    #[must_use]
    pub fn reported(&self, now: Time) -> Vec<Cooldown> {
        let is_reported = |one: &&Cooldown| !one.is_forgotten(now) && !one.is_too_few();
        self.list.iter().filter(is_reported).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ec2::Bucket;
    use crate::testkit::at;

    fn cooldown(closed: CooldownScope, class: ErrorClass) -> Cooldown {
        let (code, message) = ("Code".to_owned(), "no".to_owned());
        Cooldown { closed, since: at(0), at: at(10), until: at(70), times: 2, class, code, message }
    }

    fn scopes() -> [CooldownScope; 5] {
        let pool = || "gpu".parse().expect("a name");
        let place = Override { instance_type: "m7a.large".into(), subnet: "subnet-a".into() };
        [
            CooldownScope::Calls,
            CooldownScope::Quota { market: Market::Spot, bucket: Bucket::Standard },
            CooldownScope::Pool(pool()),
            CooldownScope::Place { market: Market::Spot, place, pool: None },
            CooldownScope::Unknown { market: Market::Spot, pool: pool() },
        ]
    }

    /// Every class in every scope: a sentence names a cause only if it is the actual cause.
    #[test]
    fn no_sentence_names_the_cause_of_another_class() {
        for scope in scopes() {
            for class in ErrorClass::ALL {
                let said = cooldown(scope.clone(), *class).subject();
                let names = |word: &str| said.contains(word);
                assert_eq!(
                    names("capacity"),
                    *class == ErrorClass::Capacity && names("m7a"),
                    "{said}"
                );
                let is_quota = matches!(scope, CooldownScope::Quota { .. });
                assert_eq!(names("quota"), *class == ErrorClass::Quota && is_quota, "{said}");
                let is_throttled = *class == ErrorClass::Throttle
                    && matches!(scope, CooldownScope::Calls | CooldownScope::Place { .. });
                assert_eq!(names("throttles"), is_throttled, "{said}");
                assert!(names("EC2") || names("capacity") || names("quota"), "{said}");
            }
        }
    }

    #[test]
    fn places_are_listed_together() {
        let places: Vec<Override> = (0..5)
            .map(|n| Override { instance_type: format!("t{n}").into(), subnet: "s".into() })
            .collect();
        let on = |market| places.iter().map(move |place| (market, place));
        let said = |class, places: Vec<_>| subject_of_places(class, &places);
        let refused = said(ErrorClass::Configuration, on(Market::Spot).collect());
        assert_eq!(refused, "EC2 refuses t0 in s, t1 in s, t2 in s and 2 more");
        let two = said(ErrorClass::Capacity, on(Market::Spot).take(2).collect());
        assert_eq!(two, "no spot capacity for t0 in s, t1 in s");
        let both = on(Market::Spot).take(1).chain(on(Market::OnDemand).take(1)).collect();
        assert_eq!(said(ErrorClass::Capacity, both), "no capacity for t0 in s");
    }

    /// For each class and scope, the report does not change between two attempts.
    #[test]
    fn a_refusal_is_reported_between_two_attempts() {
        for scope in scopes() {
            for class in ErrorClass::ALL {
                let times = if matches!(scope, CooldownScope::Unknown { .. }) { 9 } else { 2 };
                let one = Cooldown { times, ..cooldown(scope.clone(), *class) };
                let known = Cooldowns { list: [one].into(), ..Cooldowns::default() };
                let is_reported = |second| !known.reported(at(second)).is_empty();
                assert!(
                    is_reported(11) && is_reported(70) && is_reported(129),
                    "{scope} {class:?}"
                );
                assert!(!is_reported(130), "{scope} {class:?}");
            }
        }
    }
}
