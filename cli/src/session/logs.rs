//! `logs`: the groups of the stack, read side by side and put in order of time.

use std::collections::BTreeMap;

use muster_control::admin::Request;
use muster_control::admin::answers::{ExplainedJob, ShownInstance};
use muster_domain::ids::JobKey;
use muster_domain::time::{Seconds, Time};
use muster_sigv4::Call;
use serde_json::{Value, json};

use super::find::Found;
use super::{Session, World, read};
use crate::args::Logs;
use crate::display::escaped_json;
use crate::failure::Failure;
use crate::views::logs::{self, Line, Source};

/// How often new lines are asked for. CloudWatch allows a few calls a second.
const EVERY: Seconds = Seconds(3);
/// How often it is asked what else the lines of a job may be named after: within the time of [`LATE`], so that none is
/// missed.
const ROUNDS_A_NAME: u32 = 5;
/// Lines come to CloudWatch late and in any order.
const LATE: Seconds = Seconds(30);
/// Until a throttled call is made again.
const THROTTLED: Seconds = Seconds(1);
/// So often in a row.
const MAX_THROTTLED: u32 = 5;
/// Most answers of one group in a row, of a megabyte each.
const MAX_ANSWERS: usize = 100;

/// What is read, and how far it was read.
pub(super) struct Reader {
    sources: Vec<Source>,
    /// Only lines with one of these names; empty: all.
    names: Vec<String>,
    from: Time,
    seen: BTreeMap<String, Time>,
}

impl Reader {
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

    /// The new lines of an answer.
    fn take(&mut self, source: Source, answer: &Value, lines: &mut Vec<Line>) {
        for event in answer["events"].as_array().into_iter().flatten() {
            let text = event["message"].as_str().unwrap_or_default().trim_end();
            let at = Time::from_millis(event["timestamp"].as_i64().unwrap_or_default());
            let id = event["eventId"].as_str().map_or_else(|| format!("{at}{text}"), str::to_owned);
            if logs::names_one(text, &self.names) && self.seen.insert(id, at).is_none() {
                lines.push(Line { at, source, text: text.to_owned() });
            }
        }
    }
}

impl<W: World> Session<'_, W> {
    pub(super) async fn logs(&mut self, order: &Logs) -> Result<String, Failure> {
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
        let mut reader = Reader::new(&sources, names, self.world.now() - order.since);
        let lines = self.read_lines(&mut reader).await?;
        if !order.follow {
            if lines.is_empty() {
                self.world.say("There are no such lines; a longer --since looks further back.");
            }
            if let (Some(name), Some(_)) = (&order.what, &found) {
                let more = format!("What its machine wrote: muster logs {name} --machine");
                self.world.say(&more);
            }
            return Ok(self.log_text(&lines));
        }
        let text = self.log_text(&lines);
        self.world.print(&text);
        let mut round = 0;
        while self.world.wait(EVERY).await {
            round += 1;
            // A job that waits gets an instance, and that a machine.
            if let Some(found) = found.as_ref().filter(|_| round % ROUNDS_A_NAME == 0) {
                reader.names = self.names(found).await?;
            }
            let lines = self.read_lines(&mut reader).await?;
            let text = self.log_text(&lines);
            self.world.print(&text);
        }
        Ok(String::new())
    }

    fn log_text(&self, lines: &[Line]) -> String {
        if self.json {
            return lines.iter().map(|line| escaped_json(&line.text) + "\n").collect();
        }
        logs::page(lines, self.world.now(), self.screen)
    }

    /// The lines that came since the last read, in order of time.
    pub(super) async fn read_lines(&mut self, reader: &mut Reader) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        let asked_at = self.world.now();
        let mut stack = self.world.stack().await?;
        let every = |reader: &Reader| reader.sources.iter().map(|one| (*one, None)).collect();
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
                "The log of {} has more than is shown; a shorter --since shows the end.",
                source.name()
            );
            self.world.say(&said);
        }
        lines.sort_by_key(|line| line.at);
        reader.from = reader.from.max(asked_at - LATE);
        reader.seen.retain(|_, at| *at >= reader.from);
        Ok(lines)
    }

    /// All names that log lines may have for what the person means.
    async fn names(&mut self, found: &Found) -> Result<Vec<String>, Failure> {
        let (keys, mut instances) = match found {
            Found::Instance(name) => (&[][..], vec![name.clone()]),
            Found::Jobs(keys) => (keys.as_slice(), Vec::new()),
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
                    let one = read::<ShownInstance>("show", answer)?.instance;
                    names.push(one.name.to_string());
                    names.extend(one.machine().map(ToString::to_string));
                    names.extend(one.claim().map(|key| key.to_string()));
                }
                // Lines are kept for longer than records.
                Err(failure) if failure.code() == "not_found" => names.push(name),
                Err(failure) => return Err(failure),
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}
