//! What is behind the names of a pool file, as `muster_control::ports::Directory` and
//! `muster_control::ports::Catalogue` show it.

use muster_control::ports::{Catalogue, Directory};
use muster_domain::app::AppSettings;
use muster_domain::ec2::Arch;
use muster_domain::ids::{AppName, Entity, EntityKind};
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate, RunnerGroup,
};
use muster_domain::provider::ProviderError;

use crate::checks;

/// The stack of whoever asks.
pub const STACK: &str = "s1";

/// GitHub and EC2 behind their doors.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait NamesWorld {
    /// The port.
    type Github: Directory;
    /// The port.
    type Ec2: Catalogue;

    /// The port.
    fn github(&self) -> &Self::Github;
    /// The port.
    fn ec2(&self) -> &Self::Ec2;
    /// An organization that has installed the App, with its number.
    async fn organization(&self) -> (u64, Entity);
    /// A repository of the organization, with its number.
    async fn repository(&self) -> (u64, Entity);
    /// The App is sent these events, and may do this.
    async fn have_app(&self, app: &AppSettings);
    /// The organization has this runner group beside the default one.
    async fn have_group(&self, id: u64, name: &str);
    /// The account has these images of one architecture, the last one the newest: id and name.
    async fn have_images(&self, arch: Arch, images: &[(&str, &str)]);
    /// The account has this launch template with these tags, in as many versions.
    async fn have_template(&self, id: &str, versions: u64, tags: &[(&str, &str)]);
    /// The account has this placement group, a cluster, with these tags.
    async fn have_placement_group(&self, name: &str, tags: &[(&str, &str)]);
    /// Nobody answers from now on.
    async fn fall_silent(&self);
}

checks! { NamesWorld:
    an_organization_is_found_by_its_id,
    a_repository_is_found_by_its_id,
    an_unknown_id_is_nobodys,
    an_id_is_of_its_kind,
    the_app_is_sent_events_and_may_do_things,
    the_app_is_installed_and_its_hook_has_an_address,
    the_repositories_that_the_app_sees_are_listed,
    the_groups_of_an_organization_are_listed_with_the_default_one,
    the_newest_image_is_found,
    an_image_of_another_architecture_or_name_is_not_found,
    a_launch_template_is_found_with_its_tags,
    a_placement_group_is_found_with_its_tags,
    silence_is_no_answer,
}

async fn entity<W: NamesWorld>(world: &W, kind: EntityKind, number: u64) -> Option<Entity> {
    world.github().entity(EntityId { app: AppName::MAIN, kind, number }).await.expect("an answer")
}

const fn organization(number: u64) -> EntityId {
    EntityId { app: AppName::MAIN, kind: EntityKind::Organization, number }
}

fn runners(arch: Arch) -> ImageFilter {
    ImageFilter { name: "runner-*".to_owned(), owner: "self".to_owned(), arch }
}

async fn an_organization_is_found_by_its_id<W: NamesWorld>(world: &W) {
    let (number, named) = world.organization().await;
    assert_eq!(entity(world, EntityKind::Organization, number).await, Some(named));
}

async fn a_repository_is_found_by_its_id<W: NamesWorld>(world: &W) {
    let (number, named) = world.repository().await;
    assert_eq!(entity(world, EntityKind::Repository, number).await, Some(named));
}

async fn an_unknown_id_is_nobodys<W: NamesWorld>(world: &W) {
    for kind in [EntityKind::Organization, EntityKind::Repository, EntityKind::Enterprise] {
        assert_eq!(entity(world, kind, 999_999_999).await, None);
    }
}

async fn an_id_is_of_its_kind<W: NamesWorld>(world: &W) {
    let (number, _) = world.organization().await;
    assert_eq!(entity(world, EntityKind::Enterprise, number).await, None);
}

async fn the_app_is_sent_events_and_may_do_things<W: NamesWorld>(world: &W) {
    let right = world.github().app(AppName::MAIN).await.expect("an answer");
    assert!(right.lacks(&[]).is_empty(), "{right:?}");
    let actions = ("actions".to_owned(), "read".to_owned());
    let (events, permissions) = (vec!["push".to_owned()], [actions].into());
    let wrong = AppSettings { events, permissions, ..right };
    world.have_app(&wrong).await;
    assert_eq!(world.github().app(AppName::MAIN).await, Ok(wrong));
}

async fn the_app_is_installed_and_its_hook_has_an_address<W: NamesWorld>(world: &W) {
    let (_, organization) = world.organization().await;
    let installed = world.github().installations(AppName::MAIN).await.expect("an answer");
    let one = installed.iter().find(|one| one.account == organization.as_str()).expect("installed");
    assert!(
        one.suspended_at.is_none() && !one.is_person && one.permissions.contains_key("actions")
    );
    let hook = world.github().hook(AppName::MAIN).await.expect("an answer");
    assert!(hook.url.ends_with("/webhook") && hook.content_type == "json" && !hook.insecure);
    world.github().hook_answers(AppName::MAIN).await.expect("an answer");
}

