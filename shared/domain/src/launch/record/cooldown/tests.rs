//! What a refusal closes, for how long, and what is requested instead.

use super::{Bucket, CooldownScope, Cooldowns, first_market, while_settling};
use crate::ec2::ErrorClass::{
    Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency, Quota,
    Throttle,
};
use crate::ec2::{ErrorClass, LaunchError, Make, Market, Override};
use crate::launch::{Launch, LaunchAnswer};
use crate::pool::{MarketPolicy, Pool, Requirements};
use crate::testkit::{self, With, at, job, machine, pool, timings};
use crate::time::Time;

fn of(market: MarketPolicy) -> Pool {
    pool().with(|pool| pool.market = market)
}

/// The pool's launch of one slot.
fn launch(pool: &Pool) -> Launch {
    launch_with(pool, &Cooldowns::default())
}

fn launch_with(pool: &Pool, known: &Cooldowns) -> Launch {
    let timings = timings();
    let mut view = crate::launch::plan::tests::view(pool, &timings, vec![job(1)]);
    view.conditions.cooldowns = known.clone();
    crate::launch::plan::plan(view).launches.remove(0).launch
}

/// A quota's code determines what the quota counts.
fn refusal(class: ErrorClass) -> LaunchError {
    let error = testkit::refusal(class);
    let code = if class == Quota { "VcpuLimitExceeded".to_owned() } else { error.code.clone() };
    LaunchError { code, ..error }
}

fn place(kind: &str, subnet: &str) -> Override {
    Override { instance_type: kind.into(), subnet: subnet.into() }
}

fn part(class: ErrorClass, place: Override) -> LaunchError {
    LaunchError { place: Some(place), ..refusal(class) }
}

fn answer(machines: u32, errors: Vec<LaunchError>) -> Result<LaunchAnswer, LaunchError> {
    let machines = (0..machines).map(|number| (machine(number), Make::default())).collect();
    Ok(LaunchAnswer { machines, errors })
}

fn after(
    known: &Cooldowns,
    pool: &Pool,
    answer: &Result<LaunchAnswer, LaunchError>,
    now: Time,
) -> Cooldowns {
    known.after(&launch(pool), answer, now, &timings()).unwrap_or_else(|| known.clone())
}

fn first(pool: &Pool, answer: &Result<LaunchAnswer, LaunchError>) -> Cooldowns {
    after(&Cooldowns::default(), pool, answer, at(0))
}

/// `Spot m7i.large/subnet-a …`, or the reason why no request is made.
fn offered(known: &Cooldowns, pool: &Pool, second: u32) -> String {
    match known.offer(pool, first_market(pool.market), at(second)) {
        Ok(offer) => {
            let places =
                offer.places.iter().map(|one| format!(" {}/{}", one.instance_type, one.subnet));
            format!("{}:{}", offer.market, places.collect::<String>())
        }
        Err(held) => {
            let second = (held.until.as_millis() - at(0).as_millis()) / 1000;
            format!("until {second}: {}", held.reason)
        }
    }
}

fn quota(bucket: Bucket) -> CooldownScope {
    CooldownScope::Quota { market: Market::Spot, bucket }
}

const ALL: &str = " m7i.large/subnet-a m7i.large/subnet-b m7a.large/subnet-a m7a.large/subnet-b";

#[test]
fn each_class_closes_what_it_is_about() {
    let pool = of(MarketPolicy::Spot);
    let spot = format!("spot:{ALL}");
    let rows = [
        (Throttle, "EC2 throttles launches"),
        (Quota, "the spot quota of standard instances is used up"),
        (Configuration, "EC2 refuses launches in pool default"),
        (Authorization, "EC2 refuses launches in pool default"),
        (Capacity, "no spot capacity for"),
        (Consistency, spot.as_str()),
        (Idempotency, spot.as_str()),
        (Blocked, spot.as_str()),
        (Ambiguous, spot.as_str()),
    ];
    for (class, expected) in rows {
        let told = offered(&first(&pool, &Err(refusal(class))), &pool, 1);
        assert!(told.contains(expected), "{class:?}: {told}");
    }
}

