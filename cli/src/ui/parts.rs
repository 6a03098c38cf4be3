//! Parts that several pages share.

use maud::{Markup, html};
use muster_domain::ids::{JobKey, PoolName};

use super::fields::part;
use super::page::UiPage;
use super::text::{Said, number};
use crate::table::{
    Cell, CellKind, Column, ColumnKind, DataTable, Medium, Subject, Text, TextStyle,
};

/// The tone of a word. The text conveys the same without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Warning,
    Bad,
}

impl Tone {
    const fn of(style: TextStyle) -> Self {
        match style {
            TextStyle::Plain | TextStyle::Strong => Self::Plain,
            TextStyle::Dim => Self::Quiet,
            TextStyle::Good => Self::Good,
            TextStyle::Warning => Self::Warning,
            TextStyle::Bad => Self::Bad,
        }
    }

    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Quiet => "quiet",
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }
}

/// A state, with a dot in the colour of its style.
pub(super) fn state(text: &Text) -> Markup {
    word(text.raw(), Tone::of(text.style()))
}

/// A word with a dot in the colour of its tone.
pub(super) fn word(text: &str, tone: Tone) -> Markup {
    html! { span class={ "word " (tone.class()) } { span.dot aria-hidden="true" {} (Said(text)) } }
}

/// A link to an instance or a machine.
pub(super) fn machine(name: &str) -> Markup {
    html! { a.name href={ "/machines/" (part(name)) } { (Said(name)) } }
}

/// A link to a pool.
pub(super) fn pool(name: &PoolName) -> Markup {
    html! { a href=(UiPage::Pool(name.clone()).address()) { (Said(name.as_str())) } }
}

/// A link to a job.
pub(super) fn job(key: JobKey, text: &str) -> Markup {
    html! { a href=(UiPage::Job(key).address()) { (Said(text)) } }
}

/// The placeholder for a missing value.
pub(super) fn none() -> Markup {
    html! { span.quiet.none { "–" } }
}

/// The used part of a maximum, as figures and as a bar.
pub(super) fn room(live: usize, max: usize) -> Markup {
    let used = if max == 0 { 0 } else { (live * 100).div_ceil(max).min(100) };
    let tone = if max > 0 && live >= max { "full" } else { "part" };
    html! {
        span.room {
            svg.gauge viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
                rect.ground width="100" height="8" {}
                rect class=(tone) width=(used) height="8" {}
            }
            span.figure { (number(live)) " / " (number(max)) }
        }
    }
}

/// A figure with a note, and a link to its details.
pub(super) struct Tile {
    pub name: &'static str,
    pub figure: String,
    pub note: String,
    /// The last day, if it is known.
    pub trend: Option<Markup>,
    pub target: Option<String>,
}

/// Tiles in a row.
pub(super) fn tiles(label: &str, all: &[Tile]) -> Markup {
    let inner = |tile: &Tile| {
        html! {
            span.label { (tile.name) }
            span.big { (tile.figure) }
            span.quiet { (tile.note) }
            @if let Some(trend) = &tile.trend { (trend) }
        }
    };
    html! {
        ul.tiles aria-label=(label) { @for tile in all { li {
            @match &tile.target {
                Some(target) => a href=(target) { (inner(tile)) },
                None => div { (inner(tile)) },
            }
        } } }
    }
}

/// A part of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub word: &'static str,
    /// Its class in the stylesheet.
    pub class: &'static str,
    pub millis: u64,
}

/// Spans in a row, as wide as they were long, with a minimum width.
pub(super) fn spans(of: &str, spans: &[Span]) -> Markup {
    const WIDTH: u64 = 1_000;
    const LEAST: u64 = 8;
    let total: u64 = spans.iter().map(|span| span.millis).sum::<u64>().max(1);
    let mut whole = 0;
    let places: Vec<(u64, u64)> = spans
        .iter()
        .map(|span| {
            let width = (span.millis * WIDTH / total).max(LEAST);
            whole += width;
            (whole - width, width)
        })
        .collect();
    let told = |span: &Span| format!("{} {}", span.word, length(span.millis));
    let all: Vec<String> = spans.iter().map(told).collect();
    html! {
        svg.spans viewBox={ "0 0 " (whole.max(1)) " 16" } preserveAspectRatio="none" role="img" aria-label={ (of) ": " (all.join(", ")) } {
            @for ((span, (at, width)), told) in spans.iter().zip(places).zip(&all) {
                rect class=(span.class) x=(at) width=(width) height="16" { title { (told) } }
            }
        }
    }
}

