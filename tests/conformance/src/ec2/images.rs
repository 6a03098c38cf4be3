//! Images of machines, from their creation to their last snapshot.

use muster_control::ports::{CreateImageError, ImageState, NewImage, StackImage};
use muster_domain::ids::ImageId;
use muster_domain::launch::LaunchRequest;
use muster_domain::launch::plan::STACK_TAG;
use muster_domain::pool::Image;

use super::*;

fn image(stack: &str, name: &str) -> NewImage {
    NewImage {
        name: name.to_owned(),
        description: "an image".to_owned(),
        tags: vec![(STACK_TAG.to_owned(), stack.to_owned())],
    }
}

async fn running<W: Ec2World>(world: &W) -> MachineId {
    let machine = one(world).await;
    world.settle().await;
    machine
}

async fn create<W: Ec2World>(
    world: &W,
    machine: &MachineId,
    name: &str,
) -> Result<ImageId, CreateImageError> {
    world.ec2().create_image(machine, &image(world.stack(), name)).await
}

/// Images a machine of its own.
async fn created<W: Ec2World>(world: &W, name: &str) -> StackImage {
    let machine = running(world).await;
    let id = create(world, &machine, name).await.expect("created");
    let images = images(world).await;
    images.into_iter().find(|image| image.id == id).expect("listed")
}

async fn images<W: Ec2World>(world: &W) -> Vec<StackImage> {
    world.ec2().stack_images().await.expect("an answer")
}

async fn states<W: Ec2World>(world: &W) -> Vec<ImageState> {
    images(world).await.into_iter().map(|image| image.state).collect()
}

async fn launch_from<W: Ec2World>(
    world: &W,
    token: &str,
    image: &ImageId,
) -> Result<LaunchAnswer, LaunchError> {
    let request = LaunchRequest {
        image: Some(Image::Id(image.to_string())),
        ..request(world.stack(), token, 1)
    };
    world.ec2().launch(&id(token), &request).await
}

pub(super) async fn an_image_is_pending_and_then_available<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    let id = create(world, &machine, "runner-1").await.expect("created");
    let listed = images(world).await;
    let [image] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((&image.id, image.name.as_str()), (&id, "runner-1"));
    assert_eq!((&image.state, image.snapshots.len()), (&ImageState::Pending, 1));
    assert!(image.disk_gib > 0 && image.created_at.is_some(), "{image:?}");
    world.finish_images().await;
    assert_eq!(states(world).await, [ImageState::Available]);
    assert_eq!(world.snapshots().await, 1);
}

pub(super) async fn an_image_leaves_its_machine_running<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    create(world, &machine, "runner-1").await.expect("created");
    assert_eq!(state(world, &machine).await, Machine::Running);
}

pub(super) async fn a_name_is_given_to_one_image<W: Ec2World>(world: &W) {
    let first = created(world, "runner-1").await;
    let machine = launched(world, "two", 1).await.remove(0);
    world.settle().await;
    let again = create(world, &machine, "runner-1").await;
    assert_eq!(again, Err(CreateImageError::NameTaken));
    assert_eq!((images(world).await.len(), world.snapshots().await), (1, 1));
    world.ec2().delete_image(&first).await.expect("deleted");
    create(world, &machine, "runner-1").await.expect("the name is free again");
}

pub(super) async fn only_a_running_machine_is_imaged<W: Ec2World>(world: &W) {
    let ended = running(world).await;
    end(world, &ended).await;
    let pending = launched(world, "two", 1).await.remove(0);
    for machine in [ended, pending, unknown()] {
        let answer = create(world, &machine, "runner-1").await;
        assert!(matches!(answer, Err(CreateImageError::MachineGone(_))), "{answer:?}");
    }
    assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
}

pub(super) async fn a_failed_image_tells_its_reason<W: Ec2World>(world: &W) {
    world.fail_images().await;
    created(world, "runner-1").await;
    assert_eq!(states(world).await, [ImageState::Pending]);
    world.finish_images().await;
    let states = states(world).await;
    let [ImageState::Failed(reason)] = states.as_slice() else { panic!("{states:?}") };
    assert!(reason.contains("snapshot"), "{reason}");
}

pub(super) async fn machines_are_launched_from_an_available_image_only<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    let early = launch_from(world, "early", &image.id).await;
    assert_eq!(class(early), ErrorClass::Configuration);
    world.finish_images().await;
    let answer = launch_from(world, "timely", &image.id).await.expect("launched");
    assert_eq!(answer.machines.len(), 1, "{answer:?}");
    world.ec2().delete_image(&image).await.expect("deleted");
    let late = launch_from(world, "late", &image.id).await;
    assert_eq!(class(late), ErrorClass::Configuration);
}

