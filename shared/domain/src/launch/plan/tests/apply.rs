//! EC2's response: which slots are bound, which have failed, and whether the outcome is still
//! unknown.

use std::collections::BTreeMap;

use super::{READ, read};
use crate::ec2::ErrorClass::{
    Ambiguous, Authorization, Blocked, Capacity, Configuration, Consistency, Idempotency, Quota,
    Throttle,
};
use crate::ec2::{ErrorClass, LaunchError, Make, Market};
use crate::ids::MachineId;
use crate::instance::{Instance, State};
use crate::launch::plan::{Answered, plan};
use crate::launch::record::Cooldowns;
use crate::launch::{Launch, LaunchAnswer, LaunchOutcome, LaunchState};
use crate::pool::{MarketPolicy, Pool};
use crate::stored::Stored;
use crate::testkit::{With, at, forced, job, machine, pool, refusal, slot, timings};
use crate::time::Time;
use crate::timings::Timings;

const ALL: [ErrorClass; 9] = [
    Throttle,
    Capacity,
    Quota,
    Configuration,
    Authorization,
    Consistency,
    Idempotency,
    Blocked,
    Ambiguous,
];

/// When EC2's response arrived.
const ANSWERED: Time = Time::from_millis(1_013_000);

/// A launch of two slots at second 1000, called for the `calls`-th time.
pub(super) fn launch(calls: u32) -> (Launch, Vec<Instance>) {
    let (pool, timings) = (pool(), timings());
    let mut plan = plan(super::view(&pool, &timings, vec![job(1), job(2)]));
    let planned = plan.launches.remove(0);
    let slots = planned.fresh.into_iter().map(|(instance, _)| instance).collect();
    let earlier = (calls > 1).then_some(planned.launch.created_at);
    let called =
        planned.launch.with(|launch| (launch.calls, launch.doubtful_at) = (calls, earlier));
    (called, slots)
}

fn apply(
    launch: &Launch,
    slots: Vec<Instance>,
    answered: &Answered,
    owned: impl Fn(&MachineId) -> bool,
    now: Time,
    timings: &Timings,
) -> LaunchOutcome {
    let launch = Stored::read(launch.clone(), READ);
    crate::launch::plan::apply(&launch, read(slots), answered, owned, now, timings)
}

fn machines(count: u32) -> BTreeMap<MachineId, Make> {
    (1..=count).map(|number| (machine(number), Make::default())).collect()
}

fn answer(count: u32, errors: &[ErrorClass]) -> Answered {
    let errors = errors.iter().map(|class| refusal(*class)).collect();
    Answered {
        at: ANSWERED,
        answer: Ok(LaunchAnswer { machines: machines(count), errors }),
        found: BTreeMap::new(),
    }
}

fn refused(class: ErrorClass) -> Answered {
    Answered { at: ANSWERED, answer: Err(refusal(class)), found: BTreeMap::new() }
}

fn found(count: u32, answered: Answered) -> Answered {
    Answered { found: machines(count), ..answered }
}

/// A response may omit machines that the lookup shows, and a fleet has the market that was
/// requested.
#[test]
fn a_slot_keeps_what_its_machine_is() {
    let make = |kind: Option<&str>, zone: Option<&str>, market| Make {
        kind: kind.map(Into::into),
        zone: zone.map(Into::into),
        subnet: None,
        market,
    };
    let answer = |make| {
        let machines = BTreeMap::from([(machine(1), make), (machine(2), Make::default())]);
        Ok(LaunchAnswer { machines, errors: Vec::new() })
    };
    let first = make(Some("m7i.large"), None, Some(Market::OnDemand));
    let looked = make(Some("m7a.large"), Some("us-east-1a"), Some(Market::Spot));
    let found = BTreeMap::from([(machine(1), looked.clone())]);
    let answered = Answered { at: ANSWERED, answer: answer(first.clone()), found };
    let outcome = applied(2, &answered, 1010);
    let makes: Vec<&Make> = outcome.bound.iter().map(|(_, slot)| &slot.make).collect();
    let asked = make(None, None, Some(launch(1).0.request.market));
    assert_eq!(makes, [&looked, &asked], "what EC2 shows counts before what it answered");
    let alone = applied(1, &Answered { found: BTreeMap::new(), ..answered }, 1010);
    assert_eq!(alone.bound[0].1.make, first);
    assert_eq!(alone.bound[0].1.bound_at, Some(ANSWERED), "the call took seconds");
}

