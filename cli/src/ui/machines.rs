//! The live machines, a hundred per page, and the orphan ledger.

use maud::{Markup, html};
use muster_api::answers::{InstanceSummary, OrphanStatus};
use muster_domain::instance::{RunnerState, State};
use muster_domain::time::Time;

use super::find::{PageRows, pager, search};
use super::memory::Memory;
use super::page::{Filter, ORPHAN, UiPage};
use super::parts::{Tone, job, machine, none, pool, state, word};
use super::text::{Said, ago, number};
use crate::page::Text;
use crate::views::instances::{self, waits_for};
use crate::words::span;

/// A filter: its word in the address, its name, and which machines it matches.
type Kind = (&'static str, &'static str, fn(&InstanceSummary) -> bool);

const KINDS: [Kind; 5] = [
    ("", "All", |_| true),
    ("starting", "Starting", |one| is_starting(one)),
    ("idle", "Idle", |one| one.state == State::Running && one.runner_state == RunnerState::Idle),
    ("busy", "Busy", |one| one.state == State::Running && one.runner_state == RunnerState::Active),
    ("ending", "Ending", |one| !one.state.is_serving()),
];

const fn is_starting(one: &InstanceSummary) -> bool {
    match one.state {
        State::PendingCreate | State::Creating => true,
        State::Running => {
            matches!(one.runner_state, RunnerState::Pending | RunnerState::Installing)
        }
        State::Error
        | State::PendingDelete
        | State::PendingForceDelete
        | State::Deleting
        | State::Deleted => false,
    }
}

pub(super) fn body(filter: &Filter, memory: &Memory, now: Time) -> Option<Markup> {
    let list = memory.list()?;
    let status = memory.status();
    let orphans = status.map(|status| status.orphans.as_slice()).unwrap_or_default();
    let kind = filter.state.as_deref().unwrap_or_default();
    let fits = |one: &&InstanceSummary| {
        let of_kind = KINDS.iter().find(|(word, ..)| *word == kind);
        let is_kind = of_kind.map_or(one.state.as_str() == kind, |(.., is)| is(one));
        is_kind && filter.has_pool(one.pool.as_str()) && filter.has_text(&one.words())
    };
    let count =
        |is: fn(&InstanceSummary) -> bool| list.instances.iter().filter(|one| is(one)).count();
    let kinds = KINDS.map(|(word, name, is)| (word, name, Some(count(is))));
    let kinds: Vec<_> =
        kinds.into_iter().chain([(ORPHAN, "Orphans", status.map(|_| orphans.len()))]).collect();
    let mut pools: Vec<&str> = list.instances.iter().map(|one| one.pool.as_str()).collect();
    pools.dedup();
    let page = |filter| UiPage::Machines(filter).address();
    Some(html! {
        (search(filter, &kinds, &pools, &page))
        @if kind == ORPHAN {
            (ledger(orphans, now))
        } @else {
            @let found = PageRows::of(list.instances.iter().filter(fits), filter);
            (table(&found, now))
            (pager(&found, filter, &page))
            @if list.more.more { p.quiet { "The stack has more machines than are shown here." } }
            @if !list.unreadable.is_empty() {
                p.quiet { (list.unreadable.len()) " records were written by a different release: " (Said(&list.unreadable.join(", "))) }
            }
        }
    })
}

fn table(found: &PageRows<'_, InstanceSummary>, now: Time) -> Markup {
    if found.rows.is_empty() {
        return html! { p.empty { "No machines match. Live machines appear here from their plan to their deletion." } };
    }
    html! {
        div.scroll { table {
            thead { tr {
                th scope="col" { "Instance" } th scope="col" { "Job" } th scope="col" { "State" }
                th scope="col" { "Pool" } th scope="col" { "Machine" }
                th.number scope="col" { "Age" } th scope="col" { "Waits for" }
            } }
            tbody { @for one in &found.rows { (row(one, now)) } }
        } }
    }
}

fn row(one: &InstanceSummary, now: Time) -> Markup {
    let waits = waits_for(one, now);
    html! {
        tr {
            th.free scope="row" { (machine(one.name.as_str())) }
            td.free data-label="Job" { @match (one.key(), instances::job(one)) { (Some(key), Some(name)) => (job(key, &name)), _ => (none()) } }
            td data-label="State" {
                div { (state(one.state)) @if one.forced { " " span.tag { "forced" } } }
                @if one.state == State::Running { (runner(one.runner_state)) }
            }
            td data-label="Pool" { (pool(&one.pool)) }
            td data-label="Machine" { (make(one)) }
            td.number data-label="Age" { (span(one.age_seconds)) }
            td.free data-label="Waits for" { @if waits == Text::none() { (none()) } @else { (Said(waits.text())) } }
        }
    }
}

/// Renders the machine's ID, type, market and zone.
fn make(one: &InstanceSummary) -> Markup {
    let market = one.make.market.map(|market| market.to_string());
    let parts = [one.make.kind.as_deref(), market.as_deref(), one.make.zone.as_deref()];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    html! {
        @match &one.machine { Some(id) => (Said(id.as_str())), None => (none()) }
        @if !parts.is_empty() { div.quiet { (Said(&parts.join(" "))) } }
    }
}

pub(super) fn runner(state: RunnerState) -> Markup {
    let tone = match state {
        RunnerState::Active => Tone::Good,
        RunnerState::Failed => Tone::Bad,
        RunnerState::Pending | RunnerState::Terminated => Tone::Quiet,
        RunnerState::Installing | RunnerState::Idle => Tone::Plain,
    };
    word(state.as_str(), tone)
}

fn ledger(orphans: &[OrphanStatus], now: Time) -> Markup {
    if orphans.is_empty() {
        return html! { p.empty { "No orphans. Machines that no live record owns appear here until EC2 terminates them." } };
    }
    html! {
        table {
            thead { tr {
                th scope="col" { "Machine" } th scope="col" { "Of" } th scope="col" { "Since" }
                th.number scope="col" { "Attempts" } th scope="col" { "Last error" }
            } }
            tbody { @for one in orphans { tr {
                th.name scope="row" { (Said(one.machine.as_str())) }
                td data-label="Of" { @match &one.instance { Some(name) => (machine(name.as_str())), None => (none()) } }
                td data-label="Since" { (ago(one.since, now)) }
                td.number data-label="Attempts" { (number(one.attempts as usize)) }
                td.free data-label="Last error" { @match &one.last_error { Some(error) => (Said(&error.to_string())), None => (none()) } }
            } } }
        }
    }
}
