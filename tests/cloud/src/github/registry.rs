//! Runner registrations, as the REST API manages them.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GitHub, GitHubError, Group, Scope};
use crate::{Millis, agenda::Clockwork};

/// One registered runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Runner {
    pub id: u64,
    pub name: String,
    pub scope: Scope,
    pub labels: Vec<String>,
    pub group_id: u64,
    pub created_at: Millis,
    /// What its process proves itself with; part of its configuration.
    #[serde(skip)]
    pub secret: String,
    /// The connection of its process, once there was one.
    pub session: Option<String>,
    pub removed_at: Option<Millis>,
    /// Who removed it: `api`, or `done` for an ephemeral runner after its job.
    pub removed_by: Option<String>,
}

/// The body of a request for a just-in-time configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct JitRequest {
    pub name: String,
    pub runner_group_id: u64,
    pub labels: Vec<String>,
    #[serde(default)]
    pub work_folder: Option<String>,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitConfig {
    pub runner: Runner,
    pub encoded: String,
}

impl GitHub {
    pub(crate) fn generate_jit(
        &mut self,
        clockwork: &mut Clockwork,
        scope: &Scope,
        request: &JitRequest,
        now: Millis,
    ) -> Result<JitConfig, GitHubError> {
        self.group_of(scope, request.runner_group_id)?;
        check(request)?;
        let taken = |r: &Runner| r.scope.same(scope) && r.name.eq_ignore_ascii_case(&request.name);
        if self.runners.values().any(taken) {
            let message =
                format!("Already exists - A runner with the name {} already exists.", request.name);
            return Err(GitHubError::new(409, message));
        }
        let runner = Runner {
            id: clockwork.ids.small(),
            name: request.name.clone(),
            scope: scope.clone(),
            labels: request.labels.clone(),
            group_id: request.runner_group_id,
            created_at: now,
            secret: format!("{:016x}{:016x}", clockwork.ids.scrambled(), clockwork.ids.scrambled()),
            session: None,
            removed_at: None,
            removed_by: None,
        };
        let work = request.work_folder.as_deref().unwrap_or("_work");
        let encoded = encode(&runner, &self.agent_url, work, clockwork);
        self.runners.insert(runner.id, runner.clone());
        Ok(JitConfig { runner, encoded })
    }

    fn group_of(&self, scope: &Scope, id: u64) -> Result<Option<Group>, GitHubError> {
        if let Scope::Repository { .. } = scope {
            // Repositories have no groups of their own; GitHub wants the default one.
            return if id == 1 { Ok(None) } else { Err(GitHubError::not_found()) };
        }
        let owner = self.owner(scope.owner()).ok_or_else(GitHubError::not_found)?;
        owner.group(id).map(Some).ok_or_else(GitHubError::not_found)
    }

    /// One page of runners: the total, and the views.
    pub(crate) fn list_runners(
        &mut self,
        scope: &Scope,
        name: Option<&str>,
        page: (usize, usize),
        now: Millis,
        offline_after: Millis,
    ) -> (usize, Vec<Value>) {
        let fresh: Vec<Value> = self
            .runners
            .values()
            .filter(|runner| runner.scope.same(scope))
            .map(|runner| self.runner_view(runner, now, offline_after))
            .collect();
        let all = self.cached(scope, fresh, now);
        let wanted: Vec<Value> =
            all.into_iter().filter(|view| name.is_none_or(|n| view["name"] == n)).collect();
        let (number, size) = page;
        let shown = wanted.iter().skip((number - 1) * size).take(size).cloned().collect();
        (wanted.len(), shown)
    }

    fn cached(&mut self, scope: &Scope, fresh: Vec<Value>, now: Millis) -> Vec<Value> {
        let Some(owner) = self.owner_mut(scope.owner()) else { return fresh };
        let age = owner.spec.lies.list_cache_ms;
        match owner.listed.get(scope) {
            Some((at, views)) if age > 0 && now < at + age => views.clone(),
            _ => {
                owner.listed.insert(scope.clone(), (now, fresh.clone()));
                fresh
            }
        }
    }

