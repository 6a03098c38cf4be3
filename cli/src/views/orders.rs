//! Deletes and switches.

use muster_api::answers::{DeleteDryRun, OrderedDelete, ShownInstance, ShownSwitches};
use muster_domain::time::Time;

use super::status::marked;
use crate::args::Delete;
use crate::page::{Look, Page, Screen, Text};
use crate::words::clock;

/// Renders what a delete would do.
#[must_use]
pub fn plan(shown: &ShownInstance, would: &DeleteDryRun, order: &Delete, screen: Screen) -> String {
    let one = &shown.instance;
    let mut page = Page::new(screen);
    let machine = match one.machine() {
        Some(id) => format!(" ({id})"),
        None => " (no machine yet)".to_owned(),
    };
    let (job, look) = match (one.runner.is_busy(), one.claim()) {
        (true, Some(key)) => (format!("a job runs on it: {key}"), Look::Bad),
        (true, None) => ("a job runs on it".to_owned(), Look::Bad),
        (false, Some(key)) => (format!("no job runs on it; it is meant for {key}"), Look::Plain),
        (false, None) => ("no job runs on it".to_owned(), Look::Plain),
    };
    page.line([
        Text::new(one.name.as_str(), Look::Strong),
        Text::from(format!("{machine} is {}, ", would.state)),
        Text::new(job, look),
        Text::from(format!(". It would be {}.", would.would_be)),
    ]);
    let flags = [
        (
            order.force,
            "--force: EC2 errors do not delay it. After three of them its record closes, and the machine stays in the \
             orphan ledger until EC2 ends it.",
        ),
        (order.kill_running_job, "--kill-running-job: a job that runs on it is killed."),
        (
            order.bypass_github_unauthorized,
            "--bypass-github-unauthorized: its registration may stay at GitHub.",
        ),
    ];
    let given = flags.iter().filter(|(given, _)| *given);
    page.marked(given.map(|(_, said)| (Text::new("!", Look::Warning), Text::from(said))));
    page.into_text()
}

/// Renders the answer to `delete`.
#[must_use]
pub fn ordered(answer: &OrderedDelete, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let by =
        answer.order.as_ref().map(|order| format!(" at {} by {}", clock(order.at, now), order.by));
    page.line([
        Text::new("✓", Look::Good),
        Text::from(format!(
            " {} is {}, ordered{}. The reaper does the rest: muster explain {}",
            answer.name,
            answer.state,
            by.unwrap_or_default(),
            answer.name
        )),
    ]);
    page.into_text()
}

/// Renders the answer to `switch`.
#[must_use]
pub fn switches(answer: &ShownSwitches, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let off = answer.findings(now);
    if off.is_empty() {
        page.line(["Launches and deletes are on.".into()]);
    }
    page.marked(marked(&off));
    page.into_text()
}
