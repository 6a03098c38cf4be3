//! The audit trail, one day per page.

use maud::{Markup, html};
use muster_domain::time::Time;

use super::memory::{Memory, day};
use super::page::UiPage;
use super::parts::table;
use crate::views::audit;

/// Maximum age in days that the page links to; `muster audit` shows older lines.
const DAYS: u32 = 90;

pub(super) fn body(back: u32, memory: &Memory, now: Time) -> Option<Markup> {
    let list = memory.audit(back)?;
    let date = day(now, back).to_string();
    let date = date.split('T').next().unwrap_or_default();
    let at = |back| UiPage::Audit { back }.address();
    Some(html! {
        nav.pager aria-label="Days" {
            @if back < DAYS { a rel="prev" href=(at(back + 1)) { "← Previous day" } }
            strong { (date) }
            @if back > 0 { a rel="next" href=(at(back - 1)) { "Next day →" } }
        }
        @if list.lines.is_empty() {
            p.empty { "No entries on that day. Orders, refusals, pauses and pool files appear here." }
        } @else {
            (table(&audit(&list.lines, now)))
        }
        @if list.next.is_some() { p.quiet { "The day has more lines: " code { "muster audit --since 1d" } } }
    })
}
