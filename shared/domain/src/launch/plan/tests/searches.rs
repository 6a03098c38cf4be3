//! Properties for any demand, any supply and any responses of EC2.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::apply::launch;
use super::{READ, free_booting, free_idle, free_slot, over_maximum, plan, read, view};
use crate::ec2::{ErrorClass, Make};
use crate::ids::MachineId;
use crate::instance::{Instance, State};
use crate::job::Job;
use crate::job::labels::Labels;
use crate::launch::plan::{Answered, MAX_BEYOND, MAX_SLOTS, apply};
use crate::launch::{LaunchAnswer, LaunchState};
use crate::pool::MarketPolicy;
use crate::stored::{Change, Stored};
use crate::testkit::{
    With, at, forced, job, machine, pool, refusal, retrying, searched, slot, timings,
};

/// Jobs in any order, some of which the pool does not serve.
fn demand() -> impl Strategy<Value = Vec<Job>> {
    let one = |n: u32| {
        (0..500_u32, prop::bool::weighted(0.1)).prop_map(move |(queued, odd)| {
            job(n).with(|job| {
                job.last_event.queued_at = Some(at(queued));
                if odd {
                    job.last_event.labels = Labels::new(["windows"]);
                }
            })
        })
    };
    (0..110_u32).prop_flat_map(move |count| (0..count).map(one).collect::<Vec<_>>())
}

fn supply() -> impl Strategy<Value = Vec<Instance>> {
    prop::collection::vec(0..4_u8, 0..30).prop_map(|kinds| {
        (0..)
            .zip(kinds)
            .map(|(n, kind)| match kind {
                0 => free_slot(n),
                1 => free_booting(n),
                2 => free_idle(n).with(|i| i.entity = "elsewhere".parse().expect("valid")),
                _ => free_idle(n),
            })
            .collect()
    })
}

fn retries() -> impl Strategy<Value = Vec<Instance>> {
    prop::collection::vec(1..5_u32, 0..60).prop_map(|attempts| {
        (1000..)
            .zip(attempts)
            .map(|(n, attempts)| {
                retrying().with(|i| {
                    i.name = slot(n).name;
                    i.attempts = attempts;
                })
            })
            .collect()
    })
}

fn unique<T: Ord>(items: impl IntoIterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    items.into_iter().all(|item| seen.insert(item))
}

proptest! {
    #![proptest_config(searched(150))]

    #[test]
    fn a_plan_gives_each_job_one_runner_and_each_slot_one_job(
        demand in demand(),
        supply in supply(),
        retries in retries(),
        (max, live) in (0..120_u32, 0..120_u32),
        market in prop::sample::select(vec![MarketPolicy::Spot, MarketPolicy::SpotThenOnDemand]),
    ) {
        let (pool, timings) = (pool().with(|pool| { pool.max = max; pool.market = market; }), timings());
        let plan = plan(view(&pool, &timings, demand.clone()).with(|view| {
            view.supply = read(supply.clone());
            view.retries = read(retries.clone());
            view.conditions.live = live;
        }));
        let beyond = || plan.launches.iter().flat_map(|one| &one.beyond);
        let claimed = || plan.launches.iter().flat_map(|one| &one.fresh);
        let given = || plan.claims.iter().map(|(job, slot)| (slot.next(), job.next()));
        let made = || {
            let claimed = claimed().map(|(instance, job)| (instance, job.next()));
            claimed.chain(beyond().map(|(instance, job)| (instance, job.record())))
        };
        let fresh = made;

        // No job twice, no instance twice, and both sides agree.
        prop_assert!(unique(given().chain(made()).map(|(_, job)| job.key())));
        prop_assert!(unique(given().chain(made()).map(|(instance, _)| instance.name.clone())));
        for (instance, job) in beyond() {
            prop_assert_eq!((instance.claim(), &job.claim), (None, &None));
        }
        for (instance, job) in given().chain(claimed().map(|(instance, job)| (instance, job.next()))) {
            prop_assert_eq!(instance.claim(), Some(job.key()));
            prop_assert_eq!(job.claim.as_ref(), Some(&instance.name));
        }
        // Never above the capacity; no job of the pool waits while there is capacity, and every
        // waiting job has a reason.
        let room = max.saturating_sub(live) as usize;
        let ours: Vec<&Job> = demand.iter().filter(|job| pool.serves(job).is_ok()).collect();
        let left = ours.len() - plan.claims.len();
        prop_assert_eq!(plan.left.len(), demand.len() - plan.claims.len() - fresh().count());
        prop_assert_eq!(fresh().count(), left.min(room));
        prop_assert_eq!(over_maximum(&plan), left - fresh().count());
        // No unserved job is older than a job that got a machine.
        let served: BTreeSet<_> = given().chain(made()).map(|(_, job)| job.key()).collect();
        let waits = ours.iter().filter(|job| !served.contains(&job.key())).map(|job| job.queued_at()).min();
        let youngest = made().map(|(_, job)| job.queued_at()).max();
        prop_assert!(waits.zip(youngest).is_none_or(|(waits, youngest)| youngest <= waits));
        // Each retry once, each launch as large as its slots, and no launch without slots.
        let again = || plan.launches.iter().flat_map(|one| &one.again);
        prop_assert!(unique(again().map(|slot| slot.name.clone())));
        prop_assert_eq!(again().count(), retries.len());
        prop_assert!(unique(plan.launches.iter().map(|one| one.launch.id.clone())));
        for one in &plan.launches {
            let slots: Vec<_> = one.again.iter().map(Change::next).chain(one.instances()).collect();
            prop_assert!((1..=MAX_SLOTS + MAX_BEYOND).contains(&slots.len()));
            prop_assert_eq!(one.launch.request.capacity as usize, slots.len());
            prop_assert!(slots.iter().all(|slot| slot.launch == one.launch.id));
            prop_assert!(slots.iter().map(|slot| &slot.name).eq(&one.launch.slots));
        }
    }
}

