//! The adapter's requests to EC2 and its handling of responses, over HTTP on loopback.

mod images;
mod prices;
mod stub;

use std::collections::BTreeSet;

use muster_control::ports::{Catalogue as _, Compute as _};
use muster_control::reaps::terminate;
use muster_domain::ec2::{Arch, ErrorClass, Make, Market, Override};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::launch::{LaunchRequest, allocation};
use muster_domain::observation::{Machine, Termination};
use muster_domain::pool::{Allocation, Disk, Image, Placement, Requirements};
use muster_domain::pool_file::{FoundImage, ImageFilter};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use self::stub::{Form, Stub, described, error, instance, silence};

const ID: &str = "i-0123456789abcdef0";
const OURS: (&str, &str) = ("muster:stack", "s1");

fn id() -> MachineId {
    ID.parse().expect("valid")
}

fn launch_id() -> LaunchId {
    "default-7f3a".parse().expect("valid")
}

fn request(market: Market) -> LaunchRequest {
    let choice =
        |kind: &str, subnet: &str| Override { instance_type: kind.into(), subnet: subnet.into() };
    LaunchRequest {
        template_id: "lt-1".into(),
        template_version: "3".into(),
        overrides: vec![
            choice("m7i.large", "subnet-a"),
            choice("m7i.large", "subnet-b"),
            choice("m6i.large", "subnet-a"),
        ],
        requirements: None,
        market,
        allocation: allocation(market, None, false),
        max_price: None,
        image: None,
        disk: None,
        omitted_device: None,
        placement: None,
        reserved_first: false,
        capacity: 2,
        tags: [("muster:stack".into(), "s1".into()), ("Name".into(), "muster s1".into())].into(),
    }
}

fn value<'a>(form: &'a Form, key: &str) -> Option<&'a str> {
    form.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

const LAUNCHED: &str = "<CreateFleetResponse><fleetId>fleet-1</fleetId><fleetInstanceSet><item>\
    <instanceIds><item>i-0123456789abcdef0</item></instanceIds><instanceType>m7i.large</instanceType>\
    <lifecycle>on-demand</lifecycle><launchTemplateAndOverrides><overrides>\
    <subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides></item></fleetInstanceSet>\
    <errorSet>\
    <item><errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>none left</errorMessage>\
    <launchTemplateAndOverrides><overrides><instanceType>m7i.large</instanceType>\
    <subnetId>subnet-a</subnetId></overrides></launchTemplateAndOverrides></item></errorSet>\
    </CreateFleetResponse>";

