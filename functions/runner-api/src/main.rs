//! Wires the runner-api Lambda.

// The passes are deep async functions, and the compiler computes their layout in one go.
#![recursion_limit = "256"]

use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_runner_api::{Deps, handle};
use muster_stack::{GithubApp, Stack};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (stack, (app, instance_role)) =
        Stack::from_env(|read| (GithubApp::read(read), read.required("MUSTER_INSTANCE_ROLE_ID")))
            .await?;
    let github = stack.github(&app)?;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    let deps = &Deps { table, queue, compute, github, settings, instance_role };
    lambda_runtime::run(service_fn(move |event: LambdaEvent<ApiGatewayV2httpRequest>| async move {
        let answer = handle(deps, &event.payload, muster_aws::clock::now()).await;
        Ok::<ApiGatewayV2httpResponse, Error>(answer)
    }))
    .await
}
