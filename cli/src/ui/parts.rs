//! Parts that several pages share.

use maud::{Markup, html};
use muster_domain::audit::Audit;
use muster_domain::ids::{JobKey, PoolName};
use muster_domain::instance::State;
use muster_domain::time::Time;

use super::fields::part;
use super::page::UiPage;
use super::text::{Said, moment, number};

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

/// A word with a dot in the colour of its tone.
pub(super) fn word(text: &str, tone: Tone) -> Markup {
    html! { span class={ "word " (tone.class()) } { span.dot aria-hidden="true" {} (Said(text)) } }
}

/// The state of an instance.
pub(super) fn state(state: State) -> Markup {
    let tone = match state {
        State::PendingCreate | State::Creating => Tone::Quiet,
        State::Running => Tone::Good,
        State::Error => Tone::Bad,
        State::PendingDelete | State::PendingForceDelete | State::Deleting => Tone::Warning,
        State::Deleted => Tone::Plain,
    };
    word(state.as_str(), tone)
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
    pub target: Option<String>,
}

/// Tiles in a row.
pub(super) fn tiles(label: &str, all: &[Tile]) -> Markup {
    let inner = |tile: &Tile| {
        html! {
            span.label { (tile.name) }
            span.big { (tile.figure) }
            span.quiet { (tile.note) }
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

/// A table of audit lines.
pub(super) fn trail(lines: &[Audit], has_subject: bool, now: Time) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Time" } th scope="col" { "What" }
                @if has_subject { th scope="col" { "Of" } }
                th scope="col" { "Who" } th scope="col" { "Why" }
            } }
            tbody { @for line in lines { tr {
                td.short data-label="Time" { (moment(line.at, now)) }
                td.short data-label="What" { (kind(line)) }
                @if has_subject { td data-label="Of" { (subject(&line.subject)) } }
                td.free data-label="Who" { (Said(&line.by)) }
                td.free data-label="Why" { (Said(&line.why)) }
            } } }
        }
    }
}

fn kind(line: &Audit) -> String {
    let kind = serde_json::json!(line.kind);
    kind.as_str().unwrap_or_default().replace('_', " ")
}

/// The subject of a line, as a link.
fn subject(subject: &str) -> Markup {
    match subject {
        "switches" => html! { a href="/" { "switches" } },
        "pools" => html! { a href="/pools" { "pools" } },
        "app" | "github" => html! { a href="/github" { (Said(subject)) } },
        name => machine(name),
    }
}
