//! `watch`: follows the stack, or one job or instance until it ends.

use std::collections::BTreeSet;

use muster_api::Request;
use muster_api::answers::{ExplainedJob, Overview, ShownInstance};
use muster_domain::ids::JobKey;
use muster_domain::instance::{DeleteReason, Instance, State};
use muster_domain::job::{Job, JobStatus};
use muster_domain::time::{Seconds, Time};
use serde_json::{Value, json};

use super::Session;
use super::find::NamedObject;
use super::logs::LogReader;
use crate::display::escaped_json;
use crate::failure::{Failure, parsed};
use crate::sources::Source;
use crate::views::logs::{LogLine, is_news};
use crate::views::watch::{self, Followed};
use crate::world::{Cloud, Console};

/// How often the stack is queried.
const EVERY: Seconds = Seconds(2);
/// Rounds between two reads of the logs: they are late anyway, and CloudWatch allows only a few calls per second.
const ROUNDS_A_LOG: u32 = 2;
/// The age of the oldest log lines shown.
const FIRST: Seconds = Seconds(600);
/// Maximum number of log lines kept for the screen.
const KEPT: usize = 60;
/// Number of failures in a row after which the watch ends.
const MAX_FAILURES: u32 = 30;

/// The exit code of a missing permission.
const NO_RIGHT: u8 = 4;

