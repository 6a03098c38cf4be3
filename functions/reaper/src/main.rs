//! Entry point of the reaper Lambda.

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use muster_aws::clock;
use muster_aws::config::ReaperConfig;
use muster_control::Settings;
use muster_control::context::Context;
use muster_control::metrics::Measure;
use muster_notices::StoredReceiver;
use muster_reaper::handle;
use muster_stack::{Stack, configure};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let ReaperConfig { stack, github } = configure(ReaperConfig::read)?;
    let stack = Stack::connect(stack).await;
    let receiver = &StoredReceiver::new(stack.config.clone(), &stack.settings.stack);
    let github = stack.github(github)?;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = &stack;
    let github = &github;
    let context = Context::new(table, queue, &compute, github, settings);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = clock::deadline(event.context.deadline);
        let outcome = handle(context, receiver, event.payload, deadline, clock::now).await;
        let outcome = outcome.map_err(|error| {
            // The runtime's own conversion would drop the chain of causes.
            Diagnostic { error_type: "NotHandled".into(), error_message: format!("{error:#}") }
        })?;
        let left = github.take_calls_left().map(Measure::calls_left);
        let told = outcome.measures.into_iter().chain(left).collect::<Vec<_>>();
        let Settings { stack, measures, .. } = context.settings;
        muster_aws::emf::emit(stack, *measures, &told);
        Ok::<Value, Diagnostic>(outcome.response)
    }))
    .await
}
