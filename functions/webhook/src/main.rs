//! Wires the webhook: configuration, logs, the secret and the queue, all of it before the first
//! delivery.

use std::convert::Infallible;

use anyhow::Context as _;
use lambda_runtime::{LambdaEvent, service_fn};
use muster_aws::environment::Reader;
use muster_aws::queue::{QueueUrls, SqsQueue};
use muster_aws::secrets::WebhookSecret;
use muster_control::causes::with_causes;
use muster_webhook::{Event, Webhook};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let get = |name: &str| std::env::var(name).ok();
    muster_aws::telemetry::init(get("AWS_LAMBDA_LOG_LEVEL").as_deref());
    let webhook = start(&get).await.inspect_err(|error| {
        tracing::error!(error = format!("{error:#}"), "the webhook cannot start");
    })?;
    let webhook = &webhook;
    lambda_runtime::run(service_fn(move |event: LambdaEvent<Event>| async move {
        Ok::<_, Infallible>(webhook.handle(&event.payload, muster_aws::clock::now()).await)
    }))
    .await
}

async fn start(
    get: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Webhook<WebhookSecret, SqsQueue>> {
    let mut reader = Reader::new(get);
    let queue_url = reader.required("MUSTER_JOBS_QUEUE_URL");
    let secret_id = reader.required("MUSTER_WEBHOOK_SECRET");
    // A client id instead of the App's number cannot be compared with what GitHub sends.
    let app = reader.optional("MUSTER_APP_ID").and_then(|id| id.trim().parse().ok());
    let (queue_url, secret_id) = reader.finish((queue_url, secret_id)).context("environment")?;

    let config = muster_aws::client::load().await;
    let secret = WebhookSecret::new(&config, secret_id);
    let queue = SqsQueue::new(&config, QueueUrls { jobs: queue_url, ..QueueUrls::default() });
    let (read, ()) = tokio::join!(secret.read(muster_aws::clock::now()), queue.connect());
    if let Err(error) = read {
        // Deliveries are answered with 503 until it can be read, and GitHub's log shows why.
        tracing::error!(error = with_causes(&error), "starting without the webhook secret");
    }
    Ok(Webhook { signatures: secret, queue, app })
}
