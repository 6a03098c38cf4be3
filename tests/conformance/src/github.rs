//! GitHub, as `control::ports::Github` shows it.

use control::ports::{Github, JitConfig, JitError, JobSeen, Registrar};
use domain::ids::RunnerId;
use domain::job::JobStatus;
use domain::observation::{Deregistration, RunnerSeen, Trouble};
use domain::time::Time;

use crate::checks;

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
    /// A registered runner's agent comes and takes the job, and its steps begin.
    async fn take(&self, job: u64, runner: &str);
    /// The job's steps end, and the agent reports it.
    async fn end(&self, job: u64, conclusion: &'static str);
    /// The workflow is cancelled.
    async fn cancel(&self, job: u64);
    /// Busy runners are called idle, and DELETE does not refuse them.
    async fn lie(&self);
    /// Lists are as old as the last minute.
    async fn list_from_cache(&self);
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
    a_failure_of_github_is_silence,
    a_failure_of_github_changes_nothing,
    refused_credentials_are_told_apart,
    a_refused_permission_is_told_apart,
    too_many_calls_tell_until_when,
    a_used_up_limit_tells_until_when,
    an_unheard_registration_has_happened,
    an_unheard_removal_has_happened,
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

/// The trouble that each of the five calls meets.
async fn troubles<W: GithubWorld>(world: &W, id: RunnerId) -> Vec<(&'static str, Trouble)> {
    let (github, at) = (world.github(), world.organization());
    let configured = match refusal(configure(world, "never").await) {
        JitError::Trouble(trouble) => trouble,
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

async fn a_configuration_registers_its_name<W: GithubWorld>(world: &W) {
    runner(world, "r-1").await;
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn a_configuration_is_not_empty_and_not_twice_the_same<W: GithubWorld>(world: &W) {
    let (one, two) = (configure(world, "r-1").await, configure(world, "r-2").await);
    let (one, two) = (registered(one), registered(two));
    assert_ne!(one.runner, two.runner);
    assert_ne!(one.encoded, two.encoded);
    assert!(!one.encoded.is_empty());
}

async fn a_taken_name_is_refused_and_nothing_changes<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    assert_eq!(refusal(configure(world, "r-1").await), JitError::NameTaken);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(id));
    assert_eq!(world.registered().await.len(), 1);
}

async fn a_name_is_free_again_after_its_removal<W: GithubWorld>(world: &W) {
    let first = runner(world, "r-1").await;
    remove(world, first).await;
    assert_ne!(runner(world, "r-1").await, first);
}

async fn a_name_is_free_again_after_its_job<W: GithubWorld>(world: &W) {
    let (first, job) = busy(world, "r-1").await;
    world.end(job, "success").await;
    assert_ne!(runner(world, "r-1").await, first);
}

async fn a_name_is_free_at_another_entity<W: GithubWorld>(world: &W) {
    let first = runner(world, "r-1").await;
    let at = world.another_organization();
    let second = registered(world.github().configure(&at, "r-1", &labels(), 1).await).runner;
    assert_ne!(first, second);
}

async fn an_unknown_entity_is_refused<W: GithubWorld>(world: &W) {
    let at = Registrar { entity: "nobody".parse().expect("an entity"), ..world.organization() };
    let answer = refusal(world.github().configure(&at, "r-1", &labels(), 1).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
}

async fn an_unknown_group_is_refused<W: GithubWorld>(world: &W) {
    let at = world.organization();
    let answer = refusal(world.github().configure(&at, "r-1", &labels(), 4711).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
    assert_eq!(world.registered().await, [] as [&str; 0]);
}

async fn a_request_without_labels_is_refused<W: GithubWorld>(world: &W) {
    let answer = refusal(world.github().configure(&world.organization(), "r-1", &[], 1).await);
    assert!(matches!(answer, JitError::Refused(_)), "{answer:?}");
}

async fn a_runner_is_found_by_its_number<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(seen(world, one).await, RunnerSeen::NotBusy(one));
    assert_eq!(seen(world, two).await, RunnerSeen::NotBusy(two));
}

async fn a_runner_is_found_by_its_name<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(one));
    assert_eq!(seen_by_name(world, "r-2").await, RunnerSeen::NotBusy(two));
}

async fn an_unknown_number_is_absent<W: GithubWorld>(world: &W) {
    let RunnerId(id) = runner(world, "r-1").await;
    assert_eq!(seen(world, RunnerId(id + 1000)).await, RunnerSeen::Absent);
}

async fn an_unknown_name_is_absent<W: GithubWorld>(world: &W) {
    runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-2").await, RunnerSeen::Absent);
}

async fn names_that_begin_alike_are_not_confused<W: GithubWorld>(world: &W) {
    let long = runner(world, "r-10").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    let short = runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(short));
    assert_eq!(seen_by_name(world, "r-10").await, RunnerSeen::NotBusy(long));
}

