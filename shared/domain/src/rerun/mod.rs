//! Re-runs of jobs that EC2 interrupted: one record per workflow run. It is opened in the transaction
//! that ends an interrupted machine's record, and a pass re-runs the job once its run has ended.
//! GitHub re-runs jobs only of a run that has ended.
//! Source: docs.github.com/en/actions, "Re-running workflows and jobs"

mod classify;
mod decide;
mod sentences;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::classify::{AttemptJob, Choice, RerunCall, classify};
pub use self::decide::{NewerRun, RerunAnswer, RerunNeed, RerunStep, RerunView, Unlooked, decide};
use crate::SCHEMA;
use crate::ids::{
    AppName, InstallationId, InstanceName, PoolName, RunKey, RunnerId, instance_of_runner,
};
use crate::instance::{Instance, State};
use crate::job::{Job, JobEvent};
use crate::time::{Seconds, Time};
use crate::usage::{self, EarlyEndCause};

/// Wait before the first look: a job's siblings and other machines may still be ending.
const FIRST_LOOK: Seconds = Seconds(60);
/// Maximum number of attempts of a run that Muster causes.
pub const MAX_RERUNS: usize = 2;
/// Maximum number of interruptions in a record. The jobs of others are still found by their machines'
/// own records.
const MAX_LOST: usize = 100;

/// A job's machine that EC2 took away.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Interruption {
    /// The machine's instance.
    pub instance: InstanceName,
    /// The registration of its runner.
    pub runner: Option<RunnerId>,
    /// The attempt of the run, if GitHub's event of the job was received.
    pub attempt: Option<u32>,
    /// When the machine ended.
    pub at: Time,
    /// A job of this runner that GitHub reports as ended earlier was not interrupted.
    pub cut_from: Time,
    /// Whether EC2 reclaimed Spot capacity. Otherwise the host failed.
    pub is_spot: bool,
    /// Whether the machine stopped its agent before it ended. GitHub then calls the job failed or
    /// cancelled (paradedb #5305); if the machine just disappears, it calls the job failed.
    pub is_stopped: bool,
    /// How long the job had run.
    pub worked: Seconds,
    /// The actor of the job ([`crate::job::JobEvent::actor`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Arc<str>>,
}

impl Interruption {
    /// Returns the interruption of the job that an ended instance ran, if EC2 caused its end and the
    /// machine did not report the job's. GitHub may still show that the job ended by itself.
    #[must_use]
    pub fn of(instance: &Instance, job: Option<&Job>) -> Option<Self> {
        let started = instance.runner.started.as_ref();
        let is_ended = started.is_some_and(|job| job.completed_at.is_some());
        if instance.state() != State::Deleted || is_ended {
            return None;
        }
        let cause = usage::interruption(instance)?;
        let (at, _) = usage::end_of(instance);
        let runner = &instance.runner;
        let event = job.map(|job| &job.last_event);
        let began = started.map(|job| job.at);
        let began = began.or_else(|| event.and_then(|event| event.started_at)).unwrap_or(at);
        let exit = runner.exit.as_ref().filter(|exit| exit.stopped_for.is_some());
        let stopped = exit.map_or(at, |exit| exit.at.min(at));
        Some(Self {
            instance: instance.name.clone(),
            runner: runner.id,
            attempt: event.map(|event| event.attempt),
            at,
            cut_from: usage::cut_from(instance),
            is_spot: cause == EarlyEndCause::SpotNotice,
            is_stopped: exit.is_some() || runner.interrupted_at.is_some(),
            worked: stopped.since(began),
            actor: event.and_then(|event| event.actor.clone()),
        })
    }

    /// Returns whether the interruption cut this job short, as far as GitHub's events report it.
    #[must_use]
    pub fn has_cut(&self, job: &Job) -> bool {
        let event = &job.last_event;
        let ends = matches!(event.conclusion.as_deref(), None | Some("failure" | "cancelled"));
        ends && !job.is_copy() && event.completed_at.is_none_or(|at| at >= self.cut_from)
    }

    /// Returns whether a job ran on this runner.
    fn ran(&self, job: &AttemptJob) -> bool {
        let is_named = || job.runner.as_deref().and_then(instance_of_runner);
        match (self.runner, job.runner_id) {
            (Some(own), Some(of)) => own == of,
            _ => is_named().is_some_and(|name| name == self.instance),
        }
    }
}

/// The workflow run of a job, as far as Muster knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOf {
    /// Its ID.
    pub run: u64,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// GitHub's ID of the repository, if its event was received.
    pub repository_id: Option<u64>,
    /// The App installation to use.
    pub installation: Option<InstallationId>,
}

impl RunOf {
    /// Returns its key. Its repository names the App.
    #[must_use]
    pub fn key(&self) -> RunKey {
        let app = AppName::split(&self.repository).map_or(AppName::MAIN, |(app, _)| app);
        RunKey { app, run: self.run }
    }

