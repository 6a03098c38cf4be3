//! Re-runs jobs that EC2 interrupted. Runs after each sweep, over the records that are due.
//!
//! A look reads everything from GitHub, the intent is committed, and then the call is made. A crash in
//! between leaves the intent, and the next look finds out whether the call had an effect.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use muster_domain::audit::{Audit, AuditKind};
use muster_domain::causes::with_causes;
use muster_domain::ids::{Entity, InstanceName, JobKey, PoolName, RunKey, instance_of_runner};
use muster_domain::instance::Instance;
use muster_domain::launch::record::trouble::{RequestKind, Trouble};
use muster_domain::provider::ProviderError;
use muster_domain::rerun::{
    AttemptJob, Interruption, Rerun, RerunAnswer, RerunNeed, RerunOutcome, RerunState, RerunStep,
    RerunView, Unlooked, decide,
};
use muster_domain::stored::Stored;
use muster_domain::time::{Seconds, Time};
use muster_domain::usage;

use crate::Settings;
use crate::context::{Context, Wired};
use crate::health::note_answer;
use crate::jobs::recover::{account, limited};
use crate::metrics::{self, Measure, Metric};
use crate::ports::{
    CommitError, Instances as _, Jobs as _, Operations as _, Table, WorkflowRuns, Write,
};
use crate::writes::PassError;

/// How old GitHub's report of a run may be when the call is sent. A call that is sent much later could
/// meet an attempt that a person started and that has ended since; [`RerunCall::Job`] is refused
/// then, [`RerunCall::Failed`] is not.
///
/// [`RerunCall::Job`]: muster_domain::rerun::RerunCall::Job
/// [`RerunCall::Failed`]: muster_domain::rerun::RerunCall::Failed
const FRESH: Seconds = Seconds(5);

/// Maximum number of runs of one account that a pass queries GitHub about. A run that goes on costs one
/// call each, so 20 a minute use at most a quarter of an installation's 5,000 calls an hour.
/// Source: docs.github.com/en/rest, "Rate limits for the REST API"
const RUNS_OF_ACCOUNT: usize = 20;

/// The results of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RerunReport {
    /// Runs that GitHub was queried about.
    pub looked: usize,
    /// Number of re-run jobs, by pool.
    pub jobs: BTreeMap<PoolName, u32>,
    /// Parts that failed; the next sweep repeats them.
    pub problems: Vec<String>,
}

impl RerunReport {
    /// Returns the metrics.
    #[must_use]
    pub fn measures(&self, settings: &Settings) -> Vec<Measure> {
        let measure = |(pool, jobs): (&PoolName, &u32)| {
            Measure::of(metrics::pool(settings, pool), Metric::JobsRerun, f64::from(*jobs))
        };
        self.jobs.iter().map(measure).collect()
    }
}

/// The pass.
pub struct Reruns<'a, W: Wired> {
    /// The ports and the settings.
    pub context: Context<'a, W>,
    /// Returns the current time.
    pub clock: &'a dyn Fn() -> Time,
    /// No look starts after this time, shortly before the invocation ends.
    pub until: Time,
    /// The results so far. They remain if the pass is stopped in the middle.
    pub report: &'a RefCell<RerunReport>,
}

