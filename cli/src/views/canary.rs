//! A canary: what it costs, its steps as they come, and what it showed.

use std::collections::BTreeSet;

use muster_control::admin::answers::OrderedCanary;
use muster_domain::instance::Phase;
use muster_domain::time::Time;
use serde_json::{Value, json};

use super::doctor::told;
use crate::doctor::canary::report::{End, Report, Watched};
use crate::doctor::canary::settled::Answer;
use crate::doctor::canary::{Course, Step, StepAt};
use crate::doctor::{Level, has_errors};
use crate::page::{Look, Page, Screen, Text};
use crate::words::{count, span};

/// What is asked about.
#[must_use]
pub fn plan(plan: &OrderedCanary, screen: Screen) -> String {
    let mut page = Page::new(screen);
    page.marked([
        (Text::new("!", Look::Warning), Text::from(starts(plan))),
        (
            Text::new("", Look::Plain),
            Text::from(format!(
                "Its runner takes jobs like any other. Without one this command orders its end. Should this command be killed, it is idle \
                 for {}, and ends when GitHub has called it idle twice.",
                span(plan.idle_limit_seconds)
            )),
        ),
    ]);
    page.into_text()
}

/// What is launched, and what it costs.
#[must_use]
pub fn starts(plan: &OrderedCanary) -> String {
    let OrderedCanary { pool, entity, request, .. } = plan;
    let types: BTreeSet<&str> = request
        .overrides
        .iter()
        .map(|place| &*place.instance_type)
        .filter(|name| !name.is_empty())
        .collect();
    let subnets: BTreeSet<&str> = request.overrides.iter().map(|place| &*place.subnet).collect();
    let first = request.overrides.first().map(|place| &*place.instance_type);
    let kind = match (first, types.len()) {
        (Some(first), 1) => first.to_owned(),
        (Some(first), 2..) => format!("{first} or {}", count(types.len() - 1, "other type")),
        _ => "what the pool requires".to_owned(),
    };
    format!(
        "This starts one machine of pool {pool}, {kind}, {market}, in one of {subnets}, registered at {entity}. It is paid for \
         until it ends, mostly a few minutes.",
        market = request.market,
        subnets = count(subnets.len(), "subnet"),
    )
}

/// What becomes of it where no command follows it.
#[must_use]
pub fn alone(plan: &OrderedCanary) -> String {
    format!(
        "Its runner takes jobs like any other. Without one it is idle for {}, and ends when GitHub has called it idle twice. Its page \
         shows how far it comes, and can end it sooner.",
        span(plan.idle_limit_seconds)
    )
}

/// One step, when it is known.
#[must_use]
pub fn step(taken: &StepAt, watched: &Watched, screen: Screen) -> String {
    let mut page = Page::new(screen);
    let after = format!("+{:.1} s", seconds(watched, taken.at));
    let what = said(taken.step, watched);
    if page.is_piped() {
        page.tabs(&[&after, &what]);
    } else {
        page.line([Text::new(format!("{after:>9}  "), Look::Dim), Text::from(what)]);
    }
    page.into_text()
}

