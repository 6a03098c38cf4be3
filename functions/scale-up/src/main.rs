//! Wires the scale-up Lambda.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_aws::clock;
use muster_aws::config::ScaleUpConfig;
use muster_scale_up::{Deps, handle};
use muster_stack::{Stack, configure};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let ScaleUpConfig { stack } = configure(ScaleUpConfig::read)?;
    let stack = Stack::connect(stack).await;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    let deps = &Deps { table, queue, compute, settings };
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let LambdaEvent { payload, context, .. } = event;
        let deadline = clock::deadline(context.deadline);
        let outcome = handle(deps, payload, &context.request_id, deadline, clock::now).await;
        muster_aws::emf::emit(&deps.settings.stack, &outcome.metrics);
        Ok::<SqsBatchResponse, Error>(outcome.response)
    }))
    .await
}
