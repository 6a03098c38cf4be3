//! Recently refused requests are omitted, wait, or use the other market.

use std::collections::BTreeMap;

use super::{READ, plan, read, view};
use crate::ec2::ErrorClass::{Capacity, Configuration, Quota, Throttle};
use crate::ec2::{Bucket, CooldownScope, ErrorClass, Make, Market, Override};
use crate::instance::{Instance, State};
use crate::job::Job;
use crate::launch::LaunchAnswer;
use crate::launch::plan::{Answered, Plan, apply, falls_back_at_once, is_launch_due};
use crate::launch::record::Cooldowns;
use crate::launch::record::cooldown::Cooldown;
use crate::launch::verdict::Brake;
use crate::pool::{MarketPolicy, Pool};
use crate::stored::Stored;
use crate::testkit::{With, at, creating, fault, job, machine, pool, refusal, slot, timings};

fn standard(market: Market) -> CooldownScope {
    CooldownScope::Quota { market, bucket: Bucket::Standard }
}

fn closed(closed: CooldownScope, until: u32) -> Cooldown {
    Cooldown {
        closed,
        since: at(900),
        at: at(900),
        until: at(until),
        times: 1,
        class: Capacity,
        code: "Code".to_owned(),
        message: "no".to_owned(),
    }
}

fn known(list: Vec<Cooldown>) -> Cooldowns {
    Cooldowns { list: list.into(), ..Cooldowns::default() }
}

fn place(kind: &str, subnet: &str) -> Override {
    Override { instance_type: kind.into(), subnet: subnet.into() }
}

fn of(market: MarketPolicy) -> Pool {
    pool().with(|pool| pool.market = market)
}

/// Slot `n` after refusals in second 10.
fn refused(n: u32, classes: &[ErrorClass]) -> Instance {
    creating().with(|slot_| {
        slot_.name = slot(1000 + n).name;
        for (index, class) in classes.iter().enumerate() {
            if index > 0 {
                slot_.relaunch(slot_.launch.clone(), at(10), &timings());
            }
            slot_.launch_failed(&refusal(*class), at(10), &timings());
        }
    })
}

/// Plans two jobs and the given slots at second 1000.
fn planned(pool: &Pool, cooldowns: &Cooldowns, retries: Vec<Instance>) -> Plan {
    let timings = timings();
    plan(view(pool, &timings, vec![job(1), job(2)]).with(|view| {
        view.conditions.cooldowns = cooldowns.clone();
        view.retries = read(retries);
    }))
}

#[test]
fn what_cools_down_is_not_in_the_request() {
    let market = Market::OnDemand;
    let dry = place("m7i.large", "subnet-a");
    let known =
        known(vec![closed(CooldownScope::Place { market, place: dry.clone(), pool: None }, 1001)]);
    let plan = planned(&pool(), &known, Vec::new());
    let [launch] = plan.launches.as_slice() else { panic!("one launch") };
    let rest: Vec<Override> = pool().places().into_iter().filter(|one| *one != dry).collect();
    assert_eq!(launch.launch.request.overrides, rest);
    assert_eq!((plan.left.len(), plan.put_off.len()), (0, 0));
}

/// Each row: the pool's market, its places in which EC2 reclaimed a machine, those that it refuses, and
/// what is requested: the market and the number of places.
#[test]
fn an_interruption_changes_what_is_requested_and_never_whether() {
    use MarketPolicy::{OnDemand, Spot, SpotThenOnDemand};
    let places = pool().places();
    let all = places.len();
    assert!(all > 2, "{all}");
    let rows: [(MarketPolicy, usize, usize, (Market, usize)); 7] = [
        (Spot, 1, 0, (Market::Spot, all - 1)),
        (SpotThenOnDemand, 1, 0, (Market::Spot, all - 1)),
        (OnDemand, all, 0, (Market::OnDemand, all)),
        // No place is left.
        (Spot, all, 0, (Market::Spot, all)),
        (SpotThenOnDemand, all, 0, (Market::Spot, all)),
        // The other places are refused.
        (Spot, 1, all - 1, (Market::Spot, 1)),
        (SpotThenOnDemand, 1, all - 1, (Market::Spot, 1)),
    ];
    for (policy, reclaimed, refused, expected) in rows {
        let refused = places.iter().rev().take(refused).cloned();
        let refused =
            refused.map(|place| CooldownScope::Place { market: Market::Spot, place, pool: None });
        let mut record = known(refused.map(|scope| closed(scope, 1_001)).collect());
        for place in &places[..reclaimed] {
            let make = Make {
                kind: Some(place.instance_type.clone()),
                subnet: Some(place.subnet.clone()),
                market: Some(Market::Spot),
                zone: None,
            };
            record = record.after_reclaim(&make, at(500), at(500)).expect("a place");
        }
        let plan = planned(&of(policy), &record, Vec::new());
        let [launch] = plan.launches.as_slice() else { panic!("{policy:?}: one launch") };
        let request = &launch.launch.request;
        let row = format!("{policy:?}, {reclaimed} of {all}");
        assert_eq!((request.market, request.overrides.len()), expected, "{row}");
        let avoids = |place: &Override| places[..reclaimed].contains(place);
        let is_avoided = request.market == Market::Spot && request.overrides.iter().any(avoids);
        assert_eq!(is_avoided, expected.0 == Market::Spot && expected.1 != all - 1, "{row}");
    }
}

