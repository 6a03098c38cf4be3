//! Waiting jobs with their reasons.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use muster_api::answers::{AdoptedJobs, InstanceSummary, JobList, UnservedJob, WaitingJob};
use muster_domain::explain::{AWAITS_APPROVAL, NO_POOL};
use muster_domain::ids::{InstanceName, JobKey, PoolName};
use muster_domain::instance::RunnerState;
use muster_domain::job::labels::Labels;
use muster_domain::launch::verdict::WaitReason;
use muster_domain::text::{sentence, with_clocks};
use muster_domain::time::{Seconds, Time};

use super::{instances, more};
use crate::page::{Screen, TextPage};
use crate::table::{Cell, Column, DataTable, Medium, Subject, Text, TextStyle};
use crate::words::{clock, count, span};

const COLUMNS: [Column; 7] = [
    Column::text("Job").at_least(24),
    Column::name("Key").from(110).only(Medium::Terminal),
    Column::text("Labels").from(130),
    Column::name("Pool"),
    Column::number("For"),
    Column::short("Reason").only(Medium::Terminal),
    Column::text("Why").at_least(24).lead(),
];

/// A job from any of the lists.
pub(crate) struct JobRow<'a> {
    /// Its filter on the page of jobs.
    pub kind: &'static str,
    key: JobKey,
    /// Its name, such as `acme/app test (3)`; its key if the name is unknown.
    name: String,
    labels: String,
    pub pool: Option<&'a PoolName>,
    age: Seconds,
    /// The code of a waiting job's reason.
    reason: Option<WaitReason>,
    why: String,
    claim: Option<&'a InstanceName>,
}

impl JobRow<'_> {
    /// Returns the words that a search matches.
    pub(crate) fn words(&self) -> [String; 4] {
        let reason = self.reason.map_or("", WaitReason::as_str).to_owned();
        [self.name.clone(), self.key.to_string(), self.labels.clone(), reason]
    }

    fn cells(&self) -> Vec<Cell> {
        let instance = |name: &InstanceName| Subject::Instance(name.to_string());
        vec![
            Cell::link(&self.name, Subject::Job(self.key)),
            Text::new(self.key.to_string(), TextStyle::Dim).into(),
            match self.labels.is_empty() {
                true => Text::none().into(),
                false => (&self.labels).into(),
            },
            Cell::pool(self.pool),
            span(self.age).into(),
            Text::known(self.reason.map(WaitReason::as_str)).into(),
            match self.claim {
                Some(name) => Cell::link(&self.why, instance(name)),
                None => (&self.why).into(),
            },
        ]
    }
}

/// Returns the table of jobs.
pub(crate) fn table<'a, 'b: 'a>(rows: impl IntoIterator<Item = &'a JobRow<'b>>) -> DataTable {
    DataTable::new(COLUMNS, rows.into_iter().map(JobRow::cells))
}

pub(crate) fn waiting(one: &WaitingJob, now: Time) -> JobRow<'_> {
    JobRow {
        kind: "waiting",
        key: one.job,
        name: format!("{} {}", one.repository, one.name),
        labels: labels(&one.labels),
        pool: one.pool.as_ref(),
        age: one.age_seconds,
        reason: one.waits_for,
        why: why(one, now),
        claim: one.claim.as_ref(),
    }
}

/// Returns the row of a job without launches. `kind`: its filter.
pub(crate) fn other<'a>(kind: &'static str, one: &'a UnservedJob) -> JobRow<'a> {
    JobRow {
        kind,
        key: one.job,
        name: format!("{} {}", one.repository, one.name),
        labels: labels(&one.labels),
        pool: one.pool.as_ref(),
        age: one.age_seconds,
        reason: None,
        why: one.reason.clone(),
        claim: None,
    }
}

/// Returns the row of an instance's job; `None` unless it runs one.
pub(crate) fn running(one: &InstanceSummary, now: Time) -> Option<JobRow<'_>> {
    let key = one.key().filter(|_| one.runner_state == RunnerState::Active)?;
    Some(JobRow {
        kind: "running",
        key,
        name: instances::job(one).unwrap_or_default(),
        labels: String::new(),
        pool: Some(&one.pool),
        age: now.since(one.since),
        reason: None,
        why: format!("running on {}", one.name),
        claim: Some(&one.name),
    })
}

/// Number of pools that the summary names.
const NAMED: usize = 5;

