//! Creates the components of a function from its configuration.
//!
//! The webhook does not use this crate: it needs one queue and one secret, and must start fast.
#![warn(missing_docs)]

use std::sync::Arc;

use anyhow::Context as _;
use muster_aws::SdkConfig;
use muster_aws::config::{GithubConfig, StackConfig, from_env};
use muster_aws::environment::EnvironmentReader;
use muster_aws::queue::SqsQueue;
use muster_aws::table::DynamoTable;
use muster_control::Settings;
use muster_control::ports::{SigningSecret, Unavailable};
use muster_domain::causes::Cause;
use muster_domain::ids::AppName;
use muster_github::{
    App, AppIdentity, AppKey, AppKeyError, AppStore, CaSource, CaText, ClientSettings,
};
use secrecy::{ExposeSecret as _, SecretString};

/// The components that every function except the webhook uses.
pub struct Stack {
    /// The configuration for further AWS clients.
    pub config: SdkConfig,
    /// Name, pools and durations.
    pub settings: Settings,
    /// The tables.
    pub table: DynamoTable,
    /// The queues. A function has the URLs of the queues that it sends to.
    pub queue: SqsQueue,
}

/// Initializes logging and reads a function's configuration.
///
/// # Errors
/// All variables that are missing or invalid.
pub fn configure<C>(read: impl FnOnce(&mut EnvironmentReader<'_>) -> C) -> anyhow::Result<C> {
    muster_aws::telemetry::init(std::env::var("AWS_LAMBDA_LOG_LEVEL").ok().as_deref());
    Ok(from_env(read)?)
}

impl Stack {
    /// Creates the clients of a function.
    pub async fn connect(stack: StackConfig) -> Self {
        let StackConfig { settings, tables, queues } = stack;
        let config = muster_aws::client::load().await;
        let table = DynamoTable::new(&config, tables, settings.timings.clone());
        let queue = SqsQueue::new(&config, queues);
        Self { config, settings, table, queue }
    }

    /// Creates the GitHub client, which reads the App's secret when the first call needs it.
    ///
    /// # Errors
    /// If the system has no trusted roots.
    pub fn github(&self, github: GithubConfig) -> anyhow::Result<App<StoredApp>> {
        let settings = self.client_settings(&github);
        let stored = StoredApp { config: self.config.clone(), id: github.app_secret };
        App::new(&settings, stored).context("GitHub client")
    }

    /// Creates the GitHub client of the function that sets up the App.
    ///
    /// # Errors
    /// If the system has no trusted roots.
    pub fn operated_github(
        &self,
        github: GithubConfig,
        webhook_secret: String,
    ) -> anyhow::Result<App<OperatedApp>> {
        let settings = self.client_settings(&github);
        let app = StoredApp { config: self.config.clone(), id: github.app_secret };
        let operated = OperatedApp { app, webhook_secret };
        App::new(&settings, operated).context("GitHub client")
    }

    fn client_settings(&self, github: &GithubConfig) -> ClientSettings {
        let ca_source = github.ca_bundle.as_ref().map(|name| {
            let source = StoredCaBundle { config: self.config.clone(), name: name.clone() };
            Arc::new(source) as Arc<dyn CaSource>
        });
        ClientSettings { ca_source, ..ClientSettings::default() }
    }
}

/// The CA bundle in SSM or S3.
#[derive(Debug)]
struct StoredCaBundle {
    config: SdkConfig,
    name: String,
}

impl CaSource for StoredCaBundle {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> CaText<'_> {
        Box::pin(muster_aws::ca_bundle::read(&self.config, &self.name))
    }
}

/// The secrets of the App and of the webhook, for the function that sets up the App.
pub struct OperatedApp {
    app: StoredApp,
    webhook_secret: String,
}

impl AppKey for OperatedApp {
    async fn identity(&self, app: AppName, fresh: bool) -> Result<AppIdentity, AppKeyError> {
        self.app.identity(app, fresh).await
    }
}

impl AppStore for OperatedApp {
    async fn app_secret(&self) -> Result<SecretString, Unavailable> {
        let read = muster_aws::secrets::app(&self.app.config, &self.app.id).await;
        read.map_err(|error| Unavailable::caused("the App's secret", error))
    }

    async fn put_app_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        muster_aws::secrets::put(&self.app.config, &self.app.id, secret).await
    }

    async fn signing_secret(&self, app: AppName) -> Result<SigningSecret, Unavailable> {
        let now = muster_aws::clock::now();
        let read =
            muster_aws::secrets::signing(&self.app.config, &self.webhook_secret, app, now).await;
        read.map_err(|error| Unavailable::caused("the webhook's secret", error))
    }

    async fn put_signing_secret(&self, secret: SecretString) -> Result<(), Unavailable> {
        muster_aws::secrets::put(&self.app.config, &self.webhook_secret, secret).await
    }
}

/// The Apps' IDs and keys in Secrets Manager. Read each time they are needed: GitHub's tokens are
/// valid for an hour, so that is rare, and a changed key is used immediately.
pub struct StoredApp {
    config: SdkConfig,
    id: String,
}

impl AppKey for StoredApp {
    async fn identity(&self, app: AppName, _fresh: bool) -> Result<AppIdentity, AppKeyError> {
        let text = muster_aws::secrets::app(&self.config, &self.id)
            .await
            .map_err(|error| AppKeyError::Unavailable(Cause::new(error)))?;
        AppIdentity::read(text.expose_secret(), app)
            .map_err(|problem| AppKeyError::unfit(app, problem, &self.id))
    }
}
