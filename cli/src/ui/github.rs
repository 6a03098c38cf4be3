//! The App at GitHub: its facts, webhook, installations and problems.

use maud::{Markup, html};
use muster_api::answers::ShownGithub;
use muster_domain::ids::AppName;
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::parts::{Tone, table, word};
use super::text::Said;
use crate::orders::{HookAction, Order};
use crate::views::github::{WAYS, deliveries, hooked, installations, named};

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
            section aria-labelledby="installed" { h2 #installed { "Installed at" } (table(&installations(told))) }
        }
        @if !told.deliveries.is_empty() {
            section aria-labelledby="deliveries" { h2 #deliveries { "Last deliveries" } (table(&deliveries(told, now))) }
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
                p { @for hook in HookAction::ALL { a.button href=(Order::Hook(hook, AppName::MAIN).confirmed_at()) { (name(hook)) } " " } }
                p.quiet { "The stack redelivers failed deliveries on its own. " em { "Redeliver" } " repeats the newest one and shows the response." }
            }
        }
    }
}
