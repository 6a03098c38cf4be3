//! The first page: what wants somebody, how much there is, and the pools.

use maud::{Markup, html};
use muster_control::admin::answers::{PoolStatus, StackStatus, UnservedJobs};
use muster_domain::time::Seconds;

use super::memory::Memory;
use super::page::{Filter, Page};
use super::parts::{none, pool, room};
use super::text::{Said, number};
use super::wants;
use crate::words::span;

pub(super) fn body(memory: &Memory) -> Option<Markup> {
    let status = memory.status()?;
    Some(html! {
        (wants::list(status))
        (tiles(status))
        section aria-labelledby="pools" {
            h2 #pools { "Pools" }
            (pools(status))
        }
    })
}

/// A figure, what belongs to it, and the rows behind it.
struct Tile {
    name: &'static str,
    figure: String,
    note: String,
    target: Page,
}

fn tiles(status: &StackStatus) -> Markup {
    let pools = &status.overview.pools;
    let waiting: usize = pools.iter().map(|pool| pool.waiting_jobs).sum();
    let oldest = pools.iter().filter_map(|pool| pool.oldest_waiting_job_seconds).max();
    let live: usize = pools.iter().map(|pool| pool.live as usize).sum();
    let max: usize = pools.iter().map(|pool| pool.max as usize).sum();
    let ending: usize = pools.iter().map(|pool| pool.groups.ending).sum();
    let jobs =
        |state: &str| Page::Jobs(Filter { state: Some(state.to_owned()), ..Filter::default() });
    let machines = |state: Option<&str>| {
        Page::Machines(Filter { state: state.map(str::to_owned), ..Filter::default() })
    };
    let orphans = status.orphans.len();
    let tiles = [
        Tile {
            name: "Waiting jobs",
            figure: number(waiting),
            note: since(oldest),
            target: jobs("waiting"),
        },
        Tile {
            name: "Machines",
            figure: number(live),
            note: format!("of {}", number(max)),
            target: machines(None),
        },
        Tile {
            name: "Ending",
            figure: number(ending),
            note: format!("{} orphans", number(orphans)),
            target: machines(Some("ending")),
        },
        others("Served by no pool", &status.overview.unserved, jobs("unserved")),
        others("For approval", &status.overview.waiting_for_approval, jobs("approval")),
    ];
    html! {
        ul.tiles aria-label="How much there is" {
            @for Tile { name, figure, note, target } in &tiles {
                li { a href=(target.address()) {
                    span.label { (name) }
                    span.big { (figure) }
                    span.quiet { (note) }
                } }
            }
        }
    }
}

fn others(name: &'static str, jobs: &UnservedJobs, target: Page) -> Tile {
    Tile { name, figure: number(jobs.count), note: since(jobs.oldest_seconds), target }
}

fn since(oldest: Option<Seconds>) -> String {
    oldest.map_or_else(|| "none waits".to_owned(), |oldest| format!("the oldest {}", span(oldest)))
}

/// The table of all pools.
pub(super) fn pools(status: &StackStatus) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Pool" } th scope="col" { "Live / max" }
                th.number scope="col" { "Ending" } th.number scope="col" { "Waiting" } th.number scope="col" { "Oldest" }
                th scope="col" { "Note" }
            } }
            tbody { @for one in &status.overview.pools { (row(one)) } }
        }
    }
}

fn row(one: &PoolStatus) -> Markup {
    html! {
        tr {
            th scope="row" { (pool(&one.name)) }
            td data-label="Live / max" { (room(one.live as usize, one.max as usize)) }
            td.number data-label="Ending" { (number(one.groups.ending)) }
            td.number data-label="Waiting" { (number(one.waiting_jobs)) }
            td.number data-label="Oldest" {
                @match one.oldest_waiting_job_seconds { Some(age) => (span(age)), None => (none()) }
            }
            td.free.note data-label="Note" {
                @if let Some(note) = &one.note { (Said(&note.said)) }
            }
        }
    }
}
