//! What an operator can ask and order.

mod adopt;
pub mod answers;
mod audit;
mod canary;
mod delete;
mod error;
mod github;
mod hook;
mod listings;
mod pages;
mod phases;
mod pools;
mod repositories;
mod request;
mod resolve;
mod status;
mod switch;
mod usage;
mod views;
pub mod wants;

use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde_json::Value;

use self::answers::ExplainedInstance;
pub use self::answers::{Answer, Reply};
pub use self::error::{AdminError, AdminErrorCode};
pub use self::request::{
    AppId, AuditRequest, CanaryRequest, ConnectApp, CostsRequest, CreateApp, DeleteRequest,
    ExpectedOwner, GithubRequest, HookOrder, JobsRequest, LinesRequest, ListRequest, PoolsRequest,
    Request, Rotated, SwitchRequest, To, VERSION, WaitsRequest, read,
};
pub(crate) use self::resolve::told;
pub use self::status::wanted;
use crate::causes::Cause;
use crate::context::{Context, Ports};
use crate::ports::{AppSetup, Catalogue, Directory, Instances as _, Table as _, Write};
use crate::writes::PassError;

/// The operator's passes. Those that resolve a pool file's names also ask GitHub's directory and
/// EC2's images.
pub struct Admin<'a, P: Ports> {
    /// The world, with the pools of now.
    pub context: Context<'a, P>,
    /// Reads YAML, or says what is wrong with it. The admin function alone has such a reader.
    pub yaml: fn(&str) -> Result<Value, YamlError>,
}

/// A text that is not YAML. The cause is the reader's own error and names the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not valid YAML")]
pub struct YamlError(#[source] pub Cause);

/// Answers a request. `context` has the settings of the stack's parameters; a record of the pools
/// that cannot be read fails only the requests that decide by the pools.
pub async fn answer<P: Ports<Compute: Catalogue, Github: Directory + AppSetup>>(
    context: Context<'_, P>,
    yaml: fn(&str) -> Result<Value, YamlError>,
    request: Value,
    now: Time,
) -> Reply {
    match context.settings.current_or_last(context.table).await {
        Ok(settings) => {
            let pass = Admin { context: context.with(&settings), yaml };
            Box::pin(pass.answer(request, now)).await
        }
        Err(error) => Reply { outcome: Err(error.into()) },
    }
}

impl<P: Ports<Compute: Catalogue, Github: Directory + AppSetup>> Admin<'_, P> {
    /// Answers a request with the pools of the context.
    pub async fn answer(&self, request: Value, now: Time) -> Reply {
        let outcome = match read(request) {
            Ok(request) => self.act(request, now).await,
            Err(problem) => Err(problem),
        };
        Reply { outcome }
    }

    async fn act(&self, request: Request, now: Time) -> Result<Answer, AdminError> {
        let damage = self.context.settings.damage.as_ref();
        if let Some(damage) = damage.filter(|_| request.decides_by_pools()) {
            return Err(damage.clone().into());
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
                "explain takes either \"job\" or \"name\"",
            )),
            Request::Pools(request) => self.pool_set(&request, now).await,
            Request::Audit(request) => self.audit(&request, now).await,
            Request::Costs(request) => self.costs(&request, now).await,
            Request::Waits(request) => self.waits(&request, now).await,
            Request::Lines(request) => self.lines(&request, now).await,
            Request::Switch(request) => self.switch(&request, now).await,
            Request::Github(request) => self.github(&request, now).await,
            Request::Overview => self.overview(now).await,
            Request::Status { github } => self.status(github, now).await,
        }
    }
}

impl<P: Ports> Admin<'_, P> {
    /// The pools a listing is about.
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

    /// An instance by name or by its machine.
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
