//! Entry point of the scale-up Lambda.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::clock;
use muster_aws::config::ScaleUpConfig;
use muster_control::Settings;
use muster_control::context::Context;
use muster_control::settings_cache::SettingsCache;
use muster_scale_up::handle;
use muster_stack::{Stack, configure};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let ScaleUpConfig { stack } = configure(ScaleUpConfig::read)?;
    let stack = Stack::connect(stack).await;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    // It never calls GitHub.
    let context = Context::new(&table, &queue, &compute, &(), &settings);
    let cache = &SettingsCache::default();
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let LambdaEvent { payload, context: invocation, .. } = event;
        let deadline = clock::deadline(invocation.deadline);
        let id = &invocation.request_id;
        let outcome = handle(context, cache, payload, id, deadline, clock::now).await;
        let Settings { stack, measures, .. } = context.settings;
        muster_aws::emf::emit(stack, *measures, &outcome.measures);
        Ok::<SqsBatchResponse, Error>(outcome.response)
    }))
    .await
}
