//! The first page: what needs attention, totals, and the pools.

use maud::{Markup, html};
use muster_api::answers::{Overview, PoolStatus, UnservedJobs};
use muster_domain::time::{Seconds, Time};

use super::frame::About;
use super::memory::Memory;
use super::page::{Filter, UiPage};
use super::parts::{Tile, table, tiles};
use super::plot::line;
use super::text::{Said, number};
use super::{findings, waits};
use crate::trend::Trend;
use crate::views::status;
use crate::words::span;

pub(super) fn body(memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.overview()?;
    Some(html! {
        (findings::section(told, about.is_read_only, now))
        (sums(told, memory.trend()))
        @if let Some(why) = memory.trend().and_then(|trend| trend.failed.as_ref()) {
            p.quiet { "The last day of jobs and machines is unknown: " (Said(why)) }
        }
        @if let Some(waited) = memory.waits(2) { (waits::of_a_day(waited, now)) }
        section aria-labelledby="pools" {
            h2 #pools { "Pools" }
            (table(&status::pools(told)))
        }
    })
}

/// Renders the totals, each with a link to its rows.
pub(super) fn sums(told: &Overview, trend: Option<&Trend>) -> Markup {
    let pools = &told.pools;
    let waiting: usize = pools.iter().map(|pool| pool.waiting_jobs).sum();
    let oldest = pools.iter().filter_map(|pool| pool.oldest_waiting_job_seconds).max();
    let sum = |of: fn(&PoolStatus) -> usize| pools.iter().map(of).sum::<usize>();
    let (live, max) = (sum(|pool| pool.live as usize), sum(|pool| pool.max as usize));
    let busy = sum(|pool| pool.groups.taken);
    let starting = sum(|pool| pool.groups.starting + pool.groups.retrying);
    let (free, ending) = (sum(|pool| pool.groups.free), sum(|pool| pool.groups.ending));
    let late = pools.iter().filter(|pool| pool.late_end.is_some()).count();
    let jobs =
        |state: &str| UiPage::Jobs(Filter { state: Some(state.to_owned()), ..Filter::default() });
    let machines = |state: &str| {
        UiPage::Machines(Filter { state: Some(state.to_owned()), ..Filter::default() })
    };
    let late =
        if late == 0 { "none overdue".to_owned() } else { format!("overdue in {late} pools") };
    let tile = |name, figure, note, target: UiPage| Tile {
        name,
        figure: number(figure),
        note,
        trend: None,
        target: Some(target.address()),
    };
    let with = |tile, series: fn(&Trend) -> &[Option<u64>]| Tile {
        trend: trend.and_then(|trend| line(series(trend))),
        ..tile
    };
    let (unserved, gated) = (&told.unserved, &told.waiting_for_approval);
    tiles(
        "How much there is",
        &[
            with(tile("Waiting jobs", waiting, since(oldest), jobs("waiting")), |trend| {
                &trend.jobs
            }),
            with(
                tile(
                    "Machines",
                    live,
                    format!("of {}", number(max)),
                    UiPage::Machines(Filter::default()),
                ),
                |trend| &trend.machines,
            ),
            tile(
                "Running or assigned a job",
                busy,
                format!("{} idle", number(free)),
                machines("busy"),
            ),
            tile("Starting", starting, "machines booting".to_owned(), machines("starting")),
            tile("Ending", ending, late, machines("ending")),
            tile("Jobs without a pool", unserved.count, of(unserved), jobs("unserved")),
            tile("Jobs awaiting approval", gated.count, of(gated), jobs("approval")),
        ],
    )
}

fn of(jobs: &UnservedJobs) -> String {
    since(jobs.oldest_seconds)
}

fn since(oldest: Option<Seconds>) -> String {
    oldest.map_or_else(|| "no jobs".to_owned(), |oldest| format!("longest wait {}", span(oldest)))
}
