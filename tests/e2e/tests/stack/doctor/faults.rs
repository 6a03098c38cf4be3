//! How something is made wrong, and right again.

use std::cell::RefCell;

use anyhow::{Context as _, Result};
use muster_e2e::wait::when;
use muster_e2e::{Stack, wait_for};
use serde_json::{Value, json};

/// What is made wrong.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The network, as the simulated EC2 has it.
    Network(fn(&mut Value)),
    /// The image of the launch template, as the simulated EC2 has it.
    Image(fn(&mut Value)),
    /// What GitHub knows of the account that has installed the App.
    Account(fn(&mut Value)),
    /// The App at GitHub: its settings, and its webhook's.
    App(fn(&mut Value)),
    /// The App's secret.
    Secret(fn(&Value) -> String),
    /// More lines of the pool, in the pool file.
    Pool(&'static str),
    /// The rule that wakes the sweep is disabled.
    Rule,
    /// A message was given up.
    DeadLetter,
    /// Launches are off.
    Switch,
    /// A job asks for a label with a typo.
    Typo,
    /// GitHub signs with another secret; the newest delivery was answered so.
    Signature,
}

const POOLS: &str = "
defaults:
  subnets: [subnet-00000001, subnet-00000002]
  instances: { types: [m7i.large, m7a.large] }
pools:
  - name: default
    labels: [STACK]
    limits: { max: 2 }
";

/// Where the faults are made, and how everything is without them.
pub(super) struct Bench {
    stack: Stack,
    network: Value,
    account: Value,
    app: Value,
    secret: Value,
    /// The job that was queued for a fault.
    queued: RefCell<Option<String>>,
}

/// The image behind the launch template's parameter, as tests/local/stack.py puts it there.
fn image() -> Value {
    json!({ "id": "ami-0c2023a1b2c3d4e5f", "name": "al2023-ami-kernel-default-x86_64",
        "owner": "amazon", "architecture": "x86_64", "state": "available",
        "root_device": "/dev/sda1" })
}

impl Bench {
    pub(super) async fn new(stack: &Stack) -> Result<Self> {
        let groups = json!([{ "id": 7, "name": "builders", "public_repositories": true,
            "restricted_to_workflows": true }]);
        stack.world.post(&format!("owners/{}/groups", stack.owner), &groups).await?;
        let owners = stack.world.list("owners").await?;
        let own = owners.into_iter().find(|owner| owner["owner"] == stack.owner.as_str());
        let mut account = own.context("GitHub does not know the stack's owner")?;
        if let Some(fields) = account.as_object_mut() {
            fields.remove("id");
        }
        let app = account["app_id"].as_str().context("no App")?;
        let app = stack.world.get(&format!("apps/{app}")).await?;
        let kept = json!({ "SecretId": format!("{}/app-key", stack.name) });
        let kept = stack.aws.json("secretsmanager", "secretsmanager.GetSecretValue", &kept).await?;
        let secret = kept["SecretString"].as_str().context("no secret")?;
        let bench = Self {
            network: stack.world.get("network").await?,
            secret: serde_json::from_str(secret)?,
            stack: stack.clone(),
            account,
            app,
            queued: RefCell::default(),
        };
        bench.pools("").await?;
        Ok(bench)
    }

    pub(super) async fn set(&self, fault: &Fault) -> Result<()> {
        let changed = |value: &Value, change: &fn(&mut Value)| {
            let mut value = value.clone();
            change(&mut value);
            value
        };
        match fault {
            Fault::Network(change) => self.tell("network", &changed(&self.network, change)).await,
            Fault::Image(change) => self.tell("images", &changed(&image(), change)).await,
            Fault::Account(change) => self.tell("owners", &changed(&self.account, change)).await,
            Fault::App(change) => self.tell(&self.of_app(), &changed(&self.app, change)).await,
            Fault::Secret(change) => self.keep(&change(&self.secret)).await,
            Fault::Pool(lines) => self.pools(lines).await,
            Fault::Rule => self.rule("DisableRule").await,
            Fault::DeadLetter => {
                let message = json!({ "QueueUrl": self.dead_letters()?, "MessageBody": "{}" });
                self.json("sqs", "AmazonSQS.SendMessage", &message).await
            }
            Fault::Switch => self.switch("off").await,
            Fault::Typo => {
                let job = self.queue(&json!({ "labels": ["self-hosted", "lniux"] })).await?;
                self.until_listed(&job, true).await
            }
            Fault::Signature => {
                let mut account = self.account.clone();
                account["webhook_secret"] = json!("another secret of sixteen and more letters");
                self.tell("owners", &account).await?;
                self.queue(&json!({ "labels": ["self-hosted", "lniux"] })).await?;
                self.until_answered(401).await
            }
        }
    }

