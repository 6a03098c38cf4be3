//! GitHub's two sides: the REST API, and what runner processes talk to.

use std::sync::Arc;

use serde_json::{Value, json};

use super::World;
use crate::{
    Happening, Millis,
    agenda::Due,
    github::{
        Again, AppOwner, Assignment, Claims, GitHubError, Group, HookEffect, InstallationToken,
        JitConfig, JitRequest, Job, JobNumbers, JobSpec, Lies, Manifest, Message, News, OwnerSpec,
        RateView, RunnerScope, RunnerView, encode,
    },
    scramble,
};

impl World {
    /// An account installs the App.
    pub fn register_owner(&mut self, spec: OwnerSpec) {
        let id = self.clockwork.ids.small();
        self.github.register_owner(spec, id);
    }

    /// An App is made of a manifest, as its maker does on GitHub's page; the code that comes of it.
    pub fn make_app(
        &mut self,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        now: Millis,
    ) -> String {
        let until = now + self.clockwork.timings.code_ms;
        let code = self.github.make_app(&mut self.clockwork.ids, owner, name, manifest, until);
        let app = self.github.newest_app().unwrap_or_default();
        self.ping(&app);
        code
    }

    /// An App is made by the fields of GitHub's form; its number.
    pub fn add_app(
        &mut self,
        owner: AppOwner,
        name: &str,
        manifest: &Manifest,
        hook_secret: Option<String>,
    ) -> String {
        let ids = &mut self.clockwork.ids;
        let app = self.github.add_app(ids, owner, name, manifest, hook_secret);
        self.ping(&app);
        app
    }

    fn ping(&mut self, app: &str) {
        let zen = json!({ "zen": "Keep it logically awesome.", "hook_id": 1 });
        self.tell_app(app, "ping", None, zen);
    }

    /// Who is logged in at GitHub's pages becomes an owner of an organization, or is one no more.
    pub fn set_organization(&mut self, login: &str, is_owned: bool) {
        self.github.set_organization(&mut self.clockwork.ids, login, is_owned);
    }

    /// The App's owner installs it. Answers the installation's number.
    pub fn install_app(&mut self, app: &str, selected: bool) -> Result<u64, GitHubError> {
        let id = self.github.install_app(&mut self.clockwork.ids, app, selected)?;
        let body = json!({ "action": "created", "installation": { "id": id } });
        self.tell_app(app, "installation", Some("created"), body);
        Ok(id)
    }

    /// Sends an event about an App itself, where its webhook is active.
    fn tell_app(
        &mut self,
        app: &str,
        event: &'static str,
        action: Option<&'static str>,
        body: Value,
    ) {
        let number = self.clockwork.ids.large();
        if self.github.tell_app(number, app, event, action, body) {
            let webhook = self.github.app_webhook(number);
            self.clockwork.happened.extend(webhook.map(Happening::Webhook));
        }
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
        let expires_at = now + self.clockwork.timings.token_ms;
        self.github.create_token(&mut self.clockwork.ids, &app, installation, expires_at)
    }

    /// Lets an installation token act on a scope, and charges the rate limit for it.
    pub fn authorize(
        &mut self,
        token: &str,
        scope: &RunnerScope,
        now: Millis,
    ) -> Result<RateView, GitHubError> {
        self.github.authorize(token, scope, now)
    }

    /// `POST …/actions/runners/generate-jitconfig`.
    pub fn generate_jit(
        &mut self,
        scope: &RunnerScope,
        request: &JitRequest,
        now: Millis,
    ) -> Result<JitConfig, GitHubError> {
        let ids = &mut self.clockwork.ids;
        let runner = self.github.generate_jit(ids, scope, request, now)?.clone();
        let work = request.work_folder.as_deref().unwrap_or("_work");
        let encoded = encode(&runner, &self.github.agent_url, work, ids);
        Ok(JitConfig { runner, encoded })
    }

    /// `GET …/actions/runners`: the total and one page (its number from 1, and its size).
    pub fn list_runners(
        &mut self,
        scope: &RunnerScope,
        name: Option<&str>,
        page: (usize, usize),
        now: Millis,
    ) -> (usize, Vec<Value>) {
        let offline_after = self.clockwork.timings.offline_after_ms;
        let mut wanted = self.github.list_runners(scope, now, offline_after);
        wanted.retain(|runner| name.is_none_or(|name| runner.name == name));
        let (number, size) = page;
        let shown = wanted.iter().skip((number - 1) * size).take(size);
        (wanted.len(), shown.map(RunnerView::json).collect())
    }

