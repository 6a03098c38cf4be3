//! Fleet requests: size, market, names, tags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{READ, launched, over_maximum, plan, read, view};
use crate::ec2::{Market, Override};
use crate::ids::InstanceName;
use crate::instance::{Instance, State};
use crate::launch::LaunchState;
use crate::launch::plan::{MAX_SLOTS, MAX_SLOTS_COUNTED, MAX_SLOTS_OF_STACK, Plan, View};
use crate::pool::{Disk, MarketPolicy, Pool, Requirements};
use crate::testkit::{With, at, job, pool, retrying, slot, timings};

fn jobs(count: u32) -> Vec<crate::job::Job> {
    (1..=count).map(job).collect()
}

/// Slot `n` of an earlier launch with `attempts` behind it.
fn retry(n: u32, attempts: u32) -> Instance {
    retrying().with(|i| {
        i.name = slot(1000 + n).name;
        i.attempts = attempts;
    })
}

/// Market, retries and new slots of each launch.
fn shape(plan: &Plan) -> Vec<(Market, usize, usize)> {
    plan.launches
        .iter()
        .map(|one| (one.launch.request.market, one.again.len(), one.fresh.len()))
        .collect()
}

#[test]
fn a_launch_is_cut_to_what_one_transaction_holds() {
    let (pool, timings) = (pool().with(|pool| pool.max = 1000), timings());
    let sizes = |count| -> Vec<usize> {
        launched(&plan(view(&pool, &timings, jobs(count)))).iter().map(Vec::len).collect()
    };
    assert_eq!(sizes(1), [1]);
    assert_eq!(sizes(49), [49]);
    assert_eq!(sizes(55), [49, 6]);
    assert_eq!(sizes(160), [49, 49, 49, 13]);
    let two = plan(view(&pool, &timings, jobs(55)));
    let ids: Vec<&str> = two.launches.iter().map(|one| one.launch.id.as_str()).collect();
    assert_eq!(ids, ["default-00c0ffee-0", "default-00c0ffee-1"]);
    // Two records per slot, the launch and the counter.
    assert_eq!(MAX_SLOTS * 2 + 2, 100);
    assert_eq!(MAX_SLOTS_OF_STACK * 2 + 3, 99);
    assert_eq!(MAX_SLOTS_COUNTED * 3 + 3, 99);
    // Retries come first; new slots fill the rest.
    let mixed = plan(view(&pool, &timings, jobs(20)).with(|view| {
        view.retries = read((0..40).map(|n| retry(n, 1)));
    }));
    assert_eq!(shape(&mixed), [(Market::OnDemand, 40, 9), (Market::OnDemand, 0, 11)]);
}

/// The few jobs that exceed a launch join it, with a second commit for their claims, instead of
/// needing a separate call.
#[test]
fn a_few_jobs_more_go_with_a_full_launch() {
    let (pool, timings) = (pool().with(|pool| pool.max = 1000), timings());
    let planned = |count| plan(view(&pool, &timings, jobs(count))).launches;
    // Columns: jobs; for each launch the slots with and without a claim.
    let rows: [(u32, &[(usize, usize)]); 7] = [
        (49, &[(49, 0)]),
        (50, &[(48, 2)]),
        (54, &[(44, 10)]),
        (55, &[(49, 0), (6, 0)]),
        (99, &[(49, 0), (48, 2)]),
        (100, &[(49, 0), (47, 4)]),
        (104, &[(49, 0), (49, 0), (6, 0)]),
    ];
    for (count, expected) in rows {
        let launches = planned(count);
        let shape: Vec<(usize, usize)> =
            launches.iter().map(|one| (one.fresh.len(), one.beyond.len())).collect();
        assert_eq!(shape, expected, "{count} jobs");
        for one in &launches {
            // Two records for a slot with a claim, one for a slot without, the launch and the
            // counter; two for a claim added later.
            assert!(one.fresh.len() * 2 + one.beyond.len() + 2 <= 100);
            assert!(one.beyond.len() * 2 <= 100);
            assert_eq!(one.launch.request.capacity as usize, one.instances().count());
            let names: BTreeSet<_> = one.launch.slots.iter().collect();
            assert!(
                names
                    .iter()
                    .copied()
                    .eq(one.instances().map(|slot| &slot.name).collect::<BTreeSet<_>>())
            );
            for (instance, job) in &one.beyond {
                assert_eq!((instance.claim(), &job.claim), (None, &None));
            }
        }
    }
    // If limits are counted as well, the launch is split as before.
    let counted = plan(view(&pool, &timings, jobs(49)).with(|view| {
        let limits = crate::pool::limits::Limits { stack: Some(500), ..Default::default() };
        view.conditions.headroom = crate::pool::limits::Headroom::new(limits, Default::default());
    }));
    assert_eq!(launched(&counted).iter().map(Vec::len).collect::<Vec<_>>(), [48, 1]);
}

