//! What a signed delivery asks for.

use crate::payload::{Delivery, Origin, cut, read_workflow_job};
use muster_domain::job::JobStatus;
use muster_domain::message::JobsMessage;

use crate::event::{Answer, Event, Value};

/// What to do with a signed delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryDecision {
    /// Nothing but to answer.
    Answer(Answer),
    /// Queue this, then answer.
    Enqueue(Box<JobsMessage>),
    /// A job's event that cannot be read.
    Unreadable {
        /// What GitHub hears.
        answer: Answer,
        /// Where it comes from.
        origin: Origin,
        /// What is wrong, without a word of the body.
        problem: String,
    },
}

/// Judges a delivery whose signature is valid. Which App it was sent for is not asked: the secret is
/// this stack's own, so the signature has said it. A number that is compared besides could only be
/// mistyped, and would answer 202 to deliveries that are lost then.
#[must_use]
pub fn decide(event: &Event, body: &[u8]) -> DeliveryDecision {
    let headers = &event.headers;
    if !is_json(&headers.content_type) {
        return DeliveryDecision::Answer(Answer::not_json());
    }
    DeliveryDecision::Answer(match headers.event.one() {
        Some("workflow_job") => return job(event, body),
        Some("ping") => Answer::pong(),
        Some(_) => Answer::ignored("only workflow_job events start runners"),
        None => Answer::malformed("there is not exactly one X-GitHub-Event header"),
    })
}

fn job(event: &Event, body: &[u8]) -> DeliveryDecision {
    let job = match read_workflow_job(body) {
        Ok(Delivery::Job(job)) => job,
        Ok(Delivery::Ignored(reason)) => return DeliveryDecision::Answer(Answer::ignored(reason)),
        Err(problem) => {
            let (line, column) = (problem.line(), problem.column());
            return DeliveryDecision::Unreadable {
                answer: Answer::unreadable(cut(&format!("not a workflow_job payload: {problem}"))),
                origin: Origin::of(body),
                problem: format!("{:?} at line {line} column {column}", problem.classify()),
            };
        }
    };
    // Without labels it asks for nothing of ours. Later events count all the same: some of them
    // leave out the labels of a job that we serve.
    if job.labels.is_empty() && job.status <= JobStatus::Queued {
        return DeliveryDecision::Answer(Answer::ignored("the job asks for no label"));
    }
    let delivery = event.delivery().to_owned();
    DeliveryDecision::Enqueue(Box::new(JobsMessage::JobEvent { event: job, delivery }))
}

/// `application/json`, with or without parameters.
fn is_json(content_type: &Value) -> bool {
    let text = content_type.one().unwrap_or_default();
    let kind = text.split_once(';').map_or(text, |(kind, _)| kind);
    kind.trim().eq_ignore_ascii_case("application/json")
}
