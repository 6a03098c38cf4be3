//! One machine: what it waits for, its timeline, its history, and its actions.

use maud::{Markup, html};
use muster_api::answers::ShownInstance;
use muster_domain::instance::{DeleteMark, Instance, Phase, State, Waiting};
use muster_domain::time::Time;

use super::frame::About;
use super::memory::Memory;
use super::parts::{Span, job, length, pool, spans, state, table};
use super::text::{Said, ago, moment};
use crate::orders::{DeleteFlags, Order};
use crate::views::{audit_of_one, instances};
use crate::words::{count, span};

pub(super) fn body(name: &str, memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let shown = memory.show(name)?;
    let one = &shown.instance;
    Some(html! {
        p.lead {
            (state(&instances::state(one.state()))) " since " (span(now.since(one.since())))
            @if one.is_forced() { " " span.tag { "forced" } }
        }
        section.said aria-label="What it does and waits for" {
            @for said in &shown.explanation { p { (Said(said)) } }
            @if let Some(error) = &one.last_error {
                p.bad { (Said(&error.to_string())) " at " (moment(error.at, now)) }
            }
        }
        (time(one, now))
        section aria-labelledby="facts" { h2 #facts { "Facts" } (facts(shown, now)) }
        @if let Some(mark) = one.mark() {
            section aria-labelledby="evidence" { h2 #evidence { "Evidence for the delete" } (evidence(one, mark, now)) }
        }
        section aria-labelledby="story" {
            h2 #story { "History" }
            ol.story reversed { @for event in one.events.iter().rev() {
                li { (moment(event.at, now)) " " span.quiet { "+" (span(event.at.since(one.created_at))) } " " (Said(&event.what)) }
            } }
        }
        @if let Some(console) = &one.console {
            details #console { summary { "The end of its console output" } pre tabindex="0" { (super::text::lines(console)) } }
        }
        section aria-labelledby="audit" {
            h2 #audit { "Audit" }
            @if shown.audit.is_empty() { p.quiet { "No orders or refusals." } }
            @else { (table(&audit_of_one(&shown.audit, now))) }
        }
        (orders(one, about))
    })
}

/// Renders its timeline, as a bar and in words.
fn time(one: &Instance, now: Time) -> Markup {
    let spent = spent(one, now);
    html! {
        section aria-labelledby="time" {
            h2 #time { "Time" }
            (spans("Its time", &spent))
            ul.legend { @for span in &spent {
                li { span class={ "key " (span.class) } aria-hidden="true" {} (span.word) " " b { (length(span.millis)) } }
            } }
        }
    }
}

/// Returns how its time was spent. Each moment is named for what followed it.
pub(super) fn spent(one: &Instance, now: Time) -> Vec<Span> {
    let mut moments: Vec<(Time, &str, &str)> = one
        .phases()
        .into_iter()
        .map(|(phase, at)| {
            let (word, class) = after(phase);
            (at, word, class)
        })
        .collect();
    let has_worked = one.runner.started.is_some();
    let ended = one.runner.exit.as_ref().map(|exit| exit.at);
    let ended = ended.or(one.runner.github_completed_at.filter(|_| has_worked));
    moments.extend(ended.map(|at| (at, "end", "end")));
    moments.extend(one.mark().map(|mark| (mark.at, "end", "end")));
    moments.sort_by_key(|(at, ..)| *at);
    let last = if one.state() == State::Deleted { one.since() } else { now };
    let ends = moments.iter().skip(1).map(|(at, ..)| *at).chain([last]);
    let mut spent: Vec<Span> = Vec::new();
    for ((at, word, class), end) in moments.iter().copied().zip(ends) {
        let millis = u64::try_from(end.as_millis() - at.as_millis()).unwrap_or_default();
        match spent.last_mut() {
            Some(last) if last.word == word => last.millis += millis,
            _ => spent.push(Span { word, class, millis }),
        }
    }
    spent
}

const fn after(phase: Phase) -> (&'static str, &'static str) {
    match phase {
        Phase::Planned => ("launch", "launch"),
        Phase::Launched => ("start", "boot"),
        Phase::Running => ("boot", "boot"),
        Phase::Booted => ("prepare", "launch"),
        Phase::Prepared => ("register", "boot"),
        Phase::Registered => ("agent", "launch"),
        Phase::Started => ("idle", "idle"),
        Phase::Job => ("work", "work"),
    }
}

fn facts(shown: &ShownInstance, now: Time) -> Markup {
    let one = &shown.instance;
    let make = &one.make;
    let market =
        make.market.map(|market| serde_json::json!(market).as_str().unwrap_or_default().to_owned());
    let make: Vec<&str> = [make.kind.as_deref(), market.as_deref(), make.zone.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    html! {
        dl.facts {
            dt { "Pool" } dd { (pool(&one.pool)) }
            dt { "Machine" } dd {
                @match one.machine() { Some(id) => { span.name { (Said(id.as_str())) } " " (Said(&make.join(" "))) }, None => "not launched yet" }
            }
            dt { "Runner" } dd {
                (state(&instances::runner(one.runner.state)))
                @if let Some(name) = &shown.runner_name { " " span.name { (Said(name)) } }
                @if let Some(agent) = &one.runner.agent { ", agent " (agent.version) }
            }
            dt { "Job" } dd {
                @match one.claim() { Some(key) => (job(key, &key.to_string())), None => "none" }
                @if let Some(started) = &one.runner.started { " of " (Said(&started.repository)) ", started " (ago(started.at, now)) }
            }
            dt { "Registered at" } dd { (Said(&one.entity.to_string())) }
            dt { "Planned" } dd { (ago(one.created_at, now)) ", launch " (Said(&one.launch.to_string())) }
            @if let Some(due) = one.due_at() { dt { "Next check" } dd { (moment(due, now)) } }
            @if let Some(at) = one.spot_notice_at { dt { "Spot notice" } dd { (ago(at, now)) } }
            @if let Some(until) = one.kept_until { dt { "Kept for inspection" } dd { "until " (moment(until, now)) } }
        }
    }
}

fn evidence(one: &Instance, mark: &DeleteMark, now: Time) -> Markup {
    let reason: &'static str = (&mark.reason).into();
    html! {
        ul.evidence {
            li { "Marked for deletion at " (ago(mark.at, now)) ": " (reason.replace('_', " ")) }
            @if let Some(order) = one.order() { li { "Ordered by " (Said(&order.by)) ": " (Said(&order.told())) } }
            @if let Some(at) = mark.not_busy_since { li { "GitHub: not busy since " (moment(at, now)) } }
            @if mark.gate_passed { li { "No job runs: the evidence is complete" } }
            @if let Some(at) = mark.removing_until { li { "The registration is being removed at GitHub, until " (moment(at, now)) } }
            @if mark.deregistered { li { "The registration is removed at GitHub" } }
            @if one.attempts > 0 { li { "EC2 refused or failed: " (count(one.attempts as usize, "call")) } }
        }
    }
}

/// Renders its actions, each with a link to the page that confirms it.
fn orders(one: &Instance, about: &About) -> Markup {
    if !one.state().is_live() {
        return html! {};
    }
    let order = |flags| Order::Delete { name: one.name.clone(), flags };
    let mut ways = vec![
        ("Delete…", order(DeleteFlags::PLAIN)),
        ("Force the delete…", order(DeleteFlags::FORCE)),
    ];
    if one.runner.is_busy() {
        ways.push(("Kill its job…", order(DeleteFlags::KILL)));
    }
    if one.mark().is_some_and(|mark| mark.waiting == Some(Waiting::Unauthorized)) {
        ways.push(("Delete without GitHub…", order(DeleteFlags::BYPASS)));
    }
    html! {
        section.orders aria-labelledby="orders" {
            h2 #orders { "Actions" }
            @if !about.is_read_only {
                p { @for (name, order) in &ways { a.button href=(order.confirmed_at()) { (name) } " " } }
            }
            p.quiet { "As a command: " code { (order(DeleteFlags::PLAIN).command()) } }
        }
    }
}
