//! The admin Lambda. It is invoked directly; IAM controls access to it.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::config::AdminConfig;
use muster_control::admin::answer;
use muster_control::context::Context;
use muster_stack::{Stack, configure};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let AdminConfig { stack, github, webhook_secret } = configure(AdminConfig::read)?;
    let stack = Stack::connect(stack).await;
    let github = stack.operated_github(github, webhook_secret)?;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = &stack;
    let context = Context::new(table, queue, &compute, &github, settings);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let now = muster_aws::clock::now();
        // Boxed, so that the compiler computes the pass's layout separately.
        Ok::<_, Error>(Box::pin(answer(context, event.payload, now)).await)
    }))
    .await
}