    pub(crate) fn find_runner(&self, scope: &Scope, id: u64) -> Result<&Runner, GitHubError> {
        self.runners
            .get(&id)
            .filter(|runner| runner.scope.same(scope))
            .ok_or_else(GitHubError::not_found)
    }

    /// Deregisters a runner. Its process learns of it the next time it asks for work; a job that
    /// runs on it (GitHub was caught answering 204 then) goes on running.
    pub(crate) fn delete_runner(
        &mut self,
        scope: &Scope,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let runner = self.find_runner(scope, id)?;
        let lies = self.owner(scope.owner()).is_some_and(|o| o.spec.lies.delete_busy_answers_204);
        if self.job_of(runner).is_some() && !lies {
            let message =
                format!("Bad request - Runner \"{}\" is still running a job\"", runner.name);
            return Err(GitHubError::new(422, message));
        }
        self.remove_runner(id, "api", now);
        Ok(())
    }

    pub(crate) fn remove_runner(&mut self, id: u64, by: &str, now: Millis) {
        let Some(mut runner) = self.runners.remove(&id) else { return };
        runner.removed_at = Some(now);
        runner.removed_by = Some(by.to_owned());
        if let Some(session) = runner.session.as_ref().and_then(|s| self.sessions.get_mut(s)) {
            session.deregistered = true;
            session.listening = false;
            if let Some(job) = session.offered.take().and_then(|id| self.jobs.get_mut(&id)) {
                job.offered = false;
            }
        }
        self.former.push(runner);
        self.dispatch();
    }

    /// The job that runs on a runner.
    pub(crate) fn job_of(&self, runner: &Runner) -> Option<u64> {
        runner.session.as_ref().and_then(|s| self.sessions.get(s)).and_then(|s| s.job)
    }
}

fn check(request: &JitRequest) -> Result<(), GitHubError> {
    let name = &request.name;
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fine) {
        return Err(GitHubError::new(422, "Invalid request.\n\nRunner name is not valid."));
    }
    if request.labels.is_empty() || request.labels.len() > 100 {
        let message = "Invalid request.\n\nThe labels array must have 1 to 100 items.";
        return Err(GitHubError::new(422, message));
    }
    if request.labels.iter().any(|label| label.is_empty() || label.len() > 256) {
        return Err(GitHubError::new(422, "Invalid request.\n\nA label is not valid."));
    }
    Ok(())
}

/// Opaque to everyone but the runner: base64 of a map of three files, each base64 again.
fn encode(runner: &Runner, url: &str, work: &str, clockwork: &mut Clockwork) -> String {
    let file = |value: Value| Value::String(BASE64.encode(value.to_string()));
    let settings = json!({
        "AgentId": runner.id.to_string(),
        "AgentName": runner.name,
        "DisableUpdate": "true",
        "Ephemeral": "True",
        "PoolId": runner.group_id.to_string(),
        "ServerUrl": url,
        "ServerUrlV2": url,
        "WorkFolder": work,
    });
    let credentials = json!({
        "Scheme": "OAuth",
        "Data": { "ClientId": runner.secret, "AuthorizationUrl": format!("{url}/runner/connect") },
    });
    // A real configuration carries an RSA key; the size is what matters here.
    let mut number = |words: u32| {
        (0..words).map(|_| format!("{:016x}", clockwork.ids.scrambled())).collect::<String>()
    };
    let key = json!({
        "d": number(32), "dp": number(16), "dq": number(16), "exponent": "AQAB",
        "inverseQ": number(16), "modulus": number(32), "p": number(16), "q": number(16),
    });
    BASE64.encode(
        json!({
            ".runner": file(settings),
            ".credentials": file(credentials),
            ".credentials_rsaparams": file(key),
        })
        .to_string(),
    )
}
