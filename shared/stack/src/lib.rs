//! Builds the parts of a function from its configuration.
//!
//! The webhook does without this crate: it needs one queue and one secret, and must start fast.
#![warn(missing_docs)]

use anyhow::Context as _;
use muster_aws::SdkConfig;
use muster_aws::config::{GithubConfig, StackConfig, from_env};
use muster_aws::environment::Reader;
use muster_aws::queue::SqsQueue;
use muster_aws::table::DynamoTable;
use muster_control::Settings;
use muster_control::causes::Cause;
use muster_github::{App, AppIdentity, AppKey, AppKeyError};
use secrecy::ExposeSecret as _;

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

/// Starts the log, and reads a function's configuration.
///
/// # Errors
/// Every variable that is missing or not valid, at once.
pub fn configure<C>(read: impl FnOnce(&mut Reader<'_>) -> C) -> anyhow::Result<C> {
    muster_aws::telemetry::init(std::env::var("AWS_LAMBDA_LOG_LEVEL").ok().as_deref());
    Ok(from_env(read)?)
}

impl Stack {
    /// The clients of a function.
    pub async fn connect(stack: StackConfig) -> Self {
        let StackConfig { settings, tables, queues } = stack;
        let config = muster_aws::client::load().await;
        let table = DynamoTable::new(&config, tables, settings.timings.clone());
        let queue = SqsQueue::new(&config, queues);
        Self { config, settings, table, queue }
    }

    /// GitHub, with the App's secret read when the first call needs it.
    ///
    /// # Errors
    /// When the system has no trusted roots.
    pub fn github(&self, github: GithubConfig) -> anyhow::Result<App<StoredApp>> {
        let stored = StoredApp { config: self.config.clone(), id: github.app_secret };
        App::new(&muster_github::ClientSettings::default(), stored).context("GitHub client")
    }
}

/// The App's id and key in Secrets Manager. Read at every need: GitHub's tokens live for an hour, so
/// that is rare, and a changed key is found at once.
pub struct StoredApp {
    config: SdkConfig,
    id: String,
}

impl AppKey for StoredApp {
    async fn identity(&self, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        let text = muster_aws::secrets::app(&self.config, &self.id)
            .await
            .map_err(|error| AppKeyError::Unavailable(Cause::new(error)))?;
        AppIdentity::read(text.expose_secret())
            .map_err(|problem| AppKeyError::unfit(problem, &self.id))
    }
}