#[test]
fn who_shares_what_is_closed_and_who_does_not() {
    let (own, other) = (
        of(MarketPolicy::Spot),
        of(MarketPolicy::Spot).with(|pool| {
            pool.name = "other".parse().expect("valid");
        }),
    );
    let on_demand = other.clone().with(|pool| pool.market = MarketPolicy::OnDemand);
    // Columns: the class; whether a different pool on this market requests machines; whether one on
    // the other market does.
    let rows = [
        (Throttle, false, false),
        (Quota, false, true),
        (Capacity, false, true),
        (Configuration, true, true),
        (Authorization, true, true),
    ];
    for (class, same, another) in rows {
        let known = first(&own, &Err(refusal(class)));
        assert!(offered(&known, &own, 1).starts_with("until"), "{class:?}");
        assert_eq!(!offered(&known, &other, 1).starts_with("until"), same, "{class:?}");
        assert_eq!(!offered(&known, &on_demand, 1).starts_with("until"), another, "{class:?}");
    }
}

/// New accounts have no quota for G and P; that must not prevent other launches.
#[test]
fn a_quota_closes_the_families_that_it_counts() {
    let plain = of(MarketPolicy::Spot);
    let typed = |name: &str, types: &[&str]| {
        plain.clone().with(|pool| {
            pool.name = name.parse().expect("valid");
            pool.instance_types = types.iter().map(|one| (*one).into()).collect();
        })
    };
    let (gpu, mixed) =
        (typed("gpu", &["g5.xlarge"]), typed("mixed", &["g4dn.xlarge", "c7i.large"]));
    let known = first(&gpu, &Err(refusal(Quota)));
    assert!(known.covering(&quota(Bucket::GAndVt), at(1)).is_some(), "{known:?}");
    assert!(offered(&known, &gpu, 1).starts_with("until 30: the spot quota of G and VT instances"));
    assert_eq!(offered(&known, &plain, 1), format!("spot:{ALL}"));
    assert_eq!(offered(&known, &mixed, 1), "spot: c7i.large/subnet-a c7i.large/subnet-b");
    // A partial error names its type. An error of the whole call that may concern either closes
    // only the pool's own requests.
    let named = first(&mixed, &answer(0, vec![part(Quota, place("g4dn.xlarge", "subnet-a"))]));
    assert_eq!(offered(&named, &mixed, 1), "spot: c7i.large/subnet-a c7i.large/subnet-b");
    assert_eq!(offered(&named, &plain, 1), format!("spot:{ALL}"));
    // The same applies to quotas that count no machines.
    let disks = LaunchError { code: "VolumeLimitExceeded".to_owned(), ..refusal(Quota) };
    for (own, error) in [(&mixed, refusal(Quota)), (&plain, disks)] {
        let known = first(own, &Err(error));
        assert!(
            known.covering(&quota(Bucket::Pool(own.name.clone())), at(1)).is_some(),
            "{known:?}"
        );
        assert!(
            offered(&known, own, 1).starts_with("until 30: the spot quota of the requests of pool")
        );
        assert_eq!(offered(&known, &gpu, 1), "spot: g5.xlarge/subnet-a g5.xlarge/subnet-b");
    }
    // A machine of a different family does not prove that the quota is open.
    let still = after(&known, &plain, &answer(1, Vec::new()), at(2));
    assert!(still.covering(&quota(Bucket::GAndVt), at(3)).is_some());
}

/// Below its quota, a stack gets some machines and is refused the rest: the next end frees
/// capacity.
#[test]
fn a_stack_that_works_at_its_quota_asks_every_half_minute() {
    let pool = of(MarketPolicy::Spot);
    let mut known = Cooldowns::default();
    for second in [0, 30, 60, 90, 120] {
        known = after(&known, &pool, &answer(1, vec![refusal(Quota)]), at(second));
        assert!(offered(&known, &pool, second + 29).starts_with("until"), "{second}");
        assert_eq!(offered(&known, &pool, second + 30), format!("spot:{ALL}"), "{second}");
    }
}

