//! GitHub's door for workflow runs and their attempts.

use muster_cloud::github::{Again, Job as Truth, RunFacts};
use muster_control::ports::{Registrar, WorkflowRuns};
use muster_domain::ids::{AppName, RunKey, RunnerId};
use muster_domain::observation::{RunOrigin, RunSeen};
use muster_domain::provider::{ErrorDetail, ProviderError};
use muster_domain::rerun::{AttemptJob, NewerRun, RerunAnswer, RerunCall, RunOf};
use muster_domain::time::Time;

use super::{Job, RerunTrouble, id_of, key_of, number_of};
use crate::agenda::{Event, HOUR, MINUTE};
use crate::door::Door;
use crate::fault::Fault;
use crate::naive::PeerPolicy;
use crate::world::World;

/// Questions about a repository are answered or refused as those about its owner.
fn registrar(of: &RunOf) -> Result<Registrar, ProviderError> {
    let owner = of.repository.split_once('/').map_or("", |(owner, _)| owner);
    match owner.parse() {
        Ok(entity) => Ok(Registrar { entity, installation: of.installation }),
        Err(_) => Err(ProviderError::Unauthorized(ErrorDetail {
            at: Time::default(),
            operation: "get-run".to_owned(),
            code: "404".to_owned(),
            message: "no such owner".to_owned(),
        })),
    }
}

fn time(millis: i64) -> Time {
    Time::from_millis(millis)
}

impl World {
    /// A run with what a re-run must know of it.
    pub(super) fn seen_run(&self, repository: &str, run: u64) -> Option<RunSeen> {
        let (owner, name) = repository.split_once('/')?;
        let truth = &self.github.truth;
        let view = truth.run_in(owner, name, run)?;
        let attempt = truth.last_attempt(run);
        let created = truth.attempt_jobs(owner, name, run, 1);
        Some(RunSeen {
            is_over: view.is_over,
            conclusion: view.conclusion,
            attempt,
            is_by_app: truth.is_by_app(run, attempt),
            created_at: match self.github.script.old_run {
                Some(old) if old == run => Some(time(self.now - 31 * 24 * HOUR)),
                _ => created.iter().map(|job| time(job.queued_at)).min(),
            },
            origin: truth.run_facts(run).map(|facts| RunOrigin {
                workflow: facts.workflow,
                event: facts.event.clone(),
                branch: Some(facts.branch.clone()),
                head_repository: None,
            }),
        })
    }

    /// Somebody runs jobs of a run again: a person, or our App.
    pub fn run_again(&mut self, repository: &str, run: u64, again: Again, by_app: bool) -> String {
        let (owner, name) = repository.split_once('/').unwrap_or_default();
        let super::Github { truth, jobs, .. } = &mut self.github;
        let fresh = |job: &Truth| {
            let number = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
            let key = key_of(repository, id_of(number));
            let plan = Job { key, run: Some(run), ..jobs[number_of(job.id) as usize].again() };
            jobs.push(plan);
            key.job
        };
        let done = truth.rerun((owner, name), run, again, by_app, fresh, self.now);
        let who = if by_app { "Muster" } else { "somebody" };
        let told = match &done {
            Ok(()) => "201".to_owned(),
            Err(error) => format!("{}: {}", error.status, error.message),
        };
        self.narrate(|| format!("{who} re-runs {again:?} of run {run}: {told}"));
        self.carry_out_news();
        self.dispatch_soon();
        told
    }

    /// A peer has had no answer, and asks again without a look.
    pub(crate) fn rerun_comes_again(&mut self, run: u64) {
        let Some(of) =
            self.tables.reruns.get(&RunKey { app: AppName::MAIN, run }).map(|record| record.of())
        else {
            return;
        };
        self.check_rerun(&of, RerunCall::Failed);
        self.run_again(&of.repository, run, Again::Failed, true);
    }

