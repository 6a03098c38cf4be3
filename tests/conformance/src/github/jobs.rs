//! Jobs, when asked for.

use super::*;
use muster_domain::ids::AppName;

pub(super) async fn a_queued_job_has_no_runner<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    let shown = job(world, number).await.expect("shown");
    let runner = shown.runner.filter(|name| !name.is_empty());
    assert_eq!((shown.status, runner, shown.conclusion), (JobStatus::Queued, None, None));
}

pub(super) async fn a_taken_job_names_its_runner<W: GithubWorld>(world: &W) {
    let (_, number) = busy(world, "r-1").await;
    let shown = job(world, number).await.expect("shown");
    let expected = (JobStatus::InProgress, Some("r-1".to_owned()), None);
    assert_eq!((shown.status, shown.runner, shown.conclusion), expected);
}

async fn ended<W: GithubWorld>(world: &W, conclusion: &'static str) {
    let (_, number) = busy(world, "r-1").await;
    world.end(number, conclusion).await;
    let shown = job(world, number).await.expect("shown");
    let expected = (JobStatus::Completed, Some("r-1".to_owned()), Some(conclusion.to_owned()));
    assert_eq!((shown.status, shown.runner, shown.conclusion), expected);
}

pub(super) async fn an_ended_job_tells_how<W: GithubWorld>(world: &W) {
    ended(world, "success").await;
}

pub(super) async fn a_failed_job_tells_how<W: GithubWorld>(world: &W) {
    ended(world, "failure").await;
}

pub(super) async fn a_job_cancelled_in_the_queue_is_completed<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    world.cancel(number).await;
    let shown = job(world, number).await.expect("shown");
    let runner = shown.runner.filter(|name| !name.is_empty());
    let expected = (JobStatus::Completed, None, Some("cancelled".to_owned()));
    assert_eq!((shown.status, runner, shown.conclusion), expected);
}

pub(super) async fn an_unknown_job_is_not_shown<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    assert_eq!(job(world, number + 1000).await, None);
}

pub(super) async fn a_job_is_not_shown_in_another_repository<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    let elsewhere = format!("{}-2", world.repository());
    let answer = world.github().job(&world.organization(), &elsewhere, number).await;
    assert_eq!(answer, Ok(None));
}

/// The keys of what is queued in the world's repository.
async fn queued<W: GithubWorld>(world: &W) -> Vec<u64> {
    let repository = world.repository().parse().expect("a repository");
    let seen = world.github().queued_jobs(&repository, None, Reach::All).await.expect("an answer");
    let QueuedJobs { jobs, more } = seen.expect("shown");
    assert!(!more && jobs.iter().all(|job| job.status == JobStatus::Queued));
    assert!(jobs.iter().all(|job| *job.repository == *world.repository()));
    let mut keys: Vec<u64> = jobs.into_iter().map(|job| job.key.job).collect();
    keys.sort_unstable();
    keys
}

pub(super) async fn the_repositories_of_the_app_are_listed<W: GithubWorld>(world: &W) {
    world.queue_job().await;
    let (mut place, mut found) = (None, Vec::new());
    loop {
        let page = world.github().repositories_from(AppName::MAIN, place).await.expect("an answer");
        assert!(page.passed_over.is_none() && page.installation.is_some());
        found.extend(page.repositories.iter().map(|name| name.as_str().to_owned()));
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    found.retain(|name| *name == world.repository());
    assert_eq!(found.len(), 1);
}

pub(super) async fn what_is_queued_in_a_repository_is_shown<W: GithubWorld>(world: &W) {
    let (_, _) = busy(world, "r-1").await;
    let (one, other) = (world.queue_job().await, world.queue_job().await);
    let cancelled = world.queue_job().await;
    world.cancel(cancelled).await;
    assert_eq!(queued(world).await, [one, other]);
}
