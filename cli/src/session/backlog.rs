//! What the queues hold and why the functions that read them fail, for `status`, `explain` and `doctor`.

use muster_control::admin::answers::{Place, Severity, Want};
use muster_domain::time::Seconds;
use muster_sigv4::Call;
use serde_json::json;

use super::doctor::{of_queue, of_reserves, reserved};
use super::{Session, World};
use crate::args::Dead;
use crate::doctor::Finding;
use crate::doctor::backlog::{Backlog, error_of, findings};
use crate::doctor::stack::FUNCTIONS;
use crate::failure::Failure;
use crate::queues::{ALL, listing, work_queue};

/// How far back an error is looked for. A message that fails is tried again within half a minute.
const RECENT: Seconds = Seconds(120);

impl<W: World> Session<'_, W> {
    /// What is wrong with the queues and their functions, as items of `status`. An operator who may not ask AWS gets none.
    pub(super) async fn backlog_wants(&mut self) -> Vec<Want> {
        let all = self.backlogs().await.unwrap_or_default();
        let wrongs = all.into_iter().filter(|one| one.sentence.is_some());
        let want = |(number, one): (usize, Finding)| {
            let sentence = one.sentence.unwrap_or_default().trim_end_matches('.').to_owned();
            let key = format!("backlog:{number}");
            let (severity, place) = (Severity::Error, Place::Stack);
            Want { key, severity, sentence, since: None, place, run: one.remedy }
        };
        wrongs.enumerate().map(want).collect()
    }

    /// Why a job that is not on record may be in the queue: what is wrong, or how many events there are.
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
        let wrong = wrongs.iter().find_map(|one| Some((one.sentence.as_ref()?, &one.remedy)));
        Some(match wrong {
            Some((sentence, Some(remedy))) => format!("{sentence} {remedy}"),
            Some((sentence, None)) => sentence.clone(),
            None => format!("{first} and not recorded yet; ask again in a minute"),
        })
    }

    async fn backlogs(&mut self) -> Result<Vec<Finding>, Failure> {
        let stack = self.world.stack().await?;
        let (reserved, counted) = self.counted(&stack).await?;
        // Without the right to read logs, the functions that are stopped are still named.
        let backlogs = self.with_errors(&stack, counted.clone()).await.unwrap_or(counted);
        Ok(findings(&reserved, &backlogs, &stack))
    }

    /// How much concurrency each function may use, and what the queues hold. Two rounds of calls.
    async fn counted(
        &mut self,
        stack: &str,
    ) -> Result<(Vec<(&'static str, Option<u64>)>, Vec<Backlog>), Failure> {
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

    /// The queues that hold messages, each with the last error of the function that reads it.
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
        let call = |one: &Backlog| {
            let body = json!({
                "logGroupName": one.reader().group(stack), "startTime": since,
                "filterPattern": "?ERROR ?error ?timeout ?\"timed out\" ?\"Runtime exited\" ?panicked",
            });
            Call::json("logs", "Logs_20140328.FilterLogEvents", &body)
        };
        let answers = self.world.aws(backlogs.iter().map(call).collect()).await?;
        for (one, answer) in backlogs.iter_mut().zip(answers) {
            let answer = match answer {
                Err(failure) if failure.is_missing() => continue,
                answer => answer?,
            };
            let events = answer["events"].as_array().into_iter().flatten();
            one.error = events.filter_map(|event| error_of(event["message"].as_str()?)).last();
        }
        Ok(backlogs)
    }
}