    fn rerun(&mut self, of: &RunOf, call: RerunCall) -> RerunAnswer {
        let answers = registrar(of).and_then(|registrar| self.ask_github(&registrar, "rerun"));
        match answers {
            Ok(()) => {}
            Err(ProviderError::RateLimited(until)) => return RerunAnswer::RateLimited(until),
            Err(ProviderError::Unauthorized(_)) => return RerunAnswer::NotAllowed,
            Err(ProviderError::Unavailable(_)) => return RerunAnswer::Unanswered,
        }
        match self.github.script.rerun_trouble {
            Some(RerunTrouble::Forbidden) => return RerunAnswer::NotAllowed,
            Some(RerunTrouble::Ignored) => return RerunAnswer::Unanswered,
            None => {}
        }
        let call = match self.naive {
            Some(PeerPolicy::AllFailedAreRerun) => RerunCall::Failed,
            _ => call,
        };
        self.check_rerun(of, call);
        let again = match call {
            RerunCall::Job(id) => Again::Job(id),
            RerunCall::Failed => Again::Failed,
        };
        let told = self.run_again(&of.repository, of.run, again, true);
        if self.lose_answer(Fault::RerunAnswerLost, "rerun").is_err() {
            if self.naive == Some(PeerPolicy::ReRunsAreRetried) {
                self.agenda.at(self.now + 10 * MINUTE, Event::RerunComesAgain(of.run));
            }
            return RerunAnswer::Unanswered;
        }
        match told.split_once(": ") {
            None => RerunAnswer::Accepted,
            Some(("403", why)) => RerunAnswer::of_refusal(why),
            Some(_) => RerunAnswer::Busy,
        }
    }
}

impl WorkflowRuns for Door {
    async fn workflow_run(&self, of: &RunOf) -> Result<Option<RunSeen>, ProviderError> {
        let registrar = registrar(of)?;
        self.token(&registrar).await?;
        self.call(|world| {
            world.ask_github(&registrar, "get-run")?;
            let seen = world.seen_run(&of.repository, of.run);
            world.narrate(|| format!("get-run {}: {}", of.run, told(seen.as_ref())));
            Ok(seen)
        })
        .await
    }

    async fn attempt_jobs(
        &self,
        of: &RunOf,
        attempt: u32,
    ) -> Result<Vec<AttemptJob>, ProviderError> {
        let registrar = registrar(of)?;
        self.call(|world| {
            world.ask_github(&registrar, "list-attempt-jobs")?;
            let (owner, name) = of.repository.split_once('/').unwrap_or_default();
            let jobs = world.github.truth.attempt_jobs(owner, name, of.run, attempt);
            let mut jobs: Vec<AttemptJob> = jobs.into_iter().map(listed).collect();
            if world.naive == Some(PeerPolicy::NoSettleRule) {
                jobs.iter_mut().for_each(|job| job.runner = None);
            }
            Ok(jobs)
        })
        .await
    }

    async fn latest_runs(
        &self,
        of: &RunOf,
        origin: &RunOrigin,
    ) -> Result<Vec<NewerRun>, ProviderError> {
        let registrar = registrar(of)?;
        self.call(|world| {
            world.ask_github(&registrar, "list-latest-runs")?;
            let (owner, name) = of.repository.split_once('/').unwrap_or_default();
            let facts = RunFacts {
                workflow: origin.workflow,
                event: origin.event.clone(),
                branch: origin.branch.clone().unwrap_or_default(),
            };
            if world.naive == Some(PeerPolicy::NoLookAtNewerRuns) {
                return Ok(Vec::new());
            }
            let runs = world.github.truth.runs_like(owner, name, &facts);
            Ok(runs.into_iter().map(|(run, is_over)| NewerRun { run, is_over }).collect())
        })
        .await
    }

    async fn rerun(&self, of: &RunOf, call: RerunCall, before: Time) -> RerunAnswer {
        let answer = self.call(|world| {
            if world.time() >= before {
                return Ok(RerunAnswer::NotSent);
            }
            Ok::<_, ProviderError>(world.rerun(of, call))
        });
        answer.await.unwrap_or(RerunAnswer::Unanswered)
    }
}

fn told(seen: Option<&RunSeen>) -> &str {
    match seen {
        None => "not found",
        Some(RunSeen { is_over: false, .. }) => "goes on",
        Some(RunSeen { conclusion, .. }) => conclusion.as_deref().unwrap_or("over"),
    }
}

fn listed(job: &Truth) -> AttemptJob {
    AttemptJob {
        id: job.id,
        runner_id: job.runner.as_ref().map(|runner| RunnerId(runner.id)),
        runner: job.runner.as_ref().map(|runner| runner.name.clone()),
        conclusion: job.conclusion.as_deref().map(str::to_owned),
        completed_at: job.completed_at.map(time),
    }
}