/// The result of one check.
struct Snapshot {
    followed: Followed,
    answer: Value,
    /// Set once the object has ended; the error explains a bad end.
    ended: Option<Result<(), String>>,
}

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn watch(&mut self, name: Option<&str>) -> Result<String, Failure> {
        match name {
            None => self.watch_stack().await,
            Some(name) => self.follow(name).await,
        }
    }

    async fn watch_stack(&mut self) -> Result<String, Failure> {
        let mut reader = LogReader::new(&Source::FUNCTIONS, Vec::new(), self.world.now() - FIRST);
        let (mut lines, mut told): (Vec<LogLine>, BTreeSet<String>) = Default::default();
        // The last answer, and why the logs cannot be read.
        let (mut shown, mut deaf): (Option<Overview>, Option<Failure>) = Default::default();
        let (mut failures, mut round) = (None, 0);
        loop {
            let outcome = self.answer(&json!(Request::Overview)).await;
            let (answer, note) = self.forgiven(outcome, &mut failures)?;
            if self.json {
                self.print_once(answer.as_ref(), &mut told);
            } else {
                if let Some(answer) = answer {
                    shown = Some(parsed("overview", answer)?);
                }
                let first_new = lines.len();
                // A missing permission does not appear while watching.
                let is_barred = deaf.as_ref().is_some_and(|failure| failure.exit() == NO_RIGHT);
                if !is_barred && round % ROUNDS_A_LOG == 0 {
                    match self.read_lines(&mut reader).await {
                        Ok(new) => {
                            lines.extend(new.into_iter().filter(is_news));
                            deaf = None;
                        }
                        Err(failure) => deaf = Some(failure),
                    }
                }
                let note = note.or_else(|| deaf.as_ref().map(Failure::sentence));
                self.show_stack(shown.as_ref(), &lines, first_new, note.as_deref(), &mut told);
                lines.drain(..lines.len().saturating_sub(KEPT));
            }
            round += 1;
            if !self.world.wait(EVERY).await {
                return Ok(String::new());
            }
        }
    }

    fn show_stack(
        &mut self,
        status: Option<&Overview>,
        lines: &[LogLine],
        first_new: usize,
        note: Option<&str>,
        told: &mut BTreeSet<String>,
    ) {
        let (now, region) = (self.world.now(), self.world.region());
        if self.screen.width.is_some() {
            let height = self.world.height();
            let page = watch::stack(status, &region, lines, note, height, now, self.screen);
            return self.world.redraw(&page);
        }
        let news = note.filter(|note| !told.contains(*note));
        let mut text = String::new();
        if let Some(status) = status {
            text = watch::changes(status, told, now);
        }
        text.push_str(&crate::views::logs::page(&lines[first_new..], now, self.screen));
        self.world.print(&text);
        if let Some(news) = news {
            self.world.say(news);
        }
        told.extend(note.map(str::to_owned));
    }

    /// Returns an answer, or a message in its place: one failed query does not end a running watch. `failures` counts
    /// the failures in a row; `None` before the first answer.
    pub(super) fn forgiven<T>(
        &mut self,
        outcome: Result<T, Failure>,
        failures: &mut Option<u32>,
    ) -> Result<(Option<T>, Option<String>), Failure> {
        match (outcome, *failures) {
            (Ok(answer), _) => {
                *failures = Some(0);
                Ok((Some(answer), None))
            }
            (Err(failure), Some(before)) if before < MAX_FAILURES && is_passing(&failure) => {
                *failures = Some(before + 1);
                Ok((None, Some(failure.sentence())))
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Prints an answer as one line of JSON if it differs from the last one.
    fn print_once(&mut self, answer: Option<&Value>, told: &mut BTreeSet<String>) {
        let Some(answer) = answer else { return };
        // The time of the query is not a change.
        let mut news = answer.clone();
        news["now"] = Value::Null;
        if !told.contains(&news.to_string()) {
            told.clear();
            told.insert(news.to_string());
            self.world.print(&escaped_json(&format!("{answer}\n")));
        }
    }

    async fn follow(&mut self, text: &str) -> Result<String, Failure> {
        let found = self.find(text).await?;
        if let NamedObject::Jobs(keys) = &found
            && keys.len() != 1
        {
            let all: Vec<String> = keys.iter().map(JobKey::to_string).collect();
            let said = format!("{text} has several jobs; name one: {}", all.join(", "));
            return Err(Failure::Usage(said));
        }
        let mut told = BTreeSet::new();
        let mut failures = None;
        loop {
            let outcome = match &found {
                NamedObject::Jobs(keys) => self.check_job(keys[0]).await,
                NamedObject::Instance(name) => self.check_instance(name).await,
            };
            let (look, note) = self.forgiven(outcome, &mut failures)?;
            let Some(look) = look else {
                self.world.say(&note.unwrap_or_default());
                if !self.world.wait(EVERY).await {
                    return Ok(String::new());
                }
                continue;
            };
            let now = self.world.now();
            if self.json {
                self.print_once(Some(&look.answer), &mut told);
            } else if self.screen.width.is_some() {
                let height = self.world.height();
                self.world.redraw(&watch::followed(&look.followed, height, now, self.screen));
            } else {
                let text = watch::news(&look.followed, &mut told, now);
                self.world.print(&text);
            }
            match look.ended {
                Some(Ok(())) => return Ok(String::new()),
                Some(Err(why)) => return Err(Failure::Ended(why)),
                None if self.world.wait(EVERY).await => {}
                None => return Ok(String::new()),
            }
        }
    }

    async fn check_job(&mut self, key: JobKey) -> Result<Snapshot, Failure> {
        let request = json!(Request::Explain { job: Some(key), name: None });
        let mut answer = self.answer(&request).await?;
        let ExplainedJob { job, explanation, .. } = parsed("explain", answer.clone())?;
        let mut story = story_of(&job);
        let claim = job.claim.as_ref().map(ToString::to_string);
        if let Some(name) = job.last_event.runner.clone().or(claim) {
            match self.of_instance(&name, |name| json!(Request::Show { name, github: false })).await
            {
                Ok(shown) => {
                    let one = parsed::<ShownInstance>("show", shown.clone())?.instance;
                    story.extend(events(&one));
                    answer["instance"] = shown["instance"].clone();
                }
                // A runner of a different stack, or one deleted long ago.
                Err(failure) if failure.code() == "not_found" => {}
                Err(failure) => return Err(failure),
            }
        }
        story.sort_by_key(|(at, _)| *at);
        let ended = match (job.last_event.status, job.last_event.conclusion.as_deref()) {
            (JobStatus::Completed, Some("success")) => Some(Ok(())),
            (JobStatus::Completed, how) => {
                Some(Err(format!("Job {key} ended: {}", how.unwrap_or("conclusion unknown"))))
            }
            _ if job.expired => Some(Err(format!("Job {key} expired."))),
            _ => None,
        };
        let title = format!("{} {} ({key})", job.last_event.repository, job.last_event.name);
        Ok(Snapshot { followed: Followed { title, sentences: explanation, story }, answer, ended })
    }

    async fn check_instance(&mut self, name: &str) -> Result<Snapshot, Failure> {
        let answer =
            self.of_instance(name, |name| json!(Request::Show { name, github: false })).await?;
        let shown: ShownInstance = parsed("show", answer.clone())?;
        let one = &shown.instance;
        let is_over = one.state() == State::Deleted;
        let ended = is_over.then(|| failed(one).map_or(Ok(()), Err));
        let title = format!("{}  {}", one.name, one.state());
        let followed =
            Followed { title, sentences: shown.explanation.clone(), story: events(one).collect() };
        Ok(Snapshot { followed, answer, ended })
    }
}

/// Returns whether the next check may succeed.
fn is_passing(failure: &Failure) -> bool {
    match failure {
        Failure::NoAnswer { .. } | Failure::Unreachable { .. } | Failure::Answered { .. } => true,
        Failure::Refused { code, .. } => code == "unavailable",
        failure => failure.is_throttled(),
    }
}

fn events(instance: &Instance) -> impl Iterator<Item = (Time, String)> {
    instance.events.iter().map(|event| (event.at, format!("{}: {}", instance.name, event.what)))
}

fn story_of(job: &Job) -> Vec<(Time, String)> {
    let event = &job.last_event;
    let on = event.runner.as_ref().map(|runner| format!(" on {runner}")).unwrap_or_default();
    let how = event.conclusion.as_deref().unwrap_or("conclusion unknown");
    let times = [
        (event.queued_at, "queued at GitHub".to_owned()),
        (event.started_at.filter(|_| event.runner.is_some()), format!("started{on}")),
        (event.completed_at, format!("completed: {how}")),
    ];
    times.into_iter().filter_map(|(at, what)| Some((at?, what))).collect()
}

/// Returns why a machine ended without use; `None` if it ended normally.
fn failed(instance: &Instance) -> Option<String> {
    let reason = &instance.mark()?.reason;
    match reason {
        DeleteReason::LaunchFailed
        | DeleteReason::BootTimeout
        | DeleteReason::MachineStopped
        | DeleteReason::Unreachable
        | DeleteReason::SpotNotice => {
            Some(format!("Instance {} ended: {}", instance.name, reason.as_str()))
        }
        DeleteReason::Ordered
        | DeleteReason::RunnerEnded
        | DeleteReason::JobCompleted
        | DeleteReason::Idle
        | DeleteReason::NotNeeded
        | DeleteReason::MachineGone
        | DeleteReason::MaxLifetime
        | DeleteReason::BuildEnded
        | DeleteReason::Retired
        | DeleteReason::Outdated => None,
    }
}
