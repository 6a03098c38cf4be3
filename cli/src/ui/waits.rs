//! The waits of jobs until their first step.

use maud::{Markup, html};
use muster_api::answers::{WaitsAt, WaitsList, WaitsRow};
use muster_domain::time::Time;
use muster_domain::usage::WaitsFor;

use super::parts::{length, none};
use super::plot::{Bar, bars};
use super::text::Said;
use crate::money::thousands;
use crate::views::waits::words;
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
                    table {
                        thead { tr {
                            th scope="col" { "Hour" } th.number scope="col" { "Jobs" } th.number scope="col" { "Median" } th.number scope="col" { "95th percentile" }
                        } }
                        tbody { @for one in known.iter().rev() { tr {
                            th scope="row" { (minute(one.at)) }
                            td.number data-label="Jobs" { (thousands(one.jobs)) }
                            td.number data-label="Median" { (span(one.p50)) }
                            td.number data-label="95th percentile" { (span(one.p95)) }
                        } } }
                    }
                }
            }
        }
    }
}

fn span(millis: Option<u64>) -> Markup {
    html! { @match millis { Some(millis) => (length(millis)), None => (none()) } }
}

/// The waits of each pool.
pub(super) fn of_pools(told: &WaitsList) -> Markup {
    html! {
        section aria-labelledby="pool-waits" {
            h2 #pool-waits { "Wait until the first step, " (told.from) " to " (told.to) }
            @if told.all.jobs == 0 {
                p.quiet { "No jobs ran in this period." }
            } @else { div.scroll { table {
                thead { tr {
                    th scope="col" { "Pool" } th.number scope="col" { "Jobs" } th.number scope="col" { "Median" }
                    th.number scope="col" { "95th percentile" } th.number scope="col" { "Longest" }
                    th scope="col" { "Median of each part" }
                } }
                tbody {
                    @for row in &told.pools { (self::row(row)) }
                    @if told.pools.len() > 1 { (row(&told.all)) }
                }
            } } }
        }
    }
}

fn row(row: &WaitsRow) -> Markup {
    let parts = WaitsFor::ALL
        .iter()
        .filter_map(|what| Some(format!("{} {}", words(*what).0, length(*row.parts.get(what)?))));
    html! {
        tr {
            th scope="row" { (Said(&row.name)) }
            td.number data-label="Jobs" { (thousands(row.jobs)) }
            td.number data-label="Median" { (span(row.p50)) }
            td.number data-label="95th percentile" { (span(row.p95)) }
            td.number data-label="Longest" { (length(row.longest)) }
            td.free data-label="Median of each part" { (parts.collect::<Vec<_>>().join(" · ")) }
        }
    }
}
