//! Messages in a queue whose function is stopped or fails. An event that no function could record is in no table, so the
//! queues, the functions' concurrency and their logs are all that shows it.

use serde_json::Value;

use super::facts::Fact;
use super::{Facts, Finding, Group, Wrong, found, judge};
use crate::args::Dead;
use crate::views::logs::Source;
use crate::words::count;

/// Longest error that is quoted, characters.
const MAX_ERROR: usize = 400;

/// A queue that a function reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Which queue.
    pub queue: Dead,
    /// How many messages it holds, those that a function is handling or will try again included.
    pub messages: u64,
    /// The last error that the function logged within the last minutes.
    pub error: Option<String>,
}

impl Backlog {
    /// From `GetQueueAttributes`.
    #[must_use]
    pub fn read(queue: Dead, answer: &Value) -> Self {
        let number = |name: &str| {
            let count = answer["Attributes"][name].as_str();
            count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
        };
        let visible = number("ApproximateNumberOfMessages");
        let messages = visible + number("ApproximateNumberOfMessagesNotVisible");
        Self { queue, messages, error: None }
    }

    /// The function that reads the queue.
    #[must_use]
    pub const fn reader(&self) -> Source {
        match self.queue {
            Dead::Jobs | Dead::Launches => Source::ScaleUp,
            Dead::Reaps => Source::Reaper,
        }
    }

    /// "3 job events are in the queue".
    #[must_use]
    pub fn sentence(&self) -> String {
        let what = match self.queue {
            Dead::Jobs => "job event",
            Dead::Launches => "launch wake-up",
            Dead::Reaps => "reap message",
        };
        let all = count(usize::try_from(self.messages).unwrap_or(usize::MAX), what);
        let are = if self.messages == 1 { "is" } else { "are" };
        format!("{all} {are} in the queue")
    }
}

/// The error in a line of a function's log; none if the line reports no error.
#[must_use]
pub fn error_of(text: &str) -> Option<String> {
    let Ok(line) = serde_json::from_str::<Value>(text) else {
        // Lambda's own lines.
        let is_error = ["Task timed out", "Runtime exited", "Runtime.ExitError", "panicked at"];
        return is_error.iter().any(|one| text.contains(one)).then(|| text.trim().to_owned());
    };
    if line["type"] == "platform.report" {
        let status = line["record"]["status"].as_str().filter(|status| *status != "success")?;
        return Some(format!("Lambda: the invocation ended with {status}"));
    }
    if line["level"] != "ERROR" {
        return None;
    }
    let said = line["message"].as_str().unwrap_or("an error");
    let error = line["error"].as_str().map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("{said}{error}").chars().take(MAX_ERROR).collect())
}

/// What `doctor` says of the queues.
pub(super) fn check(backlogs: &Fact<Vec<Backlog>>, facts: &Facts) -> Vec<Finding> {
    judge(Group::Stack, "backlog", backlogs, |all| failing(all, &facts.stack))
}