#[tokio::test]
async fn a_launch_is_sent_as_it_is_on_record_and_the_same_each_time() {
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    for _ in 0..2 {
        stub.ec2.launch(&launch_id(), &request(Market::Spot)).await.expect("launched");
    }
    let forms = stub.forms();
    assert_eq!(forms[0], forms[1]);
    for (key, expected) in [
        ("Action", "CreateFleet"),
        ("Type", "instant"),
        ("ClientToken", "default-7f3a"),
        ("TargetCapacitySpecification.TotalTargetCapacity", "2"),
        ("TargetCapacitySpecification.DefaultTargetCapacityType", "spot"),
        ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId", "lt-1"),
        ("LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "3"),
        ("LaunchTemplateConfigs.1.Overrides.2.InstanceType", "m7i.large"),
        ("LaunchTemplateConfigs.1.Overrides.2.SubnetId", "subnet-b"),
        ("TagSpecification.1.ResourceType", "instance"),
        ("TagSpecification.1.Tag.1.Key", "muster:stack"),
        ("TagSpecification.1.Tag.1.Value", "s1"),
        ("TagSpecification.2.ResourceType", "volume"),
    ] {
        assert_eq!(value(&forms[0], key), Some(expected), "{key} in {:#?}", forms[0]);
    }
    assert_eq!(value(&forms[0], "LaunchTemplateConfigs.1.Overrides.1.Priority"), None);
}

#[tokio::test]
async fn on_demand_follows_the_order_of_preference() {
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    stub.ec2.launch(&launch_id(), &request(Market::OnDemand)).await.expect("launched");
    let form = &stub.forms()[0];
    assert_eq!(value(form, "OnDemandOptions.AllocationStrategy"), Some("prioritized"));
    assert_eq!(priorities(form), [0.0, 1.0, 2.0]);
}

#[tokio::test]
async fn machines_stand_where_the_pool_says_and_use_what_is_reserved() {
    let placement = Some(Placement { group: Some("acme-release".into()), dedicated: true });
    let request = LaunchRequest { placement, reserved_first: true, ..request(Market::OnDemand) };
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    stub.ec2.launch(&launch_id(), &request).await.expect("launched");
    let form = &stub.forms()[0];
    for n in 1..=3 {
        let at = |key: &str| {
            value(form, &format!("LaunchTemplateConfigs.1.Overrides.{n}.Placement.{key}"))
        };
        assert_eq!((at("GroupName"), at("Tenancy")), (Some("acme-release"), Some("dedicated")));
    }
    let first = value(form, "OnDemandOptions.CapacityReservationOptions.UsageStrategy");
    assert_eq!(first, Some("use-capacity-reservations-first"));
    // The remaining options are still sent.
    assert_eq!(value(form, "OnDemandOptions.AllocationStrategy"), Some("prioritized"));
}

fn priorities(form: &Form) -> Vec<f64> {
    (1..=3)
        .filter_map(|n| value(form, &format!("LaunchTemplateConfigs.1.Overrides.{n}.Priority")))
        .map(|text| text.parse().expect("a number"))
        .collect()
}

#[tokio::test]
async fn a_disk_on_another_device_takes_the_templates_place() {
    let disk = Disk { device: "/dev/xvda".into(), size_gib: 40, iops: None, throughput_mib: None };
    let own = LaunchRequest {
        disk: Some(disk),
        omitted_device: Some("/dev/sda1".into()),
        ..request(Market::Spot)
    };
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    stub.ec2.launch(&launch_id(), &own).await.expect("launched");
    for n in 1..=3 {
        let at = |key: &str| {
            let key = format!("LaunchTemplateConfigs.1.Overrides.{n}.BlockDeviceMapping.{key}");
            value(&stub.forms()[0], &key).map(str::to_owned)
        };
        assert_eq!(at("1.DeviceName").as_deref(), Some("/dev/xvda"));
        assert_eq!(at("1.NoDevice"), None);
        assert_eq!(at("2.DeviceName").as_deref(), Some("/dev/sda1"));
        assert_eq!(at("2.NoDevice").as_deref(), Some(""));
        assert_eq!((at("2.Ebs.VolumeSize"), at("3.DeviceName")), (None, None));
    }
}

#[tokio::test]
async fn what_the_pool_says_of_its_machines_is_in_every_override() {
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    let own = LaunchRequest {
        max_price: Some("0.05".into()),
        image: Some(Image::Ssm("/prod/images/linux".into())),
        disk: Some(Disk {
            device: "/dev/xvda".into(),
            size_gib: 100,
            iops: Some(4000),
            throughput_mib: None,
        }),
        ..request(Market::Spot)
    };
    stub.ec2.launch(&launch_id(), &own).await.expect("launched");
    let form = &stub.forms()[0];
    for n in 1..=3 {
        for (key, expected) in [
            ("MaxPrice", Some("0.05")),
            ("ImageId", Some("resolve:ssm:/prod/images/linux")),
            ("BlockDeviceMapping.1.DeviceName", Some("/dev/xvda")),
            ("BlockDeviceMapping.1.Ebs.VolumeType", Some("gp3")),
            ("BlockDeviceMapping.1.Ebs.VolumeSize", Some("100")),
            ("BlockDeviceMapping.1.Ebs.Iops", Some("4000")),
            ("BlockDeviceMapping.1.Ebs.Throughput", None),
            ("BlockDeviceMapping.1.Ebs.Encrypted", Some("true")),
            ("BlockDeviceMapping.1.Ebs.DeleteOnTermination", Some("true")),
        ] {
            let key = format!("LaunchTemplateConfigs.1.Overrides.{n}.{key}");
            assert_eq!(value(form, &key), expected, "{key} in {form:#?}");
        }
    }
}

#[tokio::test]
async fn requirements_stand_where_types_would() {
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    let any = |subnet: &str| Override { instance_type: "".into(), subnet: subnet.into() };
    let own = LaunchRequest {
        overrides: vec![any("subnet-a"), any("subnet-b")],
        requirements: Some(Requirements {
            vcpus_min: 2,
            vcpus_max: Some(4),
            memory_mib_min: 8192,
            memory_mib_max: None,
        }),
        allocation: allocation(Market::OnDemand, None, true),
        image: Some(Image::Id("ami-1".into())),
        ..request(Market::OnDemand)
    };
    stub.ec2.launch(&launch_id(), &own).await.expect("launched");
    let form = &stub.forms()[0];
    assert_eq!(value(form, "OnDemandOptions.AllocationStrategy"), Some("lowest-price"));
    for (key, expected) in [
        ("SubnetId", Some("subnet-b")),
        ("ImageId", Some("ami-1")),
        ("InstanceType", None),
        ("Priority", None),
        ("MaxPrice", None),
        ("InstanceRequirements.VCpuCount.Min", Some("2")),
        ("InstanceRequirements.VCpuCount.Max", Some("4")),
        ("InstanceRequirements.MemoryMiB.Min", Some("8192")),
        ("InstanceRequirements.MemoryMiB.Max", None),
    ] {
        let key = format!("LaunchTemplateConfigs.1.Overrides.2.{key}");
        assert_eq!(value(form, &key), expected, "{key} in {form:#?}");
    }
}

#[tokio::test]
async fn the_allocation_is_sent_as_ec2_spells_it() {
    use Allocation::{
        CapacityOptimized, CapacityOptimizedPrioritized, Diversified, LowestPrice,
        PriceCapacityOptimized, Prioritized,
    };
    // Priorities of types only, and of each type's subnets as well.
    let (types, all, none): (&[f64], &[f64], &[f64]) = (&[0.0, 0.0, 1.0], &[0.0, 1.0, 2.0], &[]);
    // Columns: market, the pool's strategy, the strategy sent, and the priorities.
    let rows = [
        (Market::Spot, CapacityOptimized, "capacity-optimized", none),
        (Market::Spot, CapacityOptimizedPrioritized, "capacity-optimized-prioritized", types),
        (Market::Spot, Diversified, "diversified", none),
        (Market::Spot, LowestPrice, "lowest-price", none),
        (Market::Spot, PriceCapacityOptimized, "price-capacity-optimized", none),
        (Market::Spot, Prioritized, "price-capacity-optimized", none),
        (Market::OnDemand, LowestPrice, "lowest-price", none),
        (Market::OnDemand, Prioritized, "prioritized", all),
        (Market::OnDemand, PriceCapacityOptimized, "prioritized", all),
    ];
    for (market, wanted, sent, order) in rows {
        let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
        let own = LaunchRequest {
            allocation: allocation(market, Some(wanted), false),
            ..request(market)
        };
        stub.ec2.launch(&launch_id(), &own).await.expect("launched");
        let form = &stub.forms()[0];
        let option = match market {
            Market::Spot => "SpotOptions.AllocationStrategy",
            Market::OnDemand => "OnDemandOptions.AllocationStrategy",
        };
        assert_eq!(value(form, option), Some(sent), "{wanted:?}");
        assert_eq!(priorities(form), order.to_vec(), "{wanted:?}");
    }
}

#[tokio::test]
async fn an_answer_can_hold_machines_and_errors_at_once() {
    let stub = Stub::new(vec![(200, LAUNCHED.into())]).await;
    let answer = stub.ec2.launch(&launch_id(), &request(Market::Spot)).await.expect("launched");
    assert_eq!(answer.machines.len(), 1);
    assert_eq!(answer.errors.len(), 1);
    assert_eq!(answer.errors[0].class, ErrorClass::Capacity);
    assert_eq!(answer.errors[0].message, "none left");
    let place = Override { instance_type: "m7i.large".into(), subnet: "subnet-a".into() };
    assert_eq!(answer.errors[0].place, Some(place));
}

/// EC2 names the zone of an instant fleet's machines; if the request named a zone, the response has
/// it twice.
#[tokio::test]
async fn the_zone_of_a_machine_is_the_answers() {
    let (group, choice) =
        ("<instanceType>m7i.large</instanceType><lifecycle>", "<overrides><subnetId>");
    let zone = |zone: &str| format!("<availabilityZone>{zone}</availabilityZone>");
    let with = |before: &str, text: &str| LAUNCHED.replacen(before, &format!("{text}{before}"), 1);
    let asked = LAUNCHED.replacen(choice, &format!("<overrides>{}<subnetId>", zone("z-2")), 1);
    let rows = [
        (LAUNCHED.to_owned(), None),
        (with(group, &zone("z-1")), Some("z-1")),
        (asked.clone(), Some("z-2")),
        (asked.replacen(group, &format!("{}{group}", zone("z-1")), 1), Some("z-1")),
    ];
    for (answer, zone) in rows {
        let stub = Stub::new(vec![(200, answer.clone())]).await;
        let launched = stub.ec2.launch(&launch_id(), &request(Market::Spot)).await.expect("one");
        let kind = Some("m7i.large".into());
        let make = Make {
            kind,
            zone: zone.map(Into::into),
            subnet: Some("subnet-a".into()),
            market: Some(Market::OnDemand),
        };
        assert_eq!(launched.machines, [(id(), make)].into(), "{answer}");
    }
}

async fn end(stub: &Stub) -> Termination {
    let answers = terminate::all(&stub.ec2, BTreeSet::from([id()]), Time::from_millis(0)).await;
    answers.into_values().next().expect("an answer")
}

#[tokio::test]
async fn calls_with_effects_are_made_once_whatever_comes_back() {
    let answers = [
        (error(503, "RequestLimitExceeded"), ErrorClass::Throttle),
        (error(500, "InsufficientInstanceCapacity"), ErrorClass::Capacity),
        (error(500, "InternalError"), ErrorClass::Ambiguous),
        (error(403, "UnauthorizedOperation"), ErrorClass::Authorization),
        ((502, "<html>".to_owned()), ErrorClass::Ambiguous),
        (silence(), ErrorClass::Ambiguous),
    ];
    for (answer, class) in answers {
        let stub = Stub::new(vec![answer.clone()]).await;
        let outcome = stub.ec2.launch(&launch_id(), &request(Market::Spot)).await;
        assert_eq!(outcome.map_err(|error| error.class), Err(class), "{answer:?}");
        let outcome = end(&stub).await;
        let Termination::Failed(seen, _) = outcome else { panic!("{outcome:?}") };
        assert_eq!(seen, class, "{answer:?}");
        assert_eq!(stub.forms().len(), 2, "one request each: {answer:?}");
    }
}

#[tokio::test]
async fn questions_are_asked_again() {
    let running = described(&[instance(ID, "running", &[OURS])], "");
    let stub = Stub::new(vec![error(503, "RequestLimitExceeded"), silence(), running]).await;
    let seen = stub.ec2.machine(&id()).await.expect("an answer");
    assert_eq!(seen.state, Machine::Running);
    assert_eq!(stub.forms().len(), 3);
}

#[tokio::test]
async fn a_termination_is_what_ec2_says_of_the_machine() {
    let ended = |state: &str| {
        let body = format!(
            "<TerminateInstancesResponse><instancesSet><item><instanceId>{ID}</instanceId>\
             <currentState><code>32</code><name>{state}</name></currentState></item></instancesSet>\
             </TerminateInstancesResponse>"
        );
        (200, body)
    };
    for state in ["shutting-down", "terminated"] {
        let stub = Stub::new(vec![ended(state)]).await;
        assert_eq!(end(&stub).await, Termination::Accepted(Machine::Gone));
        let form = &stub.forms()[0];
        assert_eq!(value(form, "InstanceId.1"), Some(ID));
        assert_eq!(value(form, "InstanceId.2"), None);
    }
    let stub = Stub::new(vec![error(400, "InvalidInstanceID.NotFound")]).await;
    assert!(matches!(end(&stub).await, Termination::NotFound(_)));
    let stub = Stub::new(vec![error(400, "OperationNotPermitted")]).await;
    let outcome = end(&stub).await;
    let Termination::Failed(ErrorClass::Blocked, fault) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (fault.code.as_str(), fault.message.as_str()),
        ("OperationNotPermitted", "scripted")
    );
    let empty = "<TerminateInstancesResponse><instancesSet/></TerminateInstancesResponse>";
    let stub = Stub::new(vec![(200, empty.into())]).await;
    let outcome = end(&stub).await;
    assert!(matches!(outcome, Termination::Failed(ErrorClass::Ambiguous, _)), "{outcome:?}");
}

