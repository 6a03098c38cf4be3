//! A self-contained page about a number of days.

use maud::html;
use muster_domain::time::Time;

use super::frame::{About, alone};
use super::memory::{CostsView, Memory, PageQuery};
use super::parts::table;
use super::text::Said;
use super::{costs, findings, overview, waits};
use crate::views::status;
use crate::words::minute;

/// Returns the queries for this number of days.
#[must_use]
pub fn questions(days: u32) -> Vec<PageQuery> {
    vec![PageQuery::Overview, PageQuery::Costs(CostsView::of(days))]
}

/// Renders the page.
#[must_use]
pub fn page(days: u32, memory: &Memory, about: &About, now: Time) -> String {
    let About { stack, region, release, .. } = about;
    let title = format!("{stack} in {region}, {days} days to {}", minute(now));
    let body = html! {
        div.head { h1 { (Said(stack)) " in " (region) } p.age { (minute(now)) ", release " (release) } }
        @if let Some(told) = memory.overview() {
            (findings::section(told, true, now))
            (overview::sums(told, None))
        }
        @if let Some(cost) = memory.costs(&CostsView::of(days)) {
            (waits::of_pools(&cost.waits))
            section aria-labelledby="costs" { h2 #costs { "Costs, " (cost.from) " to " (cost.to) } (costs::told_of(cost, None)) }
        }
        @if let Some(told) = memory.overview() {
            section aria-labelledby="pools" { h2 #pools { "Pools" } (table(&status::pools(told))) }
        }
    };
    alone(&title, &body)
}
