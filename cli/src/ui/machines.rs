//! The live machines, a hundred per page, and the orphan ledger.

use maud::{Markup, html};
use muster_api::answers::InstanceSummary;
use muster_domain::instance::{RunnerState, State};
use muster_domain::time::Time;

use super::find::{PageRows, pager, search};
use super::memory::Memory;
use super::page::{Filter, ORPHAN, UiPage};
use super::parts::table;
use super::text::Said;
use crate::views::instances;

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
            @if orphans.is_empty() {
                p.empty { "No orphans. Machines that no live record owns appear here until EC2 terminates them." }
            } @else { (table(&instances::orphans(orphans, now))) }
        } @else {
            @let found = PageRows::of(list.instances.iter().filter(fits), filter);
            @if found.rows.is_empty() {
                p.empty { "No machines match. Live machines appear here from their plan to their deletion." }
            } @else { (table(&instances::table(found.rows.iter().copied(), now))) }
            (pager(&found, filter, &page))
            @if list.more.more { p.quiet { "The stack has more machines than are shown here." } }
            @if !list.unreadable.is_empty() {
                p.quiet { (list.unreadable.len()) " records were written by a different release: " (Said(&list.unreadable.join(", "))) }
            }
        }
    })
}