#[tokio::test]
async fn a_refusal_names_whole_ids_of_its_call_alone() {
    let sentence = format!("The instance IDs '{ID}, i-0ffffffffffffffff' do not exist");
    let others = ["i-01234567", "i-0123456789abcdef1"].map(|id| id.parse().expect("an id"));
    let asked: BTreeSet<MachineId> = others.into_iter().chain([id()]).collect();
    let body = error(400, "InvalidInstanceID.NotFound").1.replace("scripted", &sentence);
    let stub = Stub::new(vec![(400, body)]).await;
    let refusal = stub.ec2.terminate(&asked).await.expect_err("refused");
    assert_eq!(refusal.named, BTreeSet::from([id()]));
    let form = &stub.forms()[0];
    let ids = ["InstanceId.1", "InstanceId.2", "InstanceId.3"].map(|name| value(form, name));
    assert!(ids.iter().all(Option::is_some), "{ids:?}");
}

#[tokio::test]
async fn a_machine_is_what_it_is_only_if_it_is_ours_or_gone() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<Machine>);
    let cases: [Case<'_>; 9] = [
        ("pending", &[OURS], Some(Machine::Pending)),
        ("running", &[OURS], Some(Machine::Running)),
        ("stopping", &[OURS], Some(Machine::Stopped)),
        ("stopped", &[OURS], Some(Machine::Stopped)),
        ("shutting-down", &[OURS], Some(Machine::Gone)),
        ("terminated", &[], Some(Machine::Gone)),
        ("running", &[], None),
        ("running", &[("muster:stack", "s2")], None),
        ("meditating", &[OURS], None),
    ];
    for (state, tags, expected) in cases {
        let stub = Stub::new(vec![described(&[instance(ID, state, tags)], "")]).await;
        let seen = stub.ec2.machine(&id()).await;
        match expected {
            Some(machine) => assert_eq!(seen.map(|seen| seen.state), Ok(machine), "{state}"),
            None => {
                assert!(matches!(seen, Err(ProviderError::Unavailable(_))), "{state}: {seen:?}");
            }
        }
    }
    let stub = Stub::new(vec![error(400, "InvalidInstanceID.NotFound")]).await;
    assert_eq!(stub.ec2.machine(&id()).await, Ok(Machine::Absent.into()));
    let stub = Stub::new(vec![error(403, "UnauthorizedOperation")]).await;
    assert!(matches!(stub.ec2.machine(&id()).await, Err(ProviderError::Unauthorized(_))));
}