fn applied(calls: u32, answered: &Answered, second: u32) -> LaunchOutcome {
    let (launch, slots) = launch(calls);
    apply(&launch, slots, answered, |_| false, at(second), &timings())
}

/// `2 bound, 0 failed, 0 waiting, settled`.
fn told(outcome: &LaunchOutcome) -> String {
    format!(
        "{} bound, {} failed, {} waiting, {}",
        outcome.bound.len(),
        outcome.failed.len(),
        outcome.waiting.len(),
        if outcome.launch.state == LaunchState::Settled { "settled" } else { "open" }
    )
}

#[test]
fn an_answer_settles_what_it_proves() {
    let (whole, part, none) = (
        "2 bound, 0 failed, 0 waiting, settled",
        "1 bound, 1 failed, 0 waiting, settled",
        "0 bound, 2 failed, 0 waiting, settled",
    );
    let (open, half_open) =
        ("0 bound, 0 failed, 2 waiting, open", "1 bound, 0 failed, 1 waiting, open");
    // Columns: name, calls so far, response, second, outcome.
    let rows = [
        ("first, whole", 1, answer(2, &[]), 1001, whole),
        ("first, more than asked for", 1, answer(3, &[]), 1001, whole),
        ("first, part", 1, answer(1, &[Capacity]), 1001, part),
        ("first, part without a reason", 1, answer(1, &[]), 1001, part),
        ("first, nothing", 1, answer(0, &[Capacity]), 1001, none),
        ("first, nothing without a reason", 1, answer(0, &[]), 1001, none),
        ("replay, whole", 2, answer(2, &[]), 1001, whole),
        ("replay, part: the first answer again", 2, answer(1, &[]), 1001, part),
        ("replay, errors: the first answer again", 2, answer(0, &[Capacity]), 1001, none),
        ("replay, nothing: it may have left the machines out", 2, answer(0, &[]), 1001, open),
        ("replay, nothing, all found by tag", 2, found(2, answer(0, &[])), 1001, whole),
        ("replay, nothing, one found by tag", 2, found(1, answer(0, &[])), 1001, half_open),
        ("replay, the same machine twice", 2, found(1, answer(1, &[])), 1001, part),
        ("replay, one answered and another found", 2, found(2, answer(1, &[])), 1001, whole),
        ("first, ambiguous", 1, refused(Ambiguous), 1001, open),
        ("first, ambiguous, looked for long enough", 1, refused(Ambiguous), 1300, none),
        ("replay, ambiguous again", 2, refused(Ambiguous), 1299, open),
        ("replay, ambiguous, looked for long enough", 2, refused(Ambiguous), 1300, none),
        ("replay, ambiguous, found by tag", 2, found(1, refused(Ambiguous)), 1001, half_open),
        ("replay, ambiguous, found at last", 2, found(1, refused(Ambiguous)), 1300, part),
        (
            "replay, throttled: the first call is as unknown as before",
            2,
            refused(Throttle),
            1001,
            open,
        ),
        (
            "replay, no capacity: the first call may still be under way",
            2,
            refused(Capacity),
            1119,
            open,
        ),
        (
            "replay, no capacity: the token is unknown, so nothing was launched",
            2,
            refused(Capacity),
            1120,
            none,
        ),
    ];
    for (name, calls, answered, second, expected) in rows {
        assert_eq!(told(&applied(calls, &answered, second)), expected, "{name}");
    }
}