    /// Returns the run of an instance's job: according to GitHub's event, else to the machine's hook.
    /// The hook's word suffices, because only a job that GitHub lists with this runner is re-run.
    #[must_use]
    pub fn of(instance: &Instance, job: Option<&Job>) -> Option<Self> {
        if let Some(event) = job.map(|job| &job.last_event) {
            let (run, repository) = (event.run, event.repository.clone());
            let repository_id = Some(event.key.repository);
            return Some(Self { run, repository, repository_id, installation: event.installation });
        }
        let started = instance.runner.started.as_ref()?;
        let (run, repository) = (started.run, started.repository.as_str().into());
        Some(Self { run, repository, repository_id: None, installation: instance.installation })
    }
}

/// Why the run is not re-run yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RerunWait {
    /// The run has not ended.
    Run,
    /// GitHub does not show the run.
    Missing,
    /// GitHub does not answer the queries, or lists more jobs than Muster reads.
    Answer,
    /// A machine of a job that did not succeed has not ended: EC2 may have taken it too.
    Machine,
    /// A newer run of the same workflow and branch has not ended; a re-run could cancel it through
    /// their concurrency group (paradedb #5305).
    NewerRun,
    /// Muster re-ran it as often as it does. A person may re-run it, or a newer run may replace it.
    TooOften,
}

/// The wait of an open record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RerunWatch {
    /// When to look next.
    pub due: Time,
    /// Number of looks so far for this reason.
    pub looks: u32,
    /// What it waits for.
    pub wait: RerunWait,
    /// Since when.
    pub since: Time,
}

/// How a record ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RerunOutcome {
    /// Muster re-ran it, as this attempt.
    Rerun {
        /// The new attempt.
        attempt: u32,
        /// Number of jobs that the call was for.
        jobs: u32,
    },
    /// A person or a different App re-ran it, as this attempt.
    ByOthers {
        /// The new attempt.
        attempt: u32,
    },
    /// GitHub no longer shows the run.
    Gone,
    /// The run is older than GitHub re-runs.
    TooOld,
    /// No job was interrupted: it ended in time, or GitHub shows no job of that runner.
    InTime,
    /// A person cancelled the run.
    Cancelled,
    /// Other jobs failed by themselves, and no call re-runs only some of several jobs.
    Mixed,
    /// Only jobs of a deployment environment were interrupted.
    Deploys,
    /// A newer run replaced it.
    Superseded,
    /// Muster re-ran it as often as it does.
    TooOften,
    /// The pool does not re-run jobs.
    Off,
    /// The pool no longer exists.
    PoolGone,
    /// The App has no permission to re-run jobs.
    NotAllowed,
    /// GitHub refused, with this message.
    Refused {
        /// GitHub's message.
        message: String,
    },
    /// GitHub did not answer the call.
    Unanswered,
}

/// A record's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RerunState {
    /// Waits.
    Open(RerunWatch),
    /// The call is recorded, and may have been sent.
    Intended {
        /// The attempt that it is for.
        attempt: u32,
        /// The call.
        call: RerunCall,
        /// Number of jobs that it is for.
        jobs: u32,
        /// When to look whether it had an effect.
        due: Time,
        /// How often it was sent.
        tries: u32,
    },
    /// Closed, unless a job of a later attempt is interrupted.
    Done {
        /// Since when.
        at: Time,
        /// How it ended.
        outcome: RerunOutcome,
    },
}

/// The record of a workflow run with an interrupted job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rerun {
    /// The record's schema version.
    pub schema: u16,
    /// The ID of the run, unique at GitHub.
    pub run: u64,
    /// `owner/repo`.
    pub repository: Arc<str>,
    /// GitHub's ID of the repository, if known.
    pub repository_id: Option<u64>,
    /// The App installation to use: that of the repository.
    pub installation: Option<InstallationId>,
    /// The pool of the last interrupted job.
    pub pool: PoolName,
    /// When it was created.
    pub opened_at: Time,
    /// The interruptions, oldest first.
    pub lost: Vec<Interruption>,
    /// The attempts that Muster ordered, or was about to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ours: Vec<u32>,
    /// Since when GitHub denies the App the permission to re-run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_since: Option<Time>,
    /// The state.
    #[serde(flatten)]
    pub state: RerunState,
}

