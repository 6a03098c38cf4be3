//! What causes and ends the troubles with GitHub, and when probes are allowed.

use std::collections::BTreeSet;

use super::{RequestKind, question_due};
use crate::ids::Entity;
use crate::launch::record::Cooldowns;
use crate::pool::Pool;
use crate::provider::ProviderError;
use crate::testkit::{With, at, fault, pool, second, unavailable};
use crate::time::Time;

fn acme() -> Entity {
    "acme".parse().expect("an entity")
}

fn refused(code: &str) -> ProviderError {
    ProviderError::Unauthorized(fault(code))
}

fn limit(until: u32) -> ProviderError {
    ProviderError::RateLimited(at(until))
}

fn named(name: &str) -> Pool {
    pool().with(|pool| pool.name = name.parse().expect("a name"))
}

/// The kind of request, the error if it failed, and the time.
type Answer = (RequestKind, Option<ProviderError>, u32);

fn after(known: &Cooldowns, answers: &[Answer]) -> Cooldowns {
    answers.iter().fold(known.clone(), |known, (asked, trouble, second)| {
        known.after_answer(&acme(), *asked, trouble.as_ref(), at(*second)).unwrap_or(known)
    })
}

fn well() -> Cooldowns {
    Cooldowns::default()
}

/// Start and end of each trouble.
fn times(known: &Cooldowns) -> Vec<(i64, i64)> {
    known.troubles.iter().map(|one| (second(one.since), second(one.until))).collect()
}

#[test]
fn what_ends_a_refusal_is_an_answer_to_what_was_refused() {
    use RequestKind::{Other, Registration};
    let rows: &[(&str, &[Answer], bool)] = &[
        ("credentials", &[(Registration, Some(refused("401")), 10), (Other, None, 30)], true),
        ("by a runner", &[(Other, Some(refused("401")), 10), (Registration, None, 30)], true),
        (
            "no answer",
            &[(Other, Some(refused("401")), 10), (Other, Some(unavailable()), 30)],
            false,
        ),
        (
            "registrations alone",
            &[(Registration, Some(refused("403")), 10), (Other, None, 30)],
            false,
        ),
        (
            "one of them works",
            &[(Registration, Some(refused("403")), 10), (Registration, None, 30)],
            true,
        ),
        (
            "more than registrations",
            &[
                (Registration, Some(refused("403")), 10),
                (Other, Some(refused("403")), 20),
                (Registration, Some(refused("403")), 25),
                (Other, None, 30),
            ],
            true,
        ),
        ("a limit before its end", &[(Other, Some(limit(100)), 10), (Other, None, 99)], false),
        ("after it", &[(Other, Some(limit(100)), 10), (Other, None, 100)], true),
        ("a runner", &[(Other, Some(limit(100)), 10), (Registration, None, 30)], true),
    ];
    for (what, answers, is_over) in rows {
        let known = after(&well(), answers);
        assert_eq!(!known.has_entity(&acme()), *is_over, "{what}");
        // All these concern one entity, in any spelling.
        let other = "acme/web".parse().expect("an entity");
        assert!(!known.has_entity(&other), "{what}");
        assert_eq!(known.has_entity(&"ACME".parse().expect("an entity")), !is_over, "{what}");
    }
}

#[test]
fn a_refusal_lasts_since_its_first_and_a_limit_to_its_latest_end() {
    use RequestKind::{Other, Registration};
    let again = [(Registration, Some(refused("401")), 10), (Other, Some(refused("401")), 20)];
    assert_eq!(times(&after(&well(), &again)), [(10, 130)]);
    let shorter = [(Other, Some(limit(100)), 10), (Other, Some(limit(50)), 20)];
    assert_eq!(times(&after(&well(), &shorter)), [(10, 100)]);
    // A repetition writes no change.
    let known = after(&well(), &again);
    assert_eq!(known.after_answer(&acme(), Other, Some(&refused("401")), at(30)), None);
}

