//! Wires the scale-up Lambda.

// The passes are deep async functions, and the compiler computes their layout in one go.
#![recursion_limit = "256"]

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use muster_domain::time::Time;
use muster_scale_up::{Deps, handle};
use muster_stack::Stack;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (stack, ()) = Stack::from_env(|read| {
        read.required("MUSTER_JOBS_QUEUE_URL");
        read.required("MUSTER_LAUNCH_QUEUE_URL");
    })
    .await?;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    let deps = &Deps { table, queue, compute, settings };
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let LambdaEvent { payload, context, .. } = event;
        let deadline = Time::from_millis(i64::try_from(context.deadline).unwrap_or(i64::MAX));
        let outcome =
            handle(deps, payload, &context.request_id, deadline, muster_aws::clock::now).await;
        muster_aws::emf::emit(&deps.settings.stack, &outcome.metrics);
        Ok::<SqsBatchResponse, Error>(outcome.response)
    }))
    .await
}
