//! What an operator can ask and order.

pub mod answers;
mod delete;
mod error;
mod pools;
mod request;
mod resolve;
mod switch;
mod views;

use muster_domain::ids::{InstanceName, MachineId, PoolName};
use muster_domain::instance::Instance;
use muster_domain::job::explain;
use muster_domain::stored::Stored;
use muster_domain::time::Time;
use serde_json::Value;

use self::answers::ExplainedInstance;
pub use self::answers::{Answer, Reply};
pub use self::error::{AdminError, AdminErrorCode};
pub use self::request::{DeleteRequest, PoolsRequest, Request, SwitchRequest, To, VERSION, read};
use crate::Settings;
use crate::ports::{Directory, Github, Images, Queue, ReadError, Table, Write};
use crate::writes::PassError;

/// The operator's passes.
pub struct Admin<'a, T, Q, G, I> {
    /// The tables.
    pub table: &'a T,
    /// The queues.
    pub queue: &'a Q,
    /// GitHub.
    pub github: &'a G,
    /// EC2's images.
    pub images: &'a I,
    /// The stack.
    pub settings: &'a Settings,
    /// Reads YAML, or says what is wrong with it. The admin function alone has such a reader.
    pub yaml: fn(&str) -> Result<Value, YamlError>,
}

/// A text that is not YAML; with what is wrong, and its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(pub String);

/// The answer when the set of pools cannot be read.
#[must_use]
pub fn unavailable(error: ReadError) -> Reply {
    Reply { outcome: Err(error.into()) }
}

impl<T: Table, Q: Queue, G: Github + Directory, I: Images> Admin<'_, T, Q, G, I> {
    /// Answers a request.
    pub async fn answer(&self, request: Value, now: Time) -> Reply {
        let outcome = match read(request) {
            Ok(request) => self.act(request, now).await,
            Err(problem) => Err(problem),
        };
        Reply { outcome }
    }

    async fn act(&self, request: Request, now: Time) -> Result<Answer, AdminError> {
        match request {
            Request::List { pool, state, limit } => {
                self.list(pool.as_ref(), state, limit, now).await
            }
            Request::Show { name } => self.show(&name, now).await,
            Request::Delete(order) => self.delete(&order, now).await,
            Request::Jobs { pool, limit } => self.jobs(pool.as_ref(), limit, now).await,
            Request::Explain { job: Some(key), name: None } => self.explain_job(key, now).await,
            Request::Explain { job: None, name: Some(name) } => {
                let instance = self.find(&name).await?;
                let explanation = explain::instance(&instance, now);
                Ok(Answer::ExplainInstance(ExplainedInstance { explanation }))
            }
            Request::Explain { .. } => Err(AdminError::new(
                AdminErrorCode::BadRequest,
                "explain takes either \"job\" or \"name\"",
            )),
            Request::Pools(request) => self.pool_set(&request, now).await,
            Request::Switch(request) => self.switch(&request, now).await,
            Request::Status {} => self.status(now).await,
        }
    }
}

impl<T: Table, Q, G, I> Admin<'_, T, Q, G, I> {
    /// The pools a listing is about.
    fn pools(&self, only: Option<&PoolName>) -> Result<Vec<PoolName>, AdminError> {
        let names: Vec<PoolName> =
            self.settings.pools.iter().map(|pool| pool.name.clone()).collect();
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
            Ok(machine) => self.table.owner_of(&machine).await?,
            Err(_) => text.parse::<InstanceName>().ok(),
        };
        let instance = match name {
            Some(name) => self.table.instance(&name).await?,
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
        self.table.commit(&writes).await.map_err(PassError::from)?;
        Ok(())
    }
}
