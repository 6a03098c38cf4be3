//! GitHub's two sides: the REST API, and what runner processes talk to.

use serde_json::Value;

use super::World;
use crate::{
    Millis,
    github::{
        Claims, GitHubError, Group, InstallationToken, JitConfig, JitRequest, JobSpec, Lies,
        Message, OwnerSpec, RateView, Scope,
    },
};

impl World {
    /// An account installs the App.
    pub fn register_owner(&mut self, spec: OwnerSpec) {
        let id = self.clockwork.ids.small();
        self.github.register_owner(spec, id);
    }

    /// The runner groups of an owner, beside the default one.
    pub fn set_groups(&mut self, owner: &str, groups: Vec<Group>) -> Result<(), GitHubError> {
        self.github.set_groups(owner, groups)
    }

    /// Changes how GitHub lies about an owner's runners.
    pub fn set_lies(&mut self, owner: &str, lies: Lies) -> Result<(), GitHubError> {
        self.github.set_lies(owner, lies)
    }

    /// Sets what is left of an owner's rate limit.
    pub fn set_rate(
        &mut self,
        owner: &str,
        remaining: u32,
        resets_at: Millis,
    ) -> Result<(), GitHubError> {
        self.github.set_rate(owner, remaining, resets_at)
    }

    /// The App that a token of its own proves to be.
    pub fn identify_app(&mut self, claims: &Claims, now: Millis) -> Result<String, GitHubError> {
        self.github.check_claims(claims, now)
    }

    /// `POST /app/installations/{id}/access_tokens`.
    pub fn create_token(
        &mut self,
        claims: &Claims,
        installation: u64,
        now: Millis,
    ) -> Result<InstallationToken, GitHubError> {
        let app = self.github.check_claims(claims, now)?;
        self.github.create_token(&mut self.clockwork, &app, installation, now)
    }

    /// Lets an installation token act on a scope, and charges the rate limit for it.
    pub fn authorize(
        &mut self,
        token: &str,
        scope: &Scope,
        now: Millis,
    ) -> Result<RateView, GitHubError> {
        self.github.authorize(token, scope, now)
    }

    /// `POST …/actions/runners/generate-jitconfig`.
    pub fn generate_jit(
        &mut self,
        scope: &Scope,
        request: &JitRequest,
        now: Millis,
    ) -> Result<JitConfig, GitHubError> {
        self.github.generate_jit(&mut self.clockwork, scope, request, now)
    }

    /// `GET …/actions/runners`: the total and one page (its number from 1, and its size).
    pub fn list_runners(
        &mut self,
        scope: &Scope,
        name: Option<&str>,
        page: (usize, usize),
        now: Millis,
    ) -> (usize, Vec<Value>) {
        let offline_after = self.clockwork.timings.offline_after_ms;
        self.github.list_runners(scope, name, page, now, offline_after)
    }

    /// `GET …/actions/runners/{id}`.
    pub fn get_runner(&self, scope: &Scope, id: u64, now: Millis) -> Result<Value, GitHubError> {
        let runner = self.github.find_runner(scope, id)?;
        Ok(self.github.runner_view(runner, now, self.clockwork.timings.offline_after_ms))
    }

    /// `DELETE …/actions/runners/{id}`.
    pub fn delete_runner(
        &mut self,
        scope: &Scope,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        self.github.delete_runner(scope, id, now)
    }

    /// A workflow queues a job.
    pub fn queue_job(&mut self, spec: &JobSpec, now: Millis) -> Result<u64, GitHubError> {
        self.github.queue_job(&mut self.clockwork, spec, now)
    }

    /// Ends the work of a job that runs until it is told.
    pub fn finish_job(&mut self, id: u64, conclusion: &str) -> Result<(), GitHubError> {
        self.github.finish_job(id, conclusion)
    }

    /// Somebody approves the deployment that a job waits for.
    pub fn approve_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.approve_job(&mut self.clockwork, id, now)
    }

    /// Cancels a job.
    pub fn cancel_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.cancel_job(&mut self.clockwork, id, now)
    }

    /// Sends a webhook delivery again.
    pub fn redeliver(&mut self, number: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.redeliver(&mut self.clockwork, number, now)
    }

    /// What the receiver of a delivery answered.
    pub fn delivery_answered(&mut self, number: u64, answer: String, now: Millis) {
        self.github.delivery_answered(number, answer, now);
    }

    /// `POST /app/hook/deliveries/{id}/attempts`.
    pub fn attempt_again(&mut self, app: &str, id: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.attempt_again(&mut self.clockwork, app, id, now)
    }

    /// A runner process connects with the secret of its JIT config.
    pub fn runner_connect(
        &mut self,
        secret: &str,
        machine: Option<&str>,
        now: Millis,
    ) -> Result<String, GitHubError> {
        self.github.connect(&mut self.clockwork, secret, machine, now)
    }

    /// It asks for work.
    pub fn runner_listen(&mut self, session: &str, now: Millis) -> Result<Message, GitHubError> {
        self.github.listen(&mut self.clockwork, session, now)
    }

    /// Its job-started hook passed, and the first step begins.
    pub fn job_began(&mut self, session: &str, job: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.job_began(&mut self.clockwork, session, job, now)
    }

    /// Whether its work is over, and how it ended.
    pub fn job_over(
        &mut self,
        session: &str,
        job: u64,
        now: Millis,
    ) -> Result<Option<String>, GitHubError> {
        self.github.job_over(session, job, now)
    }

    /// It reports the end of its job.
    pub fn job_done(
        &mut self,
        session: &str,
        job: u64,
        conclusion: &str,
        now: Millis,
    ) -> Result<(), GitHubError> {
        self.github.job_done(&mut self.clockwork, session, job, conclusion, now)
    }

    /// It ends its connection.
    pub fn runner_disconnect(&mut self, session: &str) -> Result<(), GitHubError> {
        self.github.disconnect(session)
    }
}
