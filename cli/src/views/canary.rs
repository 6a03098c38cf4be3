//! A canary: its cost, its steps as they happen, and the result.

use std::collections::BTreeSet;

use muster_api::answers::OrderedCanary;
use muster_domain::instance::Phase;
use muster_domain::pool::Image;
use muster_domain::time::Time;
use serde_json::{Value, json};

use super::doctor::told;
use crate::doctor::canary::report::{CanaryEnd, CanaryReport, Watched};
use crate::doctor::canary::settled::AssumptionResult;
use crate::doctor::canary::{Course, MachineStep, StepAt};
use crate::doctor::{Level, has_errors};
use crate::page::{Screen, TextPage};
use crate::table::{Text, TextStyle};
use crate::words::{count, span};

/// Describes the launch and warns that it costs money.
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
    let image = match &request.image {
        Some(Image::Id(id)) => format!(" with image {id}"),
        Some(Image::Ssm(_)) | None => String::new(),
    };
    format!(
        "This launches one machine of pool {pool}, {kind}, {market}, in one of {subnets}{image}, \
        registered at {entity}. You pay for it until it ends, usually a few minutes.",
        market = request.market,
        subnets = count(subnets.len(), "subnet"),
    )
}

/// Describes how it ends if no command follows it.
#[must_use]
pub fn alone(plan: &OrderedCanary) -> String {
    format!(
        "Its runner can get jobs like any other. If it gets none, it ends after {} idle, once \
        GitHub has reported it idle twice; a delete ends it sooner.",
        span(plan.idle_limit_seconds)
    )
}

/// Renders one step.
#[must_use]
pub fn step(taken: &StepAt, watched: &Watched, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    let after = format!("+{:.1} s", seconds(watched, taken.at));
    let what = said(taken.step, watched);
    if page.is_piped() {
        page.tabs(&[&after, &what]);
    } else {
        page.line([Text::new(format!("{after:>9}  "), TextStyle::Dim), Text::from(what)]);
    }
    page.into_text()
}

fn said(step: MachineStep, watched: &Watched) -> String {
    let one = &watched.shown.instance;
    match step {
        MachineStep::Reached(Phase::Planned) => format!("planned: {}", one.name),
        MachineStep::Reached(Phase::Launched) => {
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
        MachineStep::Reached(Phase::Running) => "running: its kernel started".to_owned(),
        MachineStep::Reached(Phase::Booted) => "booted: its supervisor started".to_owned(),
        MachineStep::Reached(Phase::Prepared) => "prepared: its agent is installed".to_owned(),
        MachineStep::Reached(Phase::Registered) => format!("registered at {}", one.entity),
        MachineStep::Reached(Phase::Started) => "started: its agent runs".to_owned(),
        MachineStep::Reached(Phase::Job) => "a job started on it".to_owned(),
        MachineStep::Online => "GitHub shows it online".to_owned(),
        MachineStep::Deleted => "deleted".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a canary lives for minutes")]
fn seconds(watched: &Watched, at: Time) -> f64 {
    let begun = watched.shown.instance.created_at;
    (at.as_millis() - begun.as_millis()) as f64 / 1000.0
}

/// Renders the result, below the steps.
#[must_use]
pub fn page(report: &CanaryReport, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    page.gap();
    let spans = spans(report);
    if !spans.is_empty() {
        page.line([Text::new(spans, TextStyle::Dim)]);
    }
    if let Some(whole) = until_started(report) {
        page.marked([(Text::new("·", TextStyle::Dim), Text::from(whole))]);
    }
    page.marked([summary(report)]);
    let wrongs = report.checks.iter().filter(|one| one.level != Level::Ok);
    wrongs.for_each(|one| told(&mut page, one));
    if let Some(Ok(lines)) = &report.evidence.console {
        page.gap();
        let what = match lines.is_empty() {
            true => "Its console output is empty.",
            false => "The last lines of its console output:",
        };
        page.line([Text::from(what)]);
        page.marked(lines.iter().map(|line| (Text::new("|", TextStyle::Dim), Text::from(line))));
    }
    let is_sound = report.evidence.network.iter().all(|one| one.level == Level::Ok);
    if report.course == Course::Mute && is_sound {
        page.line(["doctor finds no problems in the network of the stack.".into()]);
    }
    page.gap();
    page.line([Text::new(
        "What only AWS can confirm (infra/README.md), from this one machine:",
        TextStyle::Strong,
    )]);
    page.marked(report.rows.iter().map(|row| {
        let (mark, look) = match row.answer {
            AssumptionResult::Yes => ("✓", TextStyle::Good),
            AssumptionResult::No => ("✗", TextStyle::Bad),
            AssumptionResult::Open => ("–", TextStyle::Dim),
        };
        (Text::new(mark, look), Text::from(format!("{}: {}", row.what, row.sentence)))
    }));
    page.into_text()
}

/// Returns the time between phases.
fn spans(report: &CanaryReport) -> String {
    let watched = &report.watched;
    let known = watched.shown.instance.phases();
    let parts = known.windows(2).map(|pair| {
        // If EC2's answer was lost, the machine was running for a while before it was bound.
        let took = (seconds(watched, pair[1].1) - seconds(watched, pair[0].1)).max(0.0);
        format!("{} {took:.1} s", pair[1].0.as_str())
    });
    parts.collect::<Vec<_>>().join(" · ")
}

/// Returns how long a job would have waited for this machine; `None` if its agent did not start.
fn until_started(report: &CanaryReport) -> Option<String> {
    let watched = &report.watched;
    let known = watched.shown.instance.phases();
    let (_, at) = known.iter().find(|(phase, _)| *phase == Phase::Started)?;
    Some(format!(
        "{:.1} s from the plan to a running agent. GitHub's event before that and the start of the \
         job after it add about 5 s (estimate; `muster waits` has measurements).",
        seconds(watched, *at)
    ))
}

fn summary(report: &CanaryReport) -> (Text, Text) {
    let name = &report.watched.shown.instance.name;
    let pool = &report.watched.ordered.pool;
    let is_well = !has_errors(&report.checks);
    let end = match report.end {
        CanaryEnd::Gone => "It is deleted.".to_owned(),
        CanaryEnd::Nothing => {
            "No machine was launched, and its record closes on its own.".to_owned()
        }
        CanaryEnd::Ordered => format!("Its deletion is taking longer: muster watch {name}"),
        CanaryEnd::Busy => format!("It keeps running its job: muster watch {name}"),
        CanaryEnd::Held => format!("Deletes are off; once they are on: muster delete {name}"),
    };
    let what = match report.course {
        Course::Taken => format!("A job ran on the machine: pool {pool} works for a real job."),
        _ if is_well => format!("A machine of pool {pool} launches, boots, registers and listens."),
        _ => format!("Machines of pool {pool} fail before they can run a job."),
    };
    let (mark, look) = if is_well { ("✓", TextStyle::Good) } else { ("✗", TextStyle::Bad) };
    (Text::new(mark, look), Text::from(format!("{what} {end}")))
}

/// Returns the result for programs.
#[must_use]
pub fn json(report: &CanaryReport) -> Value {
    let CanaryReport { watched, course, checks, rows, evidence, end } = report;
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