async fn the_repositories_that_the_app_sees_are_listed<W: NamesWorld>(world: &W) {
    let (_, named) = world.repository().await;
    let seen = world.github().repositories(AppName::MAIN).await.expect("an answer");
    let one = seen.all.iter().find(|one| one.name == named).expect("listed");
    assert!(one.is_private && !seen.more);
}

async fn the_groups_of_an_organization_are_listed_with_the_default_one<W: NamesWorld>(world: &W) {
    let (_, named) = world.organization().await;
    world.have_group(5, "Linux-Builders").await;
    let group = |id, name: &str| RunnerGroup::new(id, name);
    let groups = world.github().groups(&named).await;
    assert_eq!(groups, Ok(vec![group(1, "Default"), group(5, "Linux-Builders")]));
}

async fn the_newest_image_is_found<W: NamesWorld>(world: &W) {
    world.have_images(Arch::X64, &[("ami-2", "runner-2"), ("ami-1", "runner-1")]).await;
    let found = world.ec2().newest(&runners(Arch::X64)).await;
    let expected = FoundImage { id: "ami-1".to_owned(), name: "runner-1".to_owned() };
    assert_eq!(found, Ok(Some(expected)));
}

async fn an_image_of_another_architecture_or_name_is_not_found<W: NamesWorld>(world: &W) {
    world.have_images(Arch::Arm64, &[("ami-1", "runner-1")]).await;
    world.have_images(Arch::X64, &[("ami-2", "builder-1")]).await;
    assert_eq!(world.ec2().newest(&runners(Arch::X64)).await, Ok(None));
}

/// The user data of each version, and as EC2 keeps it.
pub const BOOTS: [(&str, &str); 2] = [
    ("#!/usr/bin/env bash\n1\n", "IyEvdXNyL2Jpbi9lbnYgYmFzaAoxCg=="),
    ("#!/usr/bin/env bash\n2\n", "IyEvdXNyL2Jpbi9lbnYgYmFzaAoyCg=="),
];

async fn a_launch_template_is_found_with_its_tags<W: NamesWorld>(world: &W) {
    let named = |id: &str, version| NamedTemplate { id: id.to_owned(), version };
    world.have_template("lt-1", 2, &[("muster:stack", STACK), ("muster:role", "AROA1")]).await;
    world.have_template("lt-2", 1, &[("muster:stack", "another")]).await;
    for (version, found, boot) in [(None, 2, 1), (Some(2), 2, 1), (Some(1), 1, 0)] {
        let expected = FoundTemplate {
            version: found,
            is_ours: true,
            role: Some("AROA1".to_owned()),
            device: Some("/dev/sdf".to_owned()),
            user_data: BOOTS[boot].0.to_owned(),
        };
        assert_eq!(world.ec2().template(&named("lt-1", version)).await, Ok(Some(expected)));
    }
    let theirs = world.ec2().template(&named("lt-2", None)).await.expect("an answer");
    assert_eq!(theirs.map(|found| (found.is_ours, found.role)), Some((false, None)));
    for missing in [named("lt-3", None), named("lt-1", Some(3))] {
        assert_eq!(world.ec2().template(&missing).await, Ok(None), "{missing}");
    }
}

async fn a_placement_group_is_found_with_its_tags<W: NamesWorld>(world: &W) {
    world.have_placement_group("release", &[("muster:stack", STACK)]).await;
    world.have_placement_group("r*", &[]).await;
    let found = async |name| world.ec2().placement(name).await;
    let group = |is_ours| Ok(Some(FoundPlacement { is_ours, is_cluster: true }));
    assert_eq!(found("release").await, group(true));
    assert_eq!(found("r*").await, group(false), "a name is no pattern");
    assert_eq!(found("builds").await, Ok(None));
}

async fn silence_is_no_answer<W: NamesWorld>(world: &W) {
    let (number, named) = world.organization().await;
    let template = NamedTemplate { id: "lt-1".to_owned(), version: None };
    world.fall_silent().await;
    let answers = [
        world.github().entity(organization(number)).await.map(drop),
        world.github().groups(&named).await.map(drop),
        world.github().hook(AppName::MAIN).await.map(drop),
        world.github().hook_answers(AppName::MAIN).await.map(drop),
        world.ec2().newest(&runners(Arch::X64)).await.map(drop),
        world.ec2().placement("release").await.map(drop),
        world.ec2().template(&template).await.map(drop),
    ];
    for answer in answers {
        assert!(matches!(&answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    }
}
