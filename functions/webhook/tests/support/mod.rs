//! Deliveries from the gateway, a secret, and a queue that records messages.

use std::cell::RefCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use muster_aws::secrets::SecretError;
use muster_aws::signature;
use muster_control::ports::{Queue, QueueError, Unavailable};
use muster_domain::causes::Cause;
use muster_domain::ids::AppName;
use muster_domain::job::Actors;
use muster_domain::message::{JobsMessage, ReapMessage, WakePool};
use muster_domain::time::{Seconds, Time};
use muster_webhook::{GatewayEvent, Signatures, Webhook, WebhookResponse};
use serde_json::json;
use sha2::Sha256;

pub(crate) const NOW: Time = Time::from_millis(1_795_000_000_000);
pub(crate) const CURRENT: &str = "sample-secret-of-the-muster-events-folder";
pub(crate) const PREVIOUS: &str = "the-secret-before-the-current-one-of-the-app";
pub(crate) const QUEUED: &str =
    include_str!("../../../../events/payloads/workflow_job.queued.json");

/// Returns the value of `X-Hub-Signature-256`.
pub(crate) fn sign(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// A builder of deliveries.
#[derive(Clone)]
pub(crate) struct Knock {
    pub(crate) headers: Vec<(String, String)>,
    /// The body as in the gateway's event.
    pub(crate) body: String,
    pub(crate) base64: bool,
    /// What follows `/webhook/`.
    pub(crate) app: Option<String>,
}

impl Knock {
    /// A signed `workflow_job` delivery of this body.
    pub(crate) fn of(body: &str) -> Self {
        let headers = [
            ("content-type", "application/json"),
            ("x-github-event", "workflow_job"),
            ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
            ("x-github-hook-installation-target-id", "31415"),
            ("x-hub-signature-256", &sign(CURRENT, body.as_bytes())),
            ("user-agent", "GitHub-Hookshot/3c1d2e4"),
        ];
        let headers =
            headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        Self { headers, body: body.to_owned(), base64: false, app: None }
    }

    /// Replaces a header, in any case.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn signature(self, value: &str) -> Self {
        self.header("x-hub-signature-256", value)
    }

    /// Encodes the body as the gateway does for binary data.
    pub(crate) fn encoded(mut self) -> Self {
        self.body = STANDARD.encode(&self.body);
        self.base64 = true;
        self
    }

    /// Returns the gateway's event. Written manually, because a map of JSON values cannot have two
    /// equal names.
    pub(crate) fn json(&self) -> String {
        let headers: Vec<String> = self
            .headers
            .iter()
            .map(|(name, value)| format!("{}:{}", json!(name), json!(value)))
            .collect();
        let path = match &self.app {
            Some(app) => format!(r#""pathParameters":{},"#, json!({ "app": app })),
            None => r#""pathParameters":null,"#.to_owned(),
        };
        format!(
            r#"{{"version":"2.0",{path}"headers":{{{}}},"requestContext":{{"http":{{"method":"POST"}}}},"body":{},"isBase64Encoded":{}}}"#,
            headers.join(","),
            json!(self.body),
            self.base64
        )
    }

    pub(crate) fn event(&self) -> GatewayEvent {
        serde_json::from_str(&self.json()).expect("an event")
    }
}

/// Known secrets, or none.
pub(crate) struct Secrets(pub(crate) Result<Vec<&'static str>, SecretError>);

/// Secrets Manager does not answer.
pub(crate) fn unavailable(id: &str, why: &str) -> SecretError {
    SecretError::Unavailable { id: id.to_owned(), why: Cause::new(why) }
}

impl Signatures for Secrets {
    async fn is_signed(
        &self,
        app: AppName,
        body: &[u8],
        header: Option<&str>,
        _now: Time,
    ) -> Result<bool, SecretError> {
        let secrets = self.0.as_ref().map_err(Clone::clone)?;
        let own: Vec<String> =
            secrets.iter().map(|secret| signature::secret_of(app, secret)).collect();
        Ok(signature::is_valid(&own, header, body))
    }
}

/// A queue that accepts every message, or none.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) messages: RefCell<Vec<JobsMessage>>,
    pub(crate) calls: RefCell<usize>,
    pub(crate) closed: bool,
}

impl Queue for Taken {
    async fn send_jobs(&self, messages: &[JobsMessage]) -> Result<(), QueueError> {
        *self.calls.borrow_mut() += 1;
        if self.closed {
            return Err(QueueError(Unavailable::new("SendMessage: InternalError")));
        }
        self.messages.borrow_mut().extend_from_slice(messages);
        Ok(())
    }

    async fn send_wakes(&self, _wakes: &[WakePool], _delay: Seconds) -> Result<(), QueueError> {
        panic!("the webhook has no business there")
    }

    async fn send_reap(&self, _messages: &[ReapMessage]) -> Result<(), QueueError> {
        panic!("the webhook has no business there")
    }

    async fn hide(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        panic!("the webhook has no business there")
    }

    async fn hide_job(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        panic!("the webhook receives nothing")
    }

    async fn hide_wake(&self, _receipt: &str, _wait: Seconds) -> Result<(), QueueError> {
        panic!("the webhook receives nothing")
    }
}

pub(crate) fn webhook() -> Webhook<Secrets, Taken> {
    let signatures = Secrets(Ok(vec![CURRENT, PREVIOUS]));
    Webhook { signatures, queue: Taken::default(), actors: Actors::No }
}

/// Handles a delivery; returns the response and the number of queued messages.
pub(crate) fn handle(webhook: &Webhook<Secrets, Taken>, knock: &Knock) -> (WebhookResponse, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let answer = runtime.block_on(webhook.handle(&knock.event(), NOW));
    let count = webhook.queue.messages.borrow().len();
    (answer, count)
}
