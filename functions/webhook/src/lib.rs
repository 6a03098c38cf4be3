//! The webhook: the only endpoint that is open to the public.
//!
//! It checks GitHub's signature over the raw bytes, reads the few relevant fields and puts a
//! message on the jobs queue: one call, and no table access. All other work is done later by other
//! functions.
//!
//! | answer | when |
//! |---|---|
//! | 202 | queued, or deliberately ignored; the reason is in GitHub's delivery log |
//! | 200 | `ping` |
//! | 400 | signed, but not a readable payload; for a job event this raises an alarm, and Muster queries GitHub for queued jobs of that repository |
//! | 401 | not signed by GitHub; the body is identical for every reason |
//! | 413 | larger than 1 MiB |
//! | 415 | signed, but not JSON: the webhook's content_type is not json |
//! | 503 | the signature cannot be checked, or the queue did not accept the message: GitHub shows the delivery as failed |

#![warn(missing_docs)]

mod decide;
mod event;
pub mod forecast;
pub mod payload;

use muster_aws::secrets::{SecretError, WebhookSecret};
use muster_control::ports::Queue;
use muster_domain::causes::with_causes;
use muster_domain::ids::{AppName, Entity};
use muster_domain::job::Actors;
use muster_domain::message::JobsMessage;
use muster_domain::time::Time;

pub use self::decide::{DeliveryDecision, decide};
pub use self::event::{Body, GatewayEvent, MAX_BODY, Value, WebhookResponse};
use self::payload::Origin;

/// Verifies GitHub's signatures.
#[expect(async_fn_in_trait, reason = "the function runs on one thread")]
pub trait Signatures {
    /// Returns whether `header` is GitHub's signature of `body` with this App's secret.
    ///
    /// # Errors
    /// If that cannot be determined, because no secret is known.
    async fn is_signed(
        &self,
        app: AppName,
        body: &[u8],
        header: Option<&str>,
        now: Time,
    ) -> Result<bool, SecretError>;
}

impl Signatures for WebhookSecret {
    async fn is_signed(
        &self,
        app: AppName,
        body: &[u8],
        header: Option<&str>,
        now: Time,
    ) -> Result<bool, SecretError> {
        Self::is_signed(self, app, body, header, now).await
    }
}

/// The dependencies for handling a delivery.
pub struct Webhook<S, Q> {
    /// Verifies signatures.
    pub signatures: S,
    /// The queue for messages.
    pub queue: Q,
    /// Whether messages contain who caused a run.
    pub actors: Actors,
}

impl<S: Signatures, Q: Queue> Webhook<S, Q> {
    /// Responds to a delivery. Logs one line about it, which never contains the body or any
    /// unsigned part.
    pub async fn handle(&self, event: &GatewayEvent, now: Time) -> WebhookResponse {
        let LoggedAnswer { verified, job, origin, error, answer } = self.process(event, now).await;
        let github_event = verified.then(|| event.github_event());
        // Neither the ID nor the event's name is covered by the signature; both are reduced to
        // plain text.
        let delivery = event.delivery();
        match error {
            Some(error) => tracing::error!(
                delivery.id = delivery,
                github.event = github_event,
                job.id = job,
                repository = origin.repository.as_ref().map(Entity::as_str),
                installation = origin.installation.map(|installation| installation.0),
                http.status = answer.status,
                outcome = answer.outcome,
                error,
                "failed to handle a delivery"
            ),
            None => tracing::info!(
                delivery.id = delivery,
                github.event = github_event,
                job.id = job,
                http.status = answer.status,
                outcome = answer.outcome,
                "answered a delivery"
            ),
        }
        answer
    }

    async fn process(&self, event: &GatewayEvent, now: Time) -> LoggedAnswer {
        let body = match event.body() {
            Body::Raw(body) => body,
            Body::TooLarge => return WebhookResponse::too_large().into(),
            // A body that cannot be decoded has no verifiable signature.
            Body::Undecodable => return WebhookResponse::unsigned().into(),
        };
        // An address that belongs to no App has no secret.
        let Some(app) = event.app() else { return WebhookResponse::unsigned().into() };
        match self.is_signed(app, &body, event, now).await {
            Ok(true) => {}
            Ok(false) => return WebhookResponse::unsigned().into(),
            Err(error) => {
                let error = Some(with_causes(&error));
                return LoggedAnswer { error, ..WebhookResponse::no_secret().into() };
            }
        }
        let logged = match decide(event, app, self.actors, &body, now) {
            DeliveryDecision::Answer(answer) => answer.into(),
            DeliveryDecision::Enqueue(message) => self.enqueue(*message).await,
            DeliveryDecision::Unreadable { answer, origin, problem } => {
                let answer = self.have_asked(event, &origin, answer).await;
                let error = Some(format!("the event of a job cannot be read: {problem}"));
                LoggedAnswer { origin, error, ..answer.into() }
            }
        };
        LoggedAnswer { verified: true, ..logged }
    }

    async fn is_signed(
        &self,
        app: AppName,
        body: &[u8],
        event: &GatewayEvent,
        now: Time,
    ) -> Result<bool, SecretError> {
        match &event.headers.signature {
            Value::One(header) => self.signatures.is_signed(app, body, Some(header), now).await,
            // With two signatures, it would be arbitrary which one to trust.
            Value::Missing | Value::Many => Ok(false),
        }
    }

    /// Queues a query for all queued jobs of the event's repository. If that fails, makes GitHub
    /// redeliver the event.
    async fn have_asked(
        &self,
        event: &GatewayEvent,
        origin: &Origin,
        answer: WebhookResponse,
    ) -> WebhookResponse {
        let Origin { repository: Some(repository), installation } = origin.clone() else {
            return answer;
        };
        let delivery = event.delivery().to_owned();
        let message = JobsMessage::Unreadable { repository, installation, delivery };
        match self.queue.send_jobs(&[message]).await {
            Ok(()) => answer,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "cannot queue an unreadable event");
                WebhookResponse::not_queued()
            }
        }
    }

    async fn enqueue(&self, message: JobsMessage) -> LoggedAnswer {
        let (job, answer) = match &message {
            JobsMessage::JobEvent { event, .. } => {
                let answer = WebhookResponse::queued(event.key, event.status);
                (Some(event.key.to_string()), answer)
            }
            JobsMessage::Repository { event, .. } => (None, WebhookResponse::forecast(event)),
            JobsMessage::Unreadable { .. } | JobsMessage::WakePool(_) => {
                unreachable!("deliveries become events only")
            }
        };
        match self.queue.send_jobs(&[message]).await {
            Ok(()) => LoggedAnswer { job, ..answer.into() },
            Err(error) => {
                let error = Some(with_causes(&error));
                LoggedAnswer { job, error, ..WebhookResponse::not_queued().into() }
            }
        }
    }
}

/// A response, and the information to log about it.
struct LoggedAnswer {
    /// Whether GitHub signed the delivery.
    verified: bool,
    job: Option<String>,
    /// The origin of a delivery whose job cannot be read.
    origin: Origin,
    error: Option<String>,
    answer: WebhookResponse,
}

impl From<WebhookResponse> for LoggedAnswer {
    fn from(answer: WebhookResponse) -> Self {
        Self { verified: false, job: None, origin: Origin::default(), error: None, answer }
    }
}
