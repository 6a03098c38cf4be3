//! Answers that are none.

use super::*;

/// The trouble that each of the five calls meets.
async fn troubles<W: GithubWorld>(world: &W, id: RunnerId) -> Vec<(&'static str, ProviderError)> {
    let (github, at) = (world.github(), world.organization());
    let configured = match refusal(configure(world, "never").await) {
        JitError::ProviderError(trouble) => trouble,
        other => panic!("configure: {other:?}"),
    };
    vec![
        ("configure", configured),
        ("runner", github.runner(&at, id).await.expect_err("trouble")),
        ("runner_named", github.runner_named(&at, "r-1").await.expect_err("trouble")),
        ("job", github.job(&at, &world.repository(), 1).await.expect_err("trouble")),
        ("deregister", github.deregister(&at, id).await.expect_err("trouble")),
    ]
}

pub(super) async fn a_failure_of_github_is_silence<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Broken).await;
    for (call, trouble) in troubles(world, id).await {
        assert!(matches!(trouble, ProviderError::Unavailable(_)), "{call}: {trouble:?}");
    }
}

pub(super) async fn a_failure_of_github_changes_nothing<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Broken).await;
    troubles(world, id).await;
    world.mend().await;
    assert_eq!(world.registered().await, ["r-1"]);
    assert_eq!(seen(world, id).await, RunnerSeen::Offline(id));
}

pub(super) async fn refused_credentials_are_told_apart<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Unauthorized).await;
    for (call, trouble) in troubles(world, id).await {
        assert!(matches!(trouble, ProviderError::Unauthorized(_)), "{call}: {trouble:?}");
    }
    assert_eq!(world.registered().await, ["r-1"]);
}

pub(super) async fn a_refused_permission_is_told_apart<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Forbidden).await;
    let (github, at) = (world.github(), world.organization());
    let looked = github.runner(&at, id).await;
    assert!(matches!(looked, Err(ProviderError::Unauthorized(_))), "{looked:?}");
    let removed = github.deregister(&at, id).await;
    assert!(matches!(removed, Err(ProviderError::Unauthorized(_))), "{removed:?}");
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn limited<W: GithubWorld>(world: &W, how: Failure) {
    let id = runner(world, "r-1").await;
    world.fail(how).await;
    for (call, trouble) in troubles(world, id).await {
        let ProviderError::RateLimited(until) = trouble else { panic!("{call}: {trouble:?}") };
        assert!(until > world.now(), "{call}: until {until}");
    }
    assert_eq!(world.registered().await, ["r-1"]);
}

pub(super) async fn too_many_calls_tell_until_when<W: GithubWorld>(world: &W) {
    limited(world, Failure::TooMany).await;
}

pub(super) async fn a_used_up_limit_tells_until_when<W: GithubWorld>(world: &W) {
    limited(world, Failure::LimitUsedUp).await;
}

pub(super) async fn an_unheard_registration_has_happened<W: GithubWorld>(world: &W) {
    world.fail(Failure::Unheard).await;
    let answer = refusal(configure(world, "r-1").await);
    assert!(matches!(answer, JitError::ProviderError(ProviderError::Unavailable(_))), "{answer:?}");
    world.mend().await;
    assert_eq!(world.registered().await, ["r-1"]);
    assert_eq!(refusal(configure(world, "r-1").await), JitError::NameTaken);
}

pub(super) async fn an_unheard_removal_has_happened<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Unheard).await;
    let answer = world.github().deregister(&world.organization(), id).await;
    assert!(matches!(answer, Err(ProviderError::Unavailable(_))), "{answer:?}");
    world.mend().await;
    assert_eq!(world.registered().await, [] as [&str; 0]);
    assert_eq!(remove(world, id).await, Deregistration::NotFound);
}