pub(super) async fn images_of_other_stacks_are_not_listed<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    let theirs = image("somebody-elses", "theirs");
    world.ec2().create_image(&machine, &theirs).await.expect("created");
    assert_eq!(images(world).await, []);
}

pub(super) async fn all_images_are_listed_from_all_pages<W: Ec2World>(world: &W) {
    const COUNT: usize = 12;
    let machine = running(world).await;
    let mut expected = BTreeSet::new();
    for number in 0..COUNT {
        let id = create(world, &machine, &format!("runner-{number}")).await.expect("created");
        expected.insert(id);
    }
    let images = images(world).await;
    assert_eq!(images.len(), COUNT);
    let ids: BTreeSet<ImageId> = images.into_iter().map(|image| image.id).collect();
    assert_eq!(ids, expected);
}

pub(super) async fn a_deleted_image_leaves_neither_image_nor_snapshot<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    world.finish_images().await;
    for _ in 0..2 {
        assert_eq!(world.ec2().delete_image(&image).await, Ok(()));
        assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
    }
}

pub(super) async fn images_are_deleted_in_every_state<W: Ec2World>(world: &W) {
    let pending = created(world, "runner-1").await;
    world.ec2().delete_image(&pending).await.expect("deleted");
    world.fail_images().await;
    let machine = launched(world, "two", 1).await.remove(0);
    world.settle().await;
    create(world, &machine, "runner-2").await.expect("created");
    world.finish_images().await;
    let failed = images(world).await.remove(0);
    assert!(matches!(failed.state, ImageState::Failed(_)), "{failed:?}");
    world.ec2().delete_image(&failed).await.expect("deleted");
    assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
}

pub(super) async fn snapshots_that_stay_are_deleted_as_well<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    world.finish_images().await;
    world.keep_snapshots().await;
    assert_eq!(world.ec2().delete_image(&image).await, Ok(()));
    assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
}

pub(super) async fn an_unheard_image_has_been_created_and_keeps_its_name<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    world.fail(Call::CreateImage, Failure::Unheard).await;
    is_silence(create(world, &machine, "runner-1").await);
    world.mend().await;
    assert_eq!(images(world).await.len(), 1);
    assert_eq!(create(world, &machine, "runner-1").await, Err(CreateImageError::NameTaken));
}

pub(super) async fn an_undone_image_has_not_been_created<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    world.fail(Call::CreateImage, Failure::Undone).await;
    is_silence(create(world, &machine, "runner-1").await);
    assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
}

fn is_silence(answer: Result<ImageId, CreateImageError>) {
    let Err(CreateImageError::Provider(ProviderError::Unavailable(_))) = answer else {
        panic!("{answer:?}")
    };
}

pub(super) async fn a_denied_image_has_not_been_created<W: Ec2World>(world: &W) {
    let machine = running(world).await;
    world.fail(Call::CreateImage, Failure::RunnerApiError).await;
    let answer = create(world, &machine, "runner-1").await;
    let Err(CreateImageError::Provider(ProviderError::Unauthorized(_))) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((images(world).await.len(), world.snapshots().await), (0, 0));
}

pub(super) async fn silence_about_images_is_not_an_empty_list<W: Ec2World>(world: &W) {
    world.fail(Call::Images, Failure::Undone).await;
    let answer = world.ec2().stack_images().await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
}

pub(super) async fn an_unheard_deletion_has_happened_and_can_be_repeated<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    world.fail(Call::Deregister, Failure::Unheard).await;
    let answer = world.ec2().delete_image(&image).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    assert_eq!(images(world).await, []);
    world.mend().await;
    assert_eq!(world.ec2().delete_image(&image).await, Ok(()));
    assert_eq!(world.snapshots().await, 0);
}

pub(super) async fn an_undone_deletion_has_not_happened<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    world.fail(Call::Deregister, Failure::Undone).await;
    let answer = world.ec2().delete_image(&image).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    assert_eq!((images(world).await.len(), world.snapshots().await), (1, 1));
}

pub(super) async fn a_denied_deletion_has_not_happened<W: Ec2World>(world: &W) {
    let image = created(world, "runner-1").await;
    world.fail(Call::Deregister, Failure::RunnerApiError).await;
    let answer = world.ec2().delete_image(&image).await;
    assert!(matches!(answer, Err(ProviderError::Unauthorized(_))), "{answer:?}");
    assert_eq!((images(world).await.len(), world.snapshots().await), (1, 1));
}