#[test]
fn each_market_has_its_own_request() {
    let timings = timings();
    let rows = [
        (MarketPolicy::OnDemand, vec![(Market::OnDemand, 2, 2)]),
        (MarketPolicy::Spot, vec![(Market::Spot, 2, 2)]),
        // Spot first; slots that Spot had no capacity for fall back to On-Demand.
        (MarketPolicy::SpotThenOnDemand, vec![(Market::Spot, 0, 2), (Market::OnDemand, 2, 0)]),
    ];
    for (policy, expected) in rows {
        let pool = pool().with(|pool| pool.market = policy);
        let plan = plan(view(&pool, &timings, jobs(2)).with(|view| {
            view.retries = read([retry(1, 1), retry(2, 4)]);
        }));
        assert_eq!(shape(&plan), expected, "{policy:?}");
    }
}

#[test]
fn retries_need_no_room_and_no_demand() {
    let (pool, timings) = (pool().with(|pool| pool.max = 2), timings());
    let plan = plan(view(&pool, &timings, jobs(1)).with(|view| {
        view.conditions.live = 2;
        view.retries = read([retry(1, 1)]);
    }));
    assert_eq!((shape(&plan), over_maximum(&plan)), (vec![(Market::OnDemand, 1, 0)], 1));
    let [again] = plan.launches[0].again.as_slice() else { panic!("one retry") };
    assert_eq!((again.state(), &again.launch), (State::Creating, &plan.launches[0].launch.id));
    assert_eq!(again.replaces(), Some(READ));
}

#[test]
fn the_request_holds_all_that_is_sent() {
    let (pool, timings) = (pool(), timings());
    let plan = plan(view(&pool, &timings, jobs(2)));
    let launch = &plan.launches[0].launch;
    assert_eq!(launch.id.as_str(), "default-00c0ffee-0");
    assert_eq!((launch.state, launch.calls, launch.created_at), (LaunchState::Open, 1, at(1000)));
    assert_eq!(launch.lease_until, at(1120));
    let request = &launch.request;
    assert_eq!((&*request.template_id, &*request.template_version), ("lt-1", "3"));
    assert_eq!((request.capacity, request.market), (2, Market::OnDemand));
    let pair = |(instance_type, subnet): (&str, &str)| Override {
        instance_type: instance_type.into(),
        subnet: subnet.into(),
    };
    // The first subnet depends on the launch: see `launches_begin_in_different_subnets`.
    let overrides = [
        ("m7i.large", "subnet-a"),
        ("m7i.large", "subnet-b"),
        ("m7a.large", "subnet-a"),
        ("m7a.large", "subnet-b"),
    ];
    assert_eq!(request.overrides, overrides.map(pair));
    let tags: Vec<String> =
        request.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        tags,
        [
            "muster:stack=prod",
            "muster:launch=default-00c0ffee-0",
            "muster:pool=default",
            "Name=default-00c0ffee-0"
        ]
    );
}

