//! GitHub's own way of writing runners, jobs and events.

use serde_json::{Value, json};

use super::runs::in_repository;
use super::{
    Delivery, GitHub, Job, JobStatus, Owner, OwnerKind, Repository, Runner, RunnerScope, Webhook,
};
use crate::{Millis, rfc3339};

/// A runner as GitHub shows it, lies included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerView {
    pub id: u64,
    pub name: String,
    /// A process of it was there.
    pub has_come: bool,
    pub online: bool,
    pub busy: bool,
    pub group_id: u64,
    pub labels: Vec<String>,
}

impl RunnerView {
    /// As the REST API writes it.
    #[must_use]
    pub fn json(&self) -> Value {
        let label =
            |(id, name): (u32, &String)| json!({ "id": id, "name": name, "type": "custom" });
        json!({
            "id": self.id,
            "name": self.name,
            "os": if self.has_come { "Linux" } else { "unknown" },
            "status": if self.online { "online" } else { "offline" },
            "busy": self.busy,
            "ephemeral": true,
            "runner_group_id": self.group_id,
            "labels": (1..).zip(&self.labels).map(label).collect::<Vec<_>>(),
        })
    }
}

impl GitHub {
    /// A runner as GitHub shows it.
    #[must_use]
    pub fn see(&self, runner: &Runner, now: Millis, offline_after: Millis) -> RunnerView {
        let session = self.session(runner.id);
        RunnerView {
            id: runner.id,
            name: runner.name.clone(),
            has_come: session.is_some(),
            // A process that said good-bye is offline at once, one that fell silent only later;
            // what GitHub cannot know (the machine has no power) does not count.
            online: session.is_some_and(|s| !s.left && now < s.last_seen + offline_after),
            busy: self.looks_busy(runner, now),
            group_id: runner.group_id,
            labels: runner.labels.clone(),
        }
    }

    /// The process of a registration, as it is in truth.
    #[must_use]
    pub fn session_view(&self, runner: u64) -> Option<Value> {
        let mut view = serde_json::to_value(self.session(runner)?).unwrap_or_default();
        view["listening"] = json!(self.idle().contains(&runner));
        Some(view)
    }

    fn looks_busy(&self, runner: &Runner, now: Millis) -> bool {
        let Some(job) = self.job_on(runner.id).and_then(|id| self.jobs.get(&id)) else {
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

    /// A delivery as it leaves GitHub.
    #[must_use]
    pub fn webhook(&self, delivery: &Delivery) -> Option<Webhook> {
        let owner = self.owner(delivery.owner())?;
        Some(Webhook {
            number: delivery.number,
            guid: delivery.guid(),
            owner: owner.spec.owner.clone(),
            app_id: owner.spec.app_id.clone(),
            event: "workflow_job".to_owned(),
            action: delivery.action().to_owned(),
            job: delivery.job.id,
            body: self.workflow_job_event(&delivery.job, owner),
        })
    }

    /// A delivery and what became of it.
    #[must_use]
    pub fn delivery_view(&self, delivery: &Delivery) -> Value {
        let mut view = serde_json::to_value(self.webhook(delivery)).unwrap_or_default();
        view["created_at"] = json!(delivery.created_at);
        view["sent"] = json!(delivery.sent);
        view["suppressed"] = json!(delivery.suppressed);
        view["answer"] = json!(delivery.answer);
        view
    }

    /// The body of a `workflow_job` event.
    fn workflow_job_event(&self, job: &Job, owner: &Owner) -> Value {
        let login = &owner.spec.owner;
        let repository = &job.repository;
        // Not documented: who the sender is if an App re-runs a job.
        let sender = match self.is_by_app(job.run_id, job.run_attempt) {
            true => ("muster[bot]", "Bot"),
            false => ("octocat", "User"),
        };
        let mut body = json!({
            "action": job.status.name(),
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
            "sender": { "login": sender.0, "id": 583_231, "type": sender.1, "site_admin": false },
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
        body
    }

    /// The installations of an App.
    #[must_use]
    pub fn installations_view(&self, app: &str) -> Vec<Value> {
        let owners = self.owners.values().filter(|owner| owner.spec.app_id == app);
        owners.map(|owner| self.installed(owner)).collect()
    }

    /// An App's installation that covers a scope.
    #[must_use]
    pub fn installation_view(&self, app: &str, scope: &RunnerScope) -> Option<Value> {
        let owner = self.owner(scope.owner()).filter(|owner| owner.spec.app_id == app)?;
        Some(self.installed(owner))
    }

    /// An App as it sees itself. It belongs to the first account that installed it.
    #[must_use]
    pub fn app_view(&self, app: &str) -> Option<Value> {
        if let Some(made) = self.made_view(self.apps.get(app)?) {
            return Some(made);
        }
        let settings = self.app_settings(app)?;
        let number: Option<u64> = app.parse().ok();
        let owner = self.owners.values().find(|owner| owner.spec.app_id == app);
        Some(json!({
            "id": number,
            "slug": "muster",
            "name": "muster",
            "owner": owner.map(account),
            "html_url": "https://github.com/apps/muster",
            "events": settings.events,
            "permissions": settings.permissions,
        }))
    }

    fn installed(&self, owner: &Owner) -> Value {
        let mut view = installation(owner);
        let asked = self.app_settings(&owner.spec.app_id).map(|app| &app.permissions);
        view["permissions"] = json!(owner.spec.accepted.as_ref().or(asked));
        view
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
                    "restricted_to_workflows": group.restricted_to_workflows,
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
            .filter(|job| !self.is_ghost(job))
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
                    "repository": self.repository_view(&job.repository),
                })
            })
            .collect()
    }

    /// A repository as runs show it.
    fn repository_view(&self, repository: &Repository) -> Value {
        json!({
            "id": repository.id,
            "node_id": format!("R_{}", repository.id),
            "name": repository.name,
            "full_name": format!("{}/{}", repository.owner, repository.name),
            "private": repository.private,
            "owner": self.owner(&repository.owner).map(account),
        })
    }

    /// The jobs of a run.
    #[must_use]
    pub fn run_jobs_view(&self, owner: &str, name: &str, run: u64) -> Vec<Value> {
        let jobs = self.jobs.values().filter(|job| job.run_id == run);
        jobs.filter(|job| in_repository(job, owner, name)).map(|job| self.job_view(job)).collect()
    }
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
        "repository_selection": if owner.spec.selected { "selected" } else { "all" },
        "suspended_at": owner.spec.suspended_at.map(rfc3339),
        "created_at": owner.spec.installed_at.map(rfc3339),
        "html_url": format!(
            "https://github.com/organizations/{}/settings/installations/{}",
            owner.spec.owner, owner.spec.installation_id
        ),
    })
}

fn account(owner: &Owner) -> Value {
    let kind = match owner.spec.kind {
        OwnerKind::User => "User",
        OwnerKind::Organization | OwnerKind::Enterprise => "Organization",
    };
    json!({ "login": owner.spec.owner, "id": owner.id, "type": kind, "site_admin": false })
}