/// An event of a launch of two slots.
#[derive(Clone, Debug)]
enum Happening {
    /// EC2 responds with these machines or an error, and the lookup by tag shows those.
    Answer(Result<Vec<u32>, ErrorClass>, Vec<u32>),
    /// A concurrent pass binds a machine, and stops before it settles the launch.
    BoundBefore(u32),
    /// An operator orders the delete of a slot.
    Ordered(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    let machines = || prop::collection::vec(1..5_u32, 0..4);
    let classes = vec![ErrorClass::Ambiguous, ErrorClass::Capacity, ErrorClass::Throttle];
    let answer = prop_oneof![machines().prop_map(Ok), prop::sample::select(classes).prop_map(Err),];
    prop_oneof![
        3 => (answer, machines()).prop_map(|(answer, found)| Happening::Answer(answer, found)),
        1 => (1..5_u32).prop_map(Happening::BoundBefore),
        1 => (0..2_usize).prop_map(Happening::Ordered),
    ]
}

/// The tables: `machine#` items, and slots by name.
#[derive(Debug, Default)]
struct Tables {
    owners: BTreeMap<MachineId, String>,
    slots: BTreeMap<String, Instance>,
}

impl Tables {
    fn bind(&mut self, machine: MachineId, slot: Instance) {
        let before = self.slots[slot.name.as_str()].machine();
        assert_eq!(before, None, "two machines in {}", slot.name);
        let owner = self.owners.insert(machine, slot.name.as_str().to_owned());
        assert_eq!(owner, None, "one machine in two slots");
        self.slots.insert(slot.name.as_str().to_owned(), slot);
    }
}

proptest! {
    #![proptest_config(searched(500))]

    #[test]
    fn no_machine_has_two_slots_and_no_slot_two_machines(
        happenings in prop::collection::vec(happening(), 0..10),
    ) {
        let timings = timings();
        let (mut launch, slots) = launch(1);
        let mut tables = Tables::default();
        tables.slots.extend(slots.into_iter().map(|slot| (slot.name.as_str().to_owned(), slot)));
        for (n, one) in (1..).zip(&happenings) {
            let now = at(1000 + n);
            match one {
                Happening::Answer(answer, found) if launch.state == LaunchState::Open => {
                    let ids = |numbers: &[u32]| {
                        numbers.iter().map(|n| (machine(*n), Make::default())).collect()
                    };
                    let answer = answer
                        .as_ref()
                        .map(|numbers| LaunchAnswer { machines: ids(numbers), errors: Vec::new() })
                        .map_err(|class| refusal(*class));
                    let answered = Answered { at: now, answer, found: ids(found) };
                    let slots: Vec<Instance> = tables.slots.values().cloned().collect();
                    let free = slots.iter().filter(|slot| slot.is_free_slot_of(&launch.id)).count();
                    let owned = |one: &MachineId| tables.owners.contains_key(one);
                    let stored = Stored::read(launch.clone(), READ);
                    let outcome = apply(&stored, read(slots), &answered, owned, now, &timings);
                    let settled = outcome.launch.state == LaunchState::Settled;
                    let told = outcome.bound.len() + outcome.failed.len() + outcome.waiting.len();
                    prop_assert!(told <= free, "told of slots that were taken");
                    prop_assert!(!settled || told == free, "a slot is forgotten");
                    prop_assert!(!settled || outcome.waiting.is_empty());
                    prop_assert!(settled || outcome.failed.is_empty(), "failed without proof");
                    for (machine, slot) in outcome.bound {
                        prop_assert_eq!(slot.machine(), Some(&machine));
                        tables.bind(machine, slot.next().clone());
                    }
                    for slot in outcome.failed.into_iter().chain(outcome.waiting) {
                        prop_assert!(slot.machine().is_none());
                        tables.slots.insert(slot.name.as_str().to_owned(), slot.next().clone());
                    }
                    launch = outcome.launch.next().clone().with(|launch| launch.calls += 1);
                    // A settled launch leaves no slot in `creating`.
                    let creating = tables.slots.values().any(|slot| slot.state() == State::Creating);
                    prop_assert!(!settled || !creating);
                }
                Happening::BoundBefore(number) => {
                    let free = tables.slots.values().find(|slot| slot.is_free_slot_of(&launch.id));
                    let slot = free.filter(|_| !tables.owners.contains_key(&machine(*number))).cloned();
                    if let Some(slot) = slot {
                        let bound = slot.with(|slot| slot.bind(machine(*number), now, &timings));
                        tables.bind(machine(*number), bound);
                    }
                }
                Happening::Ordered(index) => {
                    let slot = tables.slots.values_mut().nth(*index).expect("one of two");
                    slot.order_delete(&forced(1000 + n), now);
                }
                Happening::Answer(..) => {}
            }
        }
    }
}
