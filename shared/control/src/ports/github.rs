//! GitHub.

use muster_domain::agent::{AgentDownload, AgentVersion};
use muster_domain::app::{AppProblem, AppSettings, Hook, HookAnswer, Installation};
use muster_domain::ids::{Entity, InstallationId, RunnerId};
use muster_domain::inquiry::Place;
use muster_domain::instance::ErrorDetail;
use muster_domain::job::{JobEvent, JobStatus};
use muster_domain::observation::{Deregistration, ProviderError, RunnerSeen};
use muster_domain::pool_file::{
    EntityId, FoundImage, FoundPlacement, FoundTemplate, Group, ImageFilter, NamedTemplate,
};
use muster_domain::redelivery::DeliveryPage;
use muster_domain::time::Time;

/// Where a runner is, or will be, registered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registrar {
    /// The entity.
    pub entity: Entity,
    /// The App installation to act as; looked up when none is known.
    pub installation: Option<InstallationId>,
}

/// A runner's just-in-time configuration. A credential: never logged, never stored.
#[derive(Clone)]
pub struct JitConfig {
    /// The registration's number.
    pub runner: RunnerId,
    /// What the agent takes as `--jitconfig`.
    pub encoded: String,
}

/// The answer to a configuration call that is not a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JitError {
    /// 409: the name is taken, most likely by our own earlier call.
    NameTaken,
    /// The call failed.
    ProviderError(ProviderError),
    /// GitHub says that the request is wrong (for example 404 for the entity, 422 for the group).
    Refused(ErrorDetail),
}

/// A repository that the App may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRepository {
    /// `acme/app`
    pub name: Entity,
    /// Not everybody sees it.
    pub is_private: bool,
}

/// Repositories that the App may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenRepositories {
    /// Those that were listed.
    pub all: Vec<SeenRepository>,
    /// There are more.
    pub more: bool,
}

/// A job as GitHub shows it when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSeen {
    /// Where GitHub is with it.
    pub status: JobStatus,
    /// The runner that took it, by name.
    pub runner: Option<String>,
    /// How it ended.
    pub conclusion: Option<String>,
}

impl JobSeen {
    /// The event that would have told it, after what is on record.
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

/// A workflow run as GitHub shows it when asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSeen {
    /// It has ended, whatever GitHub says of its jobs.
    pub is_over: bool,
    /// How it ended.
    pub conclusion: Option<String>,
}

/// What is queued in a repository, as GitHub shows it when asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedJobs {
    /// The events that would have told of these jobs.
    pub jobs: Vec<JobEvent>,
    /// There are more.
    pub more: bool,
}

/// How much of a repository is read for its queued jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All runs that may have queued jobs. Many calls.
    All,
    /// Two calls for the runs, and at most five for their jobs. Where there are more runs, this
    /// number selects those that are read.
    Few(u64),
}

/// A page of the repositories that the App may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryPage {
    /// Those of one installation.
    pub repositories: Vec<Entity>,
    /// The installation; none where there is none.
    pub installation: Option<InstallationId>,
    /// Where the next page begins; none after the last installation.
    pub next: Option<Place>,
    /// Why the installation was passed over, if it was.
    pub passed_over: Option<ProviderError>,
}

/// GitHub.
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
    /// The agents for Linux that GitHub lists for the runners of an entity. An answer holds for an
    /// hour, and is not waited for as long as others are.
    async fn agents(&self, registrar: &Registrar) -> Result<Vec<AgentDownload>, ProviderError>;
    /// Until when GitHub accepts an agent of this version, where it has announced that. Queried
    /// along with the list, and as seldom.
    async fn agent_ends_at(
        &self,
        _registrar: &Registrar,
        _version: AgentVersion,
    ) -> Result<Option<Time>, ProviderError> {
        Ok(None)
    }
    /// A runner by its number.
    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError>;
    /// A runner by its name.
    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError>;
    /// A job of a repository (`owner/repo`); none when GitHub does not show it.
    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        job: u64,
    ) -> Result<Option<JobSeen>, ProviderError>;
    /// A workflow run of a repository (`owner/repo`); none when GitHub does not show it.
    async fn run(
        &self,
        registrar: &Registrar,
        repository: &str,
        run: u64,
    ) -> Result<Option<RunSeen>, ProviderError>;
    /// The jobs of a repository that are queued; none when GitHub does not show the repository.
    async fn queued_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError>;
    /// A page of the repositories that the App may see: the first one, or the one at this place.
    async fn repositories_from(
        &self,
        place: Option<Place>,
    ) -> Result<RepositoryPage, ProviderError>;
    /// Removes a registration.
    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError>;
    /// A page of the attempts to deliver events to the App's webhook, the newest first: the first
    /// page, or the one that begins at the cursor. None when GitHub does not know the cursor any
    /// more. GitHub keeps attempts for three days.
    async fn deliveries(&self, cursor: Option<&str>)
    -> Result<Option<DeliveryPage>, ProviderError>;
    /// Asks GitHub to redeliver. False when it does not keep the delivery any more.
    async fn redeliver(&self, delivery: u64) -> Result<bool, ProviderError>;
}

/// What GitHub knows of the App and behind the names of a pool file. Asked for an operator, and at
/// no other time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Directory {
    /// The entity of an id, as it is called now; none when the App is not installed there, or
    /// suspended.
    async fn entity(&self, id: EntityId) -> Result<Option<Entity>, ProviderError>;
    /// Whose App it is, which events it is sent, and what it may do.
    async fn app(&self) -> Result<AppSettings, AppProblem>;
    /// Who has installed it, those that suspended it as well.
    async fn installations(&self) -> Result<Vec<Installation>, ProviderError>;
    /// Where its events are sent.
    async fn hook(&self) -> Result<Hook, ProviderError>;
    /// How the last of them were answered, the newest first.
    async fn hook_answers(&self) -> Result<Vec<HookAnswer>, ProviderError>;
    /// The repositories that it may see, as far as one page of each installation goes.
    async fn repositories(&self) -> Result<SeenRepositories, ProviderError>;
    /// All runner groups of an organization or enterprise.
    async fn groups(&self, entity: &Entity) -> Result<Vec<Group>, ProviderError>;
}

/// What EC2 has that a pool file may name. Asked when one is applied, and at no other time.
#[expect(async_fn_in_trait, reason = "both implementations run on one thread")]
pub trait Catalogue {
    /// The newest available image that fits; none when there is none.
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError>;
    /// A launch template; none when there is no such one, or not this version of it.
    async fn template(&self, named: &NamedTemplate)
    -> Result<Option<FoundTemplate>, ProviderError>;
    /// A placement group by its name; none when there is none.
    async fn placement(&self, group: &str) -> Result<Option<FoundPlacement>, ProviderError>;
}
