//! GitHub, as `muster_control::ports::Github` shows it.

mod agents;
mod deliveries;
mod failures;
mod jobs;
mod registrations;
mod runners;

use muster_control::ports::{Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar};
use muster_domain::ids::RunnerId;
use muster_domain::job::JobStatus;
use muster_domain::observation::{Deregistration, RunnerSeen};
use muster_domain::provider::ProviderError;
use muster_domain::time::Time;

use crate::checks;

use self::agents::*;
use self::deliveries::*;
use self::failures::*;
use self::jobs::*;
use self::registrations::*;
use self::runners::*;

/// What becomes of all calls until they are mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of GitHub's own, 502; nothing is done.
    Broken,
    /// 401.
    Unauthorized,
    /// 403 that is not about a limit.
    Forbidden,
    /// 429 with the seconds to wait.
    TooMany,
    /// 403 because the rate limit is used up.
    LimitUsedUp,
    /// Done, and no answer comes.
    Unheard,
}

/// GitHub behind a door.
#[expect(async_fn_in_trait, reason = "checks run on one thread")]
pub trait GithubWorld {
    /// The port.
    type Github: Github;

    /// The port.
    fn github(&self) -> &Self::Github;
    /// An organization that has installed the App.
    fn organization(&self) -> Registrar;
    /// Another one.
    fn another_organization(&self) -> Registrar;
    /// A repository of the organization, `owner/repo`.
    fn repository(&self) -> String;
    /// The time, as the caller sees it.
    fn now(&self) -> Time;
    /// A workflow of the repository queues a job that any runner may take; its number.
    async fn queue_job(&self) -> u64;
    /// A registered runner's agent comes and waits for a job.
    async fn connect(&self, runner: &str);
    /// A registered runner's agent, which may have been there before, takes the job, and its steps
    /// begin.
    async fn take(&self, job: u64, runner: &str);
    /// The job's steps end, and the agent reports it.
    async fn end(&self, job: u64, conclusion: &'static str);
    /// Deliveries of the webhook find nobody from now on.
    async fn close_door(&self);
    /// A moment passes in which deliveries come and go.
    async fn a_moment(&self);
    /// The workflow is cancelled.
    async fn cancel(&self, job: u64);
    /// Busy runners are called idle, and DELETE does not refuse them.
    async fn lie(&self);
    /// Lists are as old as the last minute.
    async fn list_from_cache(&self);
    /// GitHub lists this agent as the newest, for both processors; that for arm64 without a digest.
    async fn list_agent(&self, version: &str);
    /// Every call fails from now on.
    async fn fail(&self, how: Failure);
    /// Nothing fails any more.
    async fn mend(&self);
    /// The names of all runners that are registered in truth.
    async fn registered(&self) -> Vec<String>;
}

checks! { GithubWorld:
    a_configuration_registers_its_name,
    a_configuration_is_not_empty_and_not_twice_the_same,
    a_taken_name_is_refused_and_nothing_changes,
    a_name_is_free_again_after_its_removal,
    a_name_is_free_again_after_its_job,
    a_name_is_free_at_another_entity,
    an_unknown_entity_is_refused,
    an_unknown_group_is_refused,
    a_request_without_labels_is_refused,
    a_runner_is_found_by_its_number,
    a_runner_is_found_by_its_name,
    an_unknown_number_is_absent,
    an_unknown_name_is_absent,
    names_that_begin_alike_are_not_confused,
    a_runner_is_registered_at_one_entity,
    a_runner_without_an_agent_is_offline,
    an_idle_runner_is_not_busy,
    a_runner_with_a_job_is_busy_by_number_and_by_name,
    a_runner_goes_with_its_job,
    an_idle_runner_is_removed,
    a_removed_runner_is_not_found_again,
    an_unknown_runner_cannot_be_removed,
    a_busy_runner_is_not_removed_and_its_job_goes_on,
    a_lie_calls_a_busy_runner_idle,
    a_lie_removes_a_busy_runner_and_its_job_goes_on,
    a_list_may_be_old_and_a_look_by_number_is_not,
    a_queued_job_has_no_runner,
    a_taken_job_names_its_runner,
    an_ended_job_tells_how,
    a_failed_job_tells_how,
    a_job_cancelled_in_the_queue_is_completed,
    an_unknown_job_is_not_shown,
    a_job_is_not_shown_in_another_repository,
    what_is_queued_in_a_repository_is_shown,
    the_repositories_of_the_app_are_listed,
    the_agents_for_linux_are_listed_with_their_digests,
    a_failure_of_github_is_silence,
    a_failure_of_github_changes_nothing,
    refused_credentials_are_told_apart,
    a_refused_permission_is_told_apart,
    too_many_calls_tell_until_when,
    a_used_up_limit_tells_until_when,
    an_unheard_registration_has_happened,
    an_unheard_removal_has_happened,
    a_failed_delivery_is_listed,
    a_repeated_delivery_is_another_attempt_of_the_same_event,
    deliveries_are_listed_in_pages_of_a_hundred,
    an_unknown_cursor_is_no_page,
    an_unknown_delivery_is_not_repeated,
}

const LABELS: [&str; 2] = ["linux", "x64"];

fn labels() -> Vec<String> {
    LABELS.map(str::to_owned).to_vec()
}

async fn configure<W: GithubWorld>(world: &W, name: &str) -> Result<JitConfig, JitError> {
    world.github().configure(&world.organization(), name, &labels(), 1).await
}

fn registered(answer: Result<JitConfig, JitError>) -> JitConfig {
    match answer {
        Ok(config) => config,
        Err(error) => panic!("not registered: {error:?}"),
    }
}

fn refusal(answer: Result<JitConfig, JitError>) -> JitError {
    match answer {
        Ok(config) => panic!("registered as {}", config.runner),
        Err(error) => error,
    }
}

async fn runner<W: GithubWorld>(world: &W, name: &str) -> RunnerId {
    registered(configure(world, name).await).runner
}

async fn seen<W: GithubWorld>(world: &W, id: RunnerId) -> RunnerSeen {
    world.github().runner(&world.organization(), id).await.expect("an answer")
}

async fn seen_by_name<W: GithubWorld>(world: &W, name: &str) -> RunnerSeen {
    world.github().runner_named(&world.organization(), name).await.expect("an answer")
}

async fn remove<W: GithubWorld>(world: &W, id: RunnerId) -> Deregistration {
    world.github().deregister(&world.organization(), id).await.expect("an answer")
}

async fn job<W: GithubWorld>(world: &W, number: u64) -> Option<JobSeen> {
    let repository = world.repository();
    world.github().job(&world.organization(), &repository, number).await.expect("an answer")
}

/// A runner that runs a job: its number and the job's.
async fn busy<W: GithubWorld>(world: &W, name: &str) -> (RunnerId, u64) {
    let id = runner(world, name).await;
    let job = world.queue_job().await;
    world.take(job, name).await;
    (id, job)
}