#[test]
fn slots_carry_their_job_and_their_launch() {
    let (own, timings) = (pool().with(|pool| pool.repositories = vec!["*".into()]), timings());
    let person = job(2).with(|job| {
        job.last_event.user_owned = true;
        job.last_event.repository = "ada/tools".into();
    });
    let first = plan(view(&own, &timings, vec![job(1), person]));
    let [launch] = first.launches.as_slice() else { panic!("one launch") };
    let names: Vec<&str> = launch.launch.slots.iter().map(InstanceName::as_str).collect();
    assert_eq!(names, ["default-00c0ffee-0-0", "default-00c0ffee-0-1"]);
    for ((instance, own), name) in launch.fresh.iter().zip(names) {
        assert_eq!((instance.name.as_str(), instance.state()), (name, State::Creating));
        assert_eq!((instance.claim(), own.claim.as_ref()), (Some(own.key()), Some(&instance.name)));
        assert_eq!((&instance.launch, instance.created_at), (&launch.launch.id, at(1000)));
        assert_eq!(own.replaces(), Some(READ));
    }
    let entities: Vec<&str> =
        launch.fresh.iter().map(|(instance, _)| instance.entity.as_str()).collect();
    assert_eq!(entities, ["acme", "ada/tools"]);
    let other = plan(view(&own, &timings, vec![job(1)]).with(|view| view.seed = 0xbeef));
    assert_eq!(other.launches[0].launch.id.as_str(), "default-0000beef-0");
}

#[test]
fn a_slot_knows_the_template_that_its_machine_comes_from() {
    let (pool, timings) = (pool().with(|pool| pool.generation = 7), timings());
    let later = |change: fn(&mut Pool)| pool.clone().with(change);
    let plan = plan(view(&pool, &timings, vec![job(1)]).with(|view| {
        view.retries = read([retry(1, 1).with(|i| i.template_version = Some("2".into()))]);
    }));
    let [launch] = plan.launches.as_slice() else { panic!("one launch") };
    for slot in [&launch.fresh[0].0, &launch.again[0]] {
        assert!(!slot.is_outdated(&pool));
        assert!(slot.is_outdated(&later(|pool| pool.launch_template_version = "4".into())));
        assert!(!slot.is_outdated(&later(|pool| (pool.generation, pool.machines_since) = (9, 7))));
        assert!(slot.is_outdated(&later(|pool| (pool.generation, pool.machines_since) = (9, 8))));
        assert!(slot.is_outdated(&later(|pool| pool.enabled = false)));
        assert!(slot.is_outdated(&later(|pool| pool.removed_at = Some(at(1)))));
    }
    // Unknown for a record that an earlier version of Muster wrote.
    assert!(!retry(1, 1).is_outdated(&pool));
}

#[test]
fn a_job_without_a_place_for_its_runner_makes_no_launch() {
    let (pool, timings) = (pool(), timings());
    let nameless = || job(1).with(|job| job.last_event.repository = "acme".into());
    assert_eq!(plan(view(&pool, &timings, vec![nameless()])).launches, []);
    let mixed = plan(view(&pool, &timings, vec![nameless(), job(2)]));
    assert_eq!(launched(&mixed), [[2]]);
    assert_eq!(mixed.launches[0].launch.request.capacity, 1);
}

/// With one priority for all subnets of a type, EC2 has been observed to launch every On-Demand
/// machine in one of them.
/// Source: runs-on/terraform-aws-runs-on#66, runs-on/runs-on#531
#[test]
fn launches_begin_in_different_subnets() {
    let (pool, timings) = (pool(), timings());
    let mut first = BTreeMap::new();
    for seed in 0..100 {
        let view = View { seed, ..view(&pool, &timings, jobs(1)) };
        let request = plan(view).launches.remove(0).launch.request;
        let types: Vec<&str> = request.overrides.iter().map(|one| &*one.instance_type).collect();
        assert!(
            types.is_sorted_by_key(|name| *name != "m7i.large"),
            "the types keep their order: {types:?}"
        );
        let priorities: Vec<_> =
            request.overrides.iter().map(|one| request.priority(one)).collect();
        assert_eq!(priorities, [Some(0), Some(1), Some(2), Some(3)]);
        *first.entry(request.overrides[0].subnet.clone()).or_insert(0) += 1;
    }
    assert!(first.len() == 2 && first.values().all(|times| *times >= 35), "{first:?}");
}

