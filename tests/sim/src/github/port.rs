//! GitHub's door.

use std::collections::{BTreeMap, BTreeSet};

use muster_cloud::github::{Attempt, GitHubError, JitRequest};
use muster_control::ports::{
    Github, JitConfig, JitError, JobSeen, QueuedJobs, Reach, Registrar, RepositoryPage,
};
use muster_domain::agent::AgentDownload;
use muster_domain::ids::{AppName, Entity, InstallationId, RunnerId};
use muster_domain::inquiry::ListPosition;
use muster_domain::job::JobEvent;
use muster_domain::observation::{Deregistration, RunSeen, RunnerSeen};
use muster_domain::provider::{ErrorDetail as Told, ProviderError};
use muster_domain::redelivery::{Delivery, DeliveryPage};
use muster_domain::time::Time;

use super::outcome::Ended;
use super::webhook::status_of;
use super::{APP, AppTrouble, CallOutcome, scope_of};
use crate::agenda::{MINUTE, SECOND};
use crate::door::Door;
use crate::fault::Fault;
use crate::world::World;

impl World {
    pub(crate) fn github_told(&self, operation: &str, code: &str) -> Told {
        Told {
            at: self.time(),
            operation: operation.to_owned(),
            code: code.to_owned(),
            message: "simulated".to_owned(),
        }
    }

