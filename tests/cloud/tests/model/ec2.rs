//! How the model's EC2 behaves: what AWS documents, and the toggles where it does not.

use crate::common::{T0, announced, described, fleet, ids, launch, state, world};
use muster_cloud::{
    Happening, Timings, World,
    ec2::{CapacityRule, DescribeRequest, Filter, InstanceState, Override, PlaceSpec},
    machines::{Behaviour, Death, Power, Script},
};

use InstanceState::{Pending, Running, ShuttingDown, Stopped, Stopping, Terminated};

fn capacity(rules: serde_json::Value) -> Vec<CapacityRule> {
    serde_json::from_value(rules).expect("the rules are well written")
}

fn script(world: &mut World, behaviour: Behaviour) {
    world.machines.script(Script { stack: None, times: Some(1), behaviour });
}

fn filter(name: &str, values: &[&str]) -> DescribeRequest {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    let filters = vec![Filter { name: name.to_owned(), values }];
    DescribeRequest { filters, ..DescribeRequest::default() }
}

// CreateFleet and its client token.

#[test]
fn ec2_replay_after_termination_launches_nothing_new() {
    let mut world = world();
    let launched = launch(&mut world, "t", 1, T0);
    world.terminate_instances(&launched, T0 + 1000).unwrap();
    world.advance(T0 + 24 * 3_600_000);
    let again = world.create_fleet(&fleet("t", 1), T0 + 24 * 3_600_000).unwrap();
    assert_eq!(ids(&again), launched);
    assert_eq!(world.ec2.instances().len(), 1);
}

#[test]
fn ec2_refused_fleet_does_not_use_up_its_token() {
    let mut world = world();
    let mut wrong = fleet("t", 1);
    wrong.configs[0].template.id = Some("lt-gone".to_owned());
    let error = world.create_fleet(&wrong, T0).unwrap_err();
    assert_eq!(error.code, "InvalidLaunchTemplateId.NotFound");
    assert_eq!(launch(&mut world, "t", 1, T0).len(), 1);
}

#[test]
fn ec2_fleets_that_make_no_sense_are_refused() {
    let mut world = world();
    let mut maintained = fleet("a", 1);
    maintained.kind = None;
    let mut shapeless = fleet("b", 1);
    shapeless.configs.clear();
    let mut odd_tag = fleet("c", 1);
    odd_tag.tags[0].resource_type = "vpc".to_owned();
    let mut reserved_tag = fleet("d", 1);
    reserved_tag.tags[0].tags.insert("aws:mine".to_owned(), String::new());
    for (request, code) in [
        (maintained, "UnsupportedOperation"),
        (shapeless, "MissingParameter"),
        (odd_tag, "InvalidParameterValue"),
        (reserved_tag, "InvalidParameterValue"),
        (fleet("e", 0), "InvalidTargetCapacitySpecification"),
        (fleet(&"t".repeat(65), 1), "InvalidParameterValue"),
        (fleet("tökén", 1), "InvalidParameterValue"),
    ] {
        assert_eq!(world.create_fleet(&request, T0).unwrap_err().code, code, "{request:?}");
    }
    assert_eq!(world.ec2.instances().len(), 0);
}

/// A type stands once in a zone, and EC2 does not say which does not.
#[test]
fn ec2_fleets_with_two_subnets_of_one_zone_are_refused() {
    let mut world = world();
    let zones =
        [("subnet-a", "us-east-1a"), ("subnet-a2", "us-east-1a"), ("subnet-b", "us-east-1b")];
    world.ec2.subnets.extend(zones.map(|(subnet, zone)| (subnet.to_owned(), zone.to_owned())));
    let asks = |token: &str, places: &[(&str, &str)]| {
        let mut request = fleet(token, 1);
        let plain = request.configs[0].overrides[0].clone();
        request.configs[0].overrides = places
            .iter()
            .map(|(kind, subnet)| Override {
                instance_type: Some((*kind).to_owned()).filter(|kind| !kind.is_empty()),
                subnet_id: Some((*subnet).to_owned()),
                ..plain.clone()
            })
            .collect();
        request
    };
    for (token, places, is_taken) in [
        ("zones", &[("m7i.large", "subnet-a"), ("m7i.large", "subnet-b")][..], true),
        ("types", &[("m7i.large", "subnet-a"), ("m7a.large", "subnet-a2")], true),
        ("one zone", &[("m7i.large", "subnet-a"), ("m7i.large", "subnet-a2")], false),
        ("one place", &[("m7i.large", "subnet-a"), ("m7i.large", "subnet-a")], false),
        ("requirements", &[("", "subnet-a"), ("", "subnet-a2")], false),
    ] {
        let answer = world.create_fleet(&asks(token, places), T0).map_err(|error| error.code);
        assert_eq!(answer.is_ok(), is_taken, "{token}");
        assert!(answer.is_ok() || answer == Err("InvalidFleetConfig".to_owned()), "{token}");
    }
}

