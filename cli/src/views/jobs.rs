//! Jobs that wait, and why.

use muster_control::admin::answers::{AdoptedJobs, JobList, UnservedJob, WaitingJob};
use muster_domain::job::labels::Labels;
use muster_domain::time::Time;

use super::more;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::{clock, span};

const COLUMNS: [Column; 7] = [
    Column::text("JOB"),
    Column::whole("KEY"),
    Column::text("LABELS").from(110),
    Column::whole("POOL"),
    Column::whole("WAITS"),
    Column::whole("FOR").from(130),
    Column::text("WHY").at_least(24),
];

const UNSERVED: [Column; 5] = [
    Column::text("JOB"),
    Column::whole("KEY"),
    Column::text("LABELS").from(110),
    Column::whole("WAITS"),
    Column::text("WHY").at_least(24),
];

/// The answer to `jobs`.
#[must_use]
pub fn list(answer: &JobList, now: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let JobList { jobs, unserved, waiting_for_approval, more: truncated } = answer;
    if page.is_piped() {
        let mut rows: Vec<_> = jobs.iter().map(|job| row(job, now)).collect();
        rows.extend(unserved.iter().chain(waiting_for_approval).map(row_of_another));
        page.table(&COLUMNS, rows);
    } else {
        if jobs.is_empty() && !truncated.more {
            page.line(["No job waits.".into()]);
        } else {
            waiting(&mut page, jobs, now);
        }
        others(&mut page, "No pool serves these:", unserved);
        others(&mut page, "These wait for an approval at GitHub:", waiting_for_approval);
    }
    more(&mut page, truncated);
    page.into_text()
}

/// The answer to `jobs --adopt`.
#[must_use]
pub fn adopted(answer: &AdoptedJobs, now: Time, screen: Screen) -> String {
    let AdoptedJobs { taken_in, unserved, .. } = answer;
    let mut page = Page::new(screen);
    if !page.is_piped() {
        page.line([taken_in_all(answer).into()]);
    }
    if page.is_piped() {
        let mut rows: Vec<_> = taken_in.iter().map(|job| row(job, now)).collect();
        rows.extend(unserved.iter().map(row_of_another));
        page.table(&COLUMNS, rows);
    } else {
        if !taken_in.is_empty() {
            page.gap();
            waiting(&mut page, taken_in, now);
        }
        others(&mut page, "No pool serves these:", unserved);
    }
    page.into_text()
}

/// How many jobs were taken in, and how many were not.
#[must_use]
pub fn taken_in_all(answer: &AdoptedJobs) -> String {
    let AdoptedJobs { taken_in, known, unserved: _, not_ours, more } = answer;
    let mut said = vec![match taken_in.len() {
        0 => "No job was taken in.".to_owned(),
        1 => "1 job was taken in.".to_owned(),
        many => format!("{many} jobs were taken in."),
    }];
    if !known.is_empty() {
        said.push(format!("Known already: {}.", known.len()));
    }
    if *not_ours > 0 {
        said.push(format!("For GitHub's own runners: {not_ours}."));
    }
    if *more {
        said.push("More is queued; ask again when these have runners.".to_owned());
    }
    said.join(" ")
}

fn waiting(page: &mut Page, jobs: &[WaitingJob], now: Time) {
    page.table(&COLUMNS, jobs.iter().map(|job| row(job, now)).collect());
}

fn row(job: &WaitingJob, now: Time) -> Vec<Text> {
    vec![
        Text::from(format!("{} {}", job.repository, job.name)),
        Text::new(job.job.to_string(), Look::Dim),
        Text::from(labels(&job.labels)),
        job.pool.as_ref().map_or_else(Text::none, |pool| pool.as_str().into()),
        Text::from(span(job.age_seconds)),
        job.waits_for.map_or_else(Text::none, |reason| reason.as_str().into()),
        why(job, now),
    ]
}

/// A job that nobody launches for, among those that wait: through a pipe all lines have one form.
fn row_of_another(job: &UnservedJob) -> Vec<Text> {
    let mut row = other(job);
    row.insert(3, Text::none());
    row.insert(5, Text::none());
    row
}

/// Jobs that nobody launches for, below a headline.
fn others(page: &mut Page, headline: &str, jobs: &[UnservedJob]) {
    if jobs.is_empty() {
        return;
    }
    page.gap();
    page.line([Text::new(headline, Look::Warning)]);
    page.table(&UNSERVED, jobs.iter().map(other).collect());
}

fn other(job: &UnservedJob) -> Vec<Text> {
    vec![
        Text::from(format!("{} {}", job.repository, job.name)),
        Text::new(job.job.to_string(), Look::Dim),
        Text::from(labels(&job.labels)),
        Text::from(span(job.age_seconds)),
        Text::from(&job.reason),
    ]
}

/// What it waits for.
fn why(job: &WaitingJob, now: Time) -> Text {
    if let Some(instance) = &job.claim {
        return Text::from(format!("for {instance}"));
    }
    if let Some(why) = &job.why {
        let next = job.until.map(|until| format!("; next look {}", clock(until, now)));
        return Text::new(format!("{why}{}", next.unwrap_or_default()), Look::Warning);
    }
    match &job.moved {
        Some(moved) => Text::from(format!("came from pool {}: {}", moved.from, moved.why)),
        None => Text::from("for a launch"),
    }
}

/// As `runs-on` has them.
pub(crate) fn labels(labels: &Labels) -> String {
    labels.iter().collect::<Vec<_>>().join(" ")
}