impl Rerun {
    /// Returns the record with one more interruption, or with what a later event of GitHub adds to one.
    /// `None` if nothing changes.
    #[must_use]
    pub fn with(
        before: Option<&Self>,
        run: &RunOf,
        pool: &PoolName,
        one: Interruption,
        now: Time,
    ) -> Option<Self> {
        let is_known = |known: &&Interruption| known.instance == one.instance;
        let mut next = match before {
            Some(before) if before.lost.iter().any(|known| is_known(&known)) => {
                return before.completed(run, &one);
            }
            // All interruptions of a large run write this record.
            Some(before) if before.is_full(&one) && before.due().is_some() => return None,
            Some(before) => before.clone(),
            None => Self {
                schema: SCHEMA,
                run: run.run,
                repository: run.repository.clone(),
                repository_id: run.repository_id,
                installation: run.installation,
                pool: pool.clone(),
                opened_at: now,
                lost: Vec::new(),
                ours: Vec::new(),
                denied_since: None,
                state: RerunState::Open(first_watch(now)),
            },
        };
        next.pool = pool.clone();
        next.repository_id = next.repository_id.or(run.repository_id);
        let is_settled = match &next.state {
            RerunState::Open(_) | RerunState::Intended { .. } => true,
            // Its attempt was re-run already.
            RerunState::Done { outcome, .. } => match outcome {
                RerunOutcome::Rerun { attempt, .. } | RerunOutcome::ByOthers { attempt } => {
                    one.attempt.is_some_and(|lost| lost < *attempt)
                }
                _ => false,
            },
        };
        if !is_settled {
            next.state = RerunState::Open(first_watch(now));
            next.denied_since = None;
        }
        if !next.is_full(&one) {
            next.lost.drain(..(next.lost.len() + 1).saturating_sub(MAX_LOST));
            next.lost.push(one);
        }
        Some(next)
    }

    /// Returns whether there is no room for an interruption. It replaces the oldest one of an earlier
    /// attempt, because the latest attempt with an interruption decides what is re-run.
    fn is_full(&self, one: &Interruption) -> bool {
        let is_latest = |first: &Interruption| first.attempt >= one.attempt;
        self.lost.len() >= MAX_LOST && self.lost.first().is_some_and(is_latest)
    }

    /// Returns the record with what GitHub's event adds to a known interruption. `None` if nothing
    /// changes.
    fn completed(&self, run: &RunOf, one: &Interruption) -> Option<Self> {
        let mut next = self.clone();
        next.repository_id = self.repository_id.or(run.repository_id);
        next.installation = run.installation.or(self.installation);
        for known in next.lost.iter_mut().filter(|known| known.instance == one.instance) {
            known.runner = known.runner.or(one.runner);
            known.attempt = known.attempt.or(one.attempt);
            known.actor = known.actor.take().or_else(|| one.actor.clone());
        }
        (next != *self).then_some(next)
    }

    /// Returns its key.
    #[must_use]
    pub fn key(&self) -> RunKey {
        self.of().key()
    }

    /// Returns the run.
    #[must_use]
    pub fn of(&self) -> RunOf {
        let Self { run, repository, repository_id, installation, .. } = self;
        RunOf {
            run: *run,
            repository: repository.clone(),
            repository_id: *repository_id,
            installation: *installation,
        }
    }

    /// Returns the sort key of the order of looks.
    #[must_use]
    pub fn turn(&self) -> (Option<Time>, u64) {
        (self.due(), self.run)
    }

    /// Returns whether a look is due.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    /// Returns when the next look is due. `None` if the record is closed.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        match &self.state {
            RerunState::Open(watch) => Some(watch.due),
            RerunState::Intended { due, .. } => Some(*due),
            RerunState::Done { .. } => None,
        }
    }

    /// Returns how it ended, and when. `None` if the record is open.
    #[must_use]
    pub const fn outcome(&self) -> Option<(Time, &RerunOutcome)> {
        match &self.state {
            RerunState::Open(_) | RerunState::Intended { .. } => None,
            RerunState::Done { at, outcome } => Some((*at, outcome)),
        }
    }

    /// Returns since when it waits for a person to re-run what Muster does not re-run again.
    #[must_use]
    pub fn too_often_since(&self) -> Option<Time> {
        match &self.state {
            RerunState::Open(watch) if watch.wait == RerunWait::TooOften => Some(watch.since),
            _ => None,
        }
    }

    /// Returns whether Muster ordered this attempt of the run.
    #[must_use]
    pub fn ordered(&self, attempt: u32) -> bool {
        self.ours.contains(&attempt)
    }

    /// Returns whether Muster caused the attempt of a job's event. Until GitHub has answered Muster's
    /// call, a person may have re-run the job, and the event's sender decides. After its answer, the
    /// sender does not matter: GitHub does not document who that is for a re-run by an App.
    #[must_use]
    pub fn has_caused(&self, event: &JobEvent) -> bool {
        let is_answered = matches!(self.outcome(), Some((_, RerunOutcome::Rerun { attempt, .. }))
            if *attempt == event.attempt);
        self.ordered(event.attempt) && (is_answered || !event.by_person)
    }

    /// Returns the actor of its first interrupted job: GitHub names the App as the sender of events
    /// about a re-run.
    #[must_use]
    pub fn actor(&self) -> Option<Arc<str>> {
        self.lost.iter().find_map(|one| one.actor.clone())
    }

    /// Returns the latest attempt with an interruption. `None` if GitHub's event of an interrupted job
    /// was not received.
    fn last_lost(&self) -> Option<u32> {
        self.lost.iter().try_fold(0, |last, one| Some(one.attempt?.max(last)))
    }
}

fn first_watch(now: Time) -> RerunWatch {
    RerunWatch { due: now + FIRST_LOOK, looks: 0, wait: RerunWait::Run, since: now }
}
