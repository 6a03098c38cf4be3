use std::collections::BTreeSet;

use super::*;
use crate::launch::record::Cooldowns;
use crate::provider::ProviderError;
use crate::testkit::{With as _, active, at, booting, fault, idle, pool};

/// A machine that was launched at this second.
fn launched(n: u32, second: u32) -> Instance {
    booting().with(|one| {
        one.name = crate::testkit::slot(n).name;
        one.created_at = at(second);
    })
}

/// A machine's number, and when it was launched and failed.
type Failure = (u32, u32, u32);

/// The trouble after these machines failed. A machine launched after its wait is a probe.
fn after(failures: &[Failure]) -> Option<Trouble> {
    failures.iter().fold(None, |known, (n, from, to)| {
        let is_over = |one: &Trouble| one.makes_wait() && at(*from) >= one.until;
        let known = known.map(|one| if is_over(&one) { one.probed(at(*from)) } else { one });
        let next = Trouble::after(known.as_ref(), &launched(*n, *from), "dead".to_owned(), at(*to));
        next.or(known)
    })
}

#[test]
fn the_third_failure_in_a_row_makes_the_pool_wait_and_each_probe_longer() {
    let rows: &[(&str, &[Failure], Option<u32>)] = &[
        ("two may be chance", &[(1, 0, 10), (2, 0, 10)], None),
        ("the third", &[(1, 0, 10), (2, 0, 11), (3, 0, 12)], Some(120)),
        ("the same one again", &[(1, 0, 10), (2, 0, 11), (2, 0, 12)], None),
        ("out together", &[(1, 0, 10), (2, 0, 11), (3, 0, 12), (4, 0, 90)], Some(120)),
        ("a probe", &[(1, 0, 10), (2, 0, 11), (3, 0, 12), (4, 132, 150)], Some(372)),
        ("one that did not boot in ten minutes", &[(1, 0, 1), (2, 0, 1), (3, 0, 600)], Some(600)),
        ("the next", &[(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 121, 121), (5, 400, 400)], Some(880)),
        ("hours apart", &[(1, 0, 10), (2, 0, 20), (3, 3700, 3700)], None),
    ];
    for (what, failures, until) in rows {
        let trouble = after(failures).expect("failures");
        let waits = trouble.makes_wait().then_some(trouble.until);
        assert_eq!(waits, until.map(at), "{what}");
    }
    let mut long = after(&[(1, 0, 1), (2, 0, 1), (3, 0, 1)]).expect("failures");
    for n in 4..40 {
        let from = long.until;
        let probe = launched(n, 0).with(|one| one.created_at = from);
        let out = long.probed(from);
        long = Trouble::after(Some(&out), &probe, "dead".to_owned(), from).expect("a probe");
        assert!(long.until.since(from) <= Seconds(900), "probe {n}");
    }
}

#[test]
fn one_machine_is_enough_where_github_calls_the_newest_agent_too_old() {
    let ends = |n, own: &str, newest: &str| {
        launched(n, 0).with(|one| {
            let version = |text: &str| text.parse().ok();
            one.runs_agent(version(own), None, version(newest), at(20));
            one.runner_ended(Some(crate::agent::TOO_OLD), None, at(30), &crate::testkit::timings());
        })
    };
    let told = |known: Option<&Trouble>, one: &Instance| {
        Trouble::after(known, one, "refused".to_owned(), at(40)).expect("news")
    };
    let older = told(None, &ends(1, "2.334.0", "2.335.0"));
    assert!(!older.makes_wait(), "the next machine takes another agent");
    let newest = ends(2, "2.335.0", "2.335.0");
    for trouble in [told(None, &newest), told(Some(&older), &newest)] {
        assert!(trouble.makes_wait());
        assert_eq!(trouble.until, at(120));
    }
    assert!(told(None, &newest).sentence().starts_with("the last machine of pool"));
}

#[test]
fn one_at_a_time_finds_out_and_one_that_serves_ends_it() {
    // Launches wait until second 180. A probe from then on makes it 420.
    let waits = after(&[(1, 50, 60), (2, 50, 60), (3, 60, 60)]).expect("failures");
    let finds_out = waits.probed(at(180));
    let slot = crate::testkit::retrying().with(|one| one.created_at = at(180));
    let serves = |row: Instance, from| row.with(|one| one.created_at = at(from));
    let rows = [
        ("it waits", &waits, vec![], 179, Some(0)),
        ("one may find out", &waits, vec![], 180, Some(1)),
        ("one that was out before", &waits, vec![launched(4, 60)], 200, Some(1)),
        ("one is launched", &finds_out, vec![], 419, Some(0)),
        ("its end was not told", &finds_out, vec![], 420, Some(1)),
        ("it is out for longer", &finds_out, vec![launched(4, 180)], 500, Some(0)),
        ("it waits for EC2's quota, and may be the one", &finds_out, vec![slot], 500, Some(1)),
        ("it has a job", &waits, vec![serves(active(), 50)], 100, None),
        ("an older one has", &waits, vec![serves(active(), 49)], 100, Some(0)),
        ("it listens, and may end at once", &waits, vec![serves(idle(), 50)], 90, Some(0)),
        ("it has listened for a minute", &waits, vec![serves(idle(), 50)], 101, None),
    ];
    for (what, trouble, live, now, expected) in rows {
        let most = match trouble.finding(&live, at(now)) {
            TroubleStatus::Over => None,
            TroubleStatus::Most(most) => Some(most),
        };
        assert_eq!(most, expected, "{what}");
    }
}