    /// A question that GitHub may not answer.
    pub(super) fn ask_github(
        &mut self,
        registrar: &Registrar,
        operation: &str,
    ) -> Result<(), ProviderError> {
        self.app_answers(registrar.entity.app(), operation)?;
        self.check_installation(registrar, operation);
        let is_of = |owner: &String| registrar.entity.covers(&format!("{owner}/any"));
        let script = &self.github.script;
        if script.refuses.iter().any(is_of) {
            self.count_github(operation);
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        let forbids = operation == "generate-jitconfig";
        if forbids && script.forbids_runners.as_ref().is_some_and(is_of) {
            self.count_github(operation);
            return Err(ProviderError::Unauthorized(self.github_told(operation, "403")));
        }
        let alone = script.limits_runners.as_ref().filter(|_| forbids);
        let mut limits = script.limits.iter().chain(alone);
        let limit = limits.find(|(owner, until)| is_of(owner) && self.now < *until);
        if let Some((_, until)) = limit {
            let until = Time::from_millis(*until);
            self.count_github(operation);
            return Err(ProviderError::RateLimited(until));
        }
        self.github_answers(operation)
    }

    /// As [`Self::github_answers`], of one App.
    pub(crate) fn app_call(&mut self, app: AppName, operation: &str) -> Result<(), ProviderError> {
        self.app_answers(app, operation)?;
        self.github_answers(operation)
    }

    /// Whether GitHub answers this App at all.
    fn app_answers(&mut self, app: AppName, operation: &str) -> Result<(), ProviderError> {
        let trouble = self.github.script.apps.get(&app).copied();
        let error = match trouble {
            Some(AppTrouble::Revoked) => {
                ProviderError::Unauthorized(self.github_told(operation, "401"))
            }
            Some(AppTrouble::Limited(until)) if self.now < until => {
                ProviderError::RateLimited(Time::from_millis(until))
            }
            Some(AppTrouble::Silent) => {
                ProviderError::Unavailable(self.github_told(operation, "timeout"))
            }
            Some(AppTrouble::Limited(_)) | None => return Ok(()),
        };
        self.count_github(operation);
        Err(error)
    }

    fn count_github(&mut self, operation: &str) {
        self.calls.github += 1;
        *self.operations.entry(operation.to_owned()).or_default() += 1;
        self.calls.github_lists += u64::from(operation == "list-runners");
    }

    /// As [`Self::ask_github`], about nobody in particular.
    pub(crate) fn github_answers(&mut self, operation: &str) -> Result<(), ProviderError> {
        self.count_github(operation);
        if self.is_away(Fault::OutageCredentials) {
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        if self.is_away(Fault::OutageGithub) || self.strikes(Fault::GithubFails) {
            return Err(ProviderError::Unavailable(self.github_told(operation, "502")));
        }
        if self.strikes(Fault::RateLimited) {
            let until = self.now + self.between(5 * SECOND, 10 * MINUTE);
            return Err(ProviderError::RateLimited(Time::from_millis(until)));
        }
        if self.strikes(Fault::Unauthorized) {
            return Err(ProviderError::Unauthorized(self.github_told(operation, "401")));
        }
        Ok(())
    }

    /// The answer is lost after the deed.
    pub(super) fn lose_answer(
        &mut self,
        fault: Fault,
        operation: &str,
    ) -> Result<(), ProviderError> {
        if self.strikes(fault) {
            return Err(ProviderError::Unavailable(self.github_told(operation, "timeout")));
        }
        Ok(())
    }

    fn configure(
        &mut self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        self.check_configure(name);
        self.ask_github(registrar, "generate-jitconfig").map_err(JitError::ProviderError)?;
        if let Some(error) = self.github.script.registration.clone() {
            return Err(error);
        }
        if self.github.script.forbids_group == Some(group) {
            let told = self.github_told("generate-jitconfig", "403");
            return Err(JitError::ProviderError(ProviderError::Unauthorized(told)));
        }
        let scope = scope_of(&registrar.entity);
        let request = JitRequest {
            name: name.to_owned(),
            runner_group_id: group,
            labels: labels.to_vec(),
            work_folder: None,
        };
        let judged = self.github.truth.judge_jit(&scope, &request);
        judged.map_err(|error| self.configuration_refused(&error))?;
        if self.strikes(Fault::ConfigureRefused) {
            return Err(JitError::Refused(self.github_told("generate-jitconfig", "422")));
        }
        let super::Github { truth, ids, .. } = &mut self.github;
        let made = truth.generate_jit(ids, &scope, &request, self.now).map(|runner| runner.id);
        let id = made.map_err(|error| self.configuration_refused(&error))?;
        self.note_configuration();
        if self.strikes(Fault::RunnerBarred) {
            self.github.truth.bar_runner(id);
        }
        // The request was sent twice, and the second answer is the one that arrives.
        if self.strikes(Fault::ConfigureConflict) {
            return Err(JitError::NameTaken);
        }
        self.lose_answer(Fault::ConfigureAnswerLost, "generate-jitconfig")
            .map_err(JitError::ProviderError)?;
        Ok(JitConfig { runner: RunnerId(id), encoded: id.to_string() })
    }

    fn configuration_refused(&self, error: &GitHubError) -> JitError {
        match error.status {
            409 => JitError::NameTaken,
            code => JitError::Refused(self.github_told("generate-jitconfig", &code.to_string())),
        }
    }

    /// Whether there is such a registration, at this very entity.
    fn is_registered(&self, registrar: &Registrar, id: u64) -> bool {
        self.github.truth.runner_at(&scope_of(&registrar.entity), id).is_some()
    }

    fn view(&mut self, registrar: &Registrar, id: u64) -> RunnerSeen {
        if !self.is_registered(registrar, id) {
            return RunnerSeen::Absent;
        }
        if self.github.script.hides_runners || self.strikes(Fault::RunnerHidden) {
            self.lies_about(id);
            self.says_quiet(id);
            RunnerSeen::Absent
        } else if self.looks_busy(id) {
            RunnerSeen::Busy(RunnerId(id))
        } else if self.is_connected(id) {
            RunnerSeen::NotBusy(RunnerId(id))
        } else {
            RunnerSeen::Offline(RunnerId(id))
        }
    }

    fn view_named(&mut self, registrar: &Registrar, name: &str) -> RunnerSeen {
        // A list may be as old as a minute (`Cache-Control: max-age=60`), and behind GitHub's own
        // records.
        let then = self.now - 2 * MINUTE;
        let scope = scope_of(&registrar.entity);
        let truth = &self.github.truth;
        if let Some(runner) = truth.runner_named(&scope, name) {
            let (id, young) = (runner.id, runner.created_at > then);
            if young && self.strikes(Fault::ListCached) {
                self.lies_about(id);
                return RunnerSeen::Absent;
            }
            return self.view(registrar, id);
        }
        match truth.removed_since(&scope, name, then).map(|runner| runner.id) {
            Some(id) if self.strikes(Fault::ListCached) => RunnerSeen::NotBusy(RunnerId(id)),
            _ => RunnerSeen::Absent,
        }
    }

    fn job_seen(&mut self, repository: &str, id: u64) -> Option<JobSeen> {
        if self.strikes(Fault::JobHidden) {
            return None;
        }
        let (owner, name) = repository.split_once('/')?;
        let job = self.github.truth.job_in(owner, name, id)?;
        Some(JobSeen {
            status: status_of(job),
            runner: job.runner.as_ref().map(|runner| runner.name.clone()),
            conclusion: job.conclusion.as_deref().map(str::to_owned),
        })
    }

    /// Never hidden by chance: a run and its job that are both not shown, twice and minutes apart,
    /// are gone.
    fn run_seen(&self, repository: &str, run: u64) -> Option<RunSeen> {
        self.seen_run(repository, run)
    }

    /// Jobs whose run has ended without them are in no listing.
    fn queued_in(&self, repository: &str) -> Vec<JobEvent> {
        let truth = &self.github.truth;
        let is_listed = |job: &&muster_cloud::github::Job| {
            let of = format!("{}/{}", job.repository.owner, job.repository.name);
            of.eq_ignore_ascii_case(repository)
                && job.status == super::Status::Queued
                && !truth.is_ghost(job)
        };
        truth.jobs().filter(is_listed).map(|job| self.event(job)).collect()
    }

    /// A page of GitHub's list. A cursor is the number of the attempt with which its page begins.
    fn deliveries(&mut self, app: AppName, cursor: Option<&str>) -> Option<DeliveryPage> {
        if cursor.is_some() && self.strikes(Fault::CursorExpired) {
            return None;
        }
        let from = cursor.map(str::parse).transpose().ok()?;
        let super::Github { truth, page_size, .. } = &self.github;
        let page = truth.attempts_page(APP, from, *page_size, self.now)?;
        let at = |one: &&Attempt| Time::from_millis(one.at);
        let (newest, oldest) = (page.attempts.first().map(at), page.attempts.last().map(at));
        let is_queued =
            |one: &Attempt| truth.delivery(one.number).is_some_and(|one| one.action() == "queued");
        let is_of_app = |one: &&&Attempt| {
            let delivery = truth.delivery(one.number);
            delivery.is_some_and(|one| self.event(&one.job).key.app == app)
        };
        let deliveries = page.attempts.iter().filter(is_of_app).map(|one| Delivery {
            id: one.id,
            guid: one.number.to_string(),
            at: Time::from_millis(one.at),
            is_settled: one.has_arrived(),
            is_again: one.again,
            is_queued: is_queued(one),
        });
        let deliveries = deliveries.collect();
        let next = page.next.map(|next| next.to_string());
        Some(DeliveryPage { deliveries, newest, oldest, next })
    }

    /// A page of the repositories of an installation in which jobs were queued.
    fn repository_page(&self, app: AppName, place: Option<ListPosition>) -> RepositoryPage {
        let mut all: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for job in self.github.truth.jobs() {
            let (owner, name) = (&job.repository.owner, &job.repository.name);
            let name = format!("{owner}/{name}");
            if AppName::split(&name).is_some_and(|(own, _)| own == app) {
                all.entry(self.github.installation_of(owner).0).or_default().insert(name);
            }
        }
        let begin = |installation| ListPosition { installation, page: 1 };
        let first = all.keys().next().map(|first| begin(InstallationId(*first)));
        let place = place.or(first).unwrap_or(begin(InstallationId(7)));
        let ListPosition { installation, page } = place;
        let size = self.github.page_size;
        let names = all.get(&installation.0).into_iter().flatten();
        let mut left = names.skip((page as usize - 1) * size);
        let shown = left.by_ref().take(size).filter_map(|name| name.parse().ok()).collect();
        let next = match left.next() {
            Some(_) => Some(ListPosition { installation, page: page + 1 }),
            None => {
                let next = all.keys().find(|one| **one > installation.0);
                next.map(|next| begin(InstallationId(*next)))
            }
        };
        let installation = Some(installation);
        RepositoryPage { repositories: shown, installation, next, passed_over: None }
    }

    fn delete_runner(&mut self, registrar: &Registrar, id: u64, by_api: bool) -> Deregistration {
        self.check_deregister(id, by_api);
        if !self.is_registered(registrar, id) {
            return Deregistration::NotFound;
        }
        let busy = self.looks_busy(id);
        if !busy {
            self.check_removal(id);
        }
        let scope = scope_of(&registrar.entity);
        match self.github.truth.delete_runner(&scope, id, busy, self.now) {
            Ok(()) => {}
            Err(GitHubError { status: 422, .. }) => return Deregistration::Busy,
            Err(_) => return Deregistration::NotFound,
        }
        // An idle agent sees at once that its registration is gone; one with a job carries on.
        if let Some(machine) = self.machine_of(id) {
            self.wake_machine(machine);
        }
        Deregistration::Done
    }
}

/// Why there is no configuration, in a few words.
fn refused(error: &JitError) -> &str {
    match error {
        JitError::NameTaken => "409, the name is taken",
        JitError::ProviderError(ProviderError::RateLimited(_)) => "rate limit",
        JitError::ProviderError(
            ProviderError::Unauthorized(fault) | ProviderError::Unavailable(fault),
        )
        | JitError::Refused(fault) => &fault.code,
    }
}

/// An answer in a few words.
const fn shown(seen: RunnerSeen) -> &'static str {
    match seen {
        RunnerSeen::Absent => "not found",
        RunnerSeen::NotBusy(_) => "not busy",
        RunnerSeen::Offline(_) => "offline",
        RunnerSeen::Busy(_) => "busy",
    }
}

const fn is_busy(seen: RunnerSeen) -> bool {
    matches!(seen, RunnerSeen::Busy(_))
}

impl Door {
    /// Remembers how a call about a registration ended: whether it was called busy, or why there is
    /// no answer.
    fn note_outcome(&self, about: String, busy: Result<bool, &ProviderError>) {
        let how = match busy {
            Ok(true) => CallOutcome::Busy,
            Ok(false) => CallOutcome::Answered,
            Err(ProviderError::Unauthorized(_)) => CallOutcome::Refused,
            Err(ProviderError::Unavailable(_)) => CallOutcome::Silent,
            Err(ProviderError::RateLimited(_)) => CallOutcome::Limited,
        };
        let mut world = self.sim.world.borrow_mut();
        world.note_answer(|| format!("runner {about}"), busy.is_err());
        let ended = Ended { caller: world.current, at: world.now, how };
        world.github.note_outcome(about, ended);
    }