async fn a_runner_is_registered_at_one_entity<W: GithubWorld>(world: &W) {
    let entity = world.repository().parse().expect("an entity");
    let at = Registrar { entity, ..world.organization() };
    let id = registered(world.github().configure(&at, "r-1", &labels(), 1).await).runner;
    assert_eq!(world.github().runner(&at, id).await, Ok(RunnerSeen::NotBusy(id)));
    assert_eq!(seen(world, id).await, RunnerSeen::Absent, "at the organization");
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent, "at the organization");
}

async fn an_idle_runner_is_not_busy<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.queue_job().await;
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
}

async fn a_runner_with_a_job_is_busy_by_number_and_by_name<W: GithubWorld>(world: &W) {
    let (id, _) = busy(world, "r-1").await;
    assert_eq!(seen(world, id).await, RunnerSeen::Busy(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Busy(id));
}

async fn a_runner_goes_with_its_job<W: GithubWorld>(world: &W) {
    let (id, job) = busy(world, "r-1").await;
    world.end(job, "success").await;
    assert_eq!(seen(world, id).await, RunnerSeen::Absent);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    assert_eq!(world.registered().await, [] as [&str; 0]);
}

async fn an_idle_runner_is_removed<W: GithubWorld>(world: &W) {
    let (one, two) = (runner(world, "r-1").await, runner(world, "r-2").await);
    assert_eq!(remove(world, one).await, Deregistration::Done);
    assert_eq!(seen(world, one).await, RunnerSeen::Absent);
    assert_eq!(seen(world, two).await, RunnerSeen::NotBusy(two), "and no other");
}

async fn a_removed_runner_is_not_found_again<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    remove(world, id).await;
    assert_eq!(remove(world, id).await, Deregistration::NotFound);
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
}

async fn an_unknown_runner_cannot_be_removed<W: GithubWorld>(world: &W) {
    let RunnerId(id) = runner(world, "r-1").await;
    assert_eq!(remove(world, RunnerId(id + 1000)).await, Deregistration::NotFound);
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn a_busy_runner_is_not_removed_and_its_job_goes_on<W: GithubWorld>(world: &W) {
    let (id, number) = busy(world, "r-1").await;
    assert_eq!(remove(world, id).await, Deregistration::Busy);
    assert_eq!(seen(world, id).await, RunnerSeen::Busy(id));
    assert_eq!(job(world, number).await.expect("shown").status, JobStatus::InProgress);
}

async fn a_lie_calls_a_busy_runner_idle<W: GithubWorld>(world: &W) {
    let (id, _) = busy(world, "r-1").await;
    world.lie().await;
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::NotBusy(id));
}

async fn a_lie_removes_a_busy_runner_and_its_job_goes_on<W: GithubWorld>(world: &W) {
    let (id, number) = busy(world, "r-1").await;
    world.lie().await;
    assert_eq!(remove(world, id).await, Deregistration::Done);
    assert_eq!(seen(world, id).await, RunnerSeen::Absent);
    assert_eq!(job(world, number).await.expect("shown").status, JobStatus::InProgress);
}

async fn a_list_may_be_old_and_a_look_by_number_is_not<W: GithubWorld>(world: &W) {
    world.list_from_cache().await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent);
    let id = runner(world, "r-1").await;
    assert_eq!(seen_by_name(world, "r-1").await, RunnerSeen::Absent, "still");
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
}