#[tokio::test]
async fn listings_are_limited_to_the_stack_and_paged() {
    let second = "i-00000000000000002";
    let pages = vec![
        described(&[instance(ID, "running", &[OURS])], "page-2"),
        described(&[instance(second, "pending", &[OURS]), instance("x", "running", &[OURS])], ""),
    ];
    let stub = Stub::new(pages.clone()).await;
    let first = stub.ec2.list(None).await.expect("a page");
    assert_eq!((first.items.len(), first.next.as_deref()), (1, Some("page-2")));
    let last = stub.ec2.list(first.next).await.expect("a page");
    assert_eq!((last.items.len(), last.unreadable, last.next), (1, vec!["x".to_owned()], None));
    let form = &stub.forms()[1];
    assert_eq!(value(form, "NextToken"), Some("page-2"));
    assert_eq!(value(form, "Filter.1.Name"), Some("tag:muster:stack"));
    assert_eq!(value(form, "Filter.1.Value.1"), Some("s1"));
    assert_eq!(value(form, "Filter.2.Name"), Some("instance-state-name"));

    let stub = Stub::new(pages).await;
    let found = stub.ec2.find_launched(&launch_id()).await.expect("an answer");
    let both: Vec<MachineId> = found.into_keys().collect();
    assert_eq!(both, [second.parse().expect("valid"), id()]);
    for form in stub.forms() {
        assert_eq!(value(&form, "Filter.1.Value.1"), Some("s1"));
        assert_eq!(value(&form, "Filter.3.Name"), Some("tag:muster:launch"));
        assert_eq!(value(&form, "Filter.3.Value.1"), Some("default-7f3a"));
    }
}

