//! The steps of a record, from the end of the machine to the re-run.

use std::collections::BTreeSet;

use super::classify::{AttemptJob, Choice, RerunCall, classify};
use super::{
    Interruption, MAX_RERUNS, Rerun, RerunOutcome, RerunState, RerunWait, RerunWatch, first_watch,
};
use crate::ids::{InstanceName, instance_of_runner};
use crate::observation::{RunOrigin, RunSeen};
use crate::pool::{Pool, RerunPolicy};
use crate::time::{Seconds, Time};

/// GitHub re-runs a run for 30 days after its first attempt.
/// Source: docs.github.com/en/actions, "Re-running workflows and jobs"
const MAX_AGE: Seconds = Seconds(30 * 24 * 3600);
/// Waits between looks at a run that goes on; the last one repeats.
const LOOKS: [u32; 5] = [60, 60, 120, 180, 300];
/// How long GitHub must not show a run before it counts as deleted.
const GONE_AFTER: Seconds = Seconds(5 * 60);
/// How long GitHub may leave queries unanswered.
const ANSWERED_AFTER: Seconds = Seconds(24 * 3600);
/// Wait for a machine that has not ended, and for how long: EC2 reports ends within minutes.
const SETTLE: Seconds = Seconds(30);
const SETTLED_AFTER: Seconds = Seconds(15 * 60);
/// Wait for a newer run. After a day of newer runs, the newest one has replaced this run.
const NEWER_RUN: Seconds = Seconds(5 * 60);
const REPLACED_AFTER: Seconds = Seconds(24 * 3600);
/// Wait for a person after the last re-run, and for how long: meanwhile it is reported.
const PERSON: Seconds = Seconds(30 * 60);
const TOO_OFTEN_AFTER: Seconds = Seconds(24 * 3600);
/// Wait for a permission, and for how long.
const PERMISSION: Seconds = Seconds(3600);
const NOT_ALLOWED_AFTER: Seconds = Seconds(24 * 3600);
/// Wait after a call that got no answer; it doubles.
const UNANSWERED: u32 = 60;
/// Number of calls without an effect after which Muster stops.
const MAX_TRIES: u32 = 5;
/// Wait after GitHub reported that the run is running, or that the job is of an earlier attempt.
const BUSY: Seconds = Seconds(30);

/// A run of the same workflow, event and branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewerRun {
    /// Its ID. GitHub numbers runs in the order of their creation.
    pub run: u64,
    /// Whether it has ended.
    pub is_over: bool,
}

/// What a pass knows about a run; empty at its start.
#[derive(Clone, Debug, Default)]
pub struct RerunView {
    /// The run; inner `None` if GitHub does not show it.
    pub run: Option<Option<RunSeen>>,
    /// The jobs of its last attempt.
    pub jobs: Option<Vec<AttemptJob>>,
    /// Instances of these jobs that have not ended.
    pub live: BTreeSet<InstanceName>,
    /// Interruptions of instances of these jobs, from the instances' own records.
    pub interruptions: Vec<Interruption>,
    /// Those of the jobs that deploy.
    pub deploys: BTreeSet<u64>,
    /// The latest runs of the same origin.
    pub newer: Option<Vec<NewerRun>>,
}

/// What to find out next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerunNeed {
    /// The run.
    Run,
    /// The jobs of this attempt.
    Jobs(u32),
    /// The latest runs of the same origin.
    Newer(RunOrigin),
}

/// The next step of a pass over a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerunStep {
    /// Find something out.
    Look(RerunNeed),
    /// Commit the record.
    Rest(Rerun),
    /// Commit the record, then make the call.
    Call(Rerun, RerunCall),
}

/// GitHub's answer to the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RerunAnswer {
    /// 201.
    Accepted,
    /// 403: an attempt runs, or the job is of an earlier attempt.
    Busy,
    /// 403 or 422: the App has no permission for it.
    NotAllowed,
    /// 403 with a different message: this run cannot be re-run.
    Refused(String),
    /// A rate limit, until this time.
    RateLimited(Time),
    /// No answer: the call may have had an effect.
    Unanswered,
    /// It was too late for the call, which was not sent.
    NotSent,
}

impl RerunAnswer {
    /// Returns the meaning of GitHub's message with a 403 that is no rate limit.
    /// Source: messages in metabase #70916, NeMo-RL #1193, RunsOn #263. Others are shown as they are.
    #[must_use]
    pub fn of_refusal(message: &str) -> Self {
        let text = message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
        match () {
            () if says(&["already running", "current attempt"]) => Self::Busy,
            () if says(&["not accessible", "permission"]) => Self::NotAllowed,
            () => Self::Refused(message.to_owned()),
        }
    }
}