impl<W: Wired<Table: Table, Github: WorkflowRuns>> Reruns<'_, W> {
    /// Looks at the runs that the sweep found due, one after the other. Runs of accounts whose rate
    /// limit is used up wait.
    pub async fn run(&self, due: &[Stored<Rerun>], troubles: &[Trouble]) {
        if self.context.settings.unknown_pools().is_some() {
            return;
        }
        let mut limited = limited(troubles, (self.clock)());
        let mut looks: BTreeMap<String, usize> = BTreeMap::new();
        for one in due {
            let entity = one.repository.parse::<Entity>().ok();
            let account = entity.as_ref().map(account).unwrap_or_default();
            if (self.clock)() >= self.until || limited.contains(&account) {
                continue;
            }
            let looks = looks.entry(account.clone()).or_default();
            if *looks == RUNS_OF_ACCOUNT {
                continue;
            }
            *looks += 1;
            match self.look_at(one.key()).await {
                Ok(None) => {}
                Ok(Some(until)) => {
                    let table = self.context.table;
                    let limit = ProviderError::RateLimited(until);
                    if let Some(entity) = &entity {
                        let now = (self.clock)();
                        let noted =
                            note_answer(table, entity, RequestKind::Other, Some(&limit), now).await;
                        self.note(one.run, noted);
                    }
                    limited.insert(account);
                }
                Err(error) => self.note(one.run, Err(error)),
            }
        }
    }

    fn note(&self, run: u64, done: Result<(), PassError>) {
        if let Err(error) = done {
            let problem = format!("interrupted jobs of run {run}: {}", with_causes(&error));
            self.report.borrow_mut().problems.push(problem);
        }
    }

    /// Looks at a run. Returns the end of GitHub's rate limit, if it is reached.
    async fn look_at(&self, run: RunKey) -> Result<Option<Time>, PassError> {
        let table = self.context.table;
        // The listing may be older.
        let Some(record) = table.rerun(run).await?.filter(|one| one.is_due((self.clock)())) else {
            return Ok(None);
        };
        self.report.borrow_mut().looked += 1;
        let pool = self.context.settings.pool(&record.pool);
        let (mut seen, mut fresh) = (RerunView::default(), (self.clock)());
        loop {
            let now = (self.clock)();
            match decide(&record, pool, &seen, now) {
                RerunStep::Look(need) => {
                    if need == RerunNeed::Run {
                        fresh = now + FRESH;
                    }
                    let Err(trouble) = self.look(&need, &record, &mut seen).await? else {
                        continue;
                    };
                    tracing::warn!(
                        %run,
                        error = with_causes(&trouble),
                        "GitHub could not be queried about an interrupted job"
                    );
                    let (why, until) = match trouble {
                        ProviderError::RateLimited(until) => {
                            (Unlooked::RateLimited(until), Some(until))
                        }
                        ProviderError::Unauthorized(_) => (Unlooked::Denied, None),
                        ProviderError::Unavailable(_) => (Unlooked::Unanswered, None),
                    };
                    let now = (self.clock)();
                    self.commit(&record, record.unlooked(why, now), now).await?;
                    return Ok(until);
                }
                RerunStep::Rest(next) => {
                    self.commit(&record, next, now).await?;
                    return Ok(None);
                }
                RerunStep::Call(next, call) => {
                    // A concurrent sweep was faster, or another machine of the run has ended.
                    let Some(stored) = self.commit(&record, next, now).await? else {
                        return Ok(None);
                    };
                    let answer = self.context.github.rerun(&stored.of(), call, fresh).await;
                    tracing::info!(%run, ?call, ?answer, "asked GitHub to re-run interrupted jobs");
                    let until = match &answer {
                        RerunAnswer::RateLimited(until) => Some(*until),
                        _ => None,
                    };
                    let now = (self.clock)();
                    self.commit(&stored, stored.answered(answer, now), now).await?;
                    return Ok(until);
                }
            }
        }
    }

    /// Finds something out. The inner error is GitHub's.
    async fn look(
        &self,
        need: &RerunNeed,
        record: &Rerun,
        seen: &mut RerunView,
    ) -> Result<Result<(), ProviderError>, PassError> {
        let (github, of) = (self.context.github, record.of());
        let looked = match need {
            RerunNeed::Run => github.workflow_run(&of).await.map(|run| seen.run = Some(run)),
            RerunNeed::Newer(origin) => {
                github.latest_runs(&of, origin).await.map(|runs| seen.newer = Some(runs))
            }
            RerunNeed::Jobs(attempt) => match github.attempt_jobs(&of, *attempt).await {
                Ok(jobs) => {
                    self.look_at_jobs(&jobs, record, seen).await?;
                    seen.jobs = Some(jobs);
                    Ok(())
                }
                Err(trouble) => Err(trouble),
            },
        };
        Ok(looked)
    }

    /// Reads Muster's records of the jobs that did not succeed, and of their machines.
    async fn look_at_jobs(
        &self,
        jobs: &[AttemptJob],
        record: &Rerun,
        seen: &mut RerunView,
    ) -> Result<(), PassError> {
        let table = self.context.table;
        let bad = || jobs.iter().filter(|job| !job.is_good());
        let names: BTreeSet<InstanceName> =
            bad().filter_map(|job| instance_of_runner(job.runner.as_deref()?)).collect();
        let names: Vec<InstanceName> = names.into_iter().collect();
        let instances = table.instances(&names).await?;
        let ran: BTreeMap<InstanceName, JobKey> = instances
            .iter()
            .filter_map(|instance| Some((instance.name.clone(), instance.runner.ran?)))
            .collect();
        // A later attempt lists a job that it did not repeat with a new ID, and with its runner.
        let keys_of = |job: &AttemptJob| {
            let app = record.key().app;
            let own = record.repository_id;
            let own = own.map(|repository| JobKey { app, repository, job: job.id });
            let name = job.runner.as_deref().and_then(instance_of_runner);
            own.into_iter().chain(name.and_then(|name| ran.get(&name).copied()))
        };
        let keys: BTreeSet<JobKey> = bad().flat_map(keys_of).collect();
        let keys: Vec<JobKey> = keys.into_iter().collect();
        let rows = table.jobs(&keys).await?;
        let deploying = rows.iter().filter(|job| job.last_event.deploys).map(|job| job.key());
        let deploying: BTreeSet<JobKey> = deploying.collect();
        let deploys = |job: &&AttemptJob| keys_of(job).any(|key| deploying.contains(&key));
        seen.deploys = bad().filter(deploys).map(|job| job.id).collect();
        // EC2's notice may still be on its way, if the machine reports one.
        let is_unsettled = |instance: &Stored<Instance>| {
            let is_lost = record.lost.iter().any(|one| one.instance == instance.name);
            instance.state().is_live() || !is_lost && usage::lacks_notice(instance)
        };
        let (live, ended): (Vec<_>, Vec<_>) = instances.into_iter().partition(is_unsettled);
        seen.live = live.iter().map(|instance| instance.name.clone()).collect();
        seen.interruptions =
            ended.iter().filter_map(|instance| Interruption::of(instance, None)).collect();
        Ok(())
    }

    /// Commits the record, and an audit line where jobs are re-run or stay as they are. Returns none
    /// if a concurrent writer was faster: the next sweep looks again.
    async fn commit(
        &self,
        before: &Stored<Rerun>,
        next: Rerun,
        now: Time,
    ) -> Result<Option<Stored<Rerun>>, PassError> {
        let change = before.change(next);
        let mut writes = vec![Write::from(change.clone())];
        writes.extend(audit(before, change.next(), now).map(Write::Audit));
        let committed = match self.context.table.commit(&writes).await {
            Ok(committed) => committed,
            Err(CommitError::Conflict) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stored = change.stored(&committed);
        if let RerunState::Done { outcome: RerunOutcome::Rerun { jobs, .. }, .. } = stored.state
            && before.due().is_some()
        {
            *self.report.borrow_mut().jobs.entry(stored.pool.clone()).or_default() += jobs;
        }
        Ok(Some(stored))
    }
}