#[test]
fn each_class_of_refusal_is_certain_or_not() {
    for class in ALL {
        let certain_at_first = !matches!(class, Ambiguous | Idempotency);
        let certain_in_a_replay = class == Capacity;
        for (calls, certain, second) in
            [(1, certain_at_first, 1001), (2, certain_in_a_replay, 1120)]
        {
            let outcome = applied(calls, &refused(class), second);
            let settled = outcome.launch.state == LaunchState::Settled;
            assert_eq!(settled, certain, "{class:?} in call {calls}");
            assert_eq!(outcome.failed.len(), if certain { 2 } else { 0 }, "{class:?}");
            assert_eq!(class.is_definite(), certain_at_first, "{class:?}");
        }
    }
}

#[test]
fn a_failed_slot_is_tried_again_or_given_up() {
    let outcome = applied(1, &answer(0, &[Capacity]), 1001);
    for slot in &outcome.failed {
        assert_eq!((slot.state(), slot.attempts), (State::PendingCreate, 1));
        assert_eq!(slot.due_at(), Some(at(1016)));
    }
    let (launch, slots) = launch(1);
    let last: Vec<_> = slots.into_iter().map(|slot| slot.with(|slot| slot.attempts = 4)).collect();
    let after =
        |class| apply(&launch, last.clone(), &refused(class), |_| false, at(1001), &timings());
    assert!(after(Capacity).failed.iter().all(|slot| slot.state() == State::Error));
    // The end of a machine frees capacity.
    assert!(after(Quota).failed.iter().all(|slot| slot.state() == State::PendingCreate));
}

#[test]
fn the_error_that_will_not_heal_by_itself_is_named() {
    let order = [
        Ambiguous,
        Throttle,
        Capacity,
        Consistency,
        Idempotency,
        Blocked,
        Quota,
        Configuration,
        Authorization,
    ];
    for pair in order.windows(2) {
        let [milder, worse] = pair else { unreachable!("windows of two") };
        for errors in [[*milder, *worse], [*worse, *milder]] {
            let outcome = applied(1, &answer(0, &errors), 1001);
            let fault = outcome.failed[0].last_error.clone().expect("a reason");
            assert_eq!(
                (fault.code, fault.operation.as_str()),
                (format!("{worse:?}"), "CreateFleet")
            );
        }
    }
    let silent = applied(1, &answer(0, &[]), 1001);
    let fault = silent.failed[0].last_error.clone().expect("a reason");
    assert_eq!(fault.code, "NoAnswer");
}

#[test]
fn an_open_launch_is_looked_for_again_soon() {
    let outcome = applied(2, &refused(Ambiguous), 1200);
    assert_eq!(outcome.launch.lease_until, at(1215));
    assert!(outcome.waiting.iter().all(|slot| slot.due_at() == Some(at(1215))));
    assert!(outcome.waiting.iter().all(|slot| slot.state() == State::Creating));
    assert_eq!(outcome.launch.replaces(), Some(READ));
}

#[test]
fn machines_with_an_owner_and_slots_with_a_machine_are_left_alone() {
    let (launch, mut slots) = launch(2);
    slots[0].bind(machine(1), at(1000), &timings());
    let owned = |one: &MachineId| *one == machine(1);
    let outcome = apply(&launch, slots, &answer(2, &[]), owned, at(1001), &timings());
    let [(bound, slot)] = outcome.bound.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((bound, slot.name.as_str()), (&machine(2), "default-00c0ffee-0-1"));
    assert_eq!((slot.state(), slot.machine()), (State::Running, Some(&machine(2))));
}

