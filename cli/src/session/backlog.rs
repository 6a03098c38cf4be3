//! What the queues contain and why the functions that read them fail, for `status`, `explain` and
//! `doctor`.

use muster_api::answers::Finding;
use muster_domain::time::Seconds;
use muster_sigv4::Call;
use serde_json::json;

use super::doctor::{of_queue, of_reserves, reserved};
use super::{Session, World};
use crate::args::Dead;
use crate::doctor::backlog::{Backlog, Reserve, error_of, findings};
use crate::doctor::stack::FUNCTIONS;
use crate::failure::Failure;
use crate::queues::{ALL, listing, work_queue};

/// Period in which to look for an error. A failed message is retried within half a minute.
const RECENT: Seconds = Seconds(120);
/// Filter patterns for lines that may be errors: the functions' own, and Lambda's.
const ERRORS: [&str; 2] = ["ERROR", "?error ?timeout ?\"timed out\" ?\"Runtime exited\" ?panicked"];

impl<W: World> Session<'_, W> {
    /// Returns the problems of the queues and their functions; empty without permission to query
    /// AWS.
    pub(super) async fn backlog_findings(&mut self) -> Vec<Finding> {
        self.backlogs().await.unwrap_or_default()
    }

    /// Returns why a job without a record may be in the queue: the failure, or the number of events.
    pub(super) async fn not_on_record(&mut self) -> Option<String> {
        let stack = self.world.stack().await.ok()?;
        let (reserved, counted) = self.counted(&stack).await.ok()?;
        let jobs: Vec<Backlog> =
            counted.into_iter().filter(|one| one.queue == Dead::Jobs && one.messages > 0).collect();
        let first = jobs.first()?.sentence();
        let jobs = self.with_errors(&stack, jobs).await.ok()?;
        let reserved: Vec<_> = reserved
            .into_iter()
            .filter(|(name, _)| matches!(*name, "webhook" | "scale-up"))
            .collect();
        let wrongs = findings(&reserved, &jobs, &stack);
        Some(match wrongs.first() {
            Some(Finding { message, fix, .. }) => {
                format!("{message} {}", fix.as_deref().unwrap_or_default())
            }
            None => format!("{first} and not recorded yet; try again in a minute"),
        })
    }

    async fn backlogs(&mut self) -> Result<Vec<Finding>, Failure> {
        let stack = self.world.stack().await?;
        let (reserved, counted) = self.counted(&stack).await?;
        // Without permission to read logs, stopped functions are still reported.
        let backlogs = self.with_errors(&stack, counted.clone()).await.unwrap_or(counted);
        Ok(findings(&reserved, &backlogs, &stack))
    }

    /// Reads each function's reserved concurrency and counts the queues' messages, in two rounds of
    /// calls.
    async fn counted(&mut self, stack: &str) -> Result<(Vec<Reserve>, Vec<Backlog>), Failure> {
        let mut calls = vec![listing(stack, None)];
        calls.extend(of_reserves(stack));
        let mut answers = self.world.aws(calls).await?.into_iter();
        let listed = answers.next().unwrap_or_else(|| Ok(json!({})));
        let known = FUNCTIONS.into_iter().zip(answers);
        let reserves = known.filter_map(|(name, answer)| reserved(name, answer).ok()).collect();
        let Ok(listed) = listed else { return Ok((reserves, Vec::new())) };
        let urls: Vec<&str> = listed["QueueUrls"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|url| url.as_str())
            .collect();
        let of = |queue: Dead| Some((queue, work_queue(stack, queue, &urls)?));
        let queues: Vec<(Dead, &str)> = ALL.into_iter().filter_map(of).collect();
        if queues.is_empty() {
            return Ok((reserves, Vec::new()));
        }
        let calls: Vec<Call> = queues.iter().map(|(_, url)| of_queue(url)).collect();
        let answers = self.world.aws(calls).await?;
        let counted = queues.iter().zip(answers);
        let counted = counted
            .filter_map(|((queue, _), answer)| Some(Backlog::read(*queue, answer.as_ref().ok()?)));
        Ok((reserves, counted.collect()))
    }

    /// Returns the queues that contain messages, each with the last error of the function that
    /// reads it.
    pub(super) async fn with_errors(
        &mut self,
        stack: &str,
        mut backlogs: Vec<Backlog>,
    ) -> Result<Vec<Backlog>, Failure> {
        backlogs.retain(|one| one.messages > 0);
        if backlogs.is_empty() {
            return Ok(backlogs);
        }
        let since = (self.world.now() - RECENT).as_millis();
        let call = |one: &Backlog, pattern: &str| {
            let body = json!({
                "logGroupName": one.reader().group(stack), "startTime": since, "filterPattern": pattern,
            });
            Call::json("logs", "Logs_20140328.FilterLogEvents", &body)
        };
        let calls = backlogs.iter().flat_map(|one| ERRORS.map(|pattern| call(one, pattern)));
        let mut answers = self.world.aws(calls.collect()).await?.into_iter();
        for one in &mut backlogs {
            let mut last = None;
            for answer in answers.by_ref().take(ERRORS.len()) {
                let answer = match answer {
                    Err(failure) if failure.is_missing() => continue,
                    answer => answer?,
                };
                let events = answer["events"].as_array().into_iter().flatten();
                let errors = events.filter_map(|event| {
                    Some((event["timestamp"].as_i64(), error_of(event["message"].as_str()?)?))
                });
                last = last.into_iter().chain(errors).max_by_key(|(at, _)| *at);
            }
            one.error = last.map(|(_, error)| error);
        }
        Ok(backlogs)
    }
}
