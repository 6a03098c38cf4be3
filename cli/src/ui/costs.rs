//! The costs of machines, grouped by repository, pool and so on.

use maud::{Markup, html};
use muster_api::answers::{CostsList, CostsOfDay};
use muster_domain::usage::{By, Parts, Sum};

use super::memory::{BY, CostsView, Memory};
use super::page::UiPage;
use super::parts::{Tile, table, tiles};
use super::plot::{Bar, bars};
use super::text::Said;
use super::waits;
use crate::money::{dollars, share, thousands};
use crate::table::{Cell, Column, DataTable, Subject};
use crate::views::costs::{self, notes};

const SPANS: [(u32, &str); 3] = [(7, "7 d"), (30, "30 d"), (365, "A year")];

pub(super) fn body(view: &CostsView, memory: &Memory) -> Option<Markup> {
    let told = memory.costs(view)?;
    let CostsView { days, by, .. } = *view;
    let at = |days, by| UiPage::Costs(CostsView { days, by, ..view.clone() }).address();
    Some(html! {
        div.find {
            nav aria-label="Period" { ul { @for (span, name) in SPANS {
                li { a href=(at(span, by)) aria-current=[(span == days).then_some("true")] { (name) } }
            } } }
            nav aria-label="Group by" { ul { @for (word, _) in BY {
                li { a href=(at(days, word)) aria-current=[(word == by).then_some("true")] { "by " (word) } }
            } } }
        }
        @if view.pool.is_some() || view.repository.is_some() {
            p { a href=(UiPage::Costs(CostsView { by, ..CostsView::of(days) }).address()) { "Costs of the whole stack" } }
        }
        (told_of(told, Some(view)))
        p.quiet {
            a href=(view.address("/costs.csv")) { "As CSV" }
            " · As a command: " code {
                "muster costs --since " (days) "d --by " (by)
                @if let Some(pool) = &view.pool { " --pool " (pool) }
                @if let Some(repository) = &view.repository { " --repository " (Said(repository)) }
            }
        }
        (waits::of_pools(&told.waits))
    })
}

/// Renders totals, days, rows, and notes about costs that are not included. `view`: rows link to parts of it.
pub(super) fn told_of(told: &CostsList, view: Option<&CostsView>) -> Markup {
    html! {
        @if told.all.machines == 0 {
            p.empty { "No machines ended in this period. The cost of a machine appears here when it has ended." }
        } @else {
            (tiles("Totals", &sums(&told.all)))
            section aria-labelledby="days" { h2 #days { "Day by day" } (of_days(told)) }
            section aria-labelledby="rows" { h2 #rows { "By " (BY.iter().find(|(_, by)| *by == told.by).map_or("name", |(word, _)| word)) } (table(&linked(told, view))) }
        }
        ul.evidence.quiet { @for note in notes(told) { li { (Said(note.text())) } } }
    }
}

fn sums(all: &Sum) -> [Tile; 4] {
    let (whole, Parts { idle, vain, .. }) = (all.money.sum(), all.money);
    let tile = |name, figure, note| Tile { name, figure, note, trend: None, target: None };
    let saved = all.on_demand.saturating_sub(all.spot);
    let of_a_minute = whole.checked_div(all.minutes).map_or_else(|| "–".to_owned(), dollars);
    [
        tile("Dollars", dollars(whole), format!("{} machines", thousands(all.machines))),
        tile("Saved by Spot", dollars(saved), format!("of {} On-Demand", dollars(all.on_demand))),
        tile(
            "Wasted",
            dollars(idle + vain),
            format!("{} of all: idle, or never ran a job", share(idle + vain, whole)),
        ),
        tile(
            "Per job-minute",
            of_a_minute,
            format!("{} minutes of {} jobs", thousands(all.minutes), thousands(all.jobs)),
        ),
    ]
}

fn of_days(told: &CostsList) -> Markup {
    let bar = |day: &CostsOfDay| {
        let Parts { start, work, end, idle, vain } = day.money;
        let title =
            format!("{}: {}, {} jobs", day.date, dollars(day.money.sum()), thousands(day.jobs));
        Bar {
            name: day.date.to_string(),
            title,
            parts: vec![("work", work), ("boot", start + end), ("idle", idle), ("end", vain)],
        }
    };
    let all: Vec<Bar> = told.days.iter().map(bar).collect();
    let legend = [("work", "work"), ("boot", "start and end"), ("idle", "idle"), ("end", "wasted")];
    html! {
        (bars("Dollars of each day", &all, dollars))
        ul.legend { @for (class, name) in legend { li { span class={ "key " (class) } aria-hidden="true" {} (name) } } }
        details #days-table {
            summary { "As a table" }
            (table(&by_day(told)))
        }
    }
}

/// Returns the table of costs, in which pools and repositories link to their costs.
fn linked(told: &CostsList, view: Option<&CostsView>) -> DataTable {
    let mut table = costs::table(told);
    for (cells, row) in table.rows.iter_mut().zip(&told.rows) {
        let part = match (view, told.by) {
            (Some(view), By::Repository) => {
                let repository = Some(row.name.clone());
                CostsView { by: "job", repository, ..view.clone() }
            }
            (Some(view), By::Pool) => match row.name.parse() {
                Ok(pool) => CostsView { by: BY[0].0, pool: Some(pool), ..view.clone() },
                Err(_) => continue,
            },
            _ => continue,
        };
        if let Some(name) = cells.first_mut() {
            let to = Subject::Page(UiPage::Costs(part).address());
            *name = Cell::link(name.text.clone(), to);
        }
    }
    table
}

fn by_day(told: &CostsList) -> DataTable {
    let row = |day: &CostsOfDay| {
        [day.date.to_string(), thousands(day.jobs), dollars(day.money.sum())].into()
    };
    let days = told.days.iter().rev().filter(|day| day.money.sum() > 0);
    let columns = [Column::short("Day"), Column::number("Jobs"), Column::number("Dollars")];
    DataTable::new::<String>(columns, days.map(row))
}
