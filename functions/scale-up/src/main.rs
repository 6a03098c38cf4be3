//! Wires the scale-up Lambda.

// The passes are deep async functions, and the compiler computes their layout in one go.
#![recursion_limit = "256"]

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use scale_up::{Deps, handle};
use stack::Stack;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (stack, ()) = Stack::from_env(|read| drop(read.required("MUSTER_JOBS_QUEUE_URL"))).await?;
    let compute = ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    let deps = &Deps { table, queue, compute, settings };
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| async move {
        let outcome = handle(deps, event.payload, &event.context.request_id, aws::clock::now).await;
        aws::emf::emit(&deps.settings.stack, &outcome.metrics);
        Ok::<SqsBatchResponse, Error>(outcome.response)
    }))
    .await
}
