//! The jobs: waiting ones with their reasons, those without launches, and running ones.

use maud::{Markup, html};
use muster_api::answers::JobList;
use muster_domain::ids::PoolName;
use muster_domain::time::Time;

use super::find::{PageRows, pager, search};
use super::memory::Memory;
use super::page::{Filter, UiPage};
use super::parts;
use crate::views::jobs::{self, JobRow, other, running, waiting};

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

/// Renders the jobs of a page.
pub(super) fn table(found: &PageRows<'_, JobRow<'_>>) -> Markup {
    if found.rows.is_empty() {
        return html! { p.empty { "No jobs match. Jobs appear here when GitHub reports them." } };
    }
    parts::table(&jobs::table(found.rows.iter().copied()))
}