/// Renders the answer to `jobs`: on a terminal a summary, the jobs without a pool, and then the others
/// grouped by what they wait for.
#[must_use]
pub fn list(answer: &JobList, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let JobList { jobs, unserved, waiting_for_approval, more: truncated } = answer;
    if page.is_piped() {
        let jobs = jobs.iter().map(|job| waiting(job, now));
        let others = unserved.iter().chain(waiting_for_approval).map(|job| other("", job));
        page.table(&table(&jobs.chain(others).collect::<Vec<_>>()));
    } else {
        page.wrapped(Text::new(summary(answer), TextStyle::Strong));
        others(&mut page, "No pool serves these", NO_POOL, unserved);
        groups(&mut page, jobs, now);
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
        let jobs = taken_in.iter().map(|job| waiting(job, now));
        let others = unserved.iter().map(|job| other("", job));
        page.table(&table(&jobs.chain(others).collect::<Vec<_>>()));
    } else {
        others(&mut page, "No pool serves these", NO_POOL, unserved);
        groups(&mut page, taken_in, now);
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
fn groups(page: &mut TextPage, jobs: &[WaitingJob], now: Time) {
    let (claimed, others): (Vec<&WaitingJob>, Vec<_>) =
        jobs.iter().partition(|job| job.claim.is_some());
    let mut groups: BTreeMap<(bool, String), Vec<&WaitingJob>> = BTreeMap::new();
    for job in others {
        groups.entry((job.why.is_none(), reason(job))).or_default().push(job);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((is_plain, _), jobs)| (*is_plain, Reverse(jobs.len())));
    for ((is_plain, reason), jobs) in groups {
        let style = if is_plain { TextStyle::Plain } else { TextStyle::Warning };
        let next = next_check(jobs.iter().filter_map(|job| job.until).min(), now);
        let headline = format!("{}{next}", with_clocks(&reason, now));
        section(page, &headline, style, &because(&jobs, |_| String::new(), now));
    }
    if !claimed.is_empty() {
        let instance =
            |job: &WaitingJob| job.claim.as_ref().map(ToString::to_string).unwrap_or_default();
        section(
            page,
            "Assigned to an instance",
            TextStyle::Plain,
            &because(&claimed, instance, now),
        );
    }
}

/// Returns the rows of waiting jobs whose reasons are in their heading. `rest`: what is not.
fn because<'a>(
    jobs: &[&'a WaitingJob],
    rest: impl Fn(&WaitingJob) -> String,
    now: Time,
) -> Vec<JobRow<'a>> {
    jobs.iter().map(|job| JobRow { why: rest(job), ..waiting(job, now) }).collect()
}

/// Adds a table below a heading with the number of its jobs. The heading replaces the reasons;
/// columns that are empty in all rows are left out.
fn section(page: &mut TextPage, headline: &str, style: TextStyle, rows: &[JobRow<'_>]) {
    page.gap();
    let headline = format!("{} {}", sentence(headline), count(rows.len(), "job"));
    page.wrapped(Text::new(headline, style));
    let has_pool = rows.iter().any(|row| row.pool.is_some());
    let has_why = rows.iter().any(|row| !row.why.is_empty());
    let mut table = table(rows);
    if rows.iter().any(|row| row.claim.is_some())
        && let Some(last) = table.columns.last_mut()
    {
        last.title = "Instance";
    }
    table.keep(|column| match column.title {
        "Reason" => false,
        "Pool" => has_pool,
        "Why" => has_why,
        _ => true,
    });
    page.table(&table);
}

/// Returns what a job without an instance waits for.
fn reason(job: &WaitingJob) -> String {
    match (&job.why, &job.moved) {
        (Some(why), _) => why.clone(),
        (None, Some(moved)) => format!("Moved from pool {}: {}", moved.from, moved.why),
        (None, None) => "Waiting for a launch".to_owned(),
    }
}

/// Adds a list of jobs without launches, below a heading, which already says `known` of their reasons.
fn others(page: &mut TextPage, headline: &str, known: &str, jobs: &[UnservedJob]) {
    if jobs.is_empty() {
        return;
    }
    let row = |job| {
        let row = other("", job);
        let rest = row.why.strip_prefix(known).map(|rest| rest.trim_start_matches("; ").to_owned());
        JobRow { why: rest.unwrap_or_else(|| row.why.clone()), ..row }
    };
    section(page, headline, TextStyle::Warning, &jobs.iter().map(row).collect::<Vec<_>>());
}

/// Returns what the job waits for.
pub(crate) fn why(job: &WaitingJob, now: Time) -> String {
    match &job.claim {
        Some(instance) => format!("for {instance}"),
        None => with_clocks(&format!("{}{}", reason(job), next_check(job.until, now)), now),
    }
}

fn next_check(at: Option<Time>, now: Time) -> String {
    at.map_or_else(String::new, |at| format!("; next check {}", clock(at, now)))
}

/// Returns the labels as in `runs-on`.
pub(crate) fn labels(labels: &Labels) -> String {
    labels.iter().collect::<Vec<_>>().join(" ")
}
