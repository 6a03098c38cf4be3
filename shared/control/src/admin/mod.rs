//! The admin API: requests and orders of operators.

mod adopt;
mod audit;
mod canary;
mod delete;
mod error;
pub mod findings;
mod github;
mod hook;
mod images;
mod listings;
mod pages;
mod phases;
mod pools;
mod repositories;
mod resolve;
mod status;
mod switch;
mod usage;
mod views;

use muster_api::answers::ExplainedInstance;
use muster_api::{AdminError, AdminErrorCode, Answer, JobsRequest, Reply, Request};
use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde_json::Value;

pub use self::status::known_findings;
use crate::context::{Context, Ports};
use crate::ports::{AppSetup, Catalogue, Directory, Instances as _, Table as _, Write};
use crate::writes::PassError;

/// Handles operators' requests. Those that resolve names in a pool file also query GitHub's runner
/// groups and EC2's images.
pub struct Admin<'a, P: Ports> {
    /// The ports, and the settings with the current pools.
    pub context: Context<'a, P>,
}

/// Answers a request. `context` has the settings from the stack's parameters. If the pools are
/// unknown, only requests that depend on them fail.
pub async fn answer<P: Ports<Compute: Catalogue, Github: Directory + AppSetup>>(
    context: Context<'_, P>,
    request: Value,
    now: Time,
) -> Reply {
    match context.settings.current_or_last(context.table).await {
        Ok(settings) => {
            let pass = Admin { context: context.with(&settings) };
            Box::pin(pass.answer(request, now)).await
        }
        Err(error) => Reply { outcome: Err(error.into()) },
    }
}

impl<P: Ports<Compute: Catalogue, Github: Directory + AppSetup>> Admin<'_, P> {
    /// Answers a request with the pools of the context.
    pub async fn answer(&self, request: Value, now: Time) -> Reply {
        let outcome = match Request::parse(request) {
            Ok(request) => self.act(request, now).await,
            Err(problem) => Err(problem),
        };
        Reply { outcome }
    }

    async fn act(&self, request: Request, now: Time) -> Result<Answer, AdminError> {
        let unknown = self.context.settings.unknown_pools();
        if let Some(error) = unknown.filter(|_| request.decides_by_pools()) {
            return Err(error.clone().into());
        }
        match request {
            Request::List(request) => self.list(&request, now).await,
            Request::Show { name, github } => self.show(&name, github, now).await,
            Request::Phases { pool } => self.phases(pool.as_ref()).await,
            Request::Delete(order) => self.delete(&order, now).await,
            Request::Canary(order) => self.canary(&order, now).await,
            Request::Jobs(request @ JobsRequest { adopt: false, repository: None, .. }) => {
                self.jobs(&request, now).await
            }
            Request::Jobs(JobsRequest {
                adopt: true,
                repository: Some(repository),
                pool: None,
                ..
            }) => self.adopt(&repository, now).await,
            Request::Jobs(_) => Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "\"adopt\" and \"repository\" (owner/repo) go together, without \"pool\"",
            )),
            Request::Explain { job: Some(key), name: None } => self.explain_job(key, now).await,
            Request::Explain { job: None, name: Some(name) } => {
                let instance = self.find(&name).await?;
                let explanation = self.explained(&instance, now).await?;
                Ok(Answer::ExplainInstance(ExplainedInstance { explanation }))
            }
            Request::Explain { .. } => Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "explain requires either \"job\" or \"name\"",
            )),
            Request::Pools(request) => self.pool_set(&request, now).await,
            Request::Audit(request) => self.audit(&request, now).await,
            Request::Costs(request) => self.costs(&request, now).await,
            Request::Waits(request) => self.waits(&request, now).await,
            Request::Lines(request) => self.lines(&request, now).await,
            Request::Switch(request) => self.switch(&request, now).await,
            Request::Images(request) => self.images(&request, now).await,
            Request::Github(request) => self.github(&request, now).await,
            Request::Overview => self.overview(now).await,
            Request::Status { github } => self.status(github, now).await,
        }
    }
}

impl<P: Ports> Admin<'_, P> {
    /// Returns the pools that a listing covers.
    fn pools(&self, only: Option<&PoolName>) -> Result<Vec<PoolName>, AdminError> {
        let names: Vec<PoolName> =
            self.context.settings.pools.iter().map(|pool| pool.name.clone()).collect();
        match only {
            None => Ok(names),
            Some(name) if names.contains(name) => Ok(vec![name.clone()]),
            Some(name) => {
                Err(AdminError::new(AdminErrorCode::NotFound, format!("there is no pool {name}")))
            }
        }
    }

    /// Returns an instance by its name or its machine's ID.
    async fn find(&self, text: &str) -> Result<Stored<Instance>, AdminError> {
        let name = match text.parse::<MachineId>() {
            Ok(machine) => self.context.table.owner_of(&machine).await?,
            Err(_) => text.parse::<InstanceName>().ok(),
        };
        let instance = match name {
            Some(name) => self.context.table.instance(&name).await?,
            None => None,
        };
        instance.ok_or_else(|| {
            AdminError::new(
                AdminErrorCode::NotFound,
                format!("there is no instance or machine {text:?}; see list"),
            )
        })
    }

    async fn commit(&self, writes: impl IntoIterator<Item = Write>) -> Result<(), AdminError> {
        let writes: Vec<Write> = writes.into_iter().collect();
        if writes.is_empty() {
            return Ok(());
        }
        self.context.table.commit(&writes).await.map_err(PassError::from)?;
        Ok(())
    }
}
