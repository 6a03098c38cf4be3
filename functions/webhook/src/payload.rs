//! The fields of GitHub's `workflow_job` payload that the webhook reads.
//!
//! Source: docs.github.com/en/webhooks/webhook-events-and-payloads#workflow_job. Fields are
//! optional if GitHub omits them or writes null.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use muster_domain::ids::{AppName, Entity, EntityKind, InstallationId, JobKey, RunnerId};
use muster_domain::job::labels::Labels;
use muster_domain::job::{Actors, JobEvent, JobStatus};
use muster_domain::time::Time;

/// Maximum stored length of a name, in characters. Names are displayed, never interpreted. GitHub's
/// longest `owner/repo` has 140 characters; a runner's name, 64.
pub(crate) const MAX_NAME: usize = 200;
/// Maximum number of a job's labels, and maximum length of each, in bytes.
const MAX_LABELS: usize = 100;
const MAX_LABEL_LENGTH: usize = 256;

/// What a delivery requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryAction {
    /// A job event for the queue.
    Job(Box<JobEvent>),
    /// No action; the reason is shown in GitHub's delivery log.
    Ignored(String),
}

#[derive(Deserialize)]
struct Payload {
    action: String,
    workflow_job: WorkflowJob,
    repository: PayloadRepository,
    installation: Option<PayloadInstallation>,
    #[serde(default)]
    sender: Option<PayloadSender>,
    #[serde(default)]
    deployment: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WorkflowJob {
    id: u64,
    run_id: u64,
    #[serde(default)]
    run_attempt: Option<u32>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    workflow_name: Option<String>,
    #[serde(default)]
    head_branch: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    labels: Vec<String>,
    #[serde(default)]
    runner_name: Option<String>,
    #[serde(default)]
    runner_id: Option<u64>,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default)]
    created_at: Option<jiff::Timestamp>,
    #[serde(default)]
    started_at: Option<jiff::Timestamp>,
    #[serde(default)]
    completed_at: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
pub(crate) struct PayloadRepository {
    id: u64,
    pub(crate) full_name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) private: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) owner: PayloadOwner,
}

#[derive(Default, Deserialize)]
pub(crate) struct PayloadOwner {
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
}

#[derive(Deserialize)]
struct PayloadInstallation {
    id: u64,
}

#[derive(Deserialize)]
struct PayloadSender {
    #[serde(default)]
    login: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    kind: String,
}

/// Deserializes null as an omitted field.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    field: D,
) -> Result<T, D::Error> {
    Option::deserialize(field).map(Option::unwrap_or_default)
}

/// The origin of a payload that cannot be read as a job: GitHub sends some whose job is null
/// (runs-on #527, #528).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `owner/repo`.
    pub repository: Option<Entity>,
    /// The App's installation.
    pub installation: Option<InstallationId>,
}

impl Origin {
    /// Returns the readable parts of the origin, from any bytes.
    #[must_use]
    pub fn of(app: AppName, body: &[u8]) -> Self {
        let payload: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let name = payload["repository"]["full_name"].as_str();
        let repository = name.and_then(|name| repository_of(app, name).ok()?.parse().ok());
        Self {
            repository: repository.filter(|it: &Entity| it.kind() == EntityKind::Repository),
            installation: payload["installation"]["id"].as_u64().map(InstallationId),
        }
    }
}

/// Reads a `workflow_job` payload that was sent for this App. `actors`: whether to read who caused
/// the run.
///
/// # Errors
/// If it is not such a payload.
pub fn read_workflow_job(
    app: AppName,
    actors: Actors,
    body: &[u8],
) -> Result<DeliveryAction, serde_json::Error> {
    let payload: Payload = serde_json::from_slice(body)?;
    let status = match payload.action.as_str() {
        "waiting" => JobStatus::Waiting,
        "queued" => JobStatus::Queued,
        "in_progress" => JobStatus::InProgress,
        "completed" => JobStatus::Completed,
        other => {
            let action = cut(other);
            return Ok(DeliveryAction::Ignored(format!(
                "workflow_job action {action:?} needs no runner"
            )));
        }
    };
    let job = payload.workflow_job;
    let repository = match repository_of(app, &payload.repository.full_name) {
        Ok(repository) => repository,
        Err(reason) => return Ok(DeliveryAction::Ignored(reason)),
    };
    if job.labels.len() > MAX_LABELS
        || job.labels.iter().any(|label| label.len() > MAX_LABEL_LENGTH)
    {
        return Ok(DeliveryAction::Ignored(format!(
            "more than {MAX_LABELS} labels, or a label over {MAX_LABEL_LENGTH} bytes"
        )));
    }
    let kept = |text: Option<String>| text.filter(|text| !text.is_empty()).map(|text| cut(&text));
    let runner = kept(job.runner_name);
    // Other events are sent by whoever approved or cancelled the job, or by GitHub.
    let sender = payload.sender.filter(|_| status == JobStatus::Queued);
    let attempt = job.run_attempt.unwrap_or(1);
    // A job with a deployment may be queued again by the person who approves it.
    let by_person = attempt > 1
        && payload.deployment.is_none()
        && sender.as_ref().is_some_and(|sender| sender.kind == "User");
    let sender = sender.filter(|_| actors == Actors::Yes);
    Ok(DeliveryAction::Job(Box::new(JobEvent {
        key: JobKey { app, repository: payload.repository.id, job: job.id },
        status,
        repository: repository.into(),
        private: payload.repository.private,
        user_owned: payload.repository.owner.kind == "User",
        installation: payload.installation.map(|installation| InstallationId(installation.id)),
        run: job.run_id,
        attempt,
        name: cut(&job.name.unwrap_or_default()).into(),
        workflow: kept(job.workflow_name).map(Into::into),
        branch: kept(job.head_branch).map(Into::into),
        actor: sender.and_then(|sender| kept(sender.login)).map(Into::into),
        by_person,
        deploys: payload.deployment.is_some(),
        labels: Labels::new(&job.labels),
        // GitHub sends 0, with an empty name, at the end of a job that no runner took.
        runner_id: job.runner_id.filter(|id| *id != 0 && runner.is_some()).map(RunnerId),
        runner,
        conclusion: kept(job.conclusion),
        queued_at: job.created_at.map(time),
        // Before a runner takes the job, GitHub sets started_at to the queue time.
        started_at: job.started_at.filter(|_| status >= JobStatus::InProgress).map(time),
        completed_at: job.completed_at.map(time),
    })))
}

/// Returns a repository with its App's name. It is not cut: the name is a path at GitHub, and a
/// shortened one would identify a different repository.
///
/// # Errors
/// If it is too long, or contains the character that ends an App's name: one App's events never speak
/// for another.
pub(crate) fn repository_of(app: AppName, name: &str) -> Result<String, String> {
    if name.chars().count() > MAX_NAME {
        return Err(format!("a repository's name over {MAX_NAME} characters"));
    }
    if name.contains(':') {
        return Err("a repository's name with a colon".to_owned());
    }
    Ok(app.qualify(name))
}

/// Cuts a text of the payload to the maximum stored length.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

fn time(timestamp: jiff::Timestamp) -> Time {
    Time::from_millis(timestamp.as_millisecond())
}