    /// An invocation without an installation token in its cache gets one first.
    pub(super) async fn token(&self, registrar: &Registrar) -> Result<(), ProviderError> {
        if self.cold.get() {
            self.call(|world| world.ask_github(registrar, "access-token")).await?;
            self.cold.set(false);
        }
        Ok(())
    }
}

impl Github for Door {
    async fn configure(
        &self,
        registrar: &Registrar,
        name: &str,
        labels: &[String],
        group: u64,
    ) -> Result<JitConfig, JitError> {
        self.token(registrar).await.map_err(JitError::ProviderError)?;
        self.call(|world| {
            let answer = world.configure(registrar, name, labels, group);
            // Each attempt has another name, which begins with the instance's.
            let instance = name.rsplit_once('-').map_or(name, |(instance, _)| instance);
            world.note_answer(|| format!("configure {instance}"), answer.is_err());
            world.narrate(|| {
                let what = match &answer {
                    Ok(config) => format!("runner {}", config.runner),
                    Err(error) => refused(error).to_owned(),
                };
                format!("generate-jitconfig {name}: {what}")
            });
            answer
        })
        .await
    }

    /// A process has asked within the hour, as a rule: it takes no time, and no chance is taken.
    async fn agents(&self, _: &Registrar) -> Result<Vec<AgentDownload>, ProviderError> {
        let mut world = self.sim.world.borrow_mut();
        if world.is_away(Fault::OutageGithub) {
            return Err(ProviderError::Unavailable(world.github_told("list-agents", "502")));
        }
        Ok(world.listed_agents())
    }

