//! The waits of jobs until their first step.

use maud::{Markup, html};
use muster_api::answers::{WaitsAt, WaitsList};
use muster_domain::time::Time;

use super::parts::{length, table};
use super::plot::{Bar, bars};
use crate::money::thousands;
use crate::table::{Column, DataTable, Text};
use crate::views::waits;
use crate::words::minute;

/// The hours of a day, and their length in milliseconds.
const HOURS: i64 = 24;
const HOUR: i64 = 3_600_000;

/// The last day, hour by hour, including hours in which no job started.
pub(super) fn of_a_day(told: &WaitsList, now: Time) -> Markup {
    let hour = |at: Time| at.as_millis().div_euclid(HOUR);
    let last = (1..=HOURS).map(|n| hour(now) - HOURS + n);
    let last: Vec<(Time, Option<&WaitsAt>)> = last
        .map(|n| (Time::from_millis(n * HOUR), told.series.iter().find(|one| hour(one.at) == n)))
        .collect();
    let bar = |(at, one): &(Time, Option<&WaitsAt>)| {
        let Some(one) = one.filter(|one| one.jobs > 0) else {
            let title = format!("{}: no jobs started", minute(*at));
            return Bar { name: minute(*at), title, parts: Vec::new() };
        };
        let (p50, p95) = (one.p50.unwrap_or_default(), one.p95.unwrap_or_default());
        let title = format!(
            "{}: {} jobs, median {}, 95th percentile {}",
            minute(*at),
            one.jobs,
            length(p50),
            length(p95)
        );
        Bar {
            name: minute(*at),
            title,
            parts: vec![("work", p50), ("boot", p95.saturating_sub(p50))],
        }
    };
    let all: Vec<Bar> = last.iter().map(bar).collect();
    let known: Vec<&WaitsAt> =
        last.iter().filter_map(|(_, one)| one.filter(|one| one.jobs > 0)).collect();
    html! {
        section aria-labelledby="waits" {
            h2 #waits { "From queued to the first step, last 24 hours" }
            @if known.is_empty() {
                p.quiet { "No waits yet. A wait is recorded when the machine of its job has ended." }
            } @else {
                (bars("Waits by the hour: median and 95th percentile", &all, length))
                ul.legend {
                    li { span.key.work aria-hidden="true" {} "median" }
                    li { span.key.boot aria-hidden="true" {} "95th percentile" }
                }
                details #waits-table {
                    summary { "As a table" }
                    (table(&by_hour(&known)))
                }
            }
        }
    }
}

fn by_hour(known: &[&WaitsAt]) -> DataTable {
    let row = |one: &&WaitsAt| {
        let [p50, p95] = [one.p50, one.p95].map(|millis| Text::known(millis.map(length)));
        vec![Text::from(minute(one.at)), thousands(one.jobs).into(), p50, p95]
    };
    let figures = ["Jobs", "P50", "P95"].map(Column::number);
    DataTable::new(
        [vec![Column::short("Hour")], figures.into()].concat(),
        known.iter().rev().map(row),
    )
}

/// The waits of each pool.
pub(super) fn of_pools(told: &WaitsList) -> Markup {
    html! {
        section aria-labelledby="pool-waits" {
            h2 #pool-waits { "Wait until the first step, " (told.from) " to " (told.to) }
            @if told.all.jobs == 0 {
                p.quiet { "No jobs ran in this period." }
            } @else {
                (table(&waits::table(told)))
                p.quiet { (waits::ABOUT) }
            }
        }
    }
}
