//! The ports `Compute`, `ImageStore`, `Catalogue` and `PriceList` on EC2.
//!
//! This is a separate crate because the SDK's EC2 client is most of the project's build time; the
//! webhook does not depend on it.
#![warn(missing_docs)]

mod fleet;
mod images;
mod machines;
mod named;
mod prices;
mod stack_images;

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
use muster_aws::error::ServiceError;
use muster_control::ports::{
    Catalogue, Compute, CreateImageError, ImageStore, ListedMachine, NewImage, Page, ShownMachine,
    StackImage, TerminationError,
};
use muster_domain::ec2::classify::classify;
use muster_domain::ec2::{ErrorClass, LaunchError, Make};
use muster_domain::ids::{ImageId, LaunchId, MachineId};
use muster_domain::launch::{LaunchAnswer, LaunchRequest};
use muster_domain::observation::{Machine, MachineSeen};
use muster_domain::pool_file::{
    FoundImage, FoundPlacement, FoundTemplate, ImageFilter, NamedTemplate,
};
use muster_domain::provider::{ErrorDetail, ProviderError};

/// Time-out of calls that change something. An instant fleet responds when its machines are
/// launched, which takes seconds for large ones. The leases on records are much longer.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time-out of GetConsoleOutput, which delays the end of its machine.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(5);

/// An EC2 client limited to the machines of one stack. Resources named in pool files are looked up
/// in the whole account.
#[derive(Clone, Debug)]
pub struct Ec2 {
    client: Client,
    stack: String,
    /// The price list. `None` where AWS has none.
    list: Option<prices::List>,
}

impl Ec2 {
    /// Creates a client. `stack` is the stack's name.
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
    ) -> Result<BTreeMap<MachineId, Machine>, TerminationError> {
        machines::terminate(self, machines).await
    }
}

impl ImageStore for Ec2 {
    async fn create_image(
        &self,
        machine: &MachineId,
        image: &NewImage,
    ) -> Result<ImageId, CreateImageError> {
        stack_images::create(self, machine, image).await
    }

    async fn stack_images(&self) -> Result<Vec<StackImage>, ProviderError> {
        stack_images::list(self).await
    }

    async fn delete_image(&self, image: &StackImage) -> Result<(), ProviderError> {
        stack_images::delete(self, image).await
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

/// Returns a configuration without retries, for calls that change something. The record's own retry
/// repeats them after checking the state.
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

/// Converts and classifies the error of a failed call.
fn classified<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> (ErrorClass, ErrorDetail)
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let failure = ServiceError::from_sdk(error);
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

/// The code used if EC2 did not answer.
const NO_ANSWER: &str = "NoAnswer";
