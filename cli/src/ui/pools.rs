//! The pools: their machines, what blocks their launches, and the pool file.

use maud::{Markup, html};
use muster_api::To;
use muster_api::answers::{Overview, PhaseList, PoolStatus, PoolsHistory, ShownPools, StackStatus};
use muster_domain::ec2::CooldownScope;
use muster_domain::ids::PoolName;
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::page::{Filter, UiPage};
use super::parts::{room, table, with_actions};
use super::text::{Said, moment};
use crate::orders::{Order, Switched};
use crate::views::jobs::labels;
use crate::views::pools::{about as which, file};
use crate::views::{phases, pools, status};
use crate::words::span;

/// Renders all pools.
pub(super) fn body(memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.overview()?;
    Some(html! {
        (table(&status::pools(told)))
        (switches(told, about, now))
        @if let Some(set) = memory.pools() { (in_force(set, about, now)) }
        @if let Some(history) = memory.history() { (versions(history, about, now)) }
    })
}

/// Renders the pauses of the whole stack.
fn switches(told: &Overview, about: &About, now: Time) -> Markup {
    let switches = [
        ("Launches", Switched::Launches, &told.switches.launches),
        ("Deletes", Switched::Deletes, &told.switches.deletes),
    ];
    html! {
        section aria-labelledby="switches" {
            h2 #switches { "Switches" }
            @for (name, what, off) in switches { p {
                (name) " are " b { @if off.is_some() { "off" } @else { "on" } } ". "
                @if let Some(off) = off { "By " (Said(&off.by)) (off.end(now)) ": " (Said(&off.reason)) ". " }
                (switch(what, off.is_some(), about))
            } }
        }
    }
}

/// Renders a link that pauses or resumes launches or deletes.
fn switch(what: Switched, is_off: bool, about: &About) -> Markup {
    let (name, to) = if is_off { ("Resume…", To::On) } else { ("Pause…", To::Off) };
    let order = Order::Switch { what: vec![what], to };
    html! { @if !about.is_read_only { a.button href=(order.confirmed_at()) { (name) } } }
}

fn in_force(set: &ShownPools, about: &About, now: Time) -> Markup {
    let text = file(set);
    let told = super::text::lines(&text);
    let is_seen = told == text.trim_end();
    html! {
        section aria-labelledby="file" {
            h2 #file { "Pool file" }
            p.quiet { (Said(which(set, now).trim_start_matches("# "))) }
            @if about.is_read_only || !is_seen {
                pre tabindex="0" { (told) }
                @if !is_seen { p.quiet { "It contains characters that a form cannot show." } }
            } @else {
                details #edit {
                    summary { "Show and edit" }
                    form method="post" action="/confirm/apply" {
                        input type="hidden" name="token" value=(about.draft);
                        label for="pools-file" { "The pool file, as YAML" }
                        textarea #pools-file name="file" rows="24" spellcheck="false" autocomplete="off" { "\n" (text) }
                        p { button { "Preview the changes…" } }
                    }
                }
            }
            p.quiet { "As a command: " code { "muster pools edit" } }
        }
    }
}

fn versions(history: &PoolsHistory, about: &About, now: Time) -> Markup {
    html! {
        section aria-labelledby="versions" {
            h2 #versions { "Versions" }
            @if history.versions.is_empty() {
                p.quiet { "No pool file has been applied. Applied files appear here and can be restored." }
            } @else {
                (with_actions(&pools::versions(history, now), "Order", |index| match history.versions.get(index) {
                    Some(_) if index == 0 => Some(html! { "in force" }),
                    Some(set) if !about.is_read_only => Some(restore(set)),
                    _ => None,
                }))
            }
        }
    }
}

fn restore(set: &ShownPools) -> Markup {
    let order = Order::Restore { version: set.pools_version };
    html! { a href=(order.confirmed_at()) { "Restore…" } }
}