/// Returns the audit line of a step: an intent, or a run whose interrupted jobs stay as they are. While
/// GitHub denies the call, which is repeated every hour, only a call that it accepts has one.
fn audit(before: &Rerun, next: &Rerun, now: Time) -> Option<Audit> {
    let is_too_often = next.too_often_since().is_some() && before.too_often_since().is_none();
    let kind = match &next.state {
        RerunState::Open(_) if is_too_often => AuditKind::JobsNotRerun,
        RerunState::Intended { .. }
            if matches!(before.state, RerunState::Open(_)) && before.denied_since.is_none() =>
        {
            AuditKind::JobsRerun
        }
        RerunState::Open(_) | RerunState::Intended { .. } => return None,
        RerunState::Done { outcome, .. } => match outcome {
            RerunOutcome::Rerun { .. } if before.denied_since.is_some() => AuditKind::JobsRerun,
            // It was recorded when the wait for a person began.
            RerunOutcome::Rerun { .. } | RerunOutcome::InTime | RerunOutcome::TooOften => {
                return None;
            }
            _ => AuditKind::JobsNotRerun,
        },
    };
    let subject = format!("{}/runs/{}", next.repository, next.run);
    Some(Audit { at: now, kind, subject, by: "muster".to_owned(), why: next.sentence(now) })
}
