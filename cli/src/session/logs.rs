//! `logs`: reads the stack's log groups concurrently and merges them by time.

use std::collections::BTreeMap;

use muster_api::Request;
use muster_api::answers::{ExplainedJob, ShownInstance};
use muster_domain::ids::JobKey;
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::Session;
use super::find::NamedObject;
use crate::args::LogsArgs;
use crate::display::escaped_json;
use crate::failure::{Failure, parsed};
use crate::sources::Source;
use crate::views::logs::{self, LogLine};
use crate::world::{Cloud, Console};

/// How often new lines are requested. CloudWatch allows a few calls per second.
const EVERY: Seconds = Seconds(3);
/// How often, in rounds, the names that a job's lines may contain are read again. This is within [`LATE`], so that no
/// line is missed.
const ROUNDS_A_NAME: u32 = 5;
/// Lines reach CloudWatch late and in any order.
const LATE: Seconds = Seconds(30);
/// Time until a throttled call is repeated.
const THROTTLED: Seconds = Seconds(1);
/// Maximum number of throttled calls in a row.
const MAX_THROTTLED: u32 = 5;
/// Maximum number of answers per group in a row, of up to a megabyte each.
const MAX_ANSWERS: usize = 100;

/// The position of a reader in the stack's logs.
pub(super) struct LogReader {
    sources: Vec<Source>,
    /// Only lines that contain one of these names; all if empty.
    names: Vec<String>,
    from: Time,
    seen: BTreeMap<String, Time>,
}

impl LogReader {
    pub(super) fn new(sources: &[Source], names: Vec<String>, from: Time) -> Self {
        Self { sources: sources.to_vec(), names, from, seen: BTreeMap::new() }
    }

    fn call(&self, stack: &str, source: Source, token: Option<&str>) -> Call {
        let mut body = json!({
            "logGroupName": source.group(stack),
            "startTime": self.from.as_millis(),
        });
        if let Some(token) = token {
            body["nextToken"] = json!(token);
        }
        let any: Vec<String> = self.names.iter().map(|name| format!("?\"{name}\"")).collect();
        match self.names.as_slice() {
            [] => {}
            [name] => body["filterPattern"] = json!(format!("\"{name}\"")),
            _ => body["filterPattern"] = json!(any.join(" ")),
        }
        Call::json("logs", "Logs_20140328.FilterLogEvents", &body)
    }

    /// Adds the new lines of an answer.
    fn take(&mut self, source: Source, answer: &Value, lines: &mut Vec<LogLine>) {
        for event in answer["events"].as_array().into_iter().flatten() {
            let text = event["message"].as_str().unwrap_or_default().trim_end();
            let at = Time::from_millis(event["timestamp"].as_i64().unwrap_or_default());
            let id = event["eventId"].as_str().map_or_else(|| format!("{at}{text}"), str::to_owned);
            if logs::names_one(text, &self.names) && self.seen.insert(id, at).is_none() {
                lines.push(LogLine { at, source, text: text.to_owned() });
            }
        }
    }
}

