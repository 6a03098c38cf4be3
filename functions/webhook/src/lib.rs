//! The webhook: the one door that strangers can knock at.
//!
//! It checks GitHub's signature over the raw bytes, reads the few fields that matter and puts a
//! message of our own on the jobs queue: one call, no table. Everything else is somebody else's
//! work, later.
//!
//! | answer | when |
//! |---|---|
//! | 202 | queued, or knowingly ignored; the reason is in GitHub's delivery log |
//! | 200 | `ping` |
//! | 400 | signed, but not a payload that we can read; a job's is counted, has an alarm, and GitHub is asked for what is queued there |
//! | 401 | not signed by GitHub: one body, whatever the reason |
//! | 413 | over 1 MiB |
//! | 415 | signed, but not JSON: the content_type of its webhook is not json |
//! | 503 | signed or not cannot be told, or the queue did not take it: GitHub shows the delivery as failed |

#![warn(missing_docs)]

mod decide;
mod event;
pub mod payload;

use muster_aws::secrets::{SecretError, WebhookSecret};
use muster_control::causes::with_causes;
use muster_control::ports::Queue;
use muster_domain::ids::Entity;
use muster_domain::message::JobsMessage;
use muster_domain::time::Time;

pub use self::decide::{DeliveryDecision, decide};
pub use self::event::{Answer, Body, Event, MAX_BODY, Value};
use self::payload::Origin;

/// Who can tell GitHub's signature from others.
#[expect(async_fn_in_trait, reason = "the function runs on one thread")]
pub trait Signatures {
    /// Whether `header` is GitHub's signature of `body`.
    ///
    /// # Errors
    /// When that cannot be told: no secret is known.
    async fn is_signed(
        &self,
        body: &[u8],
        header: Option<&str>,
        now: Time,
    ) -> Result<bool, SecretError>;
}

impl Signatures for WebhookSecret {
    async fn is_signed(
        &self,
        body: &[u8],
        header: Option<&str>,
        now: Time,
    ) -> Result<bool, SecretError> {
        Self::is_signed(self, body, header, now).await
    }
}

/// What a delivery is handled with.
pub struct Webhook<S, Q> {
    /// Checks signatures.
    pub signatures: S,
    /// Takes the messages.
    pub queue: Q,
}

impl<S: Signatures, Q: Queue> Webhook<S, Q> {
    /// Answers a delivery. Logs one line about it; never its body, and nothing of it that is not
    /// signed.
    pub async fn handle(&self, event: &Event, now: Time) -> Answer {
        let LoggedAnswer { verified, job, origin, error, answer } = self.process(event, now).await;
        let github_event = verified.then(|| event.github_event());
        // Neither the id nor the event's name is covered by the signature; both are cut to plain
        // text.
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

    async fn process(&self, event: &Event, now: Time) -> LoggedAnswer {
        let body = match event.body() {
            Body::Raw(body) => body,
            Body::TooLarge => return Answer::too_large().into(),
            // Nothing can be checked over what cannot be decoded.
            Body::Undecodable => return Answer::unsigned().into(),
        };
        match self.is_signed(&body, event, now).await {
            Ok(true) => {}
            Ok(false) => return Answer::unsigned().into(),
            Err(error) => {
                let error = Some(with_causes(&error));
                return LoggedAnswer { error, ..Answer::no_secret().into() };
            }
        }
        let logged = match decide(event, &body) {
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

    async fn is_signed(&self, body: &[u8], event: &Event, now: Time) -> Result<bool, SecretError> {
        match &event.headers.signature {
            Value::One(header) => self.signatures.is_signed(body, Some(header), now).await,
            // Two of them: we would have to choose which one to believe.
            Value::Missing | Value::Many => Ok(false),
        }
    }

    /// Whatever is queued in the event's repository is asked for. Where that cannot be queued, GitHub
    /// is to deliver the event again.
    async fn have_asked(&self, event: &Event, origin: &Origin, answer: Answer) -> Answer {
        let Origin { repository: Some(repository), installation } = origin.clone() else {
            return answer;
        };
        let delivery = event.delivery().to_owned();
        let message = JobsMessage::Unreadable { repository, installation, delivery };
        match self.queue.send_jobs(&[message]).await {
            Ok(()) => answer,
            Err(error) => {
                tracing::error!(error = with_causes(&error), "cannot queue an unreadable event");
                Answer::not_queued()
            }
        }
    }

    async fn enqueue(&self, message: JobsMessage) -> LoggedAnswer {
        let JobsMessage::JobEvent { event, .. } = &message else {
            unreachable!("deliveries become job events only")
        };
        let (key, status) = (event.key, event.status);
        let job = Some(key.to_string());
        match self.queue.send_jobs(&[message]).await {
            Ok(()) => LoggedAnswer { job, ..Answer::queued(key, status).into() },
            Err(error) => {
                let error = Some(with_causes(&error));
                LoggedAnswer { job, error, ..Answer::not_queued().into() }
            }
        }
    }
}

/// An answer, and what the log says about it.
struct LoggedAnswer {
    /// Signed by GitHub.
    verified: bool,
    job: Option<String>,
    /// Of a delivery whose job cannot be read.
    origin: Origin,
    error: Option<String>,
    answer: Answer,
}

impl From<Answer> for LoggedAnswer {
    fn from(answer: Answer) -> Self {
        Self { verified: false, job: None, origin: Origin::default(), error: None, answer }
    }
}