/// Why a look failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlooked {
    /// A rate limit, until this time.
    RateLimited(Time),
    /// GitHub denies access.
    Denied,
    /// No answer.
    Unanswered,
}

/// Decides the next step of a record that is due. `pool`: that of the record, if it exists.
#[must_use]
pub fn decide(record: &Rerun, pool: Option<&Pool>, seen: &RerunView, now: Time) -> RerunStep {
    match &record.state {
        RerunState::Done { .. } => RerunStep::Rest(record.clone()),
        RerunState::Intended { attempt, call, jobs, tries, .. } => {
            let intent = Intent { attempt: *attempt, call: *call, jobs: *jobs, tries: *tries };
            record.after_intent(intent, seen, now)
        }
        RerunState::Open(watch) => record.watch(watch, pool, seen, now),
    }
}

#[derive(Clone, Copy)]
struct Intent {
    attempt: u32,
    call: RerunCall,
    jobs: u32,
    tries: u32,
}

/// Newer runs of the same origin.
enum Newer<'a> {
    /// Not known yet.
    Unknown(&'a RunOrigin),
    /// One has replaced this run.
    Replaces,
    /// One has not ended.
    GoesOn,
    /// None that matters.
    None,
}

impl Rerun {
    fn watch(
        &self,
        watch: &RerunWatch,
        pool: Option<&Pool>,
        seen: &RerunView,
        now: Time,
    ) -> RerunStep {
        let Some(pool) = pool.filter(|pool| !pool.is_removed()) else {
            return self.end(RerunOutcome::PoolGone, now);
        };
        let policy = pool.reruns();
        if policy == RerunPolicy::Off {
            return self.end(RerunOutcome::Off, now);
        }
        let Some(run) = &seen.run else { return RerunStep::Look(RerunNeed::Run) };
        let Some(run) = run else {
            return self.wait_or(RerunWait::Missing, watch, now, |rerun| {
                rerun.end(RerunOutcome::Gone, now)
            });
        };
        if self.last_lost().is_some_and(|lost| run.attempt > lost) {
            let attempt = run.attempt;
            // A call that was withdrawn had an effect after all.
            let is_ours = self.ordered(attempt) && run.is_by_app;
            return self.end(
                match is_ours {
                    true => RerunOutcome::Rerun { attempt, jobs: 1 },
                    false => RerunOutcome::ByOthers { attempt },
                },
                now,
            );
        }
        if run.created_at.is_some_and(|at| now.is_past(at, MAX_AGE)) {
            return self.end(RerunOutcome::TooOld, now);
        }
        if !run.is_over {
            return self.wait(RerunWait::Run, watch, now);
        }
        if run.conclusion.as_deref() == Some("success") {
            return self.end(self.nothing_lost(run), now);
        }
        let Some(jobs) = &seen.jobs else {
            return RerunStep::Look(RerunNeed::Jobs(run.attempt));
        };
        if unsettled(jobs, &seen.live) && !watch.is_over(RerunWait::Machine, now) {
            return self.wait(RerunWait::Machine, watch, now);
        }
        let mut lost = self.lost.clone();
        lost.extend(seen.interruptions.iter().cloned());
        let none = BTreeSet::new();
        let deploys = if policy == RerunPolicy::All { &none } else { &seen.deploys };
        let conclusion = run.conclusion.as_deref();
        let (call, number) = match classify(run.attempt, conclusion, jobs, &lost, deploys) {
            Choice::Nothing(RerunOutcome::InTime) => return self.end(self.nothing_lost(run), now),
            Choice::Nothing(outcome) => return self.end(outcome, now),
            Choice::Call(..) if self.ours.len() >= MAX_RERUNS && !self.ordered(run.attempt + 1) => {
                return self.wait_or(RerunWait::TooOften, watch, now, |rerun| {
                    rerun.end(RerunOutcome::TooOften, now)
                });
            }
            Choice::Call(call, number) => (call, number),
        };
        match self.newer_runs(run, seen) {
            Newer::Unknown(origin) => return RerunStep::Look(RerunNeed::Newer(origin.clone())),
            Newer::Replaces => return self.end(RerunOutcome::Superseded, now),
            Newer::GoesOn => {
                return self.wait_or(RerunWait::NewerRun, watch, now, |rerun| {
                    rerun.end(RerunOutcome::Superseded, now)
                });
            }
            Newer::None => {}
        }
        let mut next = self.clone();
        if !self.ordered(run.attempt + 1) {
            next.ours.push(run.attempt + 1);
        }
        let intent = Intent { attempt: run.attempt, call, jobs: number, tries: 0 };
        next.call(intent, now)
    }