/// What `status` and `explain` say of the queues and of functions that are stopped. What the operator may not ask is left
/// out.
#[must_use]
pub fn findings(
    reserved: &[(&'static str, Option<u64>)],
    backlogs: &[Backlog],
    stack: &str,
) -> Vec<Finding> {
    let mut wrongs = super::stack::reserve(reserved, stack);
    let is_stopped = |one: &&Backlog| {
        reserved.iter().any(|(name, most)| *name == one.reader().name() && *most == Some(0))
    };
    for one in backlogs.iter().filter(|one| one.messages > 0).filter(is_stopped) {
        let name = one.reader().name();
        if let Some(stopped) = wrongs.iter_mut().find(|wrong| wrong.sentence.contains(name)) {
            stopped.sentence = format!("{} {}.", stopped.sentence, one.sentence());
        }
    }
    let others: Vec<Backlog> = backlogs.iter().filter(|one| !is_stopped(one)).cloned().collect();
    wrongs.extend(failing(&others, stack));
    found(Group::Stack, "backlog", wrongs)
}

fn failing(all: &[Backlog], stack: &str) -> Vec<Wrong> {
    let wrong = |one: &Backlog| {
        let error = one.error.as_deref().filter(|_| one.messages > 0)?;
        let name = one.reader().name();
        let said = format!("{}, and {name} fails: {error}", one.sentence());
        Some(Wrong::error(super::stopped(said)).remedy(remedy(error, name, stack)))
    };
    all.iter().filter_map(wrong).collect()
}

fn remedy(error: &str, name: &str, stack: &str) -> String {
    let is_denied = ["AccessDenied", "not authorized", "UnauthorizedOperation"];
    if is_denied.iter().any(|code| error.contains(code)) {
        return format!(
            "muster doctor --deep shows what was changed of the role of {stack}-{name}: restore its policies"
        );
    }
    if error.contains("record pools cannot be read") {
        return "muster pools restore N, with a version of muster pools history".to_owned();
    }
    format!("muster logs {name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::queues::ALL;

    fn backlog(queue: Dead, messages: u64, line: Option<&str>) -> Backlog {
        Backlog { queue, messages, error: line.and_then(error_of) }
    }

    #[test]
    fn every_queue_and_every_kind_of_failure_is_named_with_its_remedy() {
        let logged = |message: &str, error: &str| {
            json!({ "level": "ERROR", "message": message, "error": error }).to_string()
        };
        let report = |status: &str| {
            json!({ "type": "platform.report", "record": { "status": status } }).to_string()
        };
        let denied = logged(
            "failed to record a job event",
            "table unavailable: GetItem: AccessDeniedException",
        );
        let pools = logged(
            "cannot read the set of pools",
            "record pools cannot be read by this version: no body",
        );
        let poison = logged("rejected a message that cannot be read", "expected value");
        let lines: [(String, &str, &str); 7] = [
            (denied, "AccessDenied", "muster doctor --deep"),
            (
                logged("launch pass failed", "EC2: UnauthorizedOperation"),
                "EC2",
                "muster doctor --deep",
            ),
            (pools, "record pools", "muster pools restore N"),
            (poison, "rejected a message", "muster logs"),
            (report("timeout"), "ended with timeout", "muster logs"),
            (report("error"), "ended with error", "muster logs"),
            (
                "2026-11-27 1f Task timed out after 60.00 seconds".to_owned(),
                "timed out",
                "muster logs",
            ),
        ];
        for queue in ALL {
            for (line, said, remedy) in &lines {
                let found = failing(&[backlog(queue, 3, Some(line))], "muster");
                let [wrong] = found.as_slice() else { panic!("{queue:?}: {line}: {found:?}") };
                let reader = backlog(queue, 3, None).reader().name();
                assert!(wrong.sentence.starts_with("3 "), "{wrong:?}");
                assert!(wrong.sentence.contains(&format!("{reader} fails")), "{wrong:?}");
                assert!(wrong.sentence.contains(said), "{wrong:?}");
                assert!(wrong.remedy.as_ref().is_some_and(|one| one.contains(remedy)), "{wrong:?}");
            }
            // An empty queue, and one whose function logs no error, are as they should be.
            assert!(failing(&[backlog(queue, 0, Some(&lines[0].0))], "muster").is_empty());
            for well in
                [report("success"), json!({ "level": "INFO", "message": "swept" }).to_string()]
            {
                assert!(failing(&[backlog(queue, 3, Some(&well))], "muster").is_empty(), "{well}");
            }
        }
    }

    #[test]
    fn a_stopped_function_is_named_with_what_waits_for_it() {
        for (name, queue) in
            [("scale-up", Dead::Jobs), ("scale-up", Dead::Launches), ("reaper", Dead::Reaps)]
        {
            let found = findings(&[(name, Some(0))], &[backlog(queue, 1, None)], "muster");
            let said = found[0].sentence.clone().unwrap_or_default();
            assert!(said.contains("may not run at all") && said.contains("in the queue"), "{said}");
            let remedy =
                format!("aws lambda delete-function-concurrency --function-name muster-{name}");
            assert_eq!(found[0].remedy.as_deref(), Some(remedy.as_str()));
        }
        // Nothing waits for the webhook: GitHub's deliveries fail.
        let found = findings(&[("webhook", Some(0))], &[], "muster");
        assert!(found[0].sentence.as_ref().is_some_and(|said| said.contains("muster-webhook")));
        assert!(
            findings(&[("webhook", Some(5)), ("reaper", None)], &[], "muster")[0]
                .sentence
                .is_none()
        );
    }
}
