//! Waiting jobs with their reasons.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;

use muster_api::answers::{AdoptedJobs, JobList, UnservedJob, WaitingJob};
use muster_domain::explain::{AWAITS_APPROVAL, NO_POOL};
use muster_domain::job::labels::Labels;
use muster_domain::text::{sentence, with_clocks};
use muster_domain::time::Time;

use super::more;
use crate::page::{Column, Screen, Text, TextPage, TextStyle};
use crate::words::{clock, count, span};

/// The columns in a pipe.
const COLUMNS: [Column; 7] = [
    Column::text("JOB"),
    Column::whole("KEY"),
    Column::text("LABELS"),
    Column::whole("POOL"),
    Column::whole("WAITS"),
    Column::whole("FOR"),
    Column::text("WHY"),
];

/// The columns of jobs that wait for the same thing.
const ALIKE: [Column; 5] = [
    Column::text("JOB").at_least(32),
    Column::whole("KEY").from(100),
    Column::text("LABELS").from(130),
    Column::whole("POOL"),
    Column::whole("WAITS"),
];

/// The columns of jobs with an instance.
const CLAIMED: [Column; 5] = [
    Column::text("JOB").at_least(32),
    Column::whole("KEY").from(100),
    Column::text("LABELS").from(130),
    Column::whole("INSTANCE"),
    Column::whole("WAITS"),
];

const UNSERVED: [Column; 5] = [
    Column::text("JOB").at_least(24),
    Column::whole("KEY").from(120),
    Column::text("LABELS").from(130),
    Column::whole("WAITS"),
    Column::text("WHY").at_least(24),
];

/// Number of pools that the summary names.
const NAMED: usize = 5;

/// Renders the answer to `jobs`: on a terminal a summary, the jobs without a pool, and then the others
/// grouped by what they wait for.
#[must_use]
pub fn list(answer: &JobList, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let JobList { jobs, unserved, waiting_for_approval, more: truncated } = answer;
    if page.is_piped() {
        let mut rows: Vec<_> = jobs.iter().map(|job| row(job, now)).collect();
        rows.extend(unserved.iter().chain(waiting_for_approval).map(row_of_another));
        page.table(&COLUMNS, rows);
    } else {
        page.wrapped(Text::new(summary(answer), TextStyle::Strong));
        others(&mut page, "No pool serves these", NO_POOL, unserved);
        waiting(&mut page, jobs, now);
        let headline = "Waiting for an approval at GitHub";
        others(&mut page, headline, AWAITS_APPROVAL, waiting_for_approval);
    }
    more(&mut page, truncated);
    page.into_text()
}

/// Returns how many jobs wait, and where.
fn summary(answer: &JobList) -> String {
    let JobList { jobs, unserved, waiting_for_approval, more } = answer;
    let all = jobs.len() + unserved.len() + waiting_for_approval.len();
    if all == 0 && !more.more {
        return "No jobs are waiting.".to_owned();
    }
    let mut pools: BTreeMap<&str, usize> = BTreeMap::new();
    for job in jobs {
        *pools.entry(job.pool.as_ref().map_or("no pool", |pool| pool.as_str())).or_default() += 1;
    }
    let mut pools: Vec<(&str, usize)> = pools.into_iter().collect();
    pools.sort_by_key(|(name, count)| (Reverse(*count), *name));
    let others: usize = pools.iter().skip(NAMED).map(|(_, count)| count).sum();
    let mut parts: Vec<String> = Vec::new();
    parts.extend(pools.iter().take(NAMED).map(|(name, count)| format!("{count} in {name}")));
    if others > 0 {
        parts.push(format!("{others} in other pools"));
    }
    if !unserved.is_empty() {
        parts.push(format!("{} served by no pool", unserved.len()));
    }
    if !waiting_for_approval.is_empty() {
        parts.push(format!("{} waiting for an approval", waiting_for_approval.len()));
    }
    let said = match (all, more.more) {
        (_, true) => format!("More than {all} jobs wait; of the first {all}"),
        (1, false) => "1 job waits".to_owned(),
        (_, false) => format!("{all} jobs wait"),
    };
    format!("{said}: {}.", parts.join(", "))
}

/// Renders the answer to `jobs --adopt`.
#[must_use]
pub fn adopted(answer: &AdoptedJobs, now: Time, screen: Screen) -> String {
    let AdoptedJobs { taken_in, unserved, .. } = answer;
    let mut page = TextPage::new(screen);
    if !page.is_piped() {
        page.line([taken_in_all(answer).into()]);
    }
    if page.is_piped() {
        let mut rows: Vec<_> = taken_in.iter().map(|job| row(job, now)).collect();
        rows.extend(unserved.iter().map(row_of_another));
        page.table(&COLUMNS, rows);
    } else {
        others(&mut page, "No pool serves these", NO_POOL, unserved);
        waiting(&mut page, taken_in, now);
    }
    page.into_text()
}

/// Returns how many jobs were imported, and how many were not.
#[must_use]
pub fn taken_in_all(answer: &AdoptedJobs) -> String {
    let AdoptedJobs { taken_in, known, unserved: _, not_ours, more } = answer;
    let mut said = vec![match taken_in.len() {
        0 => "No jobs were imported.".to_owned(),
        1 => "1 job was imported.".to_owned(),
        many => format!("{many} jobs were imported."),
    }];
    if !known.is_empty() {
        said.push(format!("Already known: {}.", known.len()));
    }
    if *not_ours > 0 {
        said.push(format!("For GitHub's own runners: {not_ours}."));
    }
    if *more {
        said.push("More jobs are queued; run this again when these have runners.".to_owned());
    }
    said.join(" ")
}