    pub(super) async fn unset(&self, fault: &Fault) -> Result<()> {
        match fault {
            Fault::Network(_) => self.tell("network", &self.network).await,
            Fault::Image(_) => self.tell("images", &image()).await,
            Fault::Account(_) => self.tell("owners", &self.account).await,
            Fault::App(_) => self.tell(&self.of_app(), &self.app).await,
            Fault::Secret(_) => self.keep(&self.secret.to_string()).await,
            Fault::Pool(_) => self.pools("").await,
            Fault::Rule => self.rule("EnableRule").await,
            Fault::DeadLetter => {
                let queue = json!({ "QueueUrl": self.dead_letters()? });
                self.json("sqs", "AmazonSQS.PurgeQueue", &queue).await
            }
            Fault::Switch => self.switch("on").await,
            Fault::Typo => self.cancel().await,
            Fault::Signature => {
                self.tell("owners", &self.account).await?;
                self.cancel().await?;
                self.until_answered(202).await
            }
        }
    }

    async fn tell(&self, path: &str, what: &Value) -> Result<()> {
        self.stack.world.post(path, what).await.map(drop)
    }

    async fn json(&self, service: &str, target: &str, body: &Value) -> Result<()> {
        self.stack.aws.json(service, target, body).await.map(drop)
    }

    fn of_app(&self) -> String {
        format!("apps/{}", self.account["app_id"].as_str().unwrap_or_default())
    }

    async fn keep(&self, secret: &str) -> Result<()> {
        let kept = json!({ "SecretId": format!("{}/app-key", self.stack.name),
            "SecretString": secret });
        self.json("secretsmanager", "secretsmanager.PutSecretValue", &kept).await
    }

    async fn pools(&self, more: &str) -> Result<()> {
        let text = format!("{POOLS}{more}").replace("STACK", &self.stack.name);
        let text = text.replace("OWNER", &self.stack.owner);
        let request = json!({ "action": "pools", "file": text, "reason": "a fault", "by": "mira" });
        self.stack.admin(&request).await.map(drop)
    }

    async fn rule(&self, operation: &str) -> Result<()> {
        let wanted = json!({ "NamePrefix": format!("{}-ReaperFunctionTick", self.stack.name) });
        let rules = self.stack.aws.json("events", "AWSEvents.ListRules", &wanted).await?;
        let rule = json!({ "Name": rules["Rules"][0]["Name"] });
        self.json("events", &format!("AWSEvents.{operation}"), &rule).await
    }

    fn dead_letters(&self) -> Result<&str> {
        self.stack.env.get("JOBS_DLQ_URL")
    }

    async fn switch(&self, to: &str) -> Result<()> {
        let request =
            json!({ "action": "switch", "launches": to, "reason": "a fault", "by": "mira" });
        self.stack.admin(&request).await.map(drop)
    }

    /// Queues a job that no machine is launched for.
    async fn queue(&self, fields: &Value) -> Result<String> {
        let job = self.stack.queue_job(fields).await?;
        *self.queued.borrow_mut() = Some(job.id.to_string());
        Ok(job.id.to_string())
    }

    async fn cancel(&self) -> Result<()> {
        let Some(job) = self.queued.borrow_mut().take() else { return Ok(()) };
        self.tell(&format!("jobs/{job}/cancel"), &json!({})).await?;
        self.until_listed(&job, false).await
    }

    /// Waits until a job is among those that wait, or is no more.
    async fn until_listed(&self, job: &str, is_listed: bool) -> Result<()> {
        wait_for(&format!("job {job} to be listed: {is_listed}"), 30, async || {
            let jobs = self.stack.admin(&json!({ "action": "jobs" })).await?.to_string();
            Ok(when(jobs.contains(job) == is_listed, || jobs.clone()))
        })
        .await
    }

    /// Waits until the stack's newest delivery was answered so.
    async fn until_answered(&self, status: u16) -> Result<()> {
        let wanted = status.to_string();
        wait_for(&format!("a delivery to be answered {status}"), 20, async || {
            let all =
                self.stack.world.list(&format!("deliveries?owner={}", self.stack.owner)).await?;
            let newest = all.last().cloned().unwrap_or_default();
            Ok(when(newest["answer"] == wanted.as_str(), || newest.to_string()))
        })
        .await
    }
}
