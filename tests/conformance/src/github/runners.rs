//! Idle, busy and removed runners, and what GitHub says of them.

use super::*;

pub(super) async fn a_runner_without_an_agent_is_offline<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    assert_eq!(seen(world, id).await, RunnerSeen::Offline(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Offline(id));
}

pub(super) async fn an_idle_runner_is_not_busy<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.connect("r-1").await;
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(id));
    world.queue_job().await;
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id), "nor while a job is queued");
}

pub(super) async fn a_runner_with_a_job_is_busy_by_number_and_by_name<W: GithubWorld>(world: &W) {
    let (id, _) = busy(world, "r-1").await;
    assert_eq!(seen(world, id).await, RunnerSeen::Busy(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Busy(id));
}

pub(super) async fn a_runner_goes_with_its_job<W: GithubWorld>(world: &W) {
    let (id, job) = busy(world, "r-1").await;
    world.end(job, "success").await;
    assert_eq!(seen(world, id).await, RunnerSeen::Absent);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    assert_eq!(world.registered().await, [] as [&str; 0]);
}

pub(super) async fn an_idle_runner_is_removed<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(remove(world, one).await, Deregistration::Done);
    assert_eq!(seen(world, one).await, RunnerSeen::Absent);
    assert_eq!(seen(world, two).await, RunnerSeen::Offline(two), "and no other");
}

pub(super) async fn a_removed_runner_is_not_found_again<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    remove(world, id).await;
    assert_eq!(remove(world, id).await, Deregistration::NotFound);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
}

pub(super) async fn an_unknown_runner_cannot_be_removed<W: GithubWorld>(world: &W) {
    let RunnerId(id) = runner(world, "r-1").await;
    assert_eq!(remove(world, RunnerId(id + 1000)).await, Deregistration::NotFound);
    assert_eq!(world.registered().await, ["r-1"]);
}

pub(super) async fn a_busy_runner_is_not_removed_and_its_job_goes_on<W: GithubWorld>(world: &W) {
    let (id, number) = busy(world, "r-1").await;
    assert_eq!(remove(world, id).await, Deregistration::Busy);
    assert_eq!(seen(world, id).await, RunnerSeen::Busy(id));
    assert_eq!(job(world, number).await.expect("shown").status, JobStatus::InProgress);
}

pub(super) async fn a_lie_calls_a_busy_runner_idle<W: GithubWorld>(world: &W) {
    let (id, _) = busy(world, "r-1").await;
    world.lie().await;
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(id));
}

pub(super) async fn a_lie_removes_a_busy_runner_and_its_job_goes_on<W: GithubWorld>(world: &W) {
    let (id, number) = busy(world, "r-1").await;
    world.lie().await;
    assert_eq!(remove(world, id).await, Deregistration::Done);
    assert_eq!(seen(world, id).await, RunnerSeen::Absent);
    assert_eq!(job(world, number).await.expect("shown").status, JobStatus::InProgress);
}

pub(super) async fn a_list_may_be_old_and_a_look_by_number_is_not<W: GithubWorld>(world: &W) {
    world.list_from_cache().await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    let id = runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent, "still");
    assert_eq!(seen(world, id).await, RunnerSeen::Offline(id));
}