#[test]
fn a_place_without_capacity_is_left_out_for_a_minute() {
    let pool = of(MarketPolicy::Spot);
    let known = first(&pool, &answer(1, vec![part(Capacity, place("m7i.large", "subnet-a"))]));
    let rest = "spot: m7i.large/subnet-b m7a.large/subnet-a m7a.large/subnet-b";
    assert_eq!(offered(&known, &pool, 59), rest);
    assert_eq!(offered(&known, &pool, 60), format!("spot:{ALL}"));
}

#[test]
fn all_places_without_capacity_hold_the_pool_until_the_first_of_them() {
    let pool = of(MarketPolicy::Spot);
    let early = first(&pool, &answer(1, vec![part(Capacity, place("m7i.large", "subnet-a"))]));
    let known = after(&early, &pool, &Err(refusal(Capacity)), at(30));
    // A scope that was already closed is closed again.
    assert_eq!(
        offered(&known, &pool, 31),
        "until 90: no spot capacity for m7i.large in subnet-a (Capacity: no)"
    );
}

#[test]
fn spot_then_on_demand_asks_for_on_demand_when_spot_is_closed() {
    let on_demand = format!("on-demand:{ALL}");
    let pool = of(MarketPolicy::SpotThenOnDemand);
    for class in [Capacity, Quota] {
        let known = first(&pool, &Err(refusal(class)));
        assert_eq!(offered(&known, &pool, 1), on_demand, "{class:?}");
        // A pool that uses only Spot gets no other market.
        assert!(offered(&known, &of(MarketPolicy::Spot), 1).starts_with("until"), "{class:?}");
    }
    let known = first(&pool, &Err(refusal(Configuration)));
    assert!(offered(&known, &pool, 1).starts_with("until"));
}

#[test]
fn both_markets_closed_wait_for_the_one_that_opens_first() {
    let pool = of(MarketPolicy::SpotThenOnDemand);
    let spot = first(&pool, &Err(refusal(Quota)));
    let on_demand = of(MarketPolicy::OnDemand);
    let known = after(&spot, &on_demand, &Err(refusal(Capacity)), at(10));
    assert!(offered(&known, &pool, 11).starts_with("until 30: the spot quota"));
}

#[test]
fn waits_double_in_an_unbroken_row_up_to_eight_times() {
    let pool = of(MarketPolicy::Spot);
    for (class, step) in [(Capacity, 60), (Quota, 30), (Configuration, 120), (Throttle, 5)] {
        let (mut known, mut now, mut waits) = (Cooldowns::default(), at(0), Vec::new());
        for _ in 0..6 {
            known = after(&known, &pool, &Err(refusal(class)), now);
            let one = &known.list[0];
            waits.push(one.until.since(now).0);
            now = one.until;
        }
        let expected = [1, 2, 4, 8, 8, 8].map(|times| times * step);
        if class == Throttle {
            // Up to twice as long, so that not all retry at once.
            let within =
                waits.iter().zip(expected).all(|(wait, least)| (least..2 * least).contains(wait));
            assert!(within, "{waits:?}");
        } else {
            assert_eq!(waits, expected, "{class:?}");
        }
        assert_eq!(known.list[0].times, 6, "{class:?}");
        assert_eq!(known.list[0].since, at(0), "{class:?}");
    }
}

#[test]
fn calls_that_were_out_together_are_one_refusal() {
    let pool = of(MarketPolicy::Spot);
    let one = first(&pool, &Err(refusal(Quota)));
    let two = after(&one, &pool, &Err(refusal(Quota)), at(2));
    assert_eq!((two.list[0].times, two.list[0].until), (1, at(32)));
}