/// Renders one pool.
pub(super) fn one(name: &PoolName, memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let status = memory.status()?;
    let Some(pool) = status.overview.pools.iter().find(|pool| pool.name == *name) else {
        return Some(
            html! { p.empty { "There is no pool " (Said(name.as_str())) ". " a href="/pools" { "All pools" } } },
        );
    };
    Some(html! {
        p.lead { (room(pool.live as usize, pool.max as usize)) " machines" }
        @if let Some(note) = &pool.note { p.bad { (Said(&note.message)) } }
        section aria-labelledby="facts" { h2 #facts { "Facts" } (facts(pool, now)) }
        section aria-labelledby="switch" {
            h2 #switch { "Launches" }
            @let of_stack = status.overview.switches.launches.as_ref();
            @let off = of_stack.or(pool.launches_off.as_ref());
            @let (whose, what) = match of_stack {
                Some(_) => ("of the whole stack", Switched::Launches),
                None => ("of this pool", Switched::Pool(name.clone())),
            };
            p {
                "Launches " (whose) " are " b { @if off.is_some() { "off" } @else { "on" } } ". "
                @if let Some(off) = off { "Since " (moment(off.since, now)) " by " (Said(&off.by)) (off.end(now)) ": " (Said(&off.reason)) ". " }
                (switch(what, off.is_some(), about))
            }
        }
        @if !about.is_read_only { (canary(pool)) }
        section aria-labelledby="refused" { h2 #refused { "EC2 refusals" } (refused(status, name)) }
        @if let Some(list) = memory.phases(name) {
            section aria-labelledby="paces" { h2 #paces { "Phases of its machines" } (paces(list)) }
        }
        @if let Some(set) = memory.pools() { (of_file(name, set)) }
    })
}

/// Renders the form that launches a test machine.
fn canary(pool: &PoolStatus) -> Markup {
    let order =
        Order::Canary { pool: Some(pool.name.clone()), entity: None, template_image: false };
    html! {
        section aria-labelledby="try" {
            h2 #try { "Launch a test machine" }
            p { "Checks that a machine launches, boots, registers and listens, without a job." }
            @match &pool.entity {
                Some(_) => p { a.button href=(order.confirmed_at()) { "Launch a test machine…" } },
                None => form.order action="/confirm/canary" {
                    input type="hidden" name="pool" value=(pool.name.as_str());
                    label for="entity" { "Registered at" }
                    input #entity name="entity" required placeholder="OWNER or OWNER/REPO" autocomplete="off" spellcheck="false" autocapitalize="off" aria-describedby="entity-about";
                    p.quiet #entity-about { "This pool registers each runner where its job comes from. The App has to be installed there." }
                    p { button { "Launch a test machine…" } }
                },
            }
        }
    }
}

fn facts(pool: &PoolStatus, now: Time) -> Markup {
    let of = |filter| Filter { pool: Some(pool.name.to_string()), ..filter };
    html! {
        dl.facts {
            dt { "Labels" } dd { ul.plain { @for row in pool.labels.iter() { li { (Said(&labels(row))) } } } }
            dt { "Waiting jobs" } dd {
                a href=(UiPage::Jobs(of(Filter::default())).address()) { (pool.waiting_jobs) }
                @if let Some(age) = pool.oldest_waiting_job_seconds { ", the oldest for " (span(age)) }
            }
            dt { "Machines" } dd { a href=(UiPage::Machines(of(Filter::default())).address()) { (pool.live) } ", " (pool.groups.ending) " of them ending" }
            dt { "Kept idle" } dd { (pool.min_idle) @if let Some(warm) = &pool.warm { "; " (Said(warm)) } }
            dt { "Priority" } dd { (pool.priority) }
            @if let Some(entity) = &pool.entity { dt { "Registered at" } dd { (Said(&entity.to_string())) } }
            @if !pool.enabled { dt { "Enabled" } dd { "no: it accepts no new jobs" } }
            @if let Some(at) = pool.removed_at { dt { "Removed" } dd { (moment(at, now)) "; its machines finish their jobs" } }
        }
    }
}

fn refused(status: &StackStatus, name: &PoolName) -> Markup {
    let is_of = |scope: &CooldownScope| match scope {
        CooldownScope::Pool(pool) | CooldownScope::Unknown { pool, .. } => pool == name,
        CooldownScope::Calls | CooldownScope::Quota { .. } | CooldownScope::Place { .. } => true,
    };
    let all: Vec<String> = status
        .cooldowns
        .iter()
        .flatten()
        .filter(|one| is_of(&one.closed))
        .map(|one| one.sentence(status.overview.now))
        .collect();
    html! {
        @if all.is_empty() { p.quiet { "No refusals now. They appear here while Muster waits to try again." } }
        @else { ul.evidence { @for said in &all { li { (Said(said)) } } } }
    }
}

fn paces(list: &PhaseList) -> Markup {
    if list.pools.iter().all(|of| of.phases.is_empty()) {
        return html! { p.quiet { "No machines are recorded. Ended machines are kept for a week." } };
    }
    table(&phases::table(&list.pools))
}

/// Renders its part of the pool file.
fn of_file(name: &PoolName, set: &ShownPools) -> Markup {
    let pools = set.file["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = pools.iter().find(|pool| pool["name"] == name.as_str());
    html! {
        @if let Some(own) = own {
            section aria-labelledby="file" {
                h2 #file { "In the pool file" }
                pre tabindex="0" { (super::text::lines(&crate::views::pools::yaml(own))) }
                p { a href="/pools" { "The whole file" } }
            }
        }
    }
}
