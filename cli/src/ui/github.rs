//! The App at GitHub: what it is, where its events go, who has installed it, and what is wrong with that.

use maud::{Markup, html};
use muster_control::admin::answers::{ShownDelivery, ShownGithub, ShownInstallation};
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::order::{Hook, Order};
use super::parts::{Tone, none, word};
use super::text::{Said, moment};
use crate::views::github::{WAYS, hooked, named, which};

pub(super) fn body(memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.github()?;
    let is_well = told.app.is_some() && told.lacks.is_empty() && told.unknown.is_empty();
    Some(html! {
        @match &told.app {
            Some(app) => p.lead { "GitHub App " (Said(&named(app))) }
            None => p.lead { @if told.unknown.is_empty() { "There is no GitHub App yet." } @else { "What the App is, is not known now." } }
        }
        section.said aria-label="What is wrong" {
            @if is_well { p.well { (word("well", Tone::Good)) ": nothing is wrong with it, as far as GitHub says." } }
            @for lack in &told.lacks { p { (word("wrong", Tone::Bad)) ": " (Said(lack)) } }
            @for why in &told.unknown { p { (word("not known", Tone::Warning)) ": " (Said(why)) } }
        }
        section aria-labelledby="facts" { h2 #facts { "Facts" } (facts(told)) }
        @if !told.installations.is_empty() {
            section aria-labelledby="installed" { h2 #installed { "Installed at" } (installations(&told.installations, now)) }
        }
        @if !told.deliveries.is_empty() {
            section aria-labelledby="deliveries" { h2 #deliveries { "Last deliveries" } (deliveries(&told.deliveries, now)) }
        }
        @if told.app.is_some() { (orders(about)) }
        p.quiet { "To make or connect an App takes a terminal and your browser at GitHub: " (WAYS) "." }
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
            @if let Some(app) = &told.app { dt { "Its page" } dd { (Said(&app.html_url)) } }
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

/// What GitHub has sent, and how that was answered.
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
        Hook::Test => "Send again…",
        Hook::Set => "Point the webhook here…",
        Hook::Rotate => "Make another secret…",
        Hook::Remove => "Remove the webhook…",
    };
    html! {
        @if !about.is_read_only {
            section.orders aria-labelledby="orders" {
                h2 #orders { "Orders" }
                p { @for hook in Hook::ALL { a.button href=(Order::Hook(hook).confirmed_at()) { (name(hook)) } " " } }
                p.quiet { "Deliveries that failed are found and repeated by the stack itself. " em { "Send again" } " repeats the newest one, and shows how it is answered." }
            }
        }
    }
}