/// Adds waiting jobs by what they wait for: first what prevents a launch, then the largest group.
fn waiting(page: &mut TextPage, jobs: &[WaitingJob], now: Time) {
    let (claimed, others): (Vec<&WaitingJob>, Vec<_>) =
        jobs.iter().partition(|job| job.claim.is_some());
    let mut groups: BTreeMap<(bool, String), Vec<&WaitingJob>> = BTreeMap::new();
    for job in others {
        groups.entry((job.why.is_none(), reason(job))).or_default().push(job);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_plain, _), jobs)| (*is_plain, Reverse(jobs.len())));
    for ((is_plain, reason), jobs) in groups {
        let look = if is_plain { TextStyle::Plain } else { TextStyle::Warning };
        let next = next_check(jobs.iter().filter_map(|job| job.until).min(), now);
        let row = |job: &&WaitingJob| cells(job, named(job.pool.as_ref()));
        let headline = format!("{}{next}", with_clocks(&reason, now));
        section(page, &headline, look, &ALIKE, jobs.iter().map(row).collect());
    }
    if !claimed.is_empty() {
        let row = |job: &&WaitingJob| cells(job, named(job.claim.as_ref()));
        let rows = claimed.iter().map(row).collect();
        section(page, "Assigned to an instance", TextStyle::Plain, &CLAIMED, rows);
    }
}

/// Adds a table below a heading with the number of its jobs.
fn section(
    page: &mut TextPage,
    headline: &str,
    look: TextStyle,
    columns: &[Column],
    rows: Vec<Vec<Text>>,
) {
    page.gap();
    let headline = format!("{} {}", sentence(headline), count(rows.len(), "job"));
    page.wrapped(Text::new(headline, look));
    page.table(columns, rows);
}

fn cells(job: &WaitingJob, owner: Text) -> Vec<Text> {
    vec![
        Text::from(format!("{} {}", job.repository, job.name)),
        Text::new(job.job.to_string(), TextStyle::Dim),
        Text::from(labels(&job.labels)),
        owner,
        Text::from(span(job.age_seconds)),
    ]
}

fn named(name: Option<&impl Display>) -> Text {
    name.map_or_else(Text::none, |name| Text::from(name.to_string()))
}

/// Returns what a job without an instance waits for.
fn reason(job: &WaitingJob) -> String {
    match (&job.why, &job.moved) {
        (Some(why), _) => why.clone(),
        (None, Some(moved)) => format!("Moved from pool {}: {}", moved.from, moved.why),
        (None, None) => "Waiting for a launch".to_owned(),
    }
}

fn row(job: &WaitingJob, now: Time) -> Vec<Text> {
    vec![
        Text::from(format!("{} {}", job.repository, job.name)),
        Text::new(job.job.to_string(), TextStyle::Dim),
        Text::from(labels(&job.labels)),
        named(job.pool.as_ref()),
        Text::from(span(job.age_seconds)),
        job.waits_for.map_or_else(Text::none, |reason| reason.as_str().into()),
        Text::from(why(job, now)),
    ]
}

/// Returns the row of a job without launches among the waiting ones: in a pipe all lines have the
/// same columns.
fn row_of_another(job: &UnservedJob) -> Vec<Text> {
    let mut row = other(job);
    row.insert(3, Text::none());
    row.insert(5, Text::none());
    row
}

/// Adds a list of jobs without launches, below a heading, which already says `known` of their reasons.
fn others(page: &mut TextPage, headline: &str, known: &str, jobs: &[UnservedJob]) {
    if jobs.is_empty() {
        return;
    }
    let rest = |job: &UnservedJob| {
        let reason = job.reason.as_str();
        reason.strip_prefix(known).map_or(reason, |rest| rest.trim_start_matches("; ")).to_owned()
    };
    let row = |job| {
        let mut row = other(job);
        row[4] =
            Some(rest(job)).filter(|rest| !rest.is_empty()).map_or_else(Text::none, Text::from);
        row
    };
    let columns = match jobs.iter().all(|job| rest(job).is_empty()) {
        true => &UNSERVED[..UNSERVED.len() - 1],
        false => &UNSERVED,
    };
    section(page, headline, TextStyle::Warning, columns, jobs.iter().map(row).collect());
}

fn other(job: &UnservedJob) -> Vec<Text> {
    vec![
        Text::from(format!("{} {}", job.repository, job.name)),
        Text::new(job.job.to_string(), TextStyle::Dim),
        Text::from(labels(&job.labels)),
        Text::from(span(job.age_seconds)),
        Text::from(&job.reason),
    ]
}

/// Returns what the job waits for.
pub(crate) fn why(job: &WaitingJob, now: Time) -> String {
    match &job.claim {
        Some(instance) => format!("for {instance}"),
        None => format!("{}{}", reason(job), next_check(job.until, now)),
    }
}

fn next_check(at: Option<Time>, now: Time) -> String {
    at.map_or_else(String::new, |at| format!("; next check {}", clock(at, now)))
}

/// Returns the labels as in `runs-on`.
pub(crate) fn labels(labels: &Labels) -> String {
    labels.iter().collect::<Vec<_>>().join(" ")
}