/// EC2 supports reservations only for On-Demand machines.
#[test]
fn reserved_capacity_is_asked_for_on_demand_alone() {
    let timings = timings();
    for (market, first) in [(MarketPolicy::OnDemand, true), (MarketPolicy::SpotThenOnDemand, false)]
    {
        let pool = Pool { market, reserved_first: true, ..pool() };
        let request = plan(view(&pool, &timings, jobs(1))).launches.remove(0).launch.request;
        assert_eq!(request.reserved_first, first, "{market:?}");
    }
}

/// A mapping of a different device would add a disk.
#[test]
fn a_disk_on_another_device_leaves_the_templates_out() {
    let timings = timings();
    let disk = |device: &str| Disk {
        device: device.into(),
        size_gib: 50,
        iops: None,
        throughput_mib: None,
    };
    for (of_template, own, omitted) in [
        (Some("/dev/sda1"), Some("/dev/xvda"), Some("/dev/sda1")),
        (Some("/dev/sda1"), Some("/dev/sda1"), None),
        (Some("/dev/sda1"), None, None),
        (None, Some("/dev/xvda"), None),
    ] {
        let pool =
            Pool { template_device: of_template.map(Arc::from), disk: own.map(disk), ..pool() };
        let request = plan(view(&pool, &timings, jobs(1))).launches.remove(0).launch.request;
        assert_eq!(request.omitted_device.as_deref(), omitted);
    }
}

/// Whatever a pool requests, each request stays within the service's limits, and over many launches
/// every type and every subnet is used.
#[test]
fn a_request_stays_within_the_limits_of_the_service() {
    let names = |kind: &str, count: usize| -> Vec<Arc<str>> {
        (0..count).map(|n| format!("{kind}-{n}").into()).collect()
    };
    let any =
        Requirements { vcpus_min: 2, vcpus_max: None, memory_mib_min: 4096, memory_mib_max: None };
    // Columns: types (0 for requirements); subnets; the maximum number of their combinations in a
    // request.
    let rows = [
        (1, 1, 1),
        (2, 3, 6),
        (30, 10, 300),
        (30, 11, 300),
        (40, 10, 300),
        (299, 2, 300),
        (301, 1, 300),
        (0, 1, 1),
        (0, 4, 4),
        (0, 5, 4),
        (0, 6, 4),
    ];
    let timings = timings();
    for (types, subnets, most) in rows {
        let pool = pool().with(|pool| {
            pool.instance_types = names("type", types);
            pool.subnets = names("subnet", subnets);
            pool.requirements = (types == 0).then(|| any.clone());
            pool.name_prefix = Some("p".repeat(40).parse().expect("a name"));
            pool.tags = (0..40).map(|n| (format!("tag-{n}"), String::new())).collect();
        });
        let (mut kinds, mut places) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..400_u64 {
            let planned = plan(view(&pool, &timings, jobs(1)).with(|view| {
                view.seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }));
            let launch = &planned.launches[0].launch;
            let asked = &launch.request.overrides;
            assert!((1..=most).contains(&asked.len()), "{types} × {subnets}: {}", asked.len());
            let distinct: BTreeSet<&Override> = asked.iter().collect();
            assert_eq!(distinct.len(), asked.len(), "{types} × {subnets}: one stands there twice");
            kinds.extend(asked.iter().map(|one| one.instance_type.clone()));
            places.extend(asked.iter().map(|one| one.subnet.clone()));
            assert!(launch.id.as_str().len() <= 64, "EC2's client tokens end at 64 characters");
            assert!(launch.request.tags.len() <= 50, "EC2 takes fifty tags");
        }
        assert_eq!(places.len(), subnets, "{types} × {subnets}: a subnet is left out for good");
        // Types beyond the limit are the least preferred ones.
        assert_eq!(kinds.len(), types.clamp(1, 300), "{types} × {subnets}: a type is left out");
    }
}