#[test]
fn a_refusal_after_a_quiet_time_is_a_first_one() {
    let pool = of(MarketPolicy::Spot);
    let known = first(&pool, &Err(refusal(Quota)));
    let row = after(&known, &pool, &Err(refusal(Quota)), at(59));
    assert_eq!(row.list[0].times, 2);
    let anew = after(&known, &pool, &Err(refusal(Quota)), at(60));
    assert_eq!((anew.list[0].times, anew.list[0].since), (1, at(60)));
}

#[test]
fn a_machine_opens_what_was_closed_for_all_of_the_pool() {
    let pool = of(MarketPolicy::Spot);
    let mut known = Cooldowns::default();
    for class in [Throttle, Quota, Configuration, Capacity] {
        known = after(&known, &pool, &Err(refusal(class)), at(0));
    }
    let healed = after(&known, &pool, &answer(1, Vec::new()), at(1));
    let places = |one: &super::Cooldown| matches!(one.closed, CooldownScope::Place { .. });
    assert!(healed.list.iter().all(places), "{healed:?}");
    assert_eq!(healed.list.len(), 4);
    // Parts that this response refuses are closed nevertheless.
    let partial = after(&known, &pool, &answer(1, vec![refusal(Quota)]), at(1));
    assert!(partial.covering(&quota(Bucket::Standard), at(2)).is_some());
}

#[test]
fn a_refusal_closes_the_places_that_it_names_and_else_the_pool() {
    let pool = of(MarketPolicy::OnDemand);
    let [first_place, second] = [place("m7i.large", "subnet-a"), place("m7i.large", "subnet-b")];
    let at_all = |class| pool.places().into_iter().map(|place| part(class, place)).collect();
    let rest = "on-demand: m7i.large/subnet-b m7a.large/subnet-a m7a.large/subnet-b";
    let closed = "until 120: EC2 refuses launches in pool default (Authorization: no)";
    let nothing = "until 120: EC2 refuses m7i.large in subnet-a (Authorization: no)";
    // Columns: EC2's response, what is requested next, and whether the pool counts as refused.
    let rows = [
        ("one place", answer(0, vec![part(Authorization, first_place.clone())]), rest, false),
        ("an unknown code", answer(0, vec![part(Configuration, first_place.clone())]), rest, false),
        (
            "beside a machine",
            answer(1, vec![part(Authorization, first_place.clone())]),
            rest,
            false,
        ),
        (
            "beside a lack of capacity",
            answer(0, vec![part(Configuration, first_place.clone()), part(Capacity, second)]),
            "on-demand: m7a.large/subnet-a m7a.large/subnet-b",
            false,
        ),
        ("all places", answer(0, at_all(Authorization)), nothing, true),
        ("no place", answer(0, vec![refusal(Authorization)]), closed, true),
        (
            "a place, and the request",
            answer(0, vec![part(Configuration, first_place), refusal(Authorization)]),
            closed,
            true,
        ),
        ("the whole call", Err(refusal(Authorization)), closed, true),
    ];
    for (name, answer, expected, is_refused) in rows {
        let known = first(&pool, &answer);
        assert_eq!(offered(&known, &pool, 1), expected, "{name}");
        let refused = known.refused_pools(std::slice::from_ref(&pool), at(1)).count();
        assert_eq!(refused == 1, is_refused, "{name}");
    }
}

/// A policy forbids one type, and EC2 stops at the first place that it does not allow.
#[test]
fn answers_that_name_one_place_each_leave_the_others() {
    let pool = of(MarketPolicy::OnDemand);
    let mut known = Cooldowns::default();
    for second in 0..2 {
        let asked = known.offer(&pool, Market::OnDemand, at(second)).expect("places");
        let refused = answer(0, vec![part(Authorization, asked.places[0].clone())]);
        known = after(&known, &pool, &refused, at(second));
    }
    assert_eq!(offered(&known, &pool, 2), "on-demand: m7a.large/subnet-a m7a.large/subnet-b");
}

