//! Runner registrations, as the REST API manages them.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{GitHub, GitHubError, RunnerScope, RunnerView};
use crate::{Ids, Millis, scramble};

/// One registered runner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Runner {
    pub id: u64,
    pub name: String,
    pub scope: RunnerScope,
    pub labels: Vec<String>,
    pub group_id: u64,
    pub created_at: Millis,
    /// It gets no job, and nobody says why.
    pub barred: bool,
    pub removed_at: Option<Millis>,
    /// Why it was removed: `api`, `done` for an ephemeral runner after its job, `lost` when GitHub
    /// gave up on it, or `used up`.
    pub removed_by: Option<&'static str>,
}

impl Runner {
    /// What its process proves itself with; part of its configuration.
    #[must_use]
    pub fn secret(&self) -> String {
        let half = scramble(self.id);
        format!("{half:016x}{:016x}", scramble(half))
    }

    fn is(&self, scope: &RunnerScope, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) && self.scope.same(scope)
    }
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
    /// Registers a runner.
    pub fn generate_jit(
        &mut self,
        ids: &mut Ids,
        scope: &RunnerScope,
        request: &JitRequest,
        now: Millis,
    ) -> Result<&Runner, GitHubError> {
        self.judge_jit(scope, request)?;
        let id = ids.small();
        Ok(self.runners.entry(id).or_insert(Runner {
            id,
            name: request.name.clone(),
            scope: scope.clone(),
            labels: request.labels.clone(),
            group_id: request.runner_group_id,
            created_at: now,
            barred: false,
            removed_at: None,
            removed_by: None,
        }))
    }

    /// Why GitHub does not register a runner, if it does not.
    pub fn judge_jit(&self, scope: &RunnerScope, request: &JitRequest) -> Result<(), GitHubError> {
        self.check_group(scope, request.runner_group_id)?;
        check(request)?;
        if self.runner_named(scope, &request.name).is_some() {
            let message =
                format!("Already exists - A runner with the name {} already exists.", request.name);
            return Err(GitHubError::new(409, message));
        }
        Ok(())
    }

    fn check_group(&self, scope: &RunnerScope, id: u64) -> Result<(), GitHubError> {
        if let RunnerScope::Repository { .. } = scope {
            // Repositories have no groups of their own; GitHub wants the default one.
            return if id == 1 { Ok(()) } else { Err(GitHubError::not_found()) };
        }
        let owner = self.owner(scope.owner()).ok_or_else(GitHubError::not_found)?;
        if owner.spec.deleted_groups.contains(&id) {
            return Err(GitHubError::new(422, "Invalid request.\n\nThe group was deleted."));
        }
        owner.group(id).map(drop).ok_or_else(GitHubError::not_found)
    }

    /// From now on a runner gets no job, and nobody says why.
    pub fn bar_runner(&mut self, id: u64) {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.barred = true;
        }
    }

    /// The runners of a scope, as a list shows them, which may be old.
    pub(crate) fn list_runners(
        &mut self,
        scope: &RunnerScope,
        now: Millis,
        offline_after: Millis,
    ) -> Vec<RunnerView> {
        let fresh: Vec<RunnerView> = self
            .runners
            .values()
            .filter(|runner| runner.scope.same(scope))
            .map(|runner| self.see(runner, now, offline_after))
            .collect();
        self.cached(scope, fresh, now)
    }

    fn cached(
        &mut self,
        scope: &RunnerScope,
        fresh: Vec<RunnerView>,
        now: Millis,
    ) -> Vec<RunnerView> {
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

    /// One registration, wherever it is.
    #[must_use]
    pub fn runner(&self, id: u64) -> Option<&Runner> {
        self.runners.get(&id)
    }

    /// The registration of this number at a scope.
    #[must_use]
    pub fn runner_at(&self, scope: &RunnerScope, id: u64) -> Option<&Runner> {
        self.runners.get(&id).filter(|runner| runner.scope.same(scope))
    }

    /// The registration of this name at a scope, whatever its case.
    #[must_use]
    pub fn runner_named(&self, scope: &RunnerScope, name: &str) -> Option<&Runner> {
        self.runners.values().find(|runner| runner.is(scope, name))
    }

    /// The registration of this name at a scope that was the last to be removed, if that was after
    /// `since`.
    #[must_use]
    pub fn removed_since(&self, scope: &RunnerScope, name: &str, since: Millis) -> Option<&Runner> {
        let late = |runner: &&Runner| runner.removed_at.is_some_and(|at| at > since);
        let mut lately = self.former.iter().rev().take_while(late);
        lately.find(|runner| runner.is(scope, name))
    }

    /// Deregisters a runner. Its process learns of it the next time it asks for work. One that
    /// GitHub calls busy is refused; a job of one that it wrongly calls idle (GitHub was caught
    /// answering 204 then) goes on running.
    pub fn delete_runner(
        &mut self,
        scope: &RunnerScope,
        id: u64,
        called_busy: bool,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let runner = self.runner_at(scope, id).ok_or_else(GitHubError::not_found)?;
        if called_busy {
            let message =
                format!("Bad request - Runner \"{}\" is still running a job\"", runner.name);
            return Err(GitHubError::new(422, message));
        }
        self.remove_runner(id, "api", now);
        Ok(())
    }

    pub(super) fn remove_runner(&mut self, id: u64, by: &'static str, now: Millis) {
        if self.retire(id, by, now)
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.deregistered = true;
        }
    }

    /// A process could not take the job that it was given, or there is none any more. GitHub has
    /// used its registration up and gives the job to another; a process that is there waits on, and
    /// is not told (actions/runner #4617).
    /// Answers whether there was such a registration, without a job.
    pub fn forget_runner(&mut self, id: u64, now: Millis) -> bool {
        self.job_on(id).is_none() && self.retire(id, "used up", now)
    }

    fn retire(&mut self, id: u64, by: &'static str, now: Millis) -> bool {
        let Some(mut runner) = self.runners.remove(&id) else { return false };
        runner.removed_at = Some(now);
        runner.removed_by = Some(by);
        self.former.push(runner);
        self.stop_waiting(id);
        true
    }

    /// The job that runs on a runner, as far as GitHub knows.
    #[must_use]
    pub fn job_on(&self, runner: u64) -> Option<u64> {
        self.sessions.get(&runner).and_then(|session| session.job)
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
pub(crate) fn encode(runner: &Runner, url: &str, work: &str, ids: &mut Ids) -> String {
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
        "Data": { "ClientId": runner.secret(), "AuthorizationUrl": format!("{url}/runner/connect") },
    });
    // A real configuration carries an RSA key; the size is what matters here.
    let mut number =
        |words: u32| (0..words).map(|_| format!("{:016x}", ids.scrambled())).collect::<String>();
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