/// Formats a length: `850 ms`, `12.4 s`, `170 s`, and from 15 minutes on `15 min`.
pub(super) fn length(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => crate::words::seconds(muster_domain::time::Seconds(
            u32::try_from(millis / 1_000).unwrap_or(u32::MAX),
        )),
    }
}

/// Renders a table.
pub(super) fn table(table: &DataTable) -> Markup {
    with_actions(table, "", |_| None)
}

/// Renders a table whose last column has an action for some rows.
pub(super) fn with_actions(
    table: &DataTable,
    title: &str,
    action: impl Fn(usize) -> Option<Markup>,
) -> Markup {
    let columns = table.columns.iter().enumerate();
    let mut groups: Vec<Vec<(usize, &Column)>> = Vec::new();
    for column in columns.filter(|(_, column)| column.medium != Medium::Terminal) {
        match groups.last_mut() {
            Some(group) if column.1.is_below => group.push(column),
            _ => groups.push(vec![column]),
        }
    }
    html! {
        table {
            thead { tr {
                @for (_, column) in groups.iter().filter_map(|group| group.first()) {
                    th class=[(column.kind == ColumnKind::Number).then_some("number")] scope="col" { (column.title) }
                }
                @if !title.is_empty() { th scope="col" { (title) } }
            } }
            tbody { @for (index, row) in table.rows.iter().enumerate() { tr {
                @for (place, group) in groups.iter().enumerate() { (cells(group, row, place == 0)) }
                @if !title.is_empty() {
                    td data-label=(title) { @match action(index) { Some(action) => (action), None => (none()) } }
                }
            } } }
        }
    }
}

/// Renders a cell, with the values of the columns below it.
fn cells(group: &[(usize, &Column)], row: &[Cell], is_first: bool) -> Markup {
    let Some(((first, column), below)) = group.split_first() else { return html! {} };
    let Some(value) = row.get(*first) else { return html! {} };
    let class = match column.kind {
        ColumnKind::Text => "free",
        ColumnKind::Name => "own",
        ColumnKind::Short => "short",
        ColumnKind::Number => "number",
    };
    let below: Vec<&Cell> = below.iter().filter_map(|(index, _)| row.get(*index)).collect();
    let below: Vec<&Cell> = below.into_iter().filter(|cell| !cell.text.is_none()).collect();
    let inner = html! {
        (cell(value))
        @if !below.is_empty() { div.quiet { @for one in below { (cell(one)) " " } } }
    };
    html! {
        @if is_first { th class=(class) scope="row" { (inner) } }
        @else if column.is_lead { td class={ (class) " why" } data-label=(column.title) { (inner) } }
        @else { td class=(class) data-label=(column.title) { (inner) } }
    }
}

fn cell(cell: &Cell) -> Markup {
    let text = cell.text.raw();
    if cell.text.is_none() {
        return none();
    }
    match &cell.kind {
        CellKind::State => word(text, Tone::of(cell.text.style())),
        CellKind::Link(to) => link(to, text),
        CellKind::Time(at) => html! { time datetime=(at) title={ (at) " (UTC)" } { (text) } },
        CellKind::Room { used, max } => room(*used, *max),
        CellKind::Plain => match Tone::of(cell.text.style()) {
            _ if text.is_empty() => html! {},
            Tone::Plain => html! { (Said(text)) },
            tone => html! { span class=(tone.class()) { (Said(text)) } },
        },
    }
}

fn link(to: &Subject, text: &str) -> Markup {
    match to {
        Subject::Instance(name) if name == text => machine(name),
        Subject::Instance(name) => html! { a href={ "/machines/" (part(name)) } { (Said(text)) } },
        Subject::Pool(name) => pool(name),
        Subject::Job(key) => job(*key, text),
        Subject::DeadLetters(queue) => {
            let page = UiPage::DeadLetters(Some(*queue)).address();
            html! { a href=(page) { (text) } }
        }
        Subject::Audited(name) => subject(name),
        Subject::Page(address) => html! { a href=(address) { (Said(text)) } },
    }
}

/// The subject of a line, as a link.
fn subject(subject: &str) -> Markup {
    match subject {
        "switches" => html! { a href="/" { "switches" } },
        "pools" => html! { a href="/pools" { "pools" } },
        // Images have no page.
        "images" => html! { "images" },
        "app" | "github" => html! { a href="/github" { (Said(subject)) } },
        name => machine(name),
    }
}
