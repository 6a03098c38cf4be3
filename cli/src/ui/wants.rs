//! What wants somebody: the first thing on the first page.

use maud::{Markup, html};
use muster_control::admin::To;
use muster_control::admin::answers::{Overview, Place, Severity, Want};

use super::order::{Order, Switched};
use super::page::{Filter, ORPHAN, Page};
use super::parts::Tone;
use super::text::Said;

/// All of it, in the order in which the function tells it.
pub(super) fn list(answer: &Overview, is_read_only: bool) -> Markup {
    let wants = &answer.wants;
    html! {
        section.wants aria-labelledby="wants" data-count=(wants.len()) {
            h2 #wants { "Wants you" @if !wants.is_empty() { " (" (wants.len()) ")" } }
            @if wants.is_empty() {
                p.well { "Nothing. Pools, GitHub and EC2 are as they should be." }
            } @else {
                ul { @for want in wants { (row(want, is_read_only)) } }
            }
        }
    }
}

fn row(want: &Want, is_read_only: bool) -> Markup {
    html! {
        li class=(tone(want.severity).class()) {
            span.dot aria-hidden="true" {}
            span.hidden { (word(want.severity)) ": " }
            span {
                (Said(&sentence(&want.sentence)))
                @if let Some(run) = &want.run { " " code { (Said(run)) } }
            }
            @if let Some(address) = resumed(want).filter(|_| !is_read_only) { a href=(address) { "Resume…" } }
            @else if let Some((name, address)) = way(&want.place) { a href=(address) { (Said(&name)) } }
        }
    }
}

const fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warning,
        Severity::Note => Tone::Plain,
    }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
    }
}

/// Where what is switched off can be switched on again.
fn resumed(want: &Want) -> Option<String> {
    let what = match want.run.as_deref()?.strip_prefix("muster resume ")? {
        "launches" => Switched::Launches,
        "deletes" => Switched::Deletes,
        pool => Switched::Pool(pool.parse().ok()?),
    };
    Some(Order::Switch { what, to: To::On }.confirmed_at())
}

/// The page to look at, where there is one.
fn way(place: &Place) -> Option<(String, String)> {
    let orphans = || Filter { state: Some(ORPHAN.to_owned()), ..Filter::default() };
    let (name, page) = match place {
        Place::Jobs => ("Jobs".to_owned(), Page::Jobs(Filter::default())),
        Place::Machines => ("Machines".to_owned(), Page::Machines(Filter::default())),
        Place::Orphans => ("Orphans".to_owned(), Page::Machines(orphans())),
        Place::Pool(name) => (format!("Pool {name}"), Page::Pool(name.clone())),
        Place::Instance(name) => (name.to_string(), Page::Machine(name.to_string())),
        Place::Github => ("GitHub".to_owned(), Page::GitHub),
        Place::Stack => return None,
    };
    Some((name, page.address()))
}

/// With a capital, unless it begins with the name of a machine.
fn sentence(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    if !first.chars().all(char::is_alphabetic) {
        return text.to_owned();
    }
    let mut all = text.chars();
    all.next().map(|first| first.to_uppercase().chain(all).collect()).unwrap_or_default()
}
