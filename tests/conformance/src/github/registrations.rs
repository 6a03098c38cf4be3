//! Configurations and the registrations that they make.

use super::*;

pub(super) async fn a_configuration_registers_its_name<W: GithubWorld>(world: &W) {
    runner(world, "r-1").await;
    assert_eq!(world.registered().await, ["r-1"]);
}

pub(super) async fn a_configuration_is_not_empty_and_not_twice_the_same<W: GithubWorld>(world: &W) {
    let (one, two) = (configure(world, "r-1").await, configure(world, "r-2").await);
    let (one, two) = (registered(one), registered(two));
    assert_ne!(one.runner, two.runner);
    assert_ne!(one.encoded, two.encoded);
    assert!(!one.encoded.is_empty());
}

pub(super) async fn a_taken_name_is_refused_and_nothing_changes<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    assert_eq!(refusal(configure(world, "r-1").await), JitError::NameTaken);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Offline(id));
    assert_eq!(world.registered().await.len(), 1);
}

pub(super) async fn a_name_is_free_again_after_its_removal<W: GithubWorld>(world: &W) {
    let first = runner(world, "r-1").await;
    remove(world, first).await;
    assert_ne!(runner(world, "r-1").await, first);
}

pub(super) async fn a_name_is_free_again_after_its_job<W: GithubWorld>(world: &W) {
    let (first, job) = busy(world, "r-1").await;
    world.end(job, "success").await;
    assert_ne!(runner(world, "r-1").await, first);
}

pub(super) async fn a_name_is_free_at_another_entity<W: GithubWorld>(world: &W) {
    let first = runner(world, "r-1").await;
    let at = world.another_organization();
    let second = registered(world.github().configure(&at, "r-1", &labels(), 1).await).runner;
    assert_ne!(first, second);
}

pub(super) async fn an_unknown_entity_is_refused<W: GithubWorld>(world: &W) {
    let at = Registrar { entity: "nobody".parse().expect("an entity"), ..world.organization() };
    let answer = refusal(world.github().configure(&at, "r-1", &labels(), 1).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
}

pub(super) async fn an_unknown_group_is_refused<W: GithubWorld>(world: &W) {
    let at = world.organization();
    let answer = refusal(world.github().configure(&at, "r-1", &labels(), 4711).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
    assert_eq!(world.registered().await, [] as [&str; 0]);
}

pub(super) async fn a_request_without_labels_is_refused<W: GithubWorld>(world: &W) {
    let answer = refusal(world.github().configure(&world.organization(), "r-1", &[], 1).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
}

pub(super) async fn a_runner_is_found_by_its_number<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(seen(world, one).await, RunnerSeen::Offline(one));
    assert_eq!(seen(world, two).await, RunnerSeen::Offline(two));
}

pub(super) async fn a_runner_is_found_by_its_name<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Offline(one));
    assert_eq!(seen_by_name(world, "r-2").await, RunnerSeen::Offline(two));
}

pub(super) async fn an_unknown_number_is_absent<W: GithubWorld>(world: &W) {
    let RunnerId(id) = runner(world, "r-1").await;
    assert_eq!(seen(world, RunnerId(id + 1000)).await, RunnerSeen::Absent);
}

pub(super) async fn an_unknown_name_is_absent<W: GithubWorld>(world: &W) {
    runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-2").await, RunnerSeen::Absent);
}

pub(super) async fn names_that_begin_alike_are_not_confused<W: GithubWorld>(world: &W) {
    let long = runner(world, "r-10").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    let short = runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Offline(short));
    assert_eq!(seen_by_name(world, "r-10").await, RunnerSeen::Offline(long));
}

pub(super) async fn a_runner_is_registered_at_one_entity<W: GithubWorld>(world: &W) {
    let entity = world.repository().parse().expect("an entity");
    let at = Registrar { entity, ..world.organization() };
    let id = registered(world.github().configure(&at, "r-1", &labels(), 1).await).runner;
    assert_eq!(world.github().runner(&at, id).await, Ok(RunnerSeen::Offline(id)));
    assert_eq!(seen(world, id).await, RunnerSeen::Absent, "at the organization");
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent, "at the organization");
}
