//! GitHub's API paths for the three kinds of entity.

use muster_domain::agent::AgentVersion;
use muster_domain::ids::{Entity, EntityKind};
use muster_domain::observation::RunOrigin;

/// Returns the path of an entity's runners.
pub(crate) fn runners(entity: &Entity) -> String {
    format!("{}/actions/runners", root(entity))
}

/// Returns the path of the agents for an entity's runners.
pub(crate) fn agents(entity: &Entity) -> String {
    format!("{}/downloads", runners(entity))
}

/// Returns the path of an agent version's deprecation dates.
pub(crate) fn deprecation(entity: &Entity, version: AgentVersion) -> String {
    format!("{}/deprecations/{version}", runners(entity))
}

/// Returns the path of one page of the runners with a name.
pub(crate) fn named(entity: &Entity, name: &str, size: usize, page: u32) -> String {
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("{}?name={name}&per_page={size}&page={page}", runners(entity))
}

/// Returns the path of the runner groups of an organization or enterprise.
pub(crate) fn groups(entity: &Entity) -> String {
    format!("{}/actions/runner-groups", root(entity))
}

/// Returns the path of a job. `None` if the text, which comes from a webhook payload, is not
/// `owner/repo`.
pub(crate) fn job(repository: &str, job: u64) -> Option<String> {
    repository_root(repository).map(|root| format!("{root}/actions/jobs/{job}"))
}

/// Returns the path of a workflow run. `None` as for [`job`].
pub(crate) fn run(repository: &str, run: u64) -> Option<String> {
    repository_root(repository).map(|root| format!("{root}/actions/runs/{run}"))
}

/// Returns the path of the latest runs of an origin. `None` as for [`job`].
pub(crate) fn runs_like(repository: &str, origin: &RunOrigin, size: usize) -> Option<String> {
    let root = repository_root(repository)?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("event", &origin.event);
    if let Some(branch) = &origin.branch {
        query.append_pair("branch", branch);
    }
    let (workflow, query) = (origin.workflow, query.finish());
    Some(format!("{root}/actions/workflows/{workflow}/runs?{query}&per_page={size}"))
}

/// Returns the path of a repository's runs in this state.
pub(crate) fn runs(repository: &Entity, status: &str, size: usize) -> String {
    format!("{}/actions/runs?status={status}&per_page={size}", root(repository))
}

/// Returns the path of one page of the jobs in a run's last attempt.
pub(crate) fn jobs_of(repository: &Entity, run: u64, size: usize, page: u32) -> String {
    let root = root(repository);
    format!("{root}/actions/runs/{run}/jobs?filter=latest&per_page={size}&page={page}")
}

fn repository_root(repository: &str) -> Option<String> {
    let entity: Entity = repository.parse().ok()?;
    (entity.kind() == EntityKind::Repository).then(|| root(&entity))
}

/// Returns the path of the App's installation on an entity.
pub(crate) fn installation(entity: &Entity) -> String {
    format!("{}/installation", root(entity))
}

/// Returns the root path of an entity. An entity's name consists of letters, digits, `.`, `_` and
/// `-` with at most one slash, so it needs no encoding. The segments `.` and `..` could still
/// change a path's meaning, but GitHub has no such names, and http clients do not resolve them.
fn root(entity: &Entity) -> String {
    let name = entity.name();
    match entity.kind() {
        EntityKind::Repository => format!("/repos/{name}"),
        EntityKind::Organization => format!("/orgs/{name}"),
        // The text already starts with `enterprises/`.
        EntityKind::Enterprise => format!("/{name}"),
    }
}
