//! Wires the reaper Lambda.

// The passes are deep async functions, and the compiler computes their layout in one go.
#![recursion_limit = "256"]

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use muster_domain::time::Time;
use muster_reaper::{Deps, handle};
use muster_stack::{GithubApp, Stack};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (stack, app) = Stack::from_env(|read| {
        read.required("MUSTER_LAUNCH_QUEUE_URL");
        read.required("MUSTER_REAP_QUEUE_URL");
        GithubApp::read(read)
    })
    .await?;
    let github = stack.github(&app)?;
    let compute = muster_ec2::Ec2::new(&stack.config, stack.settings.stack.clone());
    let Stack { settings, table, queue, .. } = stack;
    let deps = &Deps { table, queue, compute, github, settings };
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Value>| async move {
        let deadline = i64::try_from(event.context.deadline).unwrap_or(i64::MAX);
        let deadline = Time::from_millis(deadline);
        let outcome = handle(deps, event.payload, deadline, muster_aws::clock::now).await;
        let outcome = outcome.map_err(|error| {
            // The runtime's own conversion would drop the chain of causes.
            Diagnostic { error_type: "NotHandled".into(), error_message: format!("{error:#}") }
        })?;
        muster_aws::emf::emit(&deps.settings.stack, &outcome.metrics);
        Ok::<Value, Diagnostic>(outcome.response)
    }))
    .await
}