impl<W: Cloud + Console> Session<'_, W> {
    pub(super) async fn logs(&mut self, order: &LogsArgs) -> Result<String, Failure> {
        if let (Some(name), true) = (order.what.as_deref(), order.machine) {
            return self.machine_log(name).await;
        }
        let (sources, found) = match order.what.as_deref() {
            None => (Source::ALL.to_vec(), None),
            Some(what) => match Source::ALL.into_iter().find(|one| one.name() == what) {
                Some(one) => (vec![one], None),
                None => (Source::FUNCTIONS.to_vec(), Some(self.find(what).await?)),
            },
        };
        let names = match &found {
            Some(found) => self.names(found).await?,
            None => Vec::new(),
        };
        let mut reader = LogReader::new(&sources, names, self.world.now() - order.since);
        let lines = self.read_lines(&mut reader).await?;
        if !order.follow {
            if lines.is_empty() {
                self.world.say("No matching lines. Use a longer --since to search further back.");
            }
            if let (Some(name), Some(_)) = (&order.what, &found) {
                let more = format!("Its machine's own log: muster logs {name} --machine");
                self.world.say(&more);
            }
            return Ok(self.log_text(&lines));
        }
        let text = self.log_text(&lines);
        self.world.print(&text);
        let mut round = 0;
        while self.world.wait(EVERY).await {
            round += 1;
            // A waiting job gets an instance, and that a machine.
            if let Some(found) = found.as_ref().filter(|_| round % ROUNDS_A_NAME == 0) {
                reader.names = self.names(found).await?;
            }
            let lines = self.read_lines(&mut reader).await?;
            let text = self.log_text(&lines);
            self.world.print(&text);
        }
        Ok(String::new())
    }

    fn log_text(&self, lines: &[LogLine]) -> String {
        if self.json {
            return lines.iter().map(|line| escaped_json(&line.text) + "\n").collect();
        }
        logs::page(lines, self.world.now(), self.screen)
    }

    /// Returns the lines since the last read, in order of time.
    pub(super) async fn read_lines(
        &mut self,
        reader: &mut LogReader,
    ) -> Result<Vec<LogLine>, Failure> {
        let mut lines = Vec::new();
        let asked_at = self.world.now();
        let mut stack = self.world.stack().await?;
        let every = |reader: &LogReader| reader.sources.iter().map(|one| (*one, None)).collect();
        let mut open: Vec<(Source, Option<String>)> = every(reader);
        let (mut missing, mut throttled) = (0, 0);
        for _ in 0..MAX_ANSWERS {
            let calls = open.iter().map(|(one, token)| reader.call(&stack, *one, token.as_deref()));
            let answers = self.world.aws(calls.collect()).await?;
            let mut is_throttled = false;
            let mut next = Vec::new();
            for ((source, token), answer) in open.into_iter().zip(answers) {
                match answer {
                    Ok(answer) => {
                        reader.take(source, &answer, &mut lines);
                        let token = answer["nextToken"].as_str().map(str::to_owned);
                        next.extend(token.map(|token| (source, Some(token))));
                    }
                    Err(failure) if failure.is_missing() => missing += 1,
                    Err(failure) if failure.is_throttled() && throttled < MAX_THROTTLED => {
                        is_throttled = true;
                        next.push((source, token));
                    }
                    Err(failure) => return Err(failure),
                }
            }
            open = next;
            throttled = if is_throttled { throttled + 1 } else { 0 };
            if missing == reader.sources.len() {
                self.world.other_stack().await?;
                (stack, missing, open) = (self.world.stack().await?, 0, every(reader));
            }
            if open.is_empty() || is_throttled && !self.world.wait(THROTTLED).await {
                break;
            }
        }
        if let Some((source, _)) = open.first() {
            let said = format!(
                "The log of {} has more lines than are shown; use a shorter --since to see the \
                newest.",
                source.name()
            );
            self.world.say(&said);
        }
        lines.sort_by_key(|line| line.at);
        reader.from = reader.from.max(asked_at - LATE);
        reader.seen.retain(|_, at| *at >= reader.from);
        Ok(lines)
    }

    /// Returns all names that log lines may contain for the object.
    async fn names(&mut self, found: &NamedObject) -> Result<Vec<String>, Failure> {
        let (keys, mut instances) = match found {
            NamedObject::Instance(name) => (&[][..], vec![name.clone()]),
            NamedObject::Jobs(keys) => (keys.as_slice(), Vec::new()),
        };
        let mut names: Vec<String> = keys.iter().map(JobKey::to_string).collect();
        for key in keys {
            let request = Request::Explain { job: Some(*key), name: None };
            match self.asked::<ExplainedJob>("explain", request).await {
                Ok(told) => {
                    let claim = told.job.claim.map(|name| name.to_string());
                    instances.extend(told.job.last_event.runner.or(claim));
                }
                Err(failure) if failure.code() == "not_found" => {}
                Err(failure) => return Err(failure),
            }
        }
        for name in instances {
            let request = |name| json!(Request::Show { name, github: false });
            match self.of_instance(&name, request).await {
                Ok(answer) => {
                    let one = parsed::<ShownInstance>("show", answer)?.instance;
                    names.push(one.name.to_string());
                    names.extend(one.machine().map(ToString::to_string));
                    names.extend(one.claim().map(|key| key.to_string()));
                }
                // Lines are kept longer than records.
                Err(failure) if failure.code() == "not_found" => names.push(name),
                Err(failure) => return Err(failure),
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}