async fn a_queued_job_has_no_runner<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    let shown = job(world, number).await.expect("shown");
    let runner = shown.runner.filter(|name| !name.is_empty());
    assert_eq!((shown.status, runner, shown.conclusion), (JobStatus::Queued, None, None));
}

async fn a_taken_job_names_its_runner<W: GithubWorld>(world: &W) {
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

async fn an_ended_job_tells_how<W: GithubWorld>(world: &W) {
    ended(world, "success").await;
}

async fn a_failed_job_tells_how<W: GithubWorld>(world: &W) {
    ended(world, "failure").await;
}

async fn a_job_cancelled_in_the_queue_is_completed<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    world.cancel(number).await;
    let shown = job(world, number).await.expect("shown");
    let runner = shown.runner.filter(|name| !name.is_empty());
    let expected = (JobStatus::Completed, None, Some("cancelled".to_owned()));
    assert_eq!((shown.status, runner, shown.conclusion), expected);
}

async fn an_unknown_job_is_not_shown<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    assert_eq!(job(world, number + 1000).await, None);
}

async fn a_job_is_not_shown_in_another_repository<W: GithubWorld>(world: &W) {
    let number = world.queue_job().await;
    let elsewhere = format!("{}-2", world.repository());
    let answer = world.github().job(&world.organization(), &elsewhere, number).await;
    assert_eq!(answer, Ok(None));
}

async fn a_failure_of_github_is_silence<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Broken).await;
    for (call, trouble) in troubles(world, id).await {
        assert!(matches!(trouble, Trouble::Unavailable(_)), "{call}: {trouble:?}");
    }
}

async fn a_failure_of_github_changes_nothing<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Broken).await;
    troubles(world, id).await;
    world.mend().await;
    assert_eq!(world.registered().await, ["r-1"]);
    assert_eq!(seen(world, id).await, RunnerSeen::NotBusy(id));
}

async fn refused_credentials_are_told_apart<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Unauthorized).await;
    for (call, trouble) in troubles(world, id).await {
        assert!(matches!(trouble, Trouble::Unauthorized(_)), "{call}: {trouble:?}");
    }
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn a_refused_permission_is_told_apart<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Forbidden).await;
    let (github, at) = (world.github(), world.organization());
    let looked = github.runner(&at, id).await;
    assert!(matches!(looked, Err(Trouble::Unauthorized(_))), "{looked:?}");
    let removed = github.deregister(&at, id).await;
    assert!(matches!(removed, Err(Trouble::Unauthorized(_))), "{removed:?}");
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn limited<W: GithubWorld>(world: &W, how: Failure) {
    let id = runner(world, "r-1").await;
    world.fail(how).await;
    for (call, trouble) in troubles(world, id).await {
        let Trouble::RateLimited(until) = trouble else { panic!("{call}: {trouble:?}") };
        assert!(until > world.now(), "{call}: until {until}");
    }
    assert_eq!(world.registered().await, ["r-1"]);
}

async fn too_many_calls_tell_until_when<W: GithubWorld>(world: &W) {
    limited(world, Failure::TooMany).await;
}

async fn a_used_up_limit_tells_until_when<W: GithubWorld>(world: &W) {
    limited(world, Failure::LimitUsedUp).await;
}

async fn an_unheard_registration_has_happened<W: GithubWorld>(world: &W) {
    world.fail(Failure::Unheard).await;
    let answer = refusal(configure(world, "r-1").await);
    assert!(matches!(answer, JitError::Trouble(Trouble::Unavailable(_))), "{answer:?}");
    world.mend().await;
    assert_eq!(world.registered().await, ["r-1"]);
    assert_eq!(refusal(configure(world, "r-1").await), JitError::NameTaken);
}

async fn an_unheard_removal_has_happened<W: GithubWorld>(world: &W) {
    let id = runner(world, "r-1").await;
    world.fail(Failure::Unheard).await;
    let answer = world.github().deregister(&world.organization(), id).await;
    assert!(matches!(answer, Err(Trouble::Unavailable(_))), "{answer:?}");
    world.mend().await;
    assert_eq!(world.registered().await, [] as [&str; 0]);
    assert_eq!(remove(world, id).await, Deregistration::NotFound);
}
