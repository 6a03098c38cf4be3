//! GitHub's own way of writing runners, jobs and events.

use serde_json::{Value, json};

use super::{GitHub, Job, JobStatus, Owner, OwnerKind, Runner, Scope};
use crate::{Millis, rfc3339};

impl GitHub {
    /// A runner as the REST API shows it, lies included.
    #[must_use]
    pub fn runner_view(&self, runner: &Runner, now: Millis, offline_after: Millis) -> Value {
        let session = runner.session.as_ref().and_then(|id| self.sessions.get(id));
        // A process that said good-bye is offline at once, one that fell silent only later; what
        // GitHub cannot know (the machine has no power) does not count.
        let online = session.is_some_and(|s| !s.left && now < s.last_seen + offline_after);
        json!({
            "id": runner.id,
            "name": runner.name,
            "os": if session.is_some() { "Linux" } else { "unknown" },
            "status": if online { "online" } else { "offline" },
            "busy": self.looks_busy(runner, now),
            "ephemeral": true,
            "runner_group_id": runner.group_id,
            "labels": labels(runner),
        })
    }

    fn looks_busy(&self, runner: &Runner, now: Millis) -> bool {
        let Some(job) = self.job_of(runner).and_then(|id| self.jobs.get(&id)) else {
            return false;
        };
        let lies = self.owner(runner.scope.owner()).map(|owner| &owner.spec.lies);
        let age = now - job.started_at.unwrap_or(now);
        let lying = lies.is_some_and(|lies| {
            lies.busy_false_from_ms.is_some_and(|from| age >= from)
                && lies.busy_false_until_ms.is_none_or(|until| age < until)
        });
        !lying
    }

    /// A job as the REST API shows it.
    #[must_use]
    pub fn job_view(&self, job: &Job) -> Value {
        let mut view = self.workflow_job(job, "https://api.github.com");
        view["steps"] = json!([]);
        view
    }

    fn workflow_job(&self, job: &Job, api: &str) -> Value {
        let repository = format!("{}/{}", job.repository.owner, job.repository.name);
        let (id, run) = (job.id, job.run_id);
        let runner = job.runner.as_ref();
        let group = runner.and_then(|r| {
            let owner = self.owner(&job.repository.owner)?;
            Some(owner.group(r.group_id)?.name)
        });
        // A job that ends without ever having had a runner names runner 0 with an empty name.
        let none = match job.status {
            JobStatus::Completed => (json!(0), json!("")),
            _ => (Value::Null, Value::Null),
        };
        json!({
            "id": id,
            "run_id": run,
            "run_attempt": job.run_attempt,
            "run_url": format!("{api}/repos/{repository}/actions/runs/{run}"),
            "node_id": format!("CR_{id}"),
            "workflow_name": job.spec.workflow,
            "head_branch": "main",
            "head_sha": "0123456789abcdef0123456789abcdef01234567",
            "url": format!("{api}/repos/{repository}/actions/jobs/{id}"),
            "html_url": format!("https://github.com/{repository}/actions/runs/{run}/job/{id}"),
            "check_run_url": format!("{api}/repos/{repository}/check-runs/{id}"),
            "status": job.status.name(),
            "conclusion": job.conclusion,
            "created_at": rfc3339(job.queued_at),
            "started_at": rfc3339(job.started_at.unwrap_or(job.queued_at)),
            "completed_at": job.completed_at.map(rfc3339),
            "name": job.spec.name,
            "steps": [],
            "labels": job.spec.labels,
            "runner_id": runner.map_or(none.0.clone(), |r| json!(r.id)),
            "runner_name": runner.map_or(none.1.clone(), |r| json!(r.name)),
            "runner_group_id": runner.map_or(none.0, |r| json!(r.group_id)),
            "runner_group_name": group.map_or(none.1, Value::String),
        })
    }

    /// The body of a `workflow_job` event, and the owner whose App gets it.
    pub(super) fn workflow_job_event(&self, id: u64, action: &str) -> Option<(String, Value)> {
        let job = self.jobs.get(&id)?;
        let owner = self.owner(&job.repository.owner)?;
        let login = owner.spec.owner.clone();
        let repository = &job.repository;
        let mut body = json!({
            "action": action,
            "workflow_job": self.workflow_job(job, "https://api.github.com"),
            "repository": {
                "id": repository.id,
                "node_id": format!("R_{}", repository.id),
                "name": repository.name,
                "full_name": format!("{}/{}", repository.owner, repository.name),
                "private": repository.private,
                "visibility": if repository.private { "private" } else { "public" },
                "owner": account(owner),
                "html_url": format!("https://github.com/{}/{}", repository.owner, repository.name),
                "fork": false,
                "default_branch": "main",
            },
            "sender": { "login": "octocat", "id": 583_231, "type": "User", "site_admin": false },
            "installation": {
                "id": owner.spec.installation_id,
                "node_id": format!("I_{}", owner.spec.installation_id),
            },
        });
        if owner.spec.kind == OwnerKind::Organization {
            body["organization"] = json!({ "login": login, "id": owner.id });
        }
        if let Some(slug) = &owner.spec.enterprise {
            body["enterprise"] = json!({ "slug": slug, "name": slug, "id": 1 });
        }
        Some((login, body))
    }