fn images(images: &[(&str, &str, &str)], next: &str) -> (u16, String) {
    let items: String = images
        .iter()
        .map(|(id, name, created)| {
            format!(
                "<item><imageId>{id}</imageId><name>{name}</name><imageState>available</imageState>\
                 <creationDate>{created}</creationDate></item>"
            )
        })
        .collect();
    let body = format!(
        "<DescribeImagesResponse><imagesSet>{items}</imagesSet><nextToken>{next}</nextToken>\
         </DescribeImagesResponse>"
    );
    (200, body)
}

fn image_filter(arch: Arch) -> ImageFilter {
    ImageFilter { name: "acme-runner-*".into(), owner: "self".into(), arch }
}

#[tokio::test]
async fn the_newest_image_of_all_pages_is_found() {
    let first = [
        ("ami-2", "acme-runner-b", "2026-10-01T08:00:00.000Z"),
        ("ami-3", "acme-runner-c", "2026-11-01T08:00:00.000Z"),
    ];
    let second = [("ami-1", "acme-runner-a", "2026-11-01T07:59:59.000Z")];
    let stub = Stub::new(vec![images(&first, "more"), images(&second, "")]).await;
    let found = stub.ec2.newest(&image_filter(Arch::X64)).await;
    let expected = FoundImage { id: "ami-3".into(), name: "acme-runner-c".into() };
    assert_eq!(found, Ok(Some(expected)));
    let forms = stub.forms();
    assert_eq!(forms.len(), 2);
    for (key, expected) in [
        ("Action", "DescribeImages"),
        ("Owner.1", "self"),
        ("Filter.1.Name", "name"),
        ("Filter.1.Value.1", "acme-runner-*"),
        ("Filter.2.Name", "architecture"),
        ("Filter.2.Value.1", "x86_64"),
        ("Filter.3.Name", "state"),
        ("Filter.3.Value.1", "available"),
    ] {
        assert_eq!(value(&forms[0], key), Some(expected), "{key} in {:#?}", forms[0]);
    }
    assert_eq!(value(&forms[1], "NextToken"), Some("more"));
}

#[tokio::test]
async fn no_image_is_an_answer_and_silence_is_none() {
    let stub = Stub::new(vec![images(&[], "")]).await;
    assert_eq!(stub.ec2.newest(&image_filter(Arch::Arm64)).await, Ok(None));
    assert_eq!(value(&stub.forms()[0], "Filter.2.Value.1"), Some("arm64"));
    let stub = Stub::new(vec![error(403, "UnauthorizedOperation")]).await;
    let refused = stub.ec2.newest(&image_filter(Arch::X64)).await;
    assert!(matches!(&refused, Err(ProviderError::Unauthorized(_))), "{refused:?}");
    let stub = Stub::new(vec![error(400, "InvalidParameterValue")]).await;
    let wrong = stub.ec2.newest(&image_filter(Arch::X64)).await;
    assert!(matches!(&wrong, Err(ProviderError::Unavailable(_))), "{wrong:?}");
}
