//! The jobs: waiting ones with their reasons, those without launches, and running ones.

use maud::{Markup, html};
use muster_api::answers::{InstanceSummary, JobList, UnservedJob, WaitingJob};
use muster_domain::ids::{InstanceName, JobKey, PoolName};
use muster_domain::instance::RunnerState;
use muster_domain::launch::verdict::WaitReason;
use muster_domain::time::{Seconds, Time};

use super::find::{PageRows, pager, search};
use super::memory::Memory;
use super::page::{Filter, UiPage};
use super::parts::{job, machine, none, pool};
use super::text::Said;
use crate::views::instances;
use crate::views::jobs::{labels, why};
use crate::words::span;

/// A job from any of the lists.
pub(super) struct JobRow<'a> {
    kind: &'static str,
    key: JobKey,
    /// Its name, such as `acme/app test (3)`; its key if the name is unknown.
    name: String,
    labels: String,
    pool: Option<&'a PoolName>,
    age: Seconds,
    /// The code of a waiting job's reason.
    reason: Option<WaitReason>,
    why: String,
    claim: Option<&'a InstanceName>,
}

const KINDS: [(&str, &str); 5] = [
    ("", "All"),
    ("waiting", "Waiting"),
    ("unserved", "Served by no pool"),
    ("approval", "For approval"),
    ("running", "Running"),
];

pub(super) fn body(filter: &Filter, memory: &Memory, now: Time) -> Option<Markup> {
    let list = memory.jobs()?;
    let rows = rows(list, memory, now);
    let kind = filter.state.as_deref().unwrap_or_default();
    let fits = |row: &&JobRow<'_>| {
        let is_kind = kind.is_empty() || row.kind == kind;
        is_kind
            && filter.has_pool(row.pool.map_or("", PoolName::as_str))
            && filter.has_text(&row.words())
    };
    let count = |word: &str| rows.iter().filter(|row| word.is_empty() || row.kind == word).count();
    let kinds = KINDS.map(|(word, name)| (word, name, Some(count(word))));
    let mut pools: Vec<&str> = rows.iter().filter_map(|row| Some(row.pool?.as_str())).collect();
    pools.sort_unstable();
    pools.dedup();
    let page = |filter| UiPage::Jobs(filter).address();
    let found = PageRows::of(rows.iter().filter(fits), filter);
    Some(html! {
        (search(filter, &kinds, &pools, &page))
        (table(&found))
        (pager(&found, filter, &page))
        @if list.more.more { p.quiet { "The stack has more jobs than are shown here." } }
    })
}

fn rows<'a>(list: &'a JobList, memory: &'a Memory, now: Time) -> Vec<JobRow<'a>> {
    let unserved = list.unserved.iter().map(|one| other("unserved", one));
    let gated = list.waiting_for_approval.iter().map(|one| other("approval", one));
    let waiting = list.jobs.iter().map(|one| waiting(one, now));
    let live = memory.list().map(|list| list.instances.as_slice()).unwrap_or_default();
    let running = live.iter().filter_map(|one| running(one, now));
    unserved.chain(waiting).chain(gated).chain(running).collect()
}

pub(super) fn waiting(one: &WaitingJob, now: Time) -> JobRow<'_> {
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

pub(super) fn other<'a>(kind: &'static str, one: &'a UnservedJob) -> JobRow<'a> {
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

fn running(one: &InstanceSummary, now: Time) -> Option<JobRow<'_>> {
    let key = one.key().filter(|_| one.runner_state == RunnerState::Active)?;
    Some(JobRow {
        kind: "running",
        key,
        name: instances::job(one).unwrap_or_default(),
        labels: String::new(),
        pool: Some(&one.pool),
        age: now.since(one.since),
        reason: None,
        why: "running".to_owned(),
        claim: Some(&one.name),
    })
}

impl JobRow<'_> {
    /// Returns the words that a search matches.
    fn words(&self) -> [String; 4] {
        let reason = self.reason.map_or("", WaitReason::as_str).to_owned();
        [self.name.clone(), self.key.to_string(), self.labels.clone(), reason]
    }
}

pub(super) fn table(found: &PageRows<'_, JobRow<'_>>) -> Markup {
    if found.rows.is_empty() {
        return html! { p.empty { "No jobs match. Jobs appear here when GitHub reports them." } };
    }
    html! {
        div.scroll { table.jobs {
            thead { tr {
                th scope="col" { "Job" } th scope="col" { "Labels" } th scope="col" { "Pool" }
                th.number scope="col" { "For" } th scope="col" { "Why" }
            } }
            tbody { @for row in &found.rows { tr {
                th.free scope="row" { (job(row.key, &row.name)) }
                td.free data-label="Labels" { @if row.labels.is_empty() { (none()) } @else { (Said(&row.labels)) } }
                td.short data-label="Pool" { @match row.pool { Some(name) => (pool(name)), None => (none()) } }
                td.number data-label="For" { (span(row.age)) }
                td.free.why data-label="Why" { (Said(&row.why)) @if let Some(name) = row.claim { " " (machine(name.as_str())) } }
            } } }
        } }
    }
}