#[test]
fn ec2_fleets_of_too_many_overrides_are_refused() {
    let mut world = world();
    let of = |count: u32| {
        let mut request = fleet(&count.to_string(), 1);
        let plain = request.configs[0].overrides[0].clone();
        request.configs[0].overrides = (0..count)
            .map(|n| Override { instance_type: Some(format!("m{n}.large")), ..plain.clone() })
            .collect();
        request
    };
    assert!(world.create_fleet(&of(300), T0).is_ok());
    assert_eq!(world.create_fleet(&of(301), T0).unwrap_err().code, "InvalidParameterValue");
}

#[test]
fn ec2_fleet_takes_the_next_override_when_one_is_full() {
    let mut world = world();
    world.ec2.set_capacity(capacity(serde_json::json!([{ "subnet_id": "subnet-a" }])));
    let answer = world.create_fleet(&fleet("t", 2), T0).unwrap();
    assert_eq!(ids(&answer).len(), 2);
    assert_eq!(answer.instances[0].choice.subnet_id.as_deref(), Some("subnet-b"));
    assert_eq!(answer.errors[0].choice.subnet_id.as_deref(), Some("subnet-a"));
}

#[test]
fn ec2_fleet_launches_nothing_below_its_minimum() {
    let mut world = world();
    world.ec2.set_capacity(capacity(serde_json::json!([{ "left": 1 }])));
    let mut request = fleet("t", 3);
    request.spot_options.min_target_capacity = Some(3);
    let answer = world.create_fleet(&request, T0).unwrap();
    assert!(answer.instances.is_empty() && !answer.errors.is_empty());
    assert_eq!(world.ec2.capacity()[0].left, 1, "what was not launched took no capacity");
}

#[test]
fn ec2_fleet_prefers_low_priority_numbers() {
    let mut world = world();
    let mut request = fleet("t", 1);
    request.configs[0].overrides[0].priority = Some("2.0".to_owned());
    request.configs[0].overrides[1].priority = Some("1.0".to_owned());
    let answer = world.create_fleet(&request, T0).unwrap();
    assert_eq!(answer.instances[0].choice.subnet_id.as_deref(), Some("subnet-b"));
}

#[test]
fn ec2_instances_of_a_fleet_carry_its_tags_but_not_its_token() {
    let mut world = world();
    let id = launch(&mut world, "launch-1", 1, T0).remove(0);
    let tags = &world.ec2.instance(&id).unwrap().tags;
    assert_eq!(tags["muster:launch"], "launch-1");
    assert_eq!(tags["aws:ec2launchtemplate:version"], "3");
    assert!(tags.contains_key("aws:ec2:fleet-id"));
    assert!(described(&world, &filter("client-token", &["launch-1"]), T0).is_empty());
    assert_eq!(described(&world, &filter("tag:muster:launch", &["launch-1"]), T0), [id]);
}

// Life and death.

#[test]
fn ec2_instance_is_pending_before_it_runs_and_boots_after() {
    let mut world = world();
    world.timings_mut().boot_ms = 2000;
    let id = launch(&mut world, "t", 1, T0).remove(0);
    assert_eq!(state(&world, &id), Pending);
    world.advance(T0 + 499);
    assert_eq!(state(&world, &id), Pending);
    world.advance(T0 + 500);
    assert_eq!(state(&world, &id), Running);
    assert_eq!(world.machines.get(&id).unwrap().power, Power::Waiting);
    world.advance(T0 + 2500);
    assert_eq!(world.machines.get(&id).unwrap().power, Power::On);
    assert!(world.take_happenings().contains(&Happening::PowerOn { instance: id }));
}

#[test]
fn ec2_termination_takes_time_and_is_announced_step_by_step() {
    let mut world = world();
    let id = launch(&mut world, "t", 1, T0).remove(0);
    world.advance(T0 + 1000);
    let change = world.terminate_instances(std::slice::from_ref(&id), T0 + 1000).unwrap().remove(0);
    assert_eq!((change.previous, change.current), (Running, ShuttingDown));
    world.advance(T0 + 1500);
    assert_eq!(state(&world, &id), Terminated);
    let happened = world.take_happenings();
    assert_eq!(announced(&happened, &id), [Pending, Running, ShuttingDown, Terminated]);
    assert!(happened.contains(&Happening::PowerOff { instance: id }));
}