    /// `GET …/actions/runners/{id}`.
    pub fn get_runner(
        &self,
        scope: &RunnerScope,
        id: u64,
        now: Millis,
    ) -> Result<Value, GitHubError> {
        let runner = self.github.runner_at(scope, id).ok_or_else(GitHubError::not_found)?;
        Ok(self.github.see(runner, now, self.clockwork.timings.offline_after_ms).json())
    }

    /// `DELETE …/actions/runners/{id}`.
    pub fn delete_runner(
        &mut self,
        scope: &RunnerScope,
        id: u64,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let owner = self.github.owner(scope.owner());
        let lies = owner.is_some_and(|owner| owner.spec.lies.delete_busy_answers_204);
        let called_busy = !lies && self.github.job_on(id).is_some();
        let deleted = self.github.delete_runner(scope, id, called_busy, now);
        self.settle(deleted, now)
    }

    /// A workflow queues a job.
    pub fn queue_job(&mut self, spec: &JobSpec, now: Millis) -> Result<u64, GitHubError> {
        let ids = &mut self.clockwork.ids;
        let (repository, job) = (ids.small(), ids.large());
        let run = spec.run_id.unwrap_or_else(|| ids.large());
        let numbers = JobNumbers { job, run, repository };
        self.github.queue_job(Arc::new(spec.clone()), numbers, now)?;
        let gated = if spec.gated { self.github.gate_job(job) } else { Ok(()) };
        self.settle(gated, now)?;
        Ok(job)
    }

    /// Runs jobs of a run again, for an App.
    pub fn rerun(
        &mut self,
        repository: (&str, &str),
        run: u64,
        which: Again,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let ids = &mut self.clockwork.ids;
        let again = self.github.rerun(repository, run, which, true, |_| ids.large(), now);
        self.settle(again, now)
    }

    /// Ends the work of a job that runs until it is told.
    pub fn finish_job(&mut self, id: u64, conclusion: &str) -> Result<(), GitHubError> {
        self.github.finish_job(id, conclusion)
    }

    /// Somebody approves the deployment that a job waits for.
    pub fn approve_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        let approved = self.github.approve_job(id, now);
        self.settle(approved, now)
    }

    /// Cancels a job.
    pub fn cancel_job(&mut self, id: u64, now: Millis) -> Result<(), GitHubError> {
        let cancelled = self.github.cancel_job(id, now);
        self.settle(cancelled, now)
    }

    /// Sends a webhook delivery again, whatever the rules say.
    pub fn redeliver(&mut self, number: u64, now: Millis) -> Result<(), GitHubError> {
        self.github.delivery(number).ok_or_else(GitHubError::not_found)?;
        self.clockwork.at(now, Due::Deliver(number));
        Ok(())
    }

    /// What the receiver of a delivery answered.
    pub fn delivery_answered(&mut self, number: u64, answer: String, now: Millis) {
        self.github.delivery_answered(number, answer, now);
    }

    /// `POST /app/hook/deliveries/{id}/attempts`.
    pub fn attempt_again(&mut self, app: &str, id: u64, now: Millis) -> Result<(), GitHubError> {
        let attempt =
            id.checked_sub(1).and_then(|index| self.github.attempts().get(index as usize));
        if let Some(number) = attempt.map(|attempt| attempt.number)
            && self.github.is_about_app(app, number)
        {
            let webhook = self.github.app_webhook(number);
            self.clockwork.happened.extend(webhook.map(Happening::Webhook));
            return Ok(());
        }
        let number = self.github.attempt_again(app, id)?.number;
        self.redeliver(number, now)
    }

    /// A runner process connects with the secret of its JIT config.
    pub fn runner_connect(
        &mut self,
        secret: &str,
        machine: Option<&str>,
        now: Millis,
    ) -> Result<String, GitHubError> {
        let known = self.github.runners().find(|runner| runner.secret() == secret);
        let runner = known.map_or(0, |runner| runner.id);
        self.github.connect(runner, machine, now)?;
        Ok(runner.to_string())
    }

    /// It asks for work.
    pub fn runner_listen(&mut self, session: &str, now: Millis) -> Result<Message, GitHubError> {
        let runner = runner_of(session);
        self.github.await_job(runner, now)?;
        self.offer_jobs();
        let answer = self.github.answer(runner, now);
        self.settle(answer, now)
    }

    /// Its job-started hook passed, and the first step begins.
    pub fn job_began(&mut self, session: &str, job: u64, now: Millis) -> Result<(), GitHubError> {
        let began = self.github.job_began(runner_of(session), job, now);
        self.settle(began, now)
    }

    /// Whether its work is over, and how it ended.
    pub fn job_over(
        &mut self,
        session: &str,
        job: u64,
        now: Millis,
    ) -> Result<Option<Arc<str>>, GitHubError> {
        self.github.job_over(runner_of(session), job, now)
    }

    /// It reports the end of its job.
    pub fn job_done(
        &mut self,
        session: &str,
        job: u64,
        conclusion: &str,
        now: Millis,
    ) -> Result<(), GitHubError> {
        let done = self.github.job_done(runner_of(session), job, conclusion, now);
        self.settle(done, now)
    }

    /// It ends its connection.
    pub fn runner_disconnect(&mut self, session: &str) -> Result<(), GitHubError> {
        self.github.disconnect(runner_of(session))?;
        self.offer_jobs();
        Ok(())
    }
}

