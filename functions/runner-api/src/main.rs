//! Entry point of the runner-api Lambda.

use std::sync::Arc;

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::SdkConfig;
use muster_aws::config::RunnerApiConfig;
use muster_control::context::Context;
use muster_control::metrics::Measure;
use muster_control::ports::Unavailable;
use muster_github::App;
use muster_runner_api::{NetworkSource, RunnerApiOutcome, handle};
use muster_stack::{Stack, StoredApp, configure};
use secrecy::SecretString;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let RunnerApiConfig { stack, github, instance_role } = configure(RunnerApiConfig::read)?;
    let stack = Stack::connect(stack).await;
    let github = stack.github(github)?;
    let Stack { settings, table, queue, config } = &stack;
    let github = &github;
    let network = &NetworkStores { github, config };
    let context = &Context::new(table, queue, &(), github, settings);
    let instance_role = &*instance_role;
    lambda_runtime::run(service_fn(move |event: LambdaEvent<ApiGatewayV2httpRequest>| async move {
        let RunnerApiOutcome { response, mut measures } =
            handle(*context, network, instance_role, &event.payload, muster_aws::clock::now())
                .await;
        measures.extend(github.take_calls_left().map(Measure::calls_left));
        muster_aws::emf::emit(&context.settings.stack, context.settings.measures, &measures);
        Ok::<ApiGatewayV2httpResponse, Error>(response)
    }))
    .await
}

/// The stores of the machines' network settings.
struct NetworkStores<'a> {
    github: &'a App<StoredApp>,
    config: &'a SdkConfig,
}

impl NetworkSource for NetworkStores<'_> {
    async fn ca_bundle(&self) -> Option<Arc<str>> {
        // The client has logged the problem with an unusable one.
        self.github.ca_bundle().await?.ok()
    }

    async fn password(&self, secret: &str) -> Result<SecretString, Unavailable> {
        let read = muster_aws::secrets::optional(self.config, secret).await;
        let read = read.map_err(|error| Unavailable::caused("Secrets Manager", error))?;
        read.ok_or_else(|| {
            Unavailable::new("it does not exist, or its policy or key denies access to runner-api")
        })
    }
}