    /// The installations of an App.
    #[must_use]
    pub fn installations_view(&self, app: &str) -> Vec<Value> {
        let owners = self.owners.values().filter(|owner| owner.spec.app_id == app);
        owners.map(installation).collect()
    }

    /// An App's installation that covers a scope.
    #[must_use]
    pub fn installation_view(&self, app: &str, scope: &Scope) -> Option<Value> {
        let owner = self.owner(scope.owner()).filter(|owner| owner.spec.app_id == app)?;
        Some(installation(owner))
    }

    /// The repositories of an account, as far as a job was ever queued there.
    #[must_use]
    pub fn repositories_view(&self, login: &str) -> Vec<Value> {
        let theirs = self.repositories.values();
        theirs
            .filter(|repository| repository.owner.eq_ignore_ascii_case(login))
            .map(|repository| {
                json!({
                    "id": repository.id,
                    "node_id": format!("R_{}", repository.id),
                    "name": repository.name,
                    "full_name": format!("{}/{}", repository.owner, repository.name),
                    "private": repository.private,
                })
            })
            .collect()
    }

    /// The runner groups of an organization or enterprise.
    #[must_use]
    pub fn groups_view(&self, login: &str) -> Vec<Value> {
        let groups = self.owner(login).into_iter().flat_map(Owner::groups);
        groups
            .map(|group| {
                json!({
                    "id": group.id,
                    "name": group.name,
                    "default": group.id == 1,
                    "visibility": "all",
                    "allows_public_repositories": group.public_repositories,
                    "inherited": false,
                })
            })
            .collect()
    }

    /// The runs of a repository whose jobs (one at least) are in this state.
    #[must_use]
    pub fn runs_view(&self, owner: &str, name: &str, status: Option<&str>) -> Vec<Value> {
        let mut runs: Vec<&Job> = self
            .jobs
            .values()
            .filter(|job| in_repository(job, owner, name))
            .filter(|job| status.is_none_or(|status| job.status.name() == status))
            .collect();
        runs.sort_by_key(|job| std::cmp::Reverse(job.run_id));
        runs.dedup_by_key(|job| job.run_id);
        runs.iter()
            .map(|job| {
                json!({
                    "id": job.run_id,
                    "name": job.spec.workflow,
                    "run_attempt": job.run_attempt,
                    "status": job.status.name(),
                    "conclusion": job.conclusion,
                    "created_at": rfc3339(job.queued_at),
                })
            })
            .collect()
    }

    /// The jobs of a run.
    #[must_use]
    pub fn run_jobs_view(&self, owner: &str, name: &str, run: u64) -> Vec<Value> {
        let jobs = self.jobs.values().filter(|job| job.run_id == run);
        jobs.filter(|job| in_repository(job, owner, name)).map(|job| self.job_view(job)).collect()
    }
}

fn in_repository(job: &Job, owner: &str, name: &str) -> bool {
    job.repository.owner.eq_ignore_ascii_case(owner)
        && job.repository.name.eq_ignore_ascii_case(name)
}

fn installation(owner: &Owner) -> Value {
    let target = match owner.spec.kind {
        OwnerKind::User => "User",
        OwnerKind::Organization => "Organization",
        OwnerKind::Enterprise => "Enterprise",
    };
    let account = match owner.spec.kind {
        OwnerKind::Enterprise => {
            json!({ "id": owner.id, "slug": owner.spec.owner, "name": owner.spec.owner })
        }
        OwnerKind::User | OwnerKind::Organization => account(owner),
    };
    json!({
        "id": owner.spec.installation_id,
        "account": account,
        "target_id": owner.id,
        "target_type": target,
        "repository_selection": "all",
        "suspended_at": null,
    })
}

fn account(owner: &Owner) -> Value {
    let kind = match owner.spec.kind {
        OwnerKind::User => "User",
        OwnerKind::Organization | OwnerKind::Enterprise => "Organization",
    };
    json!({ "login": owner.spec.owner, "id": owner.id, "type": kind, "site_admin": false })
}

fn labels(runner: &Runner) -> Vec<Value> {
    runner
        .labels
        .iter()
        .zip(1..)
        .map(|(name, id)| json!({ "id": id, "name": name, "type": "custom" }))
        .collect()
}
