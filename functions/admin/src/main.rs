//! The admin Lambda: invoked directly, with IAM as its door.

// The passes are deep async functions, and the compiler computes their layout in one go.
#![recursion_limit = "256"]

mod yaml;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_control::admin::{Admin, Reply, unavailable};
use muster_stack::{GithubApp, Stack};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (stack, app) = Stack::from_env(GithubApp::read).await?;
    let github = stack.github(&app)?;
    let images = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let (stack, github, images) = (&stack, &github, &images);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let settings = match stack.settings.current(&stack.table).await {
            Ok(settings) => settings,
            Err(error) => return Ok(unavailable(error)),
        };
        let pass = Admin {
            table: &stack.table,
            queue: &stack.queue,
            github,
            images,
            settings: &settings,
            yaml: yaml::read,
        };
        let reply = pass.answer(event.payload, muster_aws::clock::now()).await;
        muster_aws::emf::emit(&stack.settings.stack, &reply.metrics());
        Ok::<Reply, Error>(reply)
    }))
    .await
}
