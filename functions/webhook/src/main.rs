//! Entry point of the webhook Lambda: sets up configuration, logs, the secret and the queue before
//! the first delivery.

use std::convert::Infallible;

use lambda_runtime::{LambdaEvent, service_fn};
use muster_aws::config::{WebhookConfig, from_env};
use muster_aws::queue::{QueueUrls, SqsQueue};
use muster_aws::secrets::WebhookSecret;
use muster_control::metrics::{Measure, Measures};
use muster_domain::causes::with_causes;
use muster_webhook::{GatewayEvent, Webhook};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    muster_aws::telemetry::init(std::env::var("AWS_LAMBDA_LOG_LEVEL").ok().as_deref());
    let (stack, webhook) = start().await.inspect_err(|error| {
        tracing::error!(error = format!("{error:#}"), "the webhook cannot start");
    })?;
    let (stack, webhook) = (stack.as_str(), &webhook);
    lambda_runtime::run(service_fn(move |event: LambdaEvent<GatewayEvent>| async move {
        let answer = webhook.handle(&event.payload, muster_aws::clock::now()).await;
        if let Some(metric) = answer.metric() {
            // An alarm uses it, so it is kept regardless of the setting.
            muster_aws::emf::emit(stack, Measures::None, &[Measure::new(metric, 1.0)]);
        }
        Ok::<_, Infallible>(answer)
    }))
    .await
}

async fn start() -> anyhow::Result<(String, Webhook<WebhookSecret, SqsQueue>)> {
    let WebhookConfig { stack, jobs_queue, secret, actors } = from_env(WebhookConfig::read)?;
    let config = muster_aws::client::load().await;
    let secret = WebhookSecret::new(&config, secret);
    let queue = SqsQueue::new(&config, QueueUrls { jobs: jobs_queue, ..QueueUrls::default() });
    let (read, ()) = tokio::join!(secret.read(muster_aws::clock::now()), queue.connect());
    if let Err(error) = read {
        // Until it can be read, deliveries are answered with 503, and GitHub's log shows the
        // reason.
        tracing::error!(error = with_causes(&error), "starting without the webhook secret");
    }
    Ok((stack, Webhook { signatures: secret, queue, actors }))
}
