//! Messages in a queue whose function is stopped or fails. An event that no function recorded is in
//! no table: only the queues, the functions' concurrency and their logs show it.

use muster_api::answers::{Finding, Location, Severity};
use serde_json::Value;

use crate::args::Dead;
use crate::sources::Source;
use crate::words::count;

/// Maximum length of a quoted error, in characters.
const MAX_ERROR: usize = 400;

/// A function and its reserved concurrency, if any.
pub type Reserve = (&'static str, Option<u64>);

/// A queue that a function reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The queue.
    pub queue: Dead,
    /// Number of messages, including those that a function is handling or will retry.
    pub messages: u64,
    /// The last error that the function logged in the last minutes.
    pub error: Option<String>,
}

impl Backlog {
    /// Parses the answer to `GetQueueAttributes`.
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

    /// Returns the function that reads the queue.
    #[must_use]
    pub const fn reader(&self) -> Source {
        match self.queue {
            Dead::Jobs | Dead::Launches => Source::ScaleUp,
            Dead::Reaps => Source::Reaper,
        }
    }

    /// Returns a sentence such as "3 job events are in the queue".
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

/// Returns the error in a line of a function's log. `None` if the line reports no error.
#[must_use]
pub fn error_of(text: &str) -> Option<String> {
    let Ok(line) = serde_json::from_str::<Value>(text) else {
        // Lines that Lambda itself writes.
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

/// Returns the problems of the queues and their functions: for `status`, `explain` and `doctor`.
#[must_use]
pub fn findings(reserved: &[Reserve], backlogs: &[Backlog], stack: &str) -> Vec<Finding> {
    let mut all = stopped(reserved, backlogs, stack);
    all.extend(failing(reserved, backlogs, stack));
    all
}

fn is_stopped(reserved: &[Reserve], name: &str) -> bool {
    reserved.iter().any(|(function, most)| *function == name && *most == Some(0))
}

/// Finds functions with a reserved concurrency of zero, which is AWS's documented way to stop a
/// function.
pub(super) fn stopped(reserved: &[Reserve], backlogs: &[Backlog], stack: &str) -> Vec<Finding> {
    let names = reserved.iter().map(|(name, _)| *name).filter(|name| is_stopped(reserved, name));
    let finding = |name: &str| {
        let waits = backlogs.iter().filter(|one| one.messages > 0 && one.reader().name() == name);
        let waits: String = waits.map(|one| format!(" {}.", one.sentence())).collect();
        let message = format!("{stack}-{name} cannot run: its reserved concurrency is 0.{waits}");
        let key = format!("function-stopped:{name}");
        Finding::new(key, Severity::Error, Location::Stack, &message)
            .fix(format!("aws lambda delete-function-concurrency --function-name {stack}-{name}"))
    };
    names.map(finding).collect()
}

pub(super) fn failing(reserved: &[Reserve], backlogs: &[Backlog], stack: &str) -> Vec<Finding> {
    let finding = |one: &Backlog| {
        let error = one.error.as_deref().filter(|_| one.messages > 0)?;
        let name = one.reader().name();
        let message = format!("{}, and {name} fails: {error}", one.sentence());
        let key = format!("queue-failing:{}", one.queue.name());
        let finding = Finding::new(key, Severity::Error, Location::Stack, &message);
        Some(finding.fix(fix(error, name, stack)))
    };
    let runs = |one: &&Backlog| !is_stopped(reserved, one.reader().name());
    backlogs.iter().filter(runs).filter_map(finding).collect()
}

fn fix(error: &str, name: &str, stack: &str) -> String {
    let is_denied = ["AccessDenied", "not authorized", "UnauthorizedOperation"];
    if is_denied.iter().any(|code| error.contains(code)) {
        return format!(
            "muster doctor --deep lists the changes to the role of {stack}-{name}: restore its policies"
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
            for (line, said, expected) in &lines {
                let found = failing(&[], &[backlog(queue, 3, Some(line))], "muster");
                let [one] = found.as_slice() else { panic!("{queue:?}: {line}: {found:?}") };
                let reader = backlog(queue, 3, None).reader().name();
                assert!(one.message.starts_with("3 "), "{one:?}");
                assert!(one.message.contains(&format!("{reader} fails")), "{one:?}");
                assert!(one.message.contains(said), "{one:?}");
                assert!(one.fix.as_ref().is_some_and(|fix| fix.contains(expected)), "{one:?}");
            }
            // An empty queue, and one whose function logs no error, are as they should be.
            assert!(failing(&[], &[backlog(queue, 0, Some(&lines[0].0))], "muster").is_empty());
            for well in
                [report("success"), json!({ "level": "INFO", "message": "swept" }).to_string()]
            {
                assert!(
                    failing(&[], &[backlog(queue, 3, Some(&well))], "muster").is_empty(),
                    "{well}"
                );
            }
        }
    }

    #[test]
    fn a_stopped_function_is_named_with_what_waits_for_it() {
        for (name, queue) in
            [("scale-up", Dead::Jobs), ("scale-up", Dead::Launches), ("reaper", Dead::Reaps)]
        {
            let found = findings(&[(name, Some(0))], &[backlog(queue, 1, None)], "muster");
            let said = &found[0].message;
            assert!(said.contains("cannot run") && said.contains("in the queue"), "{said}");
            let fix =
                format!("aws lambda delete-function-concurrency --function-name muster-{name}");
            assert_eq!(found[0].fix.as_deref(), Some(fix.as_str()));
        }
        // Nothing waits for the webhook: GitHub's deliveries fail.
        let found = findings(&[("webhook", Some(0))], &[], "muster");
        assert!(found[0].message.contains("muster-webhook"), "{found:?}");
        assert!(findings(&[("webhook", Some(5)), ("reaper", None)], &[], "muster").is_empty());
    }
}
