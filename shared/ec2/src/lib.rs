//! The ports `Compute`, `Catalogue` and `PriceList` on EC2.
//!
//! Alone in its crate, because the SDK's EC2 client is most of the project's build: the webhook
//! never sees it.
#![warn(missing_docs)]

mod fleet;
mod images;
mod machines;
mod named;
mod prices;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use muster_aws::SdkConfig;
use muster_aws::client::CONNECT_TIMEOUT;
use muster_aws::error::Failure;
use muster_control::ports::{Catalogue, Compute, ListedMachine, Page, Refusal, ShownMachine};
use muster_domain::ec2::classify::classify;
use muster_domain::ec2::{ErrorClass, Make};
use muster_domain::ids::{LaunchId, MachineId};
use muster_domain::instance::ErrorDetail;
use muster_domain::launch::{LaunchAnswer, LaunchError, LaunchRequest};
use muster_domain::observation::{Machine, MachineSeen, ProviderError};
use muster_domain::pool_file::{
    FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate,
};

/// How long CreateFleet and TerminateInstances may take. An instant fleet answers when its machines
/// are launched, which takes seconds for large ones. The leases on rows are much longer.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long GetConsoleOutput may take. The end of its machine waits for it.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(5);

/// EC2, limited to the machines of one stack. What pool files name it sees as
/// the account does.
#[derive(Clone, Debug)]
pub struct Ec2 {
    client: Client,
    stack: String,
    /// None where AWS has no price list.
    list: Option<prices::List>,
}

impl Ec2 {
    /// `stack` is the stack's name.
    #[must_use]
    pub fn new(config: &SdkConfig, stack: String) -> Self {
        Self { client: Client::new(config), stack, list: prices::List::new(config) }
    }
}

impl Compute for Ec2 {
    async fn launch(
        &self,
        id: &LaunchId,
        request: &LaunchRequest,
    ) -> Result<LaunchAnswer, LaunchError> {
        fleet::create(&self.client, id, request).await
    }

    async fn find_launched(
        &self,
        id: &LaunchId,
    ) -> Result<BTreeMap<MachineId, Make>, ProviderError> {
        machines::of_launch(self, id).await
    }

    async fn machine(&self, id: &MachineId) -> Result<MachineSeen, ProviderError> {
        machines::state(self, id).await
    }

    async fn console(&self, id: &MachineId) -> Result<String, ProviderError> {
        machines::console(self, id).await
    }

    async fn machines(
        &self,
        ids: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, ShownMachine>, ProviderError> {
        machines::shown(self, ids).await
    }

    async fn list(&self, page: Option<String>) -> Result<Page<ListedMachine>, ProviderError> {
        machines::list(self, page).await
    }

    async fn terminate(
        &self,
        machines: &BTreeSet<MachineId>,
    ) -> Result<BTreeMap<MachineId, Machine>, Refusal> {
        machines::terminate(self, machines).await
    }
}

impl Catalogue for Ec2 {
    async fn newest(&self, filter: &ImageFilter) -> Result<Option<FoundImage>, ProviderError> {
        images::newest(self, filter).await
    }

    async fn template(
        &self,
        named: &NamedTemplate,
    ) -> Result<Option<FoundTemplate>, ProviderError> {
        named::template(self, named).await
    }

    async fn placement(&self, group: &str) -> Result<Option<FoundPlacement>, ProviderError> {
        named::placement(self, group).await
    }
}

/// Calls that change something are made once. Their retry is the row's: it knows when to look
/// first.
fn once() -> aws_sdk_ec2::config::Builder {
    once_within(EFFECT_TIMEOUT)
}

fn once_within(limit: Duration) -> aws_sdk_ec2::config::Builder {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(limit)
        .operation_timeout(limit)
        .build();
    aws_sdk_ec2::Config::builder().retry_config(RetryConfig::disabled()).timeout_config(timeouts)
}

/// What a failed call was, and what that means.
fn classified<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> (ErrorClass, ErrorDetail)
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let failure = Failure::from_sdk(error);
    let class = classify(failure.code.as_deref(), failure.status, &failure.message);
    tracing::info!(operation, ?class, error = %failure, "EC2 call failed");
    let fault = ErrorDetail {
        at: muster_aws::clock::now(),
        operation: operation.to_owned(),
        code: failure.code.unwrap_or_else(|| NO_ANSWER.to_owned()),
        message: failure.message,
    };
    (class, fault)
}

/// Stands where EC2's code would stand if it had answered.
const NO_ANSWER: &str = "NoAnswer";
