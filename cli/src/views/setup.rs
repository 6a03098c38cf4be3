//! What is left to do when all is set up.

use muster_control::admin::answers::{JobList, StackStatus};

use super::jobs;
use crate::page::{Look, Page, Screen, Text};

/// The two lines of a first job, and what is likely to hold it up.
#[must_use]
pub fn first_job(status: &StackStatus, waiting: &JobList, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let pool = status.pools.iter().find(|pool| pool.enabled && pool.removed_at.is_none());
    let labels = pool.and_then(|pool| pool.labels.iter().next()).map(jobs::labels);
    let mut all = vec!["self-hosted".to_owned()];
    let of_pool = labels.unwrap_or_default();
    all.extend(of_pool.split_whitespace().filter(|one| *one != "self-hosted").map(str::to_owned));
    page.line([
        Text::from("Put this into a workflow:      "),
        Text::new(format!("runs-on: [{}]", all.join(", ")), Look::Strong),
    ]);
    page.line(["Watch it:                      ".into(), Text::new("muster watch", Look::Strong)]);
    page.line([
        "What was queued before today:  ".into(),
        Text::new("muster jobs --adopt OWNER/REPO", Look::Strong),
    ]);
    let rows = waiting.unserved.iter().map(|one| {
        let said = format!("{} {}: {}", one.repository, one.name, one.reason);
        (Text::new("!", Look::Warning), Text::from(said))
    });
    let public =
        "Jobs of public repositories are refused unless a pool says otherwise (muster pools edit).";
    page.gap();
    page.marked(rows.chain([(Text::new("!", Look::Warning), Text::from(public))]));
    page.into_text()
}