#[test]
fn a_wrong_configuration_is_one_pools_until_that_pool_gets_a_runner() {
    let (own, other) = (named("gpu"), named("default"));
    let refused = |known: &Cooldowns, second| {
        let said = fault("422").with(|fault| fault.at = at(second));
        known.after_refused_configuration(&own, &acme(), &said)
    };
    let known = refused(&well(), 10).expect("a trouble");
    assert_eq!(refused(&known, 100), None, "since the first");
    let waits = |known: &Cooldowns, pool: &Pool| known.troubles_of(pool).count();
    assert_eq!((waits(&known, &own), waits(&known, &other)), (1, 0));
    // Runners of a different pool prove nothing about this one, nor does any other response.
    assert_eq!(known.after_registration(&other, &acme()), None);
    assert_eq!(known.after_answer(&acme(), RequestKind::Registration, None, at(20)), None);
    let healed = known.after_registration(&own, &acme()).expect("the pool's own");
    assert_eq!(times(&healed), []);
    // A refusal of a changed pool is new.
    let changed = own.clone().with(|pool| pool.generation += 1);
    let said = fault("422").with(|fault| fault.at = at(300));
    let new = known.after_refused_configuration(&changed, &acme(), &said).expect("its own");
    assert_eq!(times(&new), [(300, 420)]);
}

#[test]
fn machines_find_out_less_and_less_often() {
    let (own, other) = (pool(), named("other"));
    let wrong = well().after_refused_configuration(&own, &acme(), &fault("422"));
    let alone = [(RequestKind::Registration, Some(refused("403")), 0)];
    for mut known in [after(&well(), &alone), wrong.expect("a trouble")] {
        let mut waits = Vec::new();
        let mut now = at(0);
        for _ in 0..5 {
            let until = known.troubles[0].until;
            waits.push(until.since(now).0 / 60);
            now = until;
            known = known.probed(&own, &BTreeSet::from([&acme()]), now).expect("a probe");
        }
        assert_eq!(waits, [2, 4, 8, 15, 15]);
        // Machines for a different entity are no probes of this one.
        let somebody: Entity = "other".parse().expect("an entity");
        assert_eq!(known.probed(&own, &BTreeSet::from([&somebody]), now), None);
    }
    // An entity's trouble is shared by all pools; a configuration belongs to its pool.
    let finds_out =
        |known: &Cooldowns, pool| known.probed(pool, &BTreeSet::from([&acme()]), at(200)).is_some();
    assert!(finds_out(&after(&well(), &alone), &other));
    let wrong = well().after_refused_configuration(&own, &acme(), &fault("422"));
    assert!(!finds_out(&wrong.expect("a trouble"), &other));
    // GitHub is queried; no machine is needed.
    let all = [(RequestKind::Registration, Some(refused("401")), 0)];
    assert!(!finds_out(&after(&well(), &all), &own));
}

#[test]
fn jobs_look_again_in_waits_as_long_as_the_refusal_has_lasted() {
    let known = after(&well(), &[(RequestKind::Other, Some(refused("401")), 1000)]);
    for (now, until) in [(1000, 1030), (1010, 1040), (1100, 1200), (1300, 1600), (9000, 9300)] {
        assert_eq!(known.troubles[0].look_again(at(now)), at(until), "at {now}");
    }
}

#[test]
fn github_is_asked_again_in_waits_as_long_as_its_refusal_has_lasted() {
    let due = |known: &Cooldowns, last: Option<u32>| -> Option<Time> {
        question_due(known.troubles.iter(), last.map(at))
    };
    let limited = after(&well(), &[(RequestKind::Other, Some(limit(100)), 10)]);
    assert_eq!((due(&well(), None), due(&limited, None)), (None, None));
    let known = after(&limited, &[(RequestKind::Other, Some(refused("401")), 100)]);
    let rows = [
        (None, 130),
        (Some(20), 130),
        (Some(130), 160),
        (Some(160), 220),
        (Some(220), 340),
        (Some(600), 900),
    ];
    for (last, expected) in rows {
        assert_eq!(due(&known, last), Some(at(expected)), "asked at {last:?}");
    }
    let other = "other".parse().expect("an entity");
    let both = known.after_answer(&other, RequestKind::Other, Some(&refused("401")), at(5000));
    assert_eq!(due(&both.expect("a trouble"), Some(4990)), Some(at(5030)), "the youngest");
}