#[test]
fn a_slot_that_was_ordered_away_still_takes_its_machine() {
    let (launch, mut slots) = launch(1);
    slots[0].order_delete(&forced(1000), at(1000));
    let outcome = apply(&launch, slots.clone(), &answer(2, &[]), |_| false, at(1001), &timings());
    let [(_, first), (_, second)] = outcome.bound.as_slice() else { panic!("{outcome:#?}") };
    assert_eq!((first.state(), second.state()), (State::PendingForceDelete, State::Running));
    // A slot without a machine needs no retry and keeps its due time.
    let open = apply(&launch, slots.clone(), &refused(Ambiguous), |_| false, at(1001), &timings());
    assert_eq!(told(&open), "0 bound, 0 failed, 1 waiting, open");
    let failed = apply(&launch, slots, &refused(Capacity), |_| false, at(1001), &timings());
    assert_eq!(failed.failed[0].state(), State::PendingForceDelete);
}

#[test]
fn slots_of_another_launch_are_none_of_its_business() {
    let (launch, mut slots) = launch(1);
    slots[0].launch = slot(1).launch;
    slots[1].launch_failed(&refusal(Capacity), at(1000), &timings());
    let outcome = apply(&launch, slots, &answer(2, &[]), |_| false, at(1001), &timings());
    assert_eq!(told(&outcome), "0 bound, 0 failed, 0 waiting, settled");
}

#[test]
fn an_error_reads_as_code_and_sentence() {
    let error = LaunchError::new(Quota, "VcpuLimit", "no");
    assert_eq!(error.to_string(), "VcpuLimit: no");
}

/// For a pool that can fall back to On-Demand, and one that cannot.
#[test]
fn launches_that_stay_unknown_have_the_market_give_way_after_three_in_a_row() {
    let (timings, given_up) = (timings(), 300);
    let both = pool().with(|pool| pool.market = MarketPolicy::SpotThenOnDemand);
    let spot = pool().with(|pool| pool.market = MarketPolicy::Spot);
    let next = |known: &Cooldowns, begun: u32, answered: &Answered| {
        let (launch, slots) = launch(2);
        let launch = launch.with(|launch| {
            launch.request.market = Market::Spot;
            launch.created_at = at(begun);
        });
        let ended = at(begun + given_up);
        let outcome = apply(&launch, slots, answered, |_| false, ended, &timings);
        known.after_outcome(&outcome, ended, &timings).unwrap_or_else(|| known.clone())
    };
    let market = |known: &Cooldowns, pool: &Pool, second: u32| {
        known.offer(pool, Market::Spot, at(second)).map(|offer| offer.market)
    };
    // Columns: when each launch began, and whether the pool requests Spot after it.
    let rows = [
        ("one", &[1000][..], Market::Spot),
        ("two", &[1000, 1400], Market::Spot),
        ("three", &[1000, 1400, 1800], Market::OnDemand),
        ("three that were out together", &[1000, 1010, 1020], Market::Spot),
        ("three, one of them long ago", &[1000, 4000, 4400], Market::Spot),
    ];
    for (name, begun, expected) in rows {
        let known = begun
            .iter()
            .fold(Cooldowns::default(), |known, begun| next(&known, *begun, &refused(Ambiguous)));
        let last = begun[begun.len() - 1] + given_up;
        assert_eq!(market(&known, &both, last + 1), Ok(expected), "{name}");
        assert_eq!(market(&known, &spot, last + 1), Ok(Market::Spot), "{name}, spot alone");
        // Spot is tried again later.
        assert_eq!(market(&known, &both, last + 600), Ok(Market::Spot), "{name}");
        // A machine ends the series, even one that is found late.
        let found = next(&known, last - 250, &found(1, refused(Ambiguous)));
        assert_eq!(market(&found, &both, last + 51), Ok(Market::Spot), "{name}, found");
        assert_eq!(found.list.len(), 0, "{name}, found");
    }
    // A refusal with a reason does not count.
    let refused = next(&Cooldowns::default(), 1000, &refused(Capacity));
    assert_eq!(refused.list.len(), 0);
}