fn said(step: Step, watched: &Watched) -> String {
    let one = &watched.shown.instance;
    match step {
        Step::Reached(Phase::Planned) => format!("planned: {}", one.name),
        Step::Reached(Phase::Launched) => {
            let id = one.machine().map_or_else(String::new, ToString::to_string);
            let machine = watched.machine.as_ref().filter(|machine| !machine.zone.is_empty());
            match machine {
                Some(machine) => {
                    let market = if machine.is_spot { "spot" } else { "on demand" };
                    let (kind, zone) = (&machine.instance_type, &machine.zone);
                    format!("EC2: {id}, {market}, {kind}, {zone}, {}", machine.subnet)
                }
                None => format!("EC2: {id}"),
            }
        }
        Step::Reached(Phase::Running) => "running: its kernel began".to_owned(),
        Step::Reached(Phase::Booted) => "booted: its supervisor began".to_owned(),
        Step::Reached(Phase::Prepared) => "prepared: its agent is there".to_owned(),
        Step::Reached(Phase::Registered) => format!("registered at {}", one.entity),
        Step::Reached(Phase::Started) => "started: its agent runs".to_owned(),
        Step::Reached(Phase::Job) => "a job begins on it".to_owned(),
        Step::Online => "GitHub shows it online".to_owned(),
        Step::Deleted => "deleted".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a canary lives for minutes")]
fn seconds(watched: &Watched, at: Time) -> f64 {
    let begun = watched.shown.instance.created_at;
    (at.as_millis() - begun.as_millis()) as f64 / 1000.0
}

/// What it showed, below its steps.
#[must_use]
pub fn page(report: &Report, screen: Screen) -> String {
    let mut page = Page::new(screen);
    page.gap();
    let spans = spans(report);
    if !spans.is_empty() {
        page.line([Text::new(spans, Look::Dim)]);
    }
    page.marked([summary(report)]);
    let wrongs = report.checks.iter().filter(|one| one.level != Level::Ok);
    wrongs.for_each(|one| told(&mut page, one));
    if let Some(Ok(lines)) = &report.evidence.console {
        page.gap();
        let what = match lines.is_empty() {
            true => "Its console shows nothing.",
            false => "Its console, the last lines:",
        };
        page.line([Text::from(what)]);
        page.marked(lines.iter().map(|line| (Text::new("|", Look::Dim), Text::from(line))));
    }
    let is_sound = report.evidence.network.iter().all(|one| one.level == Level::Ok);
    if report.course == Course::Mute && is_sound {
        page.line(["The network of the stack is as it should be, as far as doctor looks.".into()]);
    }
    page.gap();
    page.line([Text::new(
        "What only AWS can show (infra/README.md), as far as one machine does:",
        Look::Strong,
    )]);
    page.marked(report.rows.iter().map(|row| {
        let (mark, look) = match row.answer {
            Answer::Yes => ("✓", Look::Good),
            Answer::No => ("✗", Look::Bad),
            Answer::Open => ("–", Look::Dim),
        };
        (Text::new(mark, look), Text::from(format!("{}: {}", row.what, row.sentence)))
    }));
    page.into_text()
}

/// Between which phases the time went.
fn spans(report: &Report) -> String {
    let watched = &report.watched;
    let known = watched.shown.instance.phases();
    let parts = known.windows(2).map(|pair| {
        // An answer of EC2 that was lost binds a machine that has been running for a while.
        let took = (seconds(watched, pair[1].1) - seconds(watched, pair[0].1)).max(0.0);
        format!("{} {took:.1} s", pair[1].0.as_str())
    });
    parts.collect::<Vec<_>>().join(" · ")
}

fn summary(report: &Report) -> (Text, Text) {
    let name = &report.watched.shown.instance.name;
    let pool = &report.watched.ordered.pool;
    let is_well = !has_errors(&report.checks);
    let end = match report.end {
        End::Gone => "It is deleted.".to_owned(),
        End::Nothing => "No machine came of it, and its record ends by itself.".to_owned(),
        End::Ordered => format!("Its end is ordered and takes longer: muster watch {name}"),
        End::Busy => format!("It is left to its job: muster watch {name}"),
        End::Held => format!("Deletes are off; then: muster delete {name}"),
    };
    let what = match report.course {
        Course::Taken => format!("A job took the machine: pool {pool} is proven by a real job."),
        _ if is_well => format!("A machine of pool {pool} comes, boots, registers and listens."),
        _ => format!("No machine of pool {pool} gets as far as a job."),
    };
    let (mark, look) = if is_well { ("✓", Look::Good) } else { ("✗", Look::Bad) };
    (Text::new(mark, look), Text::from(format!("{what} {end}")))
}

/// The same for programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let Report { watched, course, checks, rows, evidence, end } = report;
    let steps = watched.steps();
    let phases = steps.iter().map(|taken| {
        json!({ "step": taken.step, "at": taken.at, "seconds": seconds(watched, taken.at) })
    });
    json!({
        "version": 1,
        "ok": !has_errors(checks),
        "name": watched.shown.instance.name,
        "pool": watched.ordered.pool,
        "entity": watched.ordered.entity,
        "machine": watched.machine,
        "course": course,
        "end": end,
        "phases": phases.collect::<Vec<_>>(),
        "checks": checks,
        "settles": rows,
        "console": evidence.console.as_ref().and_then(|console| console.as_ref().ok()),
    })
}
