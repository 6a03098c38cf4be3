//! GitHub's paths for the three kinds of entity.

use muster_domain::agent::AgentVersion;
use muster_domain::ids::{Entity, EntityKind};

/// Where an entity's runners are.
pub(crate) fn runners(entity: &Entity) -> String {
    format!("{}/actions/runners", root(entity))
}

/// Where the agents for an entity's runners are listed.
pub(crate) fn agents(entity: &Entity) -> String {
    format!("{}/downloads", runners(entity))
}

/// When an agent's version is deprecated.
pub(crate) fn deprecation(entity: &Entity, version: AgentVersion) -> String {
    format!("{}/deprecations/{version}", runners(entity))
}

/// One page of the runners of a name.
pub(crate) fn named(entity: &Entity, name: &str, size: usize, page: u32) -> String {
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("{}?name={name}&per_page={size}&page={page}", runners(entity))
}

/// Where the runner groups of an organization or enterprise are.
pub(crate) fn groups(entity: &Entity) -> String {
    format!("{}/actions/runner-groups", root(entity))
}

/// A job of a repository; none when the text is no `owner/repo`. It comes from a payload and goes
/// into a path.
pub(crate) fn job(repository: &str, job: u64) -> Option<String> {
    repository_root(repository).map(|root| format!("{root}/actions/jobs/{job}"))
}

/// As [`job`], of a workflow run.
pub(crate) fn run(repository: &str, run: u64) -> Option<String> {
    repository_root(repository).map(|root| format!("{root}/actions/runs/{run}"))
}

/// The runs of a repository that are in this state.
pub(crate) fn runs(repository: &Entity, status: &str, size: usize) -> String {
    format!("{}/actions/runs?status={status}&per_page={size}", root(repository))
}

/// One page of the jobs of a run's last attempt.
pub(crate) fn jobs_of(repository: &Entity, run: u64, size: usize, page: u32) -> String {
    let root = root(repository);
    format!("{root}/actions/runs/{run}/jobs?filter=latest&per_page={size}&page={page}")
}

fn repository_root(repository: &str) -> Option<String> {
    let entity: Entity = repository.parse().ok()?;
    (entity.kind() == EntityKind::Repository).then(|| root(&entity))
}

/// Where the App's installation on an entity is looked up.
pub(crate) fn installation(entity: &Entity) -> String {
    format!("{}/installation", root(entity))
}

/// An entity's text is letters, digits, `.`, `_` and `-` around one slash at most, so it needs no
/// encoding. What could still change a path's meaning are the segments `.` and `..`: GitHub has no
/// such names, and http clients do not fold them.
fn root(entity: &Entity) -> String {
    match entity.kind() {
        EntityKind::Repository => format!("/repos/{entity}"),
        EntityKind::Organization => format!("/orgs/{entity}"),
        // The text already starts with `enterprises/`.
        EntityKind::Enterprise => format!("/{entity}"),
    }
}
