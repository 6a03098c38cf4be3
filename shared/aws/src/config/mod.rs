//! The configuration of each function, read from its environment before the first event.

mod variables;

use std::sync::Arc;

use muster_control::Settings;
use muster_domain::job::Actors;
use muster_domain::pool::Pool;
use muster_domain::pool_file::Rights;

use crate::environment::{ConfigError, EnvironmentReader};
use crate::queue::QueueUrls;
use crate::table::TableNames;

/// The webhook's configuration.
#[derive(Debug)]
pub struct WebhookConfig {
    /// The stack's name.
    pub stack: String,
    /// The URL of the queue of job events.
    pub jobs_queue: String,
    /// The ID of the secret that GitHub signs with.
    pub secret: String,
    /// Whether to record who caused a run.
    pub actors: Actors,
}

/// The configuration that all functions except the webhook share.
#[derive(Debug)]
pub struct StackConfig {
    /// Name, pools and durations.
    pub settings: Settings,
    /// The tables.
    pub tables: TableNames,
    /// The queues that the function sends to.
    pub queues: QueueUrls,
}

/// The configuration of the GitHub App.
#[derive(Debug)]
pub struct GithubConfig {
    /// The ID of the secret with the App's ID, its key and the URL of its API.
    pub app_secret: String,
    /// The name of the CA bundle, if there is one.
    pub ca_bundle: Option<String>,
}

/// The configuration of scale-up.
#[derive(Debug)]
pub struct ScaleUpConfig {
    /// The stack.
    pub stack: StackConfig,
}

/// The configuration of the reaper.
#[derive(Debug)]
pub struct ReaperConfig {
    /// The stack.
    pub stack: StackConfig,
    /// GitHub.
    pub github: GithubConfig,
}

/// The configuration of runner-api.
#[derive(Debug)]
pub struct RunnerApiConfig {
    /// The stack.
    pub stack: StackConfig,
    /// GitHub.
    pub github: GithubConfig,
    /// The ID (`AROA…`) of the machines' role.
    pub instance_role: String,
}

/// The configuration of admin.
#[derive(Debug)]
pub struct AdminConfig {
    /// The stack.
    pub stack: StackConfig,
    /// GitHub.
    pub github: GithubConfig,
    /// The ID of the secret that GitHub signs with.
    pub webhook_secret: String,
}

/// Reads a configuration from this process's environment.
///
/// # Errors
/// All variables that are missing or invalid.
pub fn from_env<C>(read: impl FnOnce(&mut EnvironmentReader<'_>) -> C) -> Result<C, ConfigError> {
    let get = |name: &str| std::env::var(name).ok();
    let mut reader = EnvironmentReader::new(&get);
    let config = read(&mut reader);
    reader.finish(config)
}

impl WebhookConfig {
    /// Reads the configuration.
    pub fn read(read: &mut EnvironmentReader<'_>) -> Self {
        Self {
            stack: read.required(&variables::STACK),
            jobs_queue: read.required(&variables::JOBS_QUEUE),
            secret: read.required(&variables::WEBHOOK_SECRET),
            actors: read.word(&variables::USAGE_ACTORS),
        }
    }
}

impl ScaleUpConfig {
    /// Reads the configuration.
    pub fn read(read: &mut EnvironmentReader<'_>) -> Self {
        let jobs = read.required(&variables::JOBS_QUEUE);
        let launch = read.required(&variables::LAUNCH_QUEUE);
        Self { stack: StackConfig::read(read, QueueUrls { jobs, launch, ..QueueUrls::default() }) }
    }
}

impl ReaperConfig {
    /// Reads the configuration.
    pub fn read(read: &mut EnvironmentReader<'_>) -> Self {
        let queues = wakes(read);
        let mut stack = StackConfig::read(read, queues);
        stack.settings.webhook_url = read.optional(&variables::WEBHOOK_URL);
        Self { stack, github: GithubConfig::read(read) }
    }
}

impl RunnerApiConfig {
    /// Reads the configuration.
    pub fn read(read: &mut EnvironmentReader<'_>) -> Self {
        let queues =
            QueueUrls { reap: read.required(&variables::REAP_QUEUE), ..QueueUrls::default() };
        Self {
            stack: StackConfig::read(read, queues),
            github: GithubConfig::read(read),
            instance_role: read.required(&variables::INSTANCE_ROLE_ID),
        }
    }
}

impl AdminConfig {
    /// Reads the configuration.
    pub fn read(read: &mut EnvironmentReader<'_>) -> Self {
        let queues = wakes(read);
        let mut stack = StackConfig::read(read, queues);
        stack.settings.webhook_url = read.optional(&variables::WEBHOOK_URL);
        stack.settings.rights = Some(rights(read, &stack.settings));
        let webhook_secret = read.required(&variables::WEBHOOK_SECRET);
        Self { stack, github: GithubConfig::read(read), webhook_secret }
    }
}

impl StackConfig {
    fn read(read: &mut EnvironmentReader<'_>, queues: QueueUrls) -> Self {
        let stack = read.required(&variables::STACK);
        let timings = read.json(&variables::TIMINGS);
        let max_machines = read.number(&variables::MAX_MACHINES);
        let pools = vec![pool(read, &stack, max_machines)];
        let settings = Settings {
            measures: read.word(&variables::MEASURES),
            ..Settings::from_parameters(stack, pools, timings).with_at_most(max_machines)
        };
        let tables = TableNames {
            instances: read.required(&variables::INSTANCES_TABLE),
            jobs: read.required(&variables::JOBS_TABLE),
            control: read.required(&variables::CONTROL_TABLE),
            usage: read.required(&variables::USAGE_TABLE),
        };
        Self { settings, tables, queues }
    }
}

impl GithubConfig {
    fn read(read: &mut EnvironmentReader<'_>) -> Self {
        Self {
            app_secret: read.required(&variables::APP_KEY),
            ca_bundle: read.optional(&variables::CA_BUNDLE),
        }
    }
}

/// Reads the queues of a function that wakes pools and instances.
fn wakes(read: &mut EnvironmentReader<'_>) -> QueueUrls {
    QueueUrls {
        launch: read.required(&variables::LAUNCH_QUEUE),
        reap: read.required(&variables::REAP_QUEUE),
        ..QueueUrls::default()
    }
}

/// Reads the permissions of scale-up's role. The built-in pool has all subnets of the stack.
fn rights(read: &mut EnvironmentReader<'_>, settings: &Settings) -> Rights {
    let keys = read.optional(&variables::MACHINE_TAG_KEYS).unwrap_or_default();
    let keys = keys.split(',').map(str::trim).filter(|key| !key.is_empty());
    Rights {
        stack: settings.stack.clone(),
        subnets: settings.pools.iter().flat_map(|pool| pool.subnets.clone()).collect(),
        tag_keys: keys.map(str::to_owned).collect(),
    }
}

/// Reads the built-in pool, with the stack's launch template.
fn pool(read: &mut EnvironmentReader<'_>, stack: &str, max_machines: u32) -> Pool {
    // Not `$Latest`: a replayed request would differ from the first.
    let version: u64 = read.number(&variables::LAUNCH_TEMPLATE_VERSION);
    let subnets = read.required(&variables::SUBNETS);
    let subnets = subnets.split(',').map(|subnet| Arc::from(subnet.trim())).collect();
    Pool {
        launch_template_id: read.required(&variables::LAUNCH_TEMPLATE).into(),
        launch_template_version: version.to_string().into(),
        ..Pool::built_in(stack, subnets, max_machines)
    }
}

#[cfg(test)]
mod tests;
