//! Entry point of the runner-api Lambda.

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::config::RunnerApiConfig;
use muster_control::context::Context;
use muster_control::metrics::Measure;
use muster_runner_api::{RunnerApiOutcome, handle};
use muster_stack::{Stack, configure};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let RunnerApiConfig { stack, github, instance_role } = configure(RunnerApiConfig::read)?;
    let stack = Stack::connect(stack).await;
    let github = stack.github(github)?;
    let Stack { settings, table, queue, .. } = &stack;
    let github = &github;
    let context = &Context::new(table, queue, &(), github, settings);
    let instance_role = &*instance_role;
    lambda_runtime::run(service_fn(move |event: LambdaEvent<ApiGatewayV2httpRequest>| async move {
        let RunnerApiOutcome { response, mut measures } =
            handle(*context, instance_role, &event.payload, muster_aws::clock::now()).await;
        measures.extend(github.take_calls_left().map(Measure::calls_left));
        muster_aws::emf::emit(&context.settings.stack, context.settings.measures, &measures);
        Ok::<ApiGatewayV2httpResponse, Error>(response)
    }))
    .await
}
