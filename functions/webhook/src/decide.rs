//! The decision about a signed delivery.

use crate::payload::{DeliveryAction, Origin, cut, read_workflow_job};
use muster_domain::ids::AppName;
use muster_domain::job::{Actors, JobStatus};
use muster_domain::message::JobsMessage;
use muster_domain::pool::warm::WarmEvent;
use muster_domain::time::Time;

use crate::event::{GatewayEvent, Value, WebhookResponse};
use crate::forecast::read_forecast;

/// What to do with a signed delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryDecision {
    /// Only respond.
    Answer(WebhookResponse),
    /// Queue this message, then respond.
    Enqueue(Box<JobsMessage>),
    /// A job event that cannot be read.
    Unreadable {
        /// The response to GitHub.
        answer: WebhookResponse,
        /// The repository and installation that it came from.
        origin: Origin,
        /// The problem, without any part of the body.
        problem: String,
    },
}

/// Decides about a delivery to this App's address whose signature is valid. It does not compare App
/// IDs: the secret belongs to this App of this stack only, so the signature proves that. An ID to
/// compare could only be mistyped, and the webhook would then answer 202 to deliveries that are
/// lost.
#[must_use]
pub fn decide(
    event: &GatewayEvent,
    app: AppName,
    actors: Actors,
    body: &[u8],
    now: Time,
) -> DeliveryDecision {
    let headers = &event.headers;
    if !is_json(&headers.content_type) {
        return DeliveryDecision::Answer(WebhookResponse::not_json());
    }
    DeliveryDecision::Answer(match headers.event.one() {
        Some("workflow_job") => return job(event, app, actors, body),
        Some("ping") => WebhookResponse::pong(),
        Some(name) => match WarmEvent::ALL.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => return forecast(event, *kind, app, body, now),
            None => WebhookResponse::ignored("only workflow_job events start runners"),
        },
        None => WebhookResponse::malformed("there is not exactly one X-GitHub-Event header"),
    })
}

/// Which pools want the event is decided later: the webhook reads no table. The App sends these
/// events only if it is subscribed to them, so a stack without `warm_on` gets no such messages.
fn forecast(
    event: &GatewayEvent,
    kind: WarmEvent,
    app: AppName,
    body: &[u8],
    now: Time,
) -> DeliveryDecision {
    match read_forecast(kind, app, body, now) {
        Ok(forecast) => DeliveryDecision::Enqueue(Box::new(JobsMessage::Repository {
            event: Box::new(forecast),
            delivery: event.delivery().to_owned(),
        })),
        Err(reason) => DeliveryDecision::Answer(WebhookResponse::ignored(reason)),
    }
}

fn job(event: &GatewayEvent, app: AppName, actors: Actors, body: &[u8]) -> DeliveryDecision {
    let job = match read_workflow_job(app, actors, body) {
        Ok(DeliveryAction::Job(job)) => job,
        Ok(DeliveryAction::Ignored(reason)) => {
            return DeliveryDecision::Answer(WebhookResponse::ignored(reason));
        }
        Err(problem) => {
            let (line, column) = (problem.line(), problem.column());
            return DeliveryDecision::Unreadable {
                answer: WebhookResponse::unreadable(cut(&format!(
                    "not a workflow_job payload: {problem}"
                ))),
                origin: Origin::of(app, body),
                problem: format!("{:?} at line {line} column {column}", problem.classify()),
            };
        }
    };
    // Without labels, a job does not concern Muster. Later events are processed nevertheless: some
    // of them omit the labels of a job that a pool serves.
    if job.labels.is_empty() && job.status <= JobStatus::Queued {
        return DeliveryDecision::Answer(WebhookResponse::ignored("the job requests no label"));
    }
    let delivery = event.delivery().to_owned();
    DeliveryDecision::Enqueue(Box::new(JobsMessage::JobEvent { event: job, delivery }))
}

/// Returns whether the type is `application/json`, with or without parameters.
fn is_json(content_type: &Value) -> bool {
    let text = content_type.one().unwrap_or_default();
    let kind = text.split_once(';').map_or(text, |(kind, _)| kind);
    kind.trim().eq_ignore_ascii_case("application/json")
}
