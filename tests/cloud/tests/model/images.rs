//! The images of the account's own machines, from `CreateImage` to the last snapshot.

use crate::common::{T0, fleet, ids, launch, world};
use muster_cloud::World;
use muster_cloud::ec2::{CreateImageRequest, Filter, FleetTags, ImageRequest};

const READY: i64 = T0 + 10_000;

fn request(instance: &str, name: &str) -> CreateImageRequest {
    let tags = |resource: &str| FleetTags {
        resource_type: resource.to_owned(),
        tags: [("muster:stack".to_owned(), "dev".to_owned())].into(),
    };
    CreateImageRequest {
        instance: instance.to_owned(),
        name: name.to_owned(),
        description: Some("an image".to_owned()),
        no_reboot: true,
        tags: ["image", "snapshot"].map(tags).into(),
    }
}

/// A world with one running machine.
fn running() -> (World, String) {
    let mut world = world();
    let machine = launch(&mut world, "t", 1, T0).remove(0);
    world.advance(T0 + 1_000);
    (world, machine)
}

fn made(world: &mut World, machine: &str, name: &str) -> String {
    world.create_image(&request(machine, name), T0 + 2_000).expect("the image is created")
}

/// The images of a stack, with their states.
fn shown(world: &World, stack: &str, now: i64) -> Vec<(String, String)> {
    let filter = Filter { name: "tag:muster:stack".to_owned(), values: vec![stack.to_owned()] };
    let request = ImageRequest {
        owners: vec!["self".to_owned()],
        filters: vec![filter],
        ..ImageRequest::default()
    };
    let page = world.ec2.describe_images(&request, now).expect("the request is fine");
    page.images.into_iter().map(|image| (image.name, image.state)).collect()
}

fn of(name: &str, state: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), state.to_owned())]
}

/// Why a fleet that names an image is refused; none if it launches.
fn refusal(world: &mut World, image: &str, now: i64) -> Option<String> {
    let mut request = fleet(image, 1);
    for choice in &mut request.configs[0].overrides {
        choice.image_id = Some(image.to_owned());
    }
    match world.create_fleet(&request, now) {
        Ok(answer) => {
            assert_eq!(ids(&answer).len(), 1);
            None
        }
        Err(error) => Some(error.code),
    }
}

#[test]
fn ec2_an_image_is_pending_then_available_and_launches() {
    let (mut world, machine) = running();
    world.timings_mut().image_pending_ms = 5_000;
    let image = made(&mut world, &machine, "runner-1");
    let source = world.ec2.image(&image).and_then(|image| image.source.clone());
    assert_eq!(source, Some(machine));
    assert_eq!(shown(&world, "dev", T0 + 6_999), of("runner-1", "pending"));
    assert_eq!(shown(&world, "dev", T0 + 7_000), of("runner-1", "available"));
    assert_eq!(shown(&world, "other", READY), []);
    assert_eq!(
        refusal(&mut world, &image, T0 + 6_999).as_deref(),
        Some("InvalidAMIID.Unavailable")
    );
    assert_eq!(refusal(&mut world, &image, T0 + 7_000), None);
    let launched = world.ec2.instances().last().expect("launched");
    assert_eq!(launched.image_id, image);
    let snapshots: Vec<_> = world.ec2.snapshots().collect();
    let [snapshot] = snapshots[..] else { panic!("{snapshots:?}") };
    assert_eq!((&snapshot.image, snapshot.disk_gib), (&image, 40));
    assert_eq!(snapshot.tags.get("muster:stack").map(String::as_str), Some("dev"));
}

#[test]
fn ec2_a_failed_image_launches_nothing_and_is_deleted() {
    let (mut world, machine) = running();
    world.ec2.toggles.images_fail = Some("Client.InternalError: no disk".to_owned());
    let image = made(&mut world, &machine, "runner-1");
    assert_eq!(shown(&world, "dev", T0 + 2_100), of("runner-1", "pending"));
    assert_eq!(shown(&world, "dev", READY), of("runner-1", "failed"));
    assert_eq!(refusal(&mut world, &image, READY).as_deref(), Some("InvalidAMIID.Unavailable"));
    world.deregister_image(&image, true, READY).expect("deregistered");
    assert_eq!(world.ec2.snapshots().count(), 0);
}

