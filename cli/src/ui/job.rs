//! The life of one job, from its record.

use maud::{Markup, html};
use muster_api::answers::ExplainedJob;
use muster_domain::ids::JobKey;
use muster_domain::job::Job;
use muster_domain::time::Time;
use muster_domain::usage::{Line, WaitsFor};

use super::findings;
use super::frame::About;
use super::memory::Memory;
use super::parts::{Span, Tone, length, machine, none, pool, spans, word};
use super::text::{Said, moment};
use crate::name::of_runner;
use crate::views::job::of_line;
use crate::views::jobs::labels;
use crate::views::waits::words;
use crate::words::span;

pub(super) fn body(key: JobKey, memory: &Memory, about: &About, now: Time) -> Option<Markup> {
    let told = memory.explain(key)?;
    let job = &told.job;
    let event = &job.last_event;
    Some(html! {
        p.lead {
            strong { (Said(&event.repository)) " · " (Said(&event.name)) } " " (state(job))
        }
        section.said aria-label="Where it is, and why" {
            @for said in told.explanation.iter().chain(&of_line(told)) { p { (Said(said)) } }
        }
        @if !told.findings.is_empty() {
            section.wants aria-label="Needs attention" { (findings::list(&told.findings, about.is_read_only)) }
        }
        @if let Some(line) = &told.line { (time(line)) }
        section aria-labelledby="life" { h2 #life { "Life" } (life(told, now)) }
        section aria-labelledby="facts" { h2 #facts { "Facts" } (facts(job, about)) }
        p.quiet { "As a command: " code { "muster explain " (key) } }
    })
}

fn state(job: &Job) -> Markup {
    let status = serde_json::json!(job.status());
    let status = status.as_str().unwrap_or_default();
    match job.last_event.conclusion.as_deref() {
        Some("success") => word("success", Tone::Good),
        Some(other) => word(other, Tone::Bad),
        None => word(status, Tone::Plain),
    }
}

/// Renders its wait and its work, as a bar and in words.
fn time(line: &Line) -> Markup {
    let Some((_, parts)) = line.wait() else { return html! {} };
    let class = |what| match what {
        WaitsFor::Github | WaitsFor::Ec2 | WaitsFor::Registration => "launch",
        WaitsFor::Limits | WaitsFor::PickUp => "idle",
        WaitsFor::Boot => "boot",
    };
    let waits = WaitsFor::ALL.iter().zip(parts).filter_map(|(what, part)| {
        Some(Span { word: words(*what).0, class: class(*what), millis: part? })
    });
    let work = Span { word: "work", class: "work", millis: line.parts.work };
    let all: Vec<Span> = waits.chain([work]).collect();
    html! {
        section aria-labelledby="time" {
            h2 #time { "Time" }
            (spans("Its time", &all))
            ul.legend { @for span in &all {
                li { span class={ "key " (span.class) } aria-hidden="true" {} (span.word) " " b { (length(span.millis)) } }
            } }
        }
    }
}

/// Renders its moments in order, each with its source and the time since the previous one.
fn life(told: &ExplainedJob, now: Time) -> Markup {
    let job = &told.job;
    let event = &job.last_event;
    let moments = [
        ("GitHub", "queued", event.queued_at),
        ("Muster", "received the event", Some(job.seen_at)),
        ("Muster", "moved it to its pool", job.moved.as_ref().map(|moved| moved.at)),
        ("GitHub", "assigned it to a runner", event.started_at),
        ("GitHub", "completed", event.completed_at),
    ];
    let mut moments: Vec<(Time, &str, &str)> =
        moments.into_iter().filter_map(|(who, what, at)| Some((at?, who, what))).collect();
    moments.extend(told.line.iter().flat_map(|line| of_machine(line, told)));
    moments.sort_by_key(|(at, ..)| *at);
    let before = [None].into_iter().chain(moments.iter().map(|(at, ..)| Some(*at)));
    html! {
        ol.life { @for ((at, who, what), before) in moments.iter().zip(before) { li {
            span.lane { (who) } " " (what) ", " (moment(*at, now))
            @if let Some(before) = before { " " span.quiet { "+" (span(at.since(before))) } }
        } } }
    }
}

/// Returns the moments of its machine.
fn of_machine(line: &Line, told: &ExplainedJob) -> Vec<(Time, &'static str, &'static str)> {
    let is_live = told.ran_on.as_ref().is_some_and(|one| one.state.is_live());
    let t = &line.t;
    let moments = [
        ("Muster", "planned its machine", t.planned),
        ("EC2", "launched the machine", t.launched),
        ("Machine", "installed its agent and called Muster", t.asked),
        ("GitHub", "received the registration request", t.registered),
        ("Machine", "connected its agent", t.listening),
        ("Machine", "reported that its agent ended", t.exited),
        ("EC2", "reported that the machine ended", (!is_live).then_some(t.ended)),
    ];
    let at = |after: i64| Time::from_millis(line.since.as_millis() + after);
    moments.into_iter().filter_map(|(who, what, after)| Some((at(after?), who, what))).collect()
}

fn facts(job: &Job, about: &About) -> Markup {
    let event = &job.last_event;
    let name = event.runner.as_deref().and_then(of_runner).map(str::to_owned);
    let name = name.or_else(|| job.claim.as_ref().map(ToString::to_string));
    html! {
        dl.facts {
            dt { "Run" } dd {
                (event.run) ", attempt " (event.attempt)
                @if let Some(to) = at_github(job, about) { " · " a href=(to) rel="noreferrer" { "at GitHub" } }
            }
            @if let Some(workflow) = &event.workflow { dt { "Workflow" } dd { (Said(workflow)) } }
            @if let Some(branch) = &event.branch { dt { "Branch" } dd { (Said(branch)) } }
            dt { "Labels" } dd { (Said(&labels(&event.labels))) }
            dt { "Pool" } dd { @match &job.pool { Some(name) => (pool(name)), None => (none()) } }
            dt { "Machine" } dd { @match &name { Some(name) => (machine(name)), None => (none()) } }
        }
    }
}

/// Returns its URL at GitHub, which consists of numbers and of names that are safe in a path.
fn at_github(job: &Job, about: &About) -> Option<String> {
    let event = &job.last_event;
    let is_plain = |part: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        !part.is_empty() && part.bytes().all(fits) && part != "." && part != ".."
    };
    let (owner, name) = event.repository.split_once('/')?;
    let is_known = is_plain(owner) && is_plain(name);
    is_known.then(|| {
        let (host, run, job) = (&about.github, event.run, event.key.job);
        format!("https://{host}/{owner}/{name}/actions/runs/{run}/job/{job}")
    })
}