#[test]
fn ec2_terminating_a_pending_instance_never_runs_it() {
    let mut world = world();
    let id = launch(&mut world, "t", 1, T0);
    world.terminate_instances(&id, T0 + 100).unwrap();
    world.advance(T0 + 10_000);
    assert_eq!(announced(&world.take_happenings(), &id[0]), [Pending, ShuttingDown, Terminated]);
}

#[test]
fn ec2_machine_that_powers_off_terminates_or_stops_as_its_template_says() {
    let mut world = world();
    let id = launch(&mut world, "t", 1, T0).remove(0);
    world.advance(T0 + 500);
    world.machine_shut_down(&id, T0 + 600);
    world.advance(T0 + 5000);
    let instance = world.ec2.instance(&id).unwrap();
    assert_eq!(instance.state, Terminated);
    assert_eq!(instance.reason.as_ref().unwrap().code, "Client.InstanceInitiatedShutdown");

    let mut template = world.ec2.template(&fleet("", 1).configs[0].template).unwrap().clone();
    template.on_shutdown = muster_cloud::ec2::ShutdownBehavior::Stop;
    world.ec2.put_template(template);
    world.take_happenings();
    let id = launch(&mut world, "u", 1, T0 + 6000).remove(0);
    world.advance(T0 + 7000);
    world.machine_shut_down(&id, T0 + 7000);
    world.advance(T0 + 9000);
    assert_eq!(announced(&world.take_happenings(), &id), [Pending, Running, Stopping, Stopped]);
}

#[test]
fn ec2_spot_interruption_is_announced_before_it_happens() {
    let mut world = world();
    let id = launch(&mut world, "t", 1, T0).remove(0);
    world.advance(T0 + 1000);
    world.interrupt_spot(&id, T0 + 1000).unwrap();
    let warned = |happening: &Happening| matches!(happening, Happening::SpotWarning { .. });
    assert!(world.take_happenings().iter().any(warned));
    world.advance(T0 + 120_999);
    assert_eq!(state(&world, &id), Running);
    world.advance(T0 + 130_000);
    let instance = world.ec2.instance(&id).unwrap();
    assert_eq!(instance.state, Terminated);
    assert_eq!(instance.reason.as_ref().unwrap().code, "Server.SpotInstanceTermination");
}

#[test]
fn ec2_failed_launch_goes_from_pending_to_terminated() {
    let mut world = world();
    let launch_fails = Some("Client.VolumeLimitExceeded".to_owned());
    script(&mut world, Behaviour { launch_fails, ..Behaviour::default() });
    let id = launch(&mut world, "t", 1, T0).remove(0);
    world.advance(T0 + 10_000);
    let instance = world.ec2.instance(&id).unwrap();
    assert_eq!(instance.reason.as_ref().unwrap().code, "Client.VolumeLimitExceeded");
    let happened = world.take_happenings();
    assert_eq!(announced(&happened, &id), [Pending, Terminated]);
    assert!(!happened.contains(&Happening::PowerOn { instance: id }));
}

#[test]
fn ec2_machine_can_stay_dark_hang_or_refuse_to_end() {
    let mut world = world();
    script(&mut world, Behaviour { never_boots: true, ..Behaviour::default() });
    let dies_after_ms = Some(3000);
    script(&mut world, Behaviour { dies_after_ms, death: Death::Hangs, ..Behaviour::default() });
    script(&mut world, Behaviour { stuck_shutting_down: true, ..Behaviour::default() });
    let ids = launch(&mut world, "t", 4, T0);
    world.advance(T0 + 5000);
    world.terminate_instances(&ids[2..], T0 + 5000).unwrap();
    world.advance(T0 + 60_000);
    let powers: Vec<Power> = ids.iter().map(|id| world.machines.get(id).unwrap().power).collect();
    assert_eq!(powers, [Power::Waiting, Power::Off, Power::Off, Power::Off]);
    let states: Vec<InstanceState> = ids.iter().map(|id| state(&world, id)).collect();
    assert_eq!(states, [Running, Running, ShuttingDown, Terminated]);
}

// DescribeInstances and CreateTags.