    async fn runner(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<RunnerSeen, ProviderError> {
        let look = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "get-runner")?;
                let seen = world.view(registrar, id.0);
                world.narrate(|| format!("get-runner {id}: {}", shown(seen)));
                Ok(seen)
            })
            .await
        };
        let answer = look.await;
        self.note_outcome(id.to_string(), answer.as_ref().map(|seen| is_busy(*seen)));
        answer
    }

    async fn runner_named(
        &self,
        registrar: &Registrar,
        name: &str,
    ) -> Result<RunnerSeen, ProviderError> {
        let look = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "list-runners")?;
                let seen = world.view_named(registrar, name);
                world.narrate(|| format!("list-runners {name}: {}", shown(seen)));
                Ok(seen)
            })
            .await
        };
        let answer = look.await;
        self.note_outcome(name.to_owned(), answer.as_ref().map(|seen| is_busy(*seen)));
        answer
    }

    async fn job(
        &self,
        registrar: &Registrar,
        repository: &str,
        number: u64,
    ) -> Result<Option<JobSeen>, ProviderError> {
        self.token(registrar).await?;
        self.call(|world| {
            let asked = world.ask_github(registrar, "get-job");
            world.note_answer(|| format!("job {number}"), asked.is_err());
            asked?;
            let seen = world.job_seen(repository, number);
            world.narrate(|| {
                let status = seen.as_ref().map(|job| format!("{:?}", job.status));
                let number = number.saturating_sub(1000);
                format!("get-job {number}: {}", status.as_deref().unwrap_or("not found"))
            });
            Ok(seen)
        })
        .await
    }

    async fn run(
        &self,
        registrar: &Registrar,
        repository: &str,
        run: u64,
    ) -> Result<Option<RunSeen>, ProviderError> {
        self.token(registrar).await?;
        self.call(|world| {
            world.ask_github(registrar, "get-run")?;
            let seen = world.run_seen(repository, run);
            world.narrate(|| {
                let how = match &seen {
                    None => "not found",
                    Some(RunSeen { is_over: false, .. }) => "goes on",
                    Some(RunSeen { conclusion, .. }) => conclusion.as_deref().unwrap_or("over"),
                };
                format!("get-run {run}: {how}")
            });
            Ok(seen)
        })
        .await
    }

    async fn queued_jobs(
        &self,
        repository: &Entity,
        installation: Option<InstallationId>,
        reach: Reach,
    ) -> Result<Option<QueuedJobs>, ProviderError> {
        // Who refuses us and who is limited is said of owners.
        let owner = repository.as_str().split_once('/').map_or("", |(owner, _)| owner);
        let Ok(entity) = owner.parse() else { return Ok(None) };
        let registrar = &Registrar { entity, installation };
        self.token(registrar).await?;
        self.call(|world| {
            let asked = world.ask_github(registrar, "list-runs");
            world.note_answer(|| format!("list-runs {repository}"), asked.is_err());
            asked?;
            let jobs = world.queued_in(repository.as_str());
            // The query of a repository in turn is only told where it finds something.
            let is_new = |job: &JobEvent| !world.tables.jobs.contains_key(&job.key);
            if reach == Reach::All || jobs.iter().any(is_new) {
                world.narrate(|| format!("list-runs {repository}: {} queued jobs", jobs.len()));
            }
            Ok(Some(QueuedJobs { jobs, more: false }))
        })
        .await
    }

    async fn repositories_from(
        &self,
        app: AppName,
        place: Option<ListPosition>,
    ) -> Result<RepositoryPage, ProviderError> {
        self.call(|world| {
            world.app_call(app, "list-repositories")?;
            Ok(world.repository_page(app, place))
        })
        .await
    }

    async fn deregister(
        &self,
        registrar: &Registrar,
        id: RunnerId,
    ) -> Result<Deregistration, ProviderError> {
        let delete = async {
            self.token(registrar).await?;
            self.call(|world| {
                world.ask_github(registrar, "delete-runner")?;
                if world.github.script.removes_nothing {
                    world.narrate(|| format!("delete-runner {id}: no answer"));
                    return Err(ProviderError::Unavailable(
                        world.github_told("delete-runner", "timeout"),
                    ));
                }
                let answer = world.delete_runner(registrar, id.0, self.is_api);
                world.narrate(|| format!("delete-runner {id}: {answer:?}"));
                world.lose_answer(Fault::DeleteAnswerLost, "delete-runner")?;
                Ok(answer)
            })
            .await
        };
        let answer = delete.await;
        let busy = answer.as_ref().map(|answer| *answer == Deregistration::Busy);
        self.note_outcome(id.to_string(), busy);
        answer
    }

    async fn deliveries(
        &self,
        app: AppName,
        cursor: Option<&str>,
    ) -> Result<Option<DeliveryPage>, ProviderError> {
        self.call(|world| {
            let asked = world.app_call(app, "list-deliveries");
            world.note_answer(|| "list-deliveries".to_owned(), asked.is_err());
            asked?;
            Ok(world.deliveries(app, cursor))
        })
        .await
    }

    async fn redeliver(&self, app: AppName, delivery: u64) -> Result<bool, ProviderError> {
        self.call(|world| {
            world.app_call(app, "redeliver")?;
            Ok(world.attempt_again(delivery))
        })
        .await
    }
}