/// Also in the first minutes of a configuration: other places need not wait for one.
#[test]
fn what_may_not_be_visible_yet_closes_one_place_among_others() {
    let pool = of(MarketPolicy::OnDemand);
    let one = while_settling(answer(0, vec![part(Authorization, place("m7i.large", "subnet-a"))]));
    let rest = "on-demand: m7i.large/subnet-b m7a.large/subnet-a m7a.large/subnet-b";
    assert_eq!(offered(&first(&pool, &one), &pool, 59), rest);
    let all = pool.places().into_iter().map(|place| part(Authorization, place)).collect();
    let all = while_settling(answer(0, all));
    assert_eq!(offered(&first(&pool, &all), &pool, 1), format!("on-demand:{ALL}"));
}

/// Muster does not know a subnet's zone, and EC2's message names none.
#[test]
fn subnets_that_ec2_refused_together_are_asked_for_one_by_one() {
    let of = |subnets: &[&str]| {
        of(MarketPolicy::Spot).with(|pool| {
            pool.subnets = subnets.iter().map(|one| (*one).into()).collect();
        })
    };
    let sentence = "The fleet configuration contains duplicate instance pools.";
    let error = LaunchError::new(Configuration, "InvalidFleetConfig", sentence);
    let as_part = LaunchError { place: Some(place("m7i.large", "b")), ..error.clone() };
    let softened = while_settling(Err(error.clone()));
    for answer in [Err(error.clone()), answer(0, vec![as_part]), softened] {
        let known = first(&of(&["b", "a"]), &answer);
        assert_eq!(known.list.len(), 0, "nothing is closed");
        // Columns: pools that request both subnets, possibly with others, and pools that do not.
        for (subnets, apart) in [
            (&["a", "b"][..], true),
            (&["c", "b", "a"], true),
            (&["a", "c"], false),
            (&["a"], false),
        ] {
            let offer = known.offer(&of(subnets), Market::OnDemand, at(100_000)).expect("places");
            assert_eq!(offer.in_one_subnet, apart, "{subnets:?}");
        }
        let request = launch_with(&of(&["c", "b", "a"]), &known).request;
        let subnets: Vec<&str> = request.overrides.iter().map(|one| &*one.subnet).collect();
        assert!(subnets.len() == 2 && subnets[0] == subnets[1], "both types: {subnets:?}");
        // Already recorded.
        let again = known.after(&launch(&of(&["a", "b"])), &answer, at(1), &timings());
        assert_eq!(again, None);
    }
    // With one subnet, the duplicate has a different cause, which an operator must fix.
    let known = first(&of(&["a"]), &Err(error));
    assert!(offered(&known, &of(&["a"]), 1).contains("refuses launches in pool default"));
}

/// A refusal that a pool gets for its price, image or requirements does not apply to others.
#[test]
fn a_place_is_closed_for_those_whom_the_refusal_concerns() {
    let one = of(MarketPolicy::Spot);
    let other = one.clone().with(|pool| pool.name = "other".parse().expect("a pool"));
    let dear = one.clone().with(|pool| pool.max_price = Some("0.01".into()));
    let cores =
        Requirements { vcpus_min: 2, vcpus_max: None, memory_mib_min: 4096, memory_mib_max: None };
    let any = |pool: &Pool| pool.clone().with(|pool| pool.requirements = Some(cores.clone()));
    let coded = |code: &str| LaunchError { code: code.to_owned(), ..refusal(Capacity) };
    let plain = coded("InsufficientInstanceCapacity");
    for (what, refused, asks, error, both) in [
        ("no capacity", &one, &other, plain.clone(), true),
        ("a price", &dear, &other, plain.clone(), false),
        ("a price that EC2 names", &one, &other, coded("SpotMaxPriceTooLow"), false),
        ("a type that does not fit", &one, &other, coded("Unsupported"), false),
        ("requirements", &any(&one), &any(&other), plain, false),
    ] {
        let known = first(refused, &Err(error));
        assert!(offered(&known, refused, 1).starts_with("until 60:"), "{what}: its own");
        assert_eq!(offered(&known, asks, 1).starts_with("until 60:"), both, "{what}: the other");
    }
}