    /// Returns how it ended if no job of the last attempt was interrupted.
    fn nothing_lost(&self, run: &RunSeen) -> RerunOutcome {
        let attempt = run.attempt;
        match self.last_lost() {
            _ if attempt == 1 => RerunOutcome::InTime,
            Some(lost) if lost == attempt => RerunOutcome::InTime,
            _ if self.ordered(attempt) && run.is_by_app => RerunOutcome::Rerun { attempt, jobs: 1 },
            _ => RerunOutcome::ByOthers { attempt },
        }
    }

    /// After the intent: GitHub shows whether a call had an effect.
    fn after_intent(&self, intent: Intent, seen: &RerunView, now: Time) -> RerunStep {
        let Some(run) = &seen.run else { return RerunStep::Look(RerunNeed::Run) };
        match run {
            Some(run) if run.attempt > intent.attempt => {
                let attempt = intent.attempt + 1;
                let is_ours = run.attempt == attempt && run.is_by_app;
                let mut next = self.clone();
                if !is_ours {
                    next.ours.retain(|ours| *ours != attempt);
                }
                if self.last_lost().is_none_or(|lost| lost >= run.attempt) {
                    // A job of the new attempt was interrupted in the meantime, or may have been.
                    next.state = RerunState::Open(first_watch(now));
                    return RerunStep::Rest(next);
                }
                next.end(
                    match is_ours {
                        true => RerunOutcome::Rerun { attempt, jobs: intent.jobs },
                        false => RerunOutcome::ByOthers { attempt: run.attempt },
                    },
                    now,
                )
            }
            _ if intent.tries >= MAX_TRIES => self.end(RerunOutcome::Unanswered, now),
            Some(run) if run.is_over => match self.newer_runs(run, seen) {
                Newer::Unknown(origin) => RerunStep::Look(RerunNeed::Newer(origin.clone())),
                Newer::None => self.call(intent, now),
                // Decided anew: a newer run began after the first call.
                Newer::Replaces | Newer::GoesOn => {
                    let state = RerunState::Open(first_watch(now));
                    RerunStep::Rest(Self { state, ..self.clone() })
                }
            },
            // A re-run has begun, or GitHub does not show the run for a moment.
            Some(_) | None => {
                let due = now + UNANSWERED_WAIT;
                RerunStep::Rest(self.intended(Intent { tries: intent.tries + 1, ..intent }, due))
            }
        }
    }

