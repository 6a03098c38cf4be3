//! Jobs that wait, and why.

use muster_control::admin::answers::{JobList, WaitingJob};
use muster_domain::job::labels::Labels;
use muster_domain::time::Time;

use super::more;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{clock, span};

const COLUMNS: [Column; 6] = [
    Column::text("JOB"),
    Column::whole("KEY"),
    Column::text("LABELS").from(110),
    Column::whole("POOL"),
    Column::whole("WAITS"),
    Column::text("WHY").at_least(24),
];

/// The answer to `jobs`.
#[must_use]
pub fn list(answer: &JobList, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if answer.jobs.is_empty() && !page.is_piped() {
        page.line(["No job waits.".into()]);
        return page.into_text();
    }
    let rows = answer.jobs.iter().map(|job| {
        vec![
            Text::from(format!("{} {}", job.repository, job.name)),
            Text::new(job.job.to_string(), Look::Dim),
            Text::from(labels(&job.labels)),
            job.pool.as_ref().map_or_else(Text::none, |pool| pool.as_str().into()),
            Text::from(span(job.age_seconds)),
            why(job, now),
        ]
    });
    page.table(&COLUMNS, rows.collect());
    more(&mut page, &answer.more);
    page.into_text()
}

/// What it waits for.
fn why(job: &WaitingJob, now: Time) -> Text {
    if let Some(instance) = &job.claim {
        return Text::from(format!("for {instance}"));
    }
    if let Some(hold) = &job.hold {
        let told = match hold.until > now {
            true => format!("{}; next try {}", hold.reason, clock(hold.until, now)),
            false => hold.reason.clone(),
        };
        return Text::new(told, Look::Warning);
    }
    match &job.moved {
        Some(moved) => Text::from(format!("came from pool {}: {}", moved.from, moved.why)),
        None => Text::from("for a launch"),
    }
}

/// As `runs-on` has them.
pub(super) fn labels(labels: &Labels) -> String {
    labels.iter().collect::<Vec<_>>().join(" ")
}