#[test]
fn the_parts_of_a_replayed_answer_are_old() {
    let pool = of(MarketPolicy::Spot);
    let errors = answer(0, vec![part(Capacity, place("m7i.large", "subnet-a"))]);
    let replay = launch(&pool).with(|launch| launch.calls = 2);
    assert_eq!(Cooldowns::default().after(&replay, &errors, at(0), &timings()), None);
    // Its machines open no scope either.
    let closed = first(&pool, &Err(refusal(Quota)));
    assert_eq!(closed.after(&replay, &answer(1, Vec::new()), at(1), &timings()), None);
    // The refusal of a whole call applies to the present.
    let refused = Cooldowns::default().after(&replay, &Err(refusal(Throttle)), at(0), &timings());
    assert!(refused.is_some_and(|known| known.covering(&CooldownScope::Calls, at(1)).is_some()));
}

#[test]
fn what_ec2_refuses_is_asked_for_again_once_somebody_has_looked_at_the_pool() {
    let pool = of(MarketPolicy::OnDemand);
    let in_place = || answer(0, vec![part(Authorization, place("m7i.large", "subnet-a"))]);
    let rows = [
        ("the pool", Err(refusal(Configuration)), true),
        ("a place", in_place(), true),
        ("capacity", Err(refusal(Capacity)), false),
        ("a quota", Err(refusal(Quota)), false),
        ("all calls", Err(refusal(Throttle)), false),
    ];
    let open = offered(&Cooldowns::default(), &pool, 1);
    for (name, answer, is_opened) in rows {
        let known = first(&pool, &answer);
        assert_ne!(offered(&known, &pool, 1), open, "{name}");
        let opened = known.opened(|one| one == Some(&pool.name), at(1));
        assert_eq!(opened.is_some(), is_opened, "{name}");
        opened.iter().for_each(|known| assert_eq!(offered(known, &pool, 1), open, "{name}"));
        let of_others = known.opened(|one| one.is_some_and(|one| *one != pool.name), at(1));
        assert_eq!(of_others, None, "{name}");
    }
    // A quota belongs to the account: a new deployment may follow its increase.
    let known = first(&pool, &Err(refusal(Quota)));
    let opened = known.opened(|one| one.is_none_or(|one| *one == pool.name), at(1));
    assert_eq!(opened.map(|known| offered(&known, &pool, 1)), Some(open));
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    let pool = of(MarketPolicy::Spot);
    assert_eq!(
        Cooldowns::default().after(&launch(&pool), &answer(1, Vec::new()), at(0), &timings()),
        None
    );
}

#[test]
fn the_record_stays_small() {
    let wide = of(MarketPolicy::Spot).with(|pool| {
        pool.instance_types = (0..50).map(|n| format!("m{n}.large").into()).collect();
        pool.subnets = (0..10).map(|n| format!("subnet-{n}").into()).collect();
    });
    let known = first(&wide, &Err(refusal(Capacity)));
    assert_eq!(known.list.len(), super::MAX_COOLDOWNS);
    assert!(serde_json::to_vec(&known).expect("JSON").len() < 100_000);
    // Forgotten refusals are dropped by the next write.
    let later = after(&known, &pool(), &Err(refusal(Quota)), at(10_000));
    assert_eq!(later.list.len(), 1);
}

#[test]
fn while_a_configuration_is_new_ec2_may_not_know_it_yet() {
    for class in [Configuration, Authorization] {
        let softened = while_settling(Err(refusal(class)));
        assert_eq!(softened.map_err(|error| error.class), Err(Consistency));
        let softened = while_settling(answer(0, vec![refusal(class)])).expect("an answer");
        assert_eq!(softened.errors[0].class, Consistency);
    }
    for class in [Throttle, Capacity, Quota, Ambiguous, Idempotency] {
        let same = while_settling(Err(refusal(class)));
        assert_eq!(same.map_err(|error| error.class), Err(class));
    }
}