/// A session goes by the number of its runner.
fn runner_of(session: &str) -> u64 {
    session.parse().unwrap_or_default()
}

/// What follows from a call, now or later.
impl World {
    pub(super) fn agents_fall_silent(&mut self, machine: &str, cause: &str, now: Millis) {
        self.github.machine_lost_power(machine, cause, now);
        self.follow(now);
    }

    pub(super) fn give_up(&mut self, job: u64, now: Millis) {
        self.github.give_up(job, now);
        self.follow(now);
    }

    /// A delivery leaves GitHub, with those that waited for it.
    pub(super) fn depart(&mut self, number: u64) {
        for number in self.github.depart(number) {
            let delivery = self.github.delivery(number);
            let webhook = delivery.and_then(|delivery| self.github.webhook(delivery));
            self.clockwork.happened.extend(webhook.map(Happening::Webhook));
        }
    }

    fn settle<R>(&mut self, answer: Result<R, GitHubError>, now: Millis) -> Result<R, GitHubError> {
        self.follow(now);
        answer
    }

    fn follow(&mut self, now: Millis) {
        for news in self.github.take_news() {
            let timings = &self.clockwork.timings;
            match news {
                News::Webhook(job) => self.tell(job, now),
                News::Silent(job) => {
                    let late = now + timings.lost_communication_ms;
                    self.clockwork.at(late, Due::LostCommunication(job));
                }
                News::Works { job, lasts } => self.clockwork.at(now + lasts, Due::WorkOver(job)),
                News::Dies { machine, after } => {
                    self.clockwork.at(now + after, Due::Death(machine.as_ref().to_owned()));
                }
            }
        }
        self.offer_jobs();
    }

    /// Sends an event, as the rules have it.
    fn tell(&mut self, job: Job, now: Millis) {
        let number = self.clockwork.ids.large();
        self.github.deliver(number, job, now);
        let (copies, at) = match self.github.effect_on(number) {
            None => (1, now),
            Some(HookEffect::Suppress | HookEffect::AfterNext) => (0, now),
            Some(HookEffect::Fail) => {
                self.github.attempted(number, None, now);
                (0, now)
            }
            Some(HookEffect::Duplicate(more)) => (1 + more, now),
            Some(HookEffect::DelayMs(delay)) => (1, now + delay),
        };
        (0..copies).for_each(|_| self.clockwork.at(at, Due::Deliver(number)));
    }

    /// Offers queued jobs to runners that wait: oldest job first, to any runner that fits.
    fn offer_jobs(&mut self) {
        let mut pairs = self.github.candidates();
        pairs.sort_unstable();
        while let Some((job, _)) = pairs.first().copied() {
            let fitting = pairs.iter().take_while(|(other, _)| *other == job).count();
            let index = match self.github.assignment {
                Assignment::Oldest => 0,
                Assignment::Newest => fitting - 1,
                Assignment::Any => (scramble(job) % fitting as u64) as usize,
            };
            let (_, runner) = pairs[index];
            self.github.offer(job, runner);
            pairs.retain(|(other, taken)| *other != job && *taken != runner);
        }
    }
}