    fn newer_runs<'a>(&self, run: &'a RunSeen, seen: &RerunView) -> Newer<'a> {
        let Some(origin) = &run.origin else { return Newer::None };
        let Some(listed) = &seen.newer else { return Newer::Unknown(origin) };
        let newer = || listed.iter().filter(|other| other.run > self.run);
        match origin.is_pull_request() {
            true if newer().next().is_some() => Newer::Replaces,
            false if newer().any(|newer| !newer.is_over) => Newer::GoesOn,
            _ => Newer::None,
        }
    }

    fn call(&self, intent: Intent, now: Time) -> RerunStep {
        let due = now + Seconds(UNANSWERED << intent.tries.min(3));
        let next = self.intended(Intent { tries: intent.tries + 1, ..intent }, due);
        RerunStep::Call(next, intent.call)
    }

    fn intended(&self, intent: Intent, due: Time) -> Self {
        let Intent { attempt, call, jobs, tries } = intent;
        let state = RerunState::Intended { attempt, call, jobs, due, tries };
        Self { state, ..self.clone() }
    }

    fn end(&self, outcome: RerunOutcome, now: Time) -> RerunStep {
        RerunStep::Rest(self.done(outcome, now))
    }

    fn done(&self, outcome: RerunOutcome, now: Time) -> Self {
        Self { state: RerunState::Done { at: now, outcome }, ..self.clone() }
    }

    fn wait(&self, wait: RerunWait, watch: &RerunWatch, now: Time) -> RerunStep {
        let watch = watch.next(wait, now);
        // GitHub has answered, so an earlier denial is over, or the next call meets it again.
        let denied_since = None;
        RerunStep::Rest(Self { state: RerunState::Open(watch), denied_since, ..self.clone() })
    }

    fn wait_or(
        &self,
        wait: RerunWait,
        watch: &RerunWatch,
        now: Time,
        end: impl Fn(&Self) -> RerunStep,
    ) -> RerunStep {
        if watch.is_over(wait, now) { end(self) } else { self.wait(wait, watch, now) }
    }

    /// Returns the record after GitHub's answer to its call.
    #[must_use]
    pub fn answered(&self, answer: RerunAnswer, now: Time) -> Self {
        let RerunState::Intended { attempt, call, jobs, due, tries } = self.state else {
            return self.clone();
        };
        let intent = Intent { attempt, call, jobs, tries };
        let mut withdrawn = self.clone();
        withdrawn.ours.retain(|ours| *ours != attempt + 1);
        match answer {
            RerunAnswer::Accepted => {
                let done = self.done(RerunOutcome::Rerun { attempt: attempt + 1, jobs }, now);
                Self { denied_since: None, ..done }
            }
            RerunAnswer::Busy => self.intended(intent, now + BUSY),
            RerunAnswer::Unanswered => self.intended(intent, due),
            // Nothing was processed.
            RerunAnswer::RateLimited(until) => {
                self.intended(Intent { tries: tries.saturating_sub(1), ..intent }, until)
            }
            RerunAnswer::NotSent => {
                self.intended(Intent { tries: tries.saturating_sub(1), ..intent }, now)
            }
            RerunAnswer::Refused(message) => withdrawn.done(RerunOutcome::Refused { message }, now),
            // The next look decides again.
            RerunAnswer::NotAllowed => {
                withdrawn.state = RerunState::Open(first_watch(now));
                withdrawn.denied(now)
            }
        }
    }

    /// Returns the record after a look that failed.
    #[must_use]
    pub fn unlooked(&self, why: Unlooked, now: Time) -> Self {
        match why {
            Unlooked::RateLimited(until) => self.clone().due_at(until),
            Unlooked::Unanswered => match &self.state {
                RerunState::Open(watch) if watch.is_over(RerunWait::Answer, now) => {
                    self.done(RerunOutcome::Unanswered, now)
                }
                RerunState::Open(watch) => {
                    let state = RerunState::Open(watch.next(RerunWait::Answer, now));
                    Self { state, ..self.clone() }
                }
                RerunState::Intended { .. } | RerunState::Done { .. } => {
                    self.clone().due_at(now + Seconds(UNANSWERED))
                }
            },
            Unlooked::Denied => self.denied(now),
        }
    }

    const fn due_at(mut self, at: Time) -> Self {
        match &mut self.state {
            RerunState::Open(watch) => watch.due = at,
            RerunState::Intended { due, .. } => *due = at,
            RerunState::Done { .. } => {}
        }
        self
    }

    /// GitHub denies the App access to the run or to the call.
    fn denied(&self, now: Time) -> Self {
        let since = self.denied_since.unwrap_or(now);
        if now.is_past(since, NOT_ALLOWED_AFTER) {
            return self.done(RerunOutcome::NotAllowed, now);
        }
        Self { denied_since: Some(since), ..self.clone() }.due_at(now + PERMISSION)
    }
}

const UNANSWERED_WAIT: Seconds = Seconds(UNANSWERED);

impl RerunWatch {
    /// Returns whether it has waited for this for as long as it should.
    fn is_over(&self, wait: RerunWait, now: Time) -> bool {
        let longest = match wait {
            RerunWait::Missing => GONE_AFTER,
            RerunWait::Answer => ANSWERED_AFTER,
            RerunWait::Machine => SETTLED_AFTER,
            RerunWait::NewerRun => REPLACED_AFTER,
            RerunWait::TooOften => TOO_OFTEN_AFTER,
            RerunWait::Run => return false,
        };
        self.wait == wait && now.is_past(self.since, longest)
    }

    fn next(&self, wait: RerunWait, now: Time) -> Self {
        let (looks, since) = if self.wait == wait { (self.looks, self.since) } else { (0, now) };
        let after = match wait {
            RerunWait::Run | RerunWait::Answer => {
                Seconds(LOOKS[(looks as usize).min(LOOKS.len() - 1)])
            }
            RerunWait::Missing => GONE_AFTER,
            RerunWait::Machine => SETTLE,
            RerunWait::NewerRun => NEWER_RUN,
            RerunWait::TooOften => PERSON,
        };
        Self { due: now + after, looks: looks + 1, wait, since }
    }
}

/// Returns whether a job that did not succeed ran on a machine that has not ended: GitHub may report
/// the end of an interrupted job before EC2 reports that of its machine.
fn unsettled(jobs: &[AttemptJob], live: &BTreeSet<InstanceName>) -> bool {
    let is_live = |job: &AttemptJob| {
        job.runner.as_deref().and_then(instance_of_runner).is_some_and(|name| live.contains(&name))
    };
    jobs.iter().any(|job| !job.is_good() && is_live(job))
}
