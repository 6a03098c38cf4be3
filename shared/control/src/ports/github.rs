//! The port to GitHub.

use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::app::{AppProblem, AppSettings, Hook, HookAnswer, Installation};
use muster_domain::ids::{AppName, Entity, InstallationId, RunnerId};
use muster_domain::inquiry::ListPosition;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::observation::{Deregistration, RunOrigin, RunSeen, RunnerSeen};
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate, RunnerGroup,
};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::redelivery::DeliveryPage;
use muster_domain::rerun::{AttemptJob, NewerRun, RerunAnswer, RerunCall, RunOf};
use muster_domain::time::Time;

/// An entity to register runners with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registrar {
    /// The entity.
    pub entity: Entity,
    /// The App installation to authenticate as; looked up if absent.
    pub installation: Option<InstallationId>,
}

/// A runner's just-in-time configuration. A credential: never log or store it.
#[derive(Clone)]
pub struct JitConfig {
    /// The runner's ID.
    pub runner: RunnerId,
    /// The value for the agent's `--jitconfig`.
    pub encoded: String,
}

/// Why GitHub returned no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JitError {
    /// 409: the name is taken, most likely by our own earlier call.
    NameTaken,
    /// The call failed.
    ProviderError(ProviderError),
    /// GitHub rejects the request (for example 404 for the entity, 422 for the group).
    Refused(ErrorDetail),
}

/// A repository that the App can access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRepository {
    /// `acme/app`
    pub name: Entity,
    /// Whether it is private or internal.
    pub is_private: bool,
}

/// Repositories that the App can access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRepositories {
    /// The repositories that were read.
    pub all: Vec<SeenRepository>,
    /// Whether there are more.
    pub more: bool,
}

/// A job's state on GitHub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Its status.
    pub status: JobStatus,
    /// The name of the runner that took it.
    pub runner: Option<String>,
    /// Its conclusion, if it has ended.
    pub conclusion: Option<String>,
}

impl JobSeen {
    /// Returns the event that would have reported this state, based on the last known event.
    #[must_use]
    pub fn event(self, said: JobEvent) -> JobEvent {
        JobEvent {
            status: self.status,
            runner: self.runner.filter(|name| !name.is_empty()),
            runner_id: None,
            conclusion: self.conclusion,
            ..said
        }
    }
}

/// The queued jobs of a repository on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedJobs {
    /// The events that would have announced these jobs.
    pub jobs: Vec<JobEvent>,
    /// Whether there are more.
    pub more: bool,
}

/// How many of a repository's runs to read for queued jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All runs that may have queued jobs. Makes many calls.
    All,
    /// Two calls for the runs and at most five for their jobs. If there are more runs, the number
    /// selects which ones are read.
    Few(u64),
}

/// A page of the repositories that the App can access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryPage {
    /// Repositories of one installation.
    pub repositories: Vec<Entity>,
    /// The installation, if there is one.
    pub installation: Option<InstallationId>,
    /// Where the next page begins; absent after the last installation.
    pub next: Option<ListPosition>,
    /// Why the installation was skipped, if it was.
    pub passed_over: Option<ProviderError>,
}

/// GitHub's REST API, as the passes use it.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Github {
    /// Registers a runner and returns its configuration.
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError>;
    /// Returns the Linux agents that GitHub lists for an entity's runners. Answers are cached for
    /// an hour, and the call has a shorter timeout than others.
    async fn agents(&self, registrar: &Registrar) -> Result<Vec<AgentDownload>, ProviderError>;
    /// Returns when GitHub stops accepting an agent of this version, if it has announced that.
    /// Queried together with the list, and as rarely.
    async fn agent_ends_at(
        &self,
        _registrar: &Registrar,
        _version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        Ok(None)
    }
    /// Returns a runner by its ID.
    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError>;
    /// Returns a runner by its name.
    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError>;
    /// Returns a job of a repository (`owner/repo`), if GitHub shows it.
    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        job: u64,
    ) -> Result<Option<JobSeen>, ProviderError>;
    /// Returns a workflow run of a repository (`owner/repo`), if GitHub shows it.
    async fn run(
        &self,
        registrar: &Registrar,
        repository: &str,
        run: u64,
    ) -> Result<Option<RunSeen>, ProviderError>;
    /// Returns a repository's queued jobs, if GitHub shows the repository.
    async fn queued_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError>;
    /// Returns a page of the repositories that an App can access: the first, or the one at `place`.
    async fn repositories_from(
        &self,
        app: AppName,
        place: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError>;
    /// Removes a runner's registration.
    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError>;
    /// Returns a page of an App's webhook deliveries, newest first: the first page, or the one at
    /// the cursor. Returns `None` if GitHub no longer knows the cursor. GitHub keeps deliveries for
    /// three days.
    async fn deliveries(
        &self,
        app: AppName,
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError>;
    /// Asks GitHub to redeliver an event. Returns false if GitHub no longer keeps the delivery.
    async fn redeliver(&self, app: AppName, delivery: u64) -> Result<bool, ProviderError>;
}

/// GitHub's workflow runs, for re-runs.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait WorkflowRuns {
    /// Returns a workflow run, if GitHub shows it.
    async fn workflow_run(&self, of: &RunOf) -> Result<Option<RunSeen>, ProviderError>;
    /// Returns the jobs of an attempt; none if GitHub no longer shows it.
    async fn attempt_jobs(
        &self,
        of: &RunOf,
        attempt: u32,
    ) -> Result<Vec<AttemptJob>, ProviderError>;
    /// Returns the latest runs of this origin, newest first; possibly only some of them.
    async fn latest_runs(
        &self,
        of: &RunOf,
        origin: &RunOrigin,
    ) -> Result<Vec<NewerRun>, ProviderError>;
    /// Re-runs jobs of a run. Sends nothing after `before`: by then, the run may have changed.
    async fn rerun(&self, of: &RunOf, call: RerunCall, before: Time) -> RerunAnswer;
}

/// GitHub's data about an App and about names in a pool file. Called only for an operator's
/// request.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Directory {
    /// Returns the current name of the entity with this ID, if the App is installed there and not
    /// suspended.
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError>;
    /// Returns the App's owner, events and permissions.
    async fn app(&self, app: AppName) -> Result<AppSettings, AppProblem>;
    /// Returns the App's installations, including suspended ones.
    async fn installations(&self, app: AppName) -> Result<Vec<Installation>, ProviderError>;
    /// Returns the webhook's address.
    async fn hook(&self, app: AppName) -> Result<Hook, ProviderError>;
    /// Returns the latest webhook deliveries with their responses, newest first.
    async fn hook_answers(&self, app: AppName) -> Result<Vec<HookAnswer>, ProviderError>;
    /// Returns the repositories that the App can access, one page per installation.
    async fn repositories(&self, app: AppName) -> Result<SeenRepositories, ProviderError>;
    /// Returns all runner groups of an organization or enterprise.
    async fn groups(&self, entity: &Entity) -> Result<Vec<RunnerGroup>, ProviderError>;
}

/// EC2 resources that a pool file may name. Called only when a file is applied.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Catalogue {
    /// Returns the newest available image that matches, if any.
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError>;
    /// Returns a launch template, if it and this version of it exist.
    async fn template(&self, named: &NamedTemplate)
    -> Result<Option<FoundTemplate>, ProviderError>;
    /// Returns a placement group by its name, if it exists.
    async fn placement(&self, group: &str) -> Result<Option<FoundPlacement>, ProviderError>;
}
