//! The routes of the GitHub door.

use axum::http::{Method, Uri};

use super::pages::Page;
use muster_cloud::github::{GitHubError, RunnerScope};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    AccessToken(u64),
    GetApp,
    GetHook,
    SetHook,
    Convert(String),
    Page(Page),
    ListDeliveries,
    Redeliver(u64),
    ListInstallations,
    GetInstallation(RunnerScope),
    ListRepositories,
    ListGroups(RunnerScope),
    GenerateJit(RunnerScope),
    ListRunners(RunnerScope),
    ListAgents(RunnerScope),
    GetRunner(RunnerScope, u64),
    DeleteRunner(RunnerScope, u64),
    GetJob { owner: String, repo: String, id: u64 },
    ListRuns { owner: String, repo: String },
    GetRun { owner: String, repo: String, run: u64 },
    RunJobs { owner: String, repo: String, run: u64 },
    AttemptJobs { owner: String, repo: String, run: u64, attempt: u32 },
    LatestRuns { owner: String, repo: String, workflow: u64 },
    RerunJob { owner: String, repo: String, id: u64 },
    RerunFailed { owner: String, repo: String, run: u64 },
    Unknown(String),
}

impl Route {
    /// GitHub Enterprise Server puts `/api/v3` before every path.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let short = path.strip_prefix("/api/v3").unwrap_or(path);
        let segments: Vec<&str> = short.trim_matches('/').split('/').collect();
        let page = || Page::find(method, &segments).map(Self::Page);
        Self::find(method, &segments)
            .or_else(page)
            .unwrap_or_else(|| Self::Unknown(format!("{method} {path}")))
    }

    fn find(method: &Method, segments: &[&str]) -> Option<Self> {
        let (scope, rest) = match segments {
            ["app", "installations", id, "access_tokens"] if method == Method::POST => {
                return Some(Self::AccessToken(id.parse().ok()?));
            }
            ["app"] if method == Method::GET => return Some(Self::GetApp),
            ["app", "hook", "config"] if method == Method::GET => return Some(Self::GetHook),
            ["app", "hook", "config"] if method == Method::PATCH => return Some(Self::SetHook),
            ["app-manifests", code, "conversions"] if method == Method::POST => {
                return Some(Self::Convert((*code).to_owned()));
            }
            ["app", "hook", "deliveries"] if method == Method::GET => {
                return Some(Self::ListDeliveries);
            }
            ["app", "hook", "deliveries", id, "attempts"] if method == Method::POST => {
                return Some(Self::Redeliver(id.parse().ok()?));
            }
            ["app", "installations"] if method == Method::GET => {
                return Some(Self::ListInstallations);
            }
            ["installation", "repositories"] if method == Method::GET => {
                return Some(Self::ListRepositories);
            }
            [kind, .., "installation"] if method == Method::GET => {
                let scope = match (*kind, &segments[1..segments.len() - 1]) {
                    ("orgs", [org]) => RunnerScope::Organization((*org).to_owned()),
                    ("enterprises", [slug]) => RunnerScope::Enterprise((*slug).to_owned()),
                    ("repos", [owner, repo]) => {
                        let (owner, name) = ((*owner).to_owned(), (*repo).to_owned());
                        RunnerScope::Repository { owner, name }
                    }
                    _ => return None,
                };
                return Some(Self::GetInstallation(scope));
            }
            ["orgs", org, "actions", rest @ ..] => {
                (RunnerScope::Organization((*org).to_owned()), rest)
            }
            ["enterprises", slug, "actions", rest @ ..] => {
                (RunnerScope::Enterprise((*slug).to_owned()), rest)
            }
            ["repos", owner, repo, "actions", rest @ ..] => {
                let (owner, name) = ((*owner).to_owned(), (*repo).to_owned());
                (RunnerScope::Repository { owner, name }, rest)
            }
            _ => return None,
        };
        match (method.as_str(), rest) {
            ("POST", ["runners", "generate-jitconfig"]) => Some(Self::GenerateJit(scope)),
            ("GET", ["runners"]) => Some(Self::ListRunners(scope)),
            ("GET", ["runners", "downloads"]) => Some(Self::ListAgents(scope)),
            ("GET", ["runners", id]) => Some(Self::GetRunner(scope, id.parse().ok()?)),
            ("DELETE", ["runners", id]) => Some(Self::DeleteRunner(scope, id.parse().ok()?)),
            // A repository has none.
            ("GET", ["runner-groups"]) if !matches!(scope, RunnerScope::Repository { .. }) => {
                Some(Self::ListGroups(scope))
            }
            ("POST", rest) => Self::reruns(scope, rest),
            ("GET", rest) => Self::of_repository(scope, rest),
            _ => None,
        }
    }

    fn of_repository(scope: RunnerScope, rest: &[&str]) -> Option<Self> {
        let RunnerScope::Repository { owner, name: repo } = scope else { return None };
        match rest {
            ["jobs", id] => Some(Self::GetJob { owner, repo, id: id.parse().ok()? }),
            ["runs"] => Some(Self::ListRuns { owner, repo }),
            ["runs", run] => Some(Self::GetRun { owner, repo, run: run.parse().ok()? }),
            ["runs", run, "jobs"] => Some(Self::RunJobs { owner, repo, run: run.parse().ok()? }),
            ["runs", run, "attempts", attempt, "jobs"] => {
                let (run, attempt) = (run.parse().ok()?, attempt.parse().ok()?);
                Some(Self::AttemptJobs { owner, repo, run, attempt })
            }
            ["workflows", workflow, "runs"] => {
                Some(Self::LatestRuns { owner, repo, workflow: workflow.parse().ok()? })
            }
            _ => None,
        }
    }

    fn reruns(scope: RunnerScope, rest: &[&str]) -> Option<Self> {
        let RunnerScope::Repository { owner, name: repo } = scope else { return None };
        match rest {
            ["jobs", id, "rerun"] => Some(Self::RerunJob { owner, repo, id: id.parse().ok()? }),
            ["runs", run, "rerun-failed-jobs"] => {
                Some(Self::RerunFailed { owner, repo, run: run.parse().ok()? })
            }
            _ => None,
        }
    }

    /// The name in the call log.
    pub(super) fn operation(&self) -> &'static str {
        match self {
            Self::AccessToken(_) => "access-token",
            Self::GetApp => "get-app",
            Self::GetHook => "get-hook",
            Self::SetHook => "set-hook",
            Self::Convert(_) => "convert-manifest",
            Self::Page(_) => "page",
            Self::ListDeliveries => "list-deliveries",
            Self::Redeliver(_) => "redeliver",
            Self::ListInstallations => "list-installations",
            Self::GetInstallation(_) => "get-installation",
            Self::ListRepositories => "list-repositories",
            Self::ListGroups(_) => "list-runner-groups",
            Self::GenerateJit(_) => "generate-jitconfig",
            Self::ListRunners(_) => "list-runners",
            Self::ListAgents(_) => "list-agents",
            Self::GetRunner(..) => "get-runner",
            Self::DeleteRunner(..) => "delete-runner",
            Self::GetJob { .. } => "get-job",
            Self::ListRuns { .. } => "list-runs",
            Self::GetRun { .. } => "get-run",
            Self::RunJobs { .. } => "list-run-jobs",
            Self::AttemptJobs { .. } => "list-attempt-jobs",
            Self::LatestRuns { .. } => "list-latest-runs",
            Self::RerunJob { .. } | Self::RerunFailed { .. } => "rerun",
            Self::Unknown(_) => "unknown",
        }
    }

    pub(super) fn scope(&self) -> Option<RunnerScope> {
        match self {
            Self::GetInstallation(scope)
            | Self::ListGroups(scope)
            | Self::GenerateJit(scope)
            | Self::ListRunners(scope)
            | Self::ListAgents(scope)
            | Self::GetRunner(scope, _)
            | Self::DeleteRunner(scope, _) => Some(scope.clone()),
            Self::GetJob { owner, repo, .. }
            | Self::ListRuns { owner, repo }
            | Self::GetRun { owner, repo, .. }
            | Self::RunJobs { owner, repo, .. }
            | Self::AttemptJobs { owner, repo, .. }
            | Self::LatestRuns { owner, repo, .. }
            | Self::RerunJob { owner, repo, .. }
            | Self::RerunFailed { owner, repo, .. } => {
                Some(RunnerScope::Repository { owner: owner.clone(), name: repo.clone() })
            }
            Self::AccessToken(_)
            | Self::GetApp
            | Self::GetHook
            | Self::SetHook
            | Self::Convert(_)
            | Self::Page(_)
            | Self::ListDeliveries
            | Self::Redeliver(_)
            | Self::ListInstallations
            | Self::ListRepositories
            | Self::Unknown(_) => None,
        }
    }

    pub(super) fn targets(&self) -> Vec<String> {
        match self {
            Self::GetRunner(_, id)
            | Self::DeleteRunner(_, id)
            | Self::AccessToken(id)
            | Self::Redeliver(id) => {
                vec![id.to_string()]
            }
            Self::GetJob { owner, repo, id } | Self::RerunJob { owner, repo, id } => {
                vec![format!("{owner}/{repo}"), id.to_string()]
            }
            Self::ListRuns { owner, repo } | Self::LatestRuns { owner, repo, .. } => {
                vec![format!("{owner}/{repo}")]
            }
            Self::GetRun { owner, repo, run }
            | Self::RunJobs { owner, repo, run }
            | Self::AttemptJobs { owner, repo, run, .. }
            | Self::RerunFailed { owner, repo, run } => {
                vec![format!("{owner}/{repo}"), run.to_string()]
            }
            Self::Unknown(what) => vec![what.clone()],
            Self::GetApp
            | Self::GetHook
            | Self::SetHook
            | Self::Convert(_)
            | Self::Page(_)
            | Self::ListDeliveries
            | Self::ListInstallations
            | Self::GetInstallation(_)
            | Self::ListRepositories
            | Self::ListGroups(_)
            | Self::GenerateJit(_)
            | Self::ListRunners(_)
            | Self::ListAgents(_) => vec![],
        }
    }
}

pub(super) fn query(uri: &Uri) -> Vec<(String, String)> {
    let query = uri.query().unwrap_or_default().as_bytes();
    form_urlencoded::parse(query).into_owned().collect()
}

/// Number (from 1) and size of the page that was asked for.
pub(super) fn page_of(query: &[(String, String)]) -> Result<(usize, usize), GitHubError> {
    let number = |name: &str, otherwise: usize| {
        query.iter().find(|(key, _)| key == name).map_or(Ok(otherwise), |(_, value)| {
            value
                .parse::<usize>()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| GitHubError::new(422, format!("{name} is not valid")))
        })
    };
    Ok((number("page", 1)?, number("per_page", 30)?.min(100)))
}
