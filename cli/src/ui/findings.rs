//! What needs attention: the first section of the first page.

use maud::{Markup, html};
use muster_api::To;
use muster_api::answers::{Finding, Location, Overview, Severity};
use muster_domain::time::Time;

use super::page::{Filter, ORPHAN, UiPage};
use super::parts::Tone;
use super::text::{Said, moment};
use crate::orders::{Order, Switched};

/// Renders the section of the first page and of the report.
pub(super) fn section(answer: &Overview, is_read_only: bool, now: Time) -> Markup {
    let all = &answer.findings;
    html! {
        section.wants aria-labelledby="wants" data-count=(all.len()) {
            h2 #wants { "Needs attention" @if !all.is_empty() { " (" (all.len()) ")" } }
            @if all.is_empty() { p.well { "No problem was found." } }
            @else { (list(all, is_read_only)) }
            p.quiet {
                @match answer.app_checked_at {
                    Some(at) => { "The GitHub App and its webhook were checked at " (moment(at, now)) ". " }
                    None => { "The GitHub App and its webhook have not been checked yet. " }
                }
                "Not checked here: the AWS account, the network, images, functions and alarms; run " code { "muster doctor" } "."
            }
        }
    }
}

/// Renders the findings, each with its fix and a link.
pub(super) fn list(all: &[Finding], is_read_only: bool) -> Markup {
    html! { ul { @for one in all { (row(one, is_read_only)) } } }
}

fn row(one: &Finding, is_read_only: bool) -> Markup {
    html! {
        li class=(tone(one.severity).class()) {
            span.dot aria-hidden="true" {}
            span.hidden { (word(one.severity)) ": " }
            span {
                (Said(&one.message))
                @if let Some(fix) = &one.fix { " → " (Said(fix)) }
            }
            @if let Some(address) = resumed(one).filter(|_| !is_read_only) { a href=(address) { "Resume…" } }
            @else if let Some((name, address)) = way(&one.location) { a href=(address) { (Said(&name)) } }
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

/// Returns where the pause can be ended.
fn resumed(one: &Finding) -> Option<String> {
    let what = match (one.kind(), &one.location) {
        ("launches-paused", _) => Switched::Launches,
        ("deletes-paused", _) => Switched::Deletes,
        ("pool-paused", Location::Pool(pool)) => Switched::Pool(pool.clone()),
        _ => return None,
    };
    Some(Order::Switch { what: vec![what], to: To::On }.confirmed_at())
}

/// Returns the page about the subject of a finding, if there is one.
fn way(location: &Location) -> Option<(String, String)> {
    let orphans = || Filter { state: Some(ORPHAN.to_owned()), ..Filter::default() };
    let (name, page) = match location {
        Location::Jobs => ("Jobs".to_owned(), UiPage::Jobs(Filter::default())),
        Location::Machines => ("Machines".to_owned(), UiPage::Machines(Filter::default())),
        Location::Orphans => ("Orphans".to_owned(), UiPage::Machines(orphans())),
        Location::Pool(name) => (format!("Pool {name}"), UiPage::Pool(name.clone())),
        Location::Instance(name) => (name.to_string(), UiPage::Machine(name.to_string())),
        Location::Github => ("GitHub".to_owned(), UiPage::GitHub),
        Location::Stack | Location::Account | Location::Network => return None,
    };
    Some((name, page.address()))
}
