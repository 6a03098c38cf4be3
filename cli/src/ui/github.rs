//! The App at GitHub: its facts, webhook, installations and problems.

use maud::{Markup, html};
use muster_api::answers::{ShownDelivery, ShownGithub, ShownInstallation};
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::parts::{Tone, none, word};
use super::text::{Said, moment};
use crate::orders::{HookAction, Order};
use crate::views::github::{WAYS, hooked, named, which};

pub(super) fn body(memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.github()?;
    let is_well = told.app.is_some() && told.lacks.is_empty() && told.unknown.is_empty();
    Some(html! {
        @match &told.app {
            Some(app) => p.lead { "GitHub App " (Said(&named(app))) }
            None => p.lead { @if told.unknown.is_empty() { "There is no GitHub App yet." } @else { "The App is unknown right now." } }
        }
        section.said aria-label="Problems" {
            @if is_well { p.well { (word("healthy", Tone::Good)) ": GitHub reports no problems with it." } }
            @for lack in &told.lacks { p { (word("problem", Tone::Bad)) ": " (Said(lack)) } }
            @for why in &told.unknown { p { (word("unknown", Tone::Warning)) ": " (Said(why)) } }
        }
        section aria-labelledby="facts" { h2 #facts { "Facts" } (facts(told)) }
        @if !told.installations.is_empty() {
            section aria-labelledby="installed" { h2 #installed { "Installed at" } (installations(&told.installations, now)) }
        }
        @if !told.deliveries.is_empty() {
            section aria-labelledby="deliveries" { h2 #deliveries { "Last deliveries" } (deliveries(&told.deliveries, now)) }
        }
        @if told.app.is_some() { (orders(about)) }
        p.quiet { "To create or connect an App, use a terminal and your browser: " (WAYS) "." }
        p.quiet { "As a command: " code { "muster github" } }
    })
}

fn facts(told: &ShownGithub) -> Markup {
    let (is_ours, address) = hooked(told);
    let address = match &told.hook {
        Some(hook) if !hook.url.is_empty() => hook.url.clone(),
        _ => address,
    };
    let (said, tone) = match is_ours {
        Some(true) => ("this stack", Tone::Good),
        Some(false) => ("not this stack", Tone::Bad),
        None => ("unknown", Tone::Warning),
    };
    html! {
        dl.facts {
            @if let Some(app) = &told.app { dt { "App page" } dd { (Said(&app.html_url)) } }
            dt { "Webhook" } dd { (word(said, tone)) ": " (Said(&address)) }
        }
    }
}

fn installations(all: &[ShownInstallation], now: Time) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Account" } th scope="col" { "Repositories" } th scope="col" { "Note" } th scope="col" { "Settings" } } }
            tbody { @for one in all { tr {
                th.free scope="row" { (Said(&one.account)) }
                td data-label="Repositories" { (which(one.repositories)) }
                td.free data-label="Note" {
                    @match one.suspended_at { Some(at) => span.bad { "suspended since " (moment(at, now)) }, None => (none()) }
                }
                td.free data-label="Settings" { (Said(&one.html_url)) }
            } } }
        }
    }
}

/// Recent deliveries and their responses.
fn deliveries(all: &[ShownDelivery], now: Time) -> Markup {
    let answer = |status: Option<u16>| match status {
        Some(status @ ..400) => word(&status.to_string(), Tone::Good),
        Some(status) => word(&status.to_string(), Tone::Bad),
        None => word("no connection", Tone::Bad),
    };
    html! {
        table {
            thead { tr { th scope="col" { "Event" } th scope="col" { "Sent" } th scope="col" { "Answer" } } }
            tbody { @for one in all { tr {
                th.free scope="row" { (Said(&one.event)) }
                td data-label="Sent" { @match one.at { Some(at) => (moment(at, now)), None => (none()) } }
                td data-label="Answer" { (answer(one.status)) }
            } } }
        }
    }
}

fn orders(about: &About) -> Markup {
    let name = |hook| match hook {
        HookAction::Test => "Redeliver…",
        HookAction::Set => "Point the webhook here…",
        HookAction::Rotate => "Rotate the webhook secret…",
        HookAction::Remove => "Remove the webhook…",
    };
    html! {
        @if !about.is_read_only {
            section.orders aria-labelledby="orders" {
                h2 #orders { "Actions" }
                p { @for hook in HookAction::ALL { a.button href=(Order::Hook(hook).confirmed_at()) { (name(hook)) } " " } }
                p.quiet { "The stack redelivers failed deliveries on its own. " em { "Redeliver" } " repeats the newest one and shows the response." }
            }
        }
    }
}