/// After a possible fix, three machines are launched at once. Earlier machines no longer count, the
/// first that works ends the trouble, and if they fail, the waits continue at their previous
/// length.
#[test]
fn a_fix_that_can_be_seen_ends_the_wait() {
    let mut record = Cooldowns::default();
    for n in 1..4 {
        let next = record.after_failure(&launched(n, 0), "dead".to_owned(), at(10));
        record = next.expect("a failure");
    }
    let own = pool();
    let is_own = |of: Option<&PoolName>| of == Some(&own.name);
    let none: [Instance; 0] = [];
    let most = |record: &Cooldowns, live: &[Instance], now| {
        record.trouble(&own).map(|one| one.finding(live, at(now)))
    };
    assert_eq!(most(&record, &none, 60), Some(TroubleStatus::Most(0)));
    let other = record.opened(|of| of.is_some_and(|of| *of != own.name), at(60));
    assert_eq!(other, None, "another pool's fix");
    let fixed = record.opened(is_own, at(60)).expect("a fix");
    assert_eq!(most(&fixed, &none, 60), Some(TroubleStatus::Most(3)));
    let probe = launched(4, 30);
    assert_eq!(most(&fixed, &[probe.clone()], 60), Some(TroubleStatus::Most(3)), "it is of before");
    assert_eq!(fixed.after_failure(&probe, "dead".to_owned(), at(70)), None, "as it fails");
    let acme = "acme".parse().expect("an entity");
    let probed = fixed.probed(&own, &BTreeSet::from([&acme]), at(61)).expect("a probe");
    assert_eq!(most(&probed, &[launched(5, 61)], 62), Some(TroubleStatus::Most(0)));
    // One of the three works.
    let served = active().with(|one| one.created_at = at(61));
    assert!(probed.after_service(&served, at(100)).expect("the end").troubles.is_empty());
    // None works: the next one is launched when it would have been without the fix.
    let failed = probed.after_failure(&launched(5, 61), "dead".to_owned(), at(80));
    let again = failed.expect("a failure");
    assert_eq!(most(&again, &none, 300), Some(TroubleStatus::Most(0)));
    assert_eq!(most(&again, &none, 301), Some(TroubleStatus::Most(1)));
}

/// For every kind of trouble, what ends it: a fix of the pool, a fix of the stack, a response from
/// GitHub.
#[test]
fn each_trouble_has_its_fixes() {
    let acme: Entity = "acme".parse().expect("an entity");
    let own = pool();
    let machines = (1..4).fold(Cooldowns::default(), |known, n| {
        known.after_failure(&launched(n, 0), "dead".to_owned(), at(10)).expect("a failure")
    });
    let two = (1..3).fold(Cooldowns::default(), |known, n| {
        known.after_failure(&launched(n, 0), "dead".to_owned(), at(10)).expect("a failure")
    });
    let answer = |asked, code: &str| {
        let refused = ProviderError::Unauthorized(fault(code));
        Cooldowns::default().after_answer(&acme, asked, Some(&refused), at(10)).expect("news")
    };
    let wrong = || {
        let said = fault("422").with(|said| said.at = at(10));
        Cooldowns::default().after_refused_configuration(&own, &acme, &said).expect("news")
    };
    let limit = ProviderError::RateLimited(at(900));
    let limited =
        Cooldowns::default().after_answer(&acme, RequestKind::Other, Some(&limit), at(10));
    // Columns: the number of machines that may be launched at second 60, after a fix of the pool,
    // and after a fix of the stack (`None` if launches no longer wait); when GitHub is queried.
    let rows = [
        ("machines", machines, Some(3), Some(3), None),
        ("two machines, which may be chance", two, None, None, None),
        ("credentials", answer(RequestKind::Other, "401"), Some(0), Some(0), Some(90)),
        ("registrations", answer(RequestKind::Registration, "403"), Some(0), Some(3), Some(40)),
        ("a configuration", wrong(), Some(3), Some(3), None),
        ("a limit", limited.expect("news"), Some(0), Some(0), None),
    ];
    let none: [Instance; 0] = [];
    for (what, known, by_pool, by_stack, asked) in rows {
        let most = |known: &Cooldowns| {
            let first = known.troubles_of(&own).next()?;
            match first.finding(&none, at(60)) {
                TroubleStatus::Most(most) => Some(most),
                TroubleStatus::Over => None,
            }
        };
        let opened = |is_opened: &dyn Fn(Option<&PoolName>) -> bool| {
            known.opened(is_opened, at(60)).unwrap_or_else(|| known.clone())
        };
        let of_pool = opened(&|of| of == Some(&own.name));
        let of_stack = opened(&|_| true);
        assert_eq!((most(&of_pool), most(&of_stack)), (by_pool, by_stack), "{what}");
        let due = question_due(&*of_stack.troubles, None);
        assert_eq!(due, asked.map(at), "{what}: GitHub is asked");
    }
}

/// A problem with our own secret is not a refusal by GitHub, which was not called.
#[test]
fn github_is_not_blamed_for_our_secret() {
    let acme = "acme".parse().expect("an entity");
    for (code, begins) in [
        (crate::app::NO_KEY, "GitHub could not be called for acme since "),
        (crate::app::BAD_KEY, "GitHub could not be called for acme since "),
        ("401", "GitHub has rejected the App's credentials for acme since "),
    ] {
        let refused = ProviderError::Unauthorized(fault(code));
        let known =
            Cooldowns::default().after_answer(&acme, RequestKind::Other, Some(&refused), at(9));
        let told = known.expect("a trouble").troubles[0].sentence();
        assert!(told.starts_with(begins), "{code}: {told}");
    }
}
