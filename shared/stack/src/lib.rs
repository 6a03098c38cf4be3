//! Builds the parts of a function from the environment that the template writes.
//!
//! The webhook does without this crate: it needs one queue and one secret, and must start fast.
#![warn(missing_docs)]

use anyhow::Context as _;
use muster_aws::SdkConfig;
use muster_aws::environment::Reader;
use muster_aws::queue::{QueueUrls, SqsQueue};
use muster_aws::secrets::SecretError;
use muster_aws::table::{DynamoTable, TableNames};
use muster_control::Settings;
use muster_github::{App, AppKey, NoKey};
use secrecy::SecretString;

/// What every function but the webhook works with.
pub struct Stack {
    /// Configuration of further AWS clients.
    pub config: SdkConfig,
    /// Name, pools and durations.
    pub settings: Settings,
    /// The tables.
    pub table: DynamoTable,
    /// The queues. A function has the addresses of those that it may send to.
    pub queue: SqsQueue,
}

impl Stack {
    /// Reads what is common, and through `rest` what one function needs besides.
    ///
    /// # Errors
    /// Every variable that is missing or not valid, at once.
    pub async fn from_env<T>(rest: impl FnOnce(&mut Reader<'_>) -> T) -> anyhow::Result<(Self, T)> {
        muster_aws::telemetry::init(std::env::var("AWS_LAMBDA_LOG_LEVEL").ok().as_deref());
        let get = |name: &str| std::env::var(name).ok();
        let mut read = Reader::new(&get);
        let settings = Settings {
            limits: read.json("MUSTER_LIMITS"),
            balance: read.json("MUSTER_BALANCE"),
            ..Settings::from_parameters(read.required("MUSTER_STACK"), read.pools(), read.timings())
        };
        let names = TableNames {
            stack: settings.stack.clone(),
            instances: read.required("MUSTER_INSTANCES_TABLE"),
            jobs: read.required("MUSTER_JOBS_TABLE"),
            control: read.required("MUSTER_CONTROL_TABLE"),
        };
        let url = |name| read.optional(name).unwrap_or_default();
        let urls = QueueUrls {
            jobs: url("MUSTER_JOBS_QUEUE_URL"),
            launch: url("MUSTER_LAUNCH_QUEUE_URL"),
            reap: url("MUSTER_REAP_QUEUE_URL"),
        };
        let rest = rest(&mut read);
        let (names, rest) = read.finish((names, rest))?;
        let config = muster_aws::client::load().await;
        let table = DynamoTable::new(&config, names, settings.timings.clone());
        let queue = SqsQueue::new(&config, urls);
        Ok((Self { config, settings, table, queue }, rest))
    }

    /// GitHub, with the App's key read when the first call needs it.
    ///
    /// # Errors
    /// When the address of GitHub's API is unusable.
    pub fn github(&self, app: &GithubApp) -> anyhow::Result<App<StoredKey>> {
        let key = StoredKey { config: self.config.clone(), id: app.key_id.clone() };
        App::new(&app.settings, key).context("GitHub client")
    }
}

/// Who we are at GitHub.
pub struct GithubApp {
    settings: muster_github::Settings,
    key_id: String,
}

impl GithubApp {
    /// Reads `MUSTER_APP_ID`, `MUSTER_APP_KEY` and `GITHUB_API_URL`.
    pub fn read(read: &mut Reader<'_>) -> Self {
        let api_url = read.optional("GITHUB_API_URL");
        let api_url = api_url.as_deref().unwrap_or("https://api.github.com");
        Self {
            settings: muster_github::Settings::new(&read.required("MUSTER_APP_ID"), api_url),
            key_id: read.required("MUSTER_APP_KEY"),
        }
    }
}

/// The App's private key in Secrets Manager. Read at every need: GitHub's tokens live for an hour,
/// so that is rare, and a changed key is found at once.
pub struct StoredKey {
    config: SdkConfig,
    id: String,
}

impl AppKey for StoredKey {
    async fn pem(&self, _fresh: bool) -> Result<SecretString, NoKey> {
        muster_aws::secrets::app_key(&self.config, &self.id).await.map_err(|error| match error {
            SecretError::Unset { .. } => NoKey::Unset(error.to_string()),
            SecretError::Unavailable { .. } => NoKey::Unavailable(error.to_string()),
        })
    }
}
