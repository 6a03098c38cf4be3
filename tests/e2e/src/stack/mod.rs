//! A deployed stack, and everything that can be asked of it and done to it.

mod jobs;
mod machines;
mod records;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::aws::Aws;
use crate::local::{self, Env};
use crate::world::World;

/// A stack. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name: the `muster:stack` tag of its machines.
    pub name: String,
    /// The organization in the simulated GitHub whose webhooks it gets.
    pub owner: String,
    /// The emulator, as root.
    pub aws: Aws,
    /// EC2, GitHub and the machines.
    pub world: World,
    /// Its env file.
    pub env: Env,
    http: reqwest::Client,
}

/// A job in the simulated GitHub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// GitHub's number.
    pub id: u64,
    /// Our key: `<repository id>/<job id>`.
    pub key: String,
}

/// What the webhook answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sweeps as long as it lives, in place of the schedule's minute.
#[derive(Debug)]
pub struct Ticker(tokio::task::JoinHandle<()>);

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Stack {
    /// Deploys one more stack. Names are unique to a run, since a name's old machines and rows
    /// would be counted.
    ///
    /// # Errors
    /// When it cannot be deployed.
    pub async fn deploy(name: &str, parameters: &[(&str, &str)]) -> Result<Self> {
        let env = local::deploy(name, parameters).await?;
        Self::of(env)
    }

    /// The stack that `make up` deploys, by `sam deploy`.
    ///
    /// # Errors
    /// When it is not up.
    pub fn main() -> Result<Self> {
        Self::of(Env::main()?)
    }

    fn of(env: Env) -> Result<Self> {
        Ok(Self {
            name: env.get("STACK_NAME")?.to_owned(),
            owner: env.get("GITHUB_OWNER")?.to_owned(),
            aws: Aws::root(&env)?,
            world: World::at(env.get("WORLD_CONTROL_URL")?)?,
            http: crate::aws::client()?,
            env,
        })
    }

    /// An operator's request, whatever comes of it.
    ///
    /// # Errors
    /// When the function fails.
    pub async fn ask(&self, request: &Value) -> Result<Value> {
        let mut request = request.clone();
        request["version"] = json!(1);
        self.aws.invoke(self.env.get("ADMIN_FUNCTION")?, &request).await
    }

    /// An operator's request that must be granted.
    ///
    /// # Errors
    /// When it is not.
    pub async fn admin(&self, request: &Value) -> Result<Value> {
        let answer = self.ask(request).await?;
        ensure!(answer["ok"] == true, "admin {request}: {answer}");
        Ok(answer)
    }

    /// An operator's request that must be refused with this code; answers with the sentence.
    ///
    /// # Errors
    /// When it is granted, or refused for another reason.
    pub async fn refused(&self, request: &Value, code: &str) -> Result<String> {
        let answer = self.ask(request).await?;
        ensure!(
            answer["ok"] == false && answer["error"]["code"] == code,
            "admin {request} should be refused with {code:?}: {answer}"
        );
        Ok(answer["error"]["message"].as_str().unwrap_or_default().to_owned())
    }

    /// `show`, by instance name or machine id.
    ///
    /// # Errors
    /// When there is none.
    pub async fn show(&self, name: &str) -> Result<Value> {
        self.admin(&json!({ "action": "show", "name": name })).await
    }

    /// One sweep: what the schedule does every minute.
    ///
    /// # Errors
    /// When the reaper fails.
    pub async fn sweep(&self) -> Result<Value> {
        let event = json!({ "detail-type": "Scheduled Event" });
        self.aws.invoke(self.env.get("REAPER_FUNCTION")?, &event).await
    }

    /// Sweeps again and again until the answer is dropped.
    #[must_use]
    pub fn ticker(&self, every: Duration) -> Ticker {
        let stack = self.clone();
        Ticker(tokio::spawn(async move {
            loop {
                // A sweep that fails shows in the logs; the next one does its work.
                let _ = stack.sweep().await;
                tokio::time::sleep(every).await;
            }
        }))
    }
}

/// A JSON text without its quotes.
#[must_use]
pub fn id(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