#[test]
fn what_cannot_be_asked_for_waits_with_its_reason_and_its_time() {
    let pool = of(MarketPolicy::Spot);
    let all =
        [CooldownScope::Calls, standard(Market::Spot), CooldownScope::Pool(pool.name.clone())];
    for one in all {
        let refusal = closed(one, 1100);
        let sentence = refusal.subject();
        let plan = planned(&pool, &known(vec![refusal]), vec![refused(1, &[Capacity])]);
        assert_eq!(plan.launches, [], "{sentence}");
        for block in plan.blocks() {
            assert_eq!(block.until, Some(at(1100)), "{sentence}");
            assert_eq!(block.why, format!("{sentence} (Code: no)"));
        }
        assert_eq!((plan.left.len(), plan.stuck.len()), (2, 1));
        let [slot] = plan.put_off.as_slice() else { panic!("one slot: {sentence}") };
        assert_eq!((slot.due_at(), slot.state()), (Some(at(1100)), State::PendingCreate));
        assert_eq!(slot.attempts, 1, "no attempt was made");
        assert_eq!(slot.replaces(), Some(READ));
    }
}

#[test]
fn a_slot_is_looked_at_again_in_a_long_wait() {
    let pool = of(MarketPolicy::Spot);
    let known = known(vec![closed(standard(Market::Spot), 9000)]);
    let plan = planned(&pool, &known, vec![refused(1, &[Capacity])]);
    let due = plan.put_off.iter().map(|slot| slot.due_at());
    assert_eq!(due.collect::<Vec<_>>(), [Some(at(1300))]);
}

#[test]
fn jobs_beyond_the_maximum_wait_for_the_pool_and_not_for_ec2() {
    let pool = of(MarketPolicy::Spot).with(|pool| pool.max = 1);
    let free = Cooldowns::default();
    let closed = known(vec![closed(CooldownScope::Calls, 1100)]);
    let brakes = |known| {
        let plan = planned(&pool, known, Vec::new());
        plan.left.iter().map(|left| left.block.brake).collect::<Vec<_>>()
    };
    assert_eq!(brakes(&free), [Brake::Maximum]);
    assert_eq!(brakes(&closed), [Brake::Refusal, Brake::Refusal]);
}

#[test]
fn the_rest_of_a_spot_launch_goes_on_demand_at_once() {
    let any = of(MarketPolicy::SpotThenOnDemand);
    // Columns: refusals so far, and whether the next attempt is immediate.
    let rows: [(&[ErrorClass], bool); 6] = [
        (&[Capacity], true),
        (&[Quota], true),
        (&[Throttle], false),
        (&[Configuration], false),
        (&[Throttle, Capacity], true),
        // Its On-Demand attempt was refused as well, so now it waits.
        (&[Capacity, Capacity], false),
    ];
    for (classes, expected) in rows {
        let slot = refused(1, classes);
        assert_eq!(falls_back_at_once(&any, &slot), expected, "{classes:?}");
        assert_eq!(
            is_launch_due(&any, &slot, &Cooldowns::default(), at(11), &timings()),
            expected,
            "{classes:?}"
        );
        assert!(!falls_back_at_once(&of(MarketPolicy::Spot), &slot), "{classes:?}");
        assert!(
            is_launch_due(&any, &slot, &Cooldowns::default(), at(1000), &timings()),
            "{classes:?}"
        );
    }
}

/// One of two machines arrives: the other falls back to On-Demand, and only for lack of capacity or
/// quota.
#[test]
fn what_a_partial_spot_answer_leaves_is_bought_on_demand() {
    let timings = timings();
    let one = Some((Market::OnDemand, 1));
    for (class, expected) in [(Capacity, one), (Quota, one), (Throttle, None)] {
        let pool = of(MarketPolicy::SpotThenOnDemand);
        let launched = planned(&pool, &Cooldowns::default(), Vec::new()).launches.remove(0);
        assert_eq!((launched.launch.request.market, launched.fresh.len()), (Market::Spot, 2));
        let slots = read(launched.fresh.into_iter().map(|(slot, _)| slot));
        let part = LaunchAnswer {
            machines: [(machine(1), Make::default())].into(),
            errors: vec![refusal(class)],
        };
        let answered = Answered { at: at(1001), answer: Ok(part), found: BTreeMap::new() };
        let called = launched.launch.with(|launch| launch.calls = 1);
        let called = Stored::read(called, READ);
        let outcome = apply(&called, slots, &answered, |_| false, at(1001), &timings);
        assert_eq!((outcome.bound.len(), outcome.failed.len()), (1, 1));

        let due =
            |slot: &Instance| is_launch_due(&pool, slot, &Cooldowns::default(), at(1001), &timings);
        let failed = outcome.failed.iter().map(|slot| slot.next().clone());
        let rest: Vec<Instance> = failed.filter(due).collect();
        let plan = plan(view(&pool, &timings, Vec::new()).with(|view| view.retries = read(rest)));
        let bought = plan.launches.first().map(|one| &one.launch.request);
        assert_eq!(bought.map(|request| (request.market, request.capacity)), expected, "{class:?}");
        assert!(plan.launches.len() <= 1);
    }
}

