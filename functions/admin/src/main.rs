//! The admin Lambda: invoked directly, with IAM as its door.

mod yaml;

use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::config::AdminConfig;
use muster_control::admin::{Admin, Reply, unavailable};
use muster_stack::{Stack, configure};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let AdminConfig { stack, github } = configure(AdminConfig::read)?;
    let stack = Stack::connect(stack).await;
    let github = stack.github(github)?;
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
        // Boxed, so that the compiler computes the pass's layout by itself.
        let reply = Box::pin(pass.answer(event.payload, muster_aws::clock::now())).await;
        muster_aws::emf::emit(&stack.settings.stack, &reply.metrics());
        Ok::<Reply, Error>(reply)
    }))
    .await
}