#[test]
fn ec2_filters_select_by_tag_state_and_wildcard() {
    let mut world = world();
    let ours = launch(&mut world, "t", 2, T0);
    let place = |text: &str| serde_json::from_str::<PlaceSpec>(text).unwrap();
    let stranger = world.place_instance(&place(r#"{"tags":{"Name":"bastion"}}"#), T0);
    world.terminate_instances(&ours[1..], T0).unwrap();
    let all = [&ours[0], &ours[1], &stranger];
    for (name, values, expected) in [
        ("tag:muster:stack", &["dev"][..], &all[..2]),
        ("tag:muster:stack", &["d*"], &all[..2]),
        ("tag:muster:stack", &["DEV"], &[]),
        ("tag:Name", &["b?stion", "other"], &all[2..]),
        ("tag-key", &["muster:stack"], &all[..2]),
        ("instance-state-name", &["pending"], &all[..1]),
        ("instance-state-name", &["pending", "running"], &[all[0], all[2]]),
        ("instance-id", &[ours[1].as_str()], &all[1..2]),
        ("instance-lifecycle", &["spot"], &all[..2]),
    ] {
        let found = described(&world, &filter(name, values), T0);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{name} {values:?}");
    }
    let mut both = filter("tag:muster:stack", &["dev"]);
    both.filters.extend(filter("instance-state-name", &["shutting-down"]).filters);
    assert_eq!(described(&world, &both, T0), ours[1..]);
}

#[test]
fn ec2_unknown_filter_is_refused_instead_of_matching_everything() {
    let error = world().describe_instances(&filter("tag-name", &["x"]), T0).unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
}

#[test]
fn ec2_impossible_pages_are_refused() {
    let mut world = world();
    let ids = launch(&mut world, "t", 1, T0);
    let max_results = Some(5);
    for (request, code) in [
        (DescribeRequest { ids, max_results, ..Default::default() }, "InvalidParameterCombination"),
        (DescribeRequest { max_results: Some(4), ..Default::default() }, "InvalidParameterValue"),
        (
            DescribeRequest { next_token: Some("x".to_owned()), ..Default::default() },
            "InvalidParameterValue",
        ),
    ] {
        assert_eq!(world.describe_instances(&request, T0).unwrap_err().code, code);
    }
}

#[test]
fn ec2_create_tags_adds_and_replaces_and_keeps_off_reserved_keys() {
    let mut world = world();
    let ids = launch(&mut world, "t", 1, T0);
    let tags = |key: &str| [(key.to_owned(), "new".to_owned())].into();
    world.create_tags(&ids, &tags("muster:runner"), T0).unwrap();
    world.create_tags(&ids, &tags("muster:launch"), T0).unwrap();
    let now = &world.ec2.instance(&ids[0]).unwrap().tags;
    assert_eq!((now["muster:runner"].as_str(), now["muster:launch"].as_str()), ("new", "new"));
    let error = world.create_tags(&ids, &tags("aws:x"), T0).unwrap_err();
    assert_eq!(error.code, "InvalidParameterValue");
    let unknown = ["i-00000000000000000".to_owned()];
    let error = world.create_tags(&unknown, &tags("x"), T0).unwrap_err();
    assert_eq!(error.code, "InvalidInstanceID.NotFound");
}

// The model itself.

#[test]
fn model_is_deterministic_and_does_not_care_how_time_is_cut() {
    let story = |steps: i64| {
        let mut world = World::new(42, Timings::default());
        let template =
            crate::common::world().ec2.template(&fleet("", 1).configs[0].template).cloned();
        world.ec2.put_template(template.unwrap());
        let ids = launch(&mut world, "t", 5, T0);
        world.terminate_instances(&ids[..2], T0).unwrap();
        (1..=steps).for_each(|step| world.advance(T0 + step * 10_000 / steps));
        world.take_happenings()
    };
    assert_eq!(story(1), story(1));
    assert_eq!(story(1), story(1000));
}

#[test]
fn model_says_when_the_next_thing_is_due() {
    let mut world = world();
    world.timings_mut().boot_ms = 100;
    assert_eq!(world.next_due(), None);
    launch(&mut world, "t", 1, T0);
    assert_eq!(world.next_due(), Some(T0 + 500));
    world.advance(T0 + 500);
    assert_eq!(world.next_due(), Some(T0 + 600));
    world.advance(T0 + 600);
    assert_eq!(world.next_due(), None);
}

#[test]
fn worlds_with_other_seeds_share_no_identifiers() {
    let ids = |seed| {
        let mut world = World::new(seed, Timings::default());
        let template =
            crate::common::world().ec2.template(&fleet("", 1).configs[0].template).cloned();
        world.ec2.put_template(template.unwrap());
        launch(&mut world, "t", 100, T0)
    };
    let (one, other) = (ids(1), ids(2));
    assert!(one.iter().all(|id| !other.contains(id)));
}