#[test]
fn each_slot_goes_to_the_market_that_its_refusal_leaves() {
    let pool = of(MarketPolicy::SpotThenOnDemand);
    let slots =
        vec![refused(1, &[Throttle]), refused(2, &[Capacity]), refused(3, &[Configuration])];
    let plan = planned(&pool, &Cooldowns::default(), slots);
    let shape: Vec<(Market, usize, usize)> = plan
        .launches
        .iter()
        .map(|one| (one.launch.request.market, one.again.len(), one.fresh.len()))
        .collect();
    assert_eq!(shape, [(Market::Spot, 2, 2), (Market::OnDemand, 1, 0)]);
    // With Spot's quota exhausted, all machines are On-Demand.
    let known = known(vec![closed(standard(Market::Spot), 1100)]);
    let plan = planned(&pool, &known, vec![refused(1, &[Throttle])]);
    let markets = plan.launches.iter().map(|one| one.launch.request.market);
    assert_eq!(markets.collect::<Vec<_>>(), [Market::OnDemand]);
    assert_eq!((plan.launches[0].again.len(), plan.launches[0].fresh.len()), (1, 2));
}

/// Its job may find a machine in a different pool; a slot that is retried has found it here.
#[test]
fn a_slot_that_nothing_can_be_asked_for_is_stuck() {
    let pool = of(MarketPolicy::OnDemand);
    let slots = || vec![refused(1, &[Capacity]), refused(2, &[Capacity])];
    let names = |plan: &Plan| -> Vec<(String, String)> {
        plan.stuck.iter().map(|one| (one.slot.name.to_string(), one.block.why.clone())).collect()
    };
    let open = planned(&pool, &Cooldowns::default(), slots());
    assert_eq!((open.launches.len(), names(&open).len()), (1, 0));

    let calls = known(vec![closed(CooldownScope::Calls, 1100)]);
    let cooling = planned(&pool, &calls, slots());
    assert_eq!((cooling.launches.len(), names(&cooling).len()), (0, 2));
    // As read: the pass that moves its job first stores that it waits.
    assert!(cooling.stuck.iter().all(|one| one.slot.version() == READ));

    let removed = pool.clone().with(|pool| pool.removed_at = Some(at(5)));
    let held = planned(&removed, &Cooldowns::default(), slots());
    assert_eq!(names(&held)[0].1, "pool default is being removed");
    // The pool is woken for them.
    assert_eq!((held.launches.len(), names(&held).len(), held.put_off.len()), (0, 2, 0));
}

/// One slot probes whether GitHub still refuses the pool's runners. The job of the other may find a
/// machine in a different pool.
#[test]
fn a_slot_that_github_refuses_in_this_pool_is_stuck() {
    let (pool, timings) = (of(MarketPolicy::OnDemand), timings());
    let slots = [refused(1, &[Capacity]), refused(2, &[Capacity])];
    let known = Cooldowns::default();
    let known = known.after_refused_configuration(&pool, &slots[0].entity, &fault("422"));
    let plan = plan(view(&pool, &timings, Vec::new()).with(|view| {
        view.conditions.cooldowns = known.expect("a trouble");
        view.conditions = std::mem::take(&mut view.conditions).judged_by(
            &pool,
            &[] as &[Job],
            &[] as &[Instance],
            &[] as &[Instance],
            view.now,
            &timings,
        );
        view.retries = read(slots);
    }));
    let again: Vec<&str> = plan.launches[0].again.iter().map(|slot| slot.name.as_str()).collect();
    let stuck: Vec<(&str, bool)> =
        plan.stuck.iter().map(|one| (one.slot.name.as_str(), one.block.elsewhere)).collect();
    assert_eq!((again, stuck), (vec!["default-l-1001"], vec![("default-l-1002", true)]));
    assert_eq!(plan.put_off.iter().map(|slot| slot.due_at()).collect::<Vec<_>>(), [Some(at(1060))]);
}

#[test]
fn a_throttled_call_is_no_attempt() {
    let slot = refused(1, &[Throttle, Throttle, Throttle, Throttle, Throttle, Throttle]);
    assert_eq!((slot.state(), slot.attempts), (State::PendingCreate, 0));
    assert_eq!(slot.due_at(), Some(at(25)));
}

#[test]
fn a_machine_is_as_young_as_its_last_launch() {
    let waited = refused(1, &[Capacity]).with(|slot| {
        slot.relaunch(slot.launch.clone(), at(2000), &timings());
        slot.bind(crate::testkit::machine(1), at(2005), &timings());
    });
    assert_eq!((waited.created_at, waited.launched_at()), (at(0), at(2000)));
    assert_eq!(waited.due_at(), Some(at(2600)));
}