#[test]
fn ec2_what_makes_no_image() {
    let (mut world, machine) = running();
    made(&mut world, &machine, "runner-1");
    let pending = launch(&mut world, "pending", 1, T0 + 2_000).remove(0);
    let ended = launch(&mut world, "ended", 1, T0).remove(0);
    world.terminate_instances(std::slice::from_ref(&ended), T0 + 1_500).expect("terminated");
    let mut reboots = request(&machine, "runner-2");
    reboots.no_reboot = false;
    let mut odd = request(&machine, "runner-2");
    odd.tags[0].resource_type = "instance".to_owned();
    for (request, code) in [
        (request("i-1", "runner-2"), "InvalidInstanceID.Malformed"),
        (request("i-0fffffffffffffff0", "runner-2"), "InvalidInstanceID.NotFound"),
        (request(&ended, "runner-2"), "IncorrectInstanceState"),
        (request(&pending, "runner-2"), "IncorrectInstanceState"),
        (request(&machine, "runner-1"), "InvalidAMIName.Duplicate"),
        (request(&machine, "r"), "InvalidAMIName.Malformed"),
        (request(&machine, "runner:2"), "InvalidAMIName.Malformed"),
        (reboots, "UnsupportedOperation"),
        (odd, "InvalidParameterValue"),
    ] {
        let error = world.create_image(&request, T0 + 2_000).expect_err(code);
        assert_eq!(error.code, code, "{request:?}");
    }
    assert_eq!(world.ec2.snapshots().count(), 1);
}

#[test]
fn ec2_a_deregistered_image_is_shown_for_a_while_and_frees_its_name() {
    let (mut world, machine) = running();
    let image = made(&mut world, &machine, "runner-1");
    let deletions = world.deregister_image(&image, true, READY).expect("deregistered");
    assert_eq!(deletions[0].code, "success");
    assert_eq!(shown(&world, "dev", READY), of("runner-1", "deregistered"));
    assert_eq!(shown(&world, "dev", READY + 60_000), []);
    assert_eq!(refusal(&mut world, &image, READY).as_deref(), Some("InvalidAMIID.Unavailable"));
    let again = world.deregister_image(&image, true, READY).expect_err("gone");
    assert_eq!(again.code, "InvalidAMIID.Unavailable");
    assert_ne!(made(&mut world, &machine, "runner-1"), image);
}

#[test]
fn ec2_snapshots_that_stay_are_deleted_one_by_one() {
    let (mut world, machine) = running();
    let image = made(&mut world, &machine, "runner-1");
    let snapshot = world.ec2.snapshots().next().expect("a snapshot").id.clone();
    let used = world.ec2.delete_snapshot(&snapshot).expect_err("in use");
    assert_eq!(used.code, "InvalidSnapshot.InUse");
    world.ec2.toggles.keeps_snapshots = true;
    let deletions = world.deregister_image(&image, true, READY).expect("deregistered");
    assert_eq!(
        (deletions[0].id.as_str(), deletions[0].code.as_str()),
        (&*snapshot, "internal-error")
    );
    world.ec2.delete_snapshot(&snapshot).expect("deleted");
    let gone = world.ec2.delete_snapshot(&snapshot).expect_err("gone");
    assert_eq!(gone.code, "InvalidSnapshot.NotFound");
    assert_eq!(world.ec2.snapshots().count(), 0);
}

#[test]
fn ec2_an_image_that_does_not_exist_neither_launches_nor_ends() {
    let (mut world, _) = running();
    let unknown = "ami-0fffffffffffffff0";
    let code = refusal(&mut world, unknown, T0);
    assert_eq!(code.as_deref(), Some("InvalidAMIID.NotFound"));
    assert_eq!(refusal(&mut world, "resolve:ssm:/aws/service/x", T0), None);
    for (id, code) in [(unknown, "InvalidAMIID.NotFound"), ("ami", "InvalidAMIID.Malformed")] {
        assert_eq!(world.deregister_image(id, true, T0).expect_err(code).code, code);
    }
}
