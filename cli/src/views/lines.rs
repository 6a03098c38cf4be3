//! The usage record, line by line.

use muster_domain::ids::PoolName;
use muster_domain::time::Time;
use muster_domain::usage::{Line, UsageKind, WaitsFor};

use super::waits::words;
use crate::csv::Csv;
use crate::money::{dollars, exact};
use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::clock;

const COLUMNS: [Column; 8] = [
    Column::short("Ended"),
    Column::text("Job").at_least(16),
    Column::name("Pool").from(100),
    Column::name("Type").from(90),
    Column::number("Waited"),
    Column::text("Parts").from(130),
    Column::number("Lasted"),
    Column::number("Dollars"),
];

/// Renders the lines, newest first.
#[must_use]
pub fn page(lines: &[Line], now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if lines.is_empty() && !page.is_piped() {
        page.line(["No machines or jobs ended in this period.".into()]);
        return page.into_text();
    }
    let mut rows: Vec<(Time, Vec<Text>)> =
        lines.iter().map(|line| (line.at, row(line, now))).collect();
    rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    page.table(&DataTable::new(COLUMNS, rows.into_iter().map(|(_, row)| row)));
    page.into_text()
}

fn row(line: &Line, now: Time) -> Vec<Text> {
    let make = line.machine.as_ref().map(|machine| &machine.make);
    let market = make.and_then(|make| make.market).map(|market| format!(" {market}"));
    let kind = make.and_then(|make| make.kind.as_deref());
    let lasted = line.t.started.zip(line.t.completed).map(|(started, done)| done - started);
    vec![
        Text::from(clock(line.at, now)),
        job(line),
        line.pool.as_ref().map_or_else(Text::none, |pool| pool.as_str().into()),
        kind.map_or_else(Text::none, |kind| {
            Text::from(format!("{kind}{}", market.unwrap_or_default()))
        }),
        line.wait().map_or_else(Text::none, |(whole, _)| millis(whole).into()),
        parts(line).into(),
        lasted
            .and_then(|lasted| u64::try_from(lasted).ok())
            .map_or_else(Text::none, |lasted| millis(lasted).into()),
        match (line.kind, line.cost()) {
            (UsageKind::Job, _) => Text::none(),
            (_, None) => Text::new("no price", TextStyle::Warning),
            (_, Some(cost)) => dollars(cost.sum()).into(),
        },
    ]
}

/// Returns the job, or why the machine ran no job.
fn job(line: &Line) -> Text {
    if let Some(job) = &line.job {
        let conclusion = job.conclusion.as_deref().filter(|said| *said != "success");
        let conclusion = conclusion.map(|said| format!(" ({said})")).unwrap_or_default();
        return Text::from(format!("{} {}{conclusion}", job.repository, job.name));
    }
    let reason = line.machine.as_ref().and_then(|machine| machine.reason.as_deref());
    let why = match line.kind {
        UsageKind::Orphan => "orphan",
        UsageKind::Machine | UsageKind::Job if line.parts.idle > 0 => "idle",
        UsageKind::Machine | UsageKind::Job => "wasted",
    };
    let reason = reason.map(|reason| format!(": {}", reason.replace('_', " ")));
    Text::new(format!("{why}{}", reason.unwrap_or_default()), TextStyle::Dim)
}

/// Returns the parts of a wait in seconds, such as `github 0.3, ec2 2.4, boot 24.0`.
pub(super) fn parts(line: &Line) -> String {
    let Some((_, parts)) = line.wait() else { return String::new() };
    let told = WaitsFor::ALL
        .iter()
        .zip(parts)
        .filter_map(|(what, part)| Some(format!("{} {}", words(*what).0, tenths(part?))));
    told.collect::<Vec<_>>().join(", ")
}

pub(super) fn millis(millis: u64) -> String {
    format!("{} s", tenths(millis))
}

fn tenths(millis: u64) -> String {
    format!("{}.{}", millis / 1000, millis % 1000 / 100)
}

const CSV: [&str; 28] = [
    "ended",
    "kind",
    "repository",
    "workflow",
    "job",
    "branch",
    "run",
    "attempt",
    "conclusion",
    "pull_request",
    "actor",
    "pool",
    "machine",
    "type",
    "zone",
    "market",
    "reason",
    "queued",
    "waited_s",
    "lasted_s",
    "start",
    "work",
    "end",
    "idle",
    "in_vain",
    "dollars",
    "price_an_hour",
    "on_demand_an_hour",
];

/// Returns the CSV header.
#[must_use]
pub fn csv_header() -> String {
    Csv::new(&CSV).into_text()
}

/// Returns lines as CSV.
#[must_use]
pub fn csv(lines: impl Iterator<Item = Line>) -> String {
    let mut csv = Csv::default();
    for line in lines {
        csv.row(&cells(&line));
    }
    csv.into_text()
}

fn cells(line: &Line) -> Vec<String> {
    let kind = serde_json::json!(line.kind);
    let job = line.job.as_ref();
    let machine = line.machine.as_ref();
    let make = machine.map(|machine| &machine.make);
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let seconds = |millis: Option<u64>| millis.map(tenths).unwrap_or_default();
    let lasted = line.t.started.zip(line.t.completed).map(|(started, done)| done - started);
    let mut cells = vec![
        line.at.to_string(),
        text(kind.as_str()),
        text(job.map(|job| &*job.repository)),
        text(job.and_then(|job| job.workflow.as_deref())),
        text(job.map(|job| &*job.name)),
        text(job.and_then(|job| job.branch.as_deref())),
        job.map(|job| job.run.to_string()).unwrap_or_default(),
        job.map(|job| job.attempt.to_string()).unwrap_or_default(),
        text(job.and_then(|job| job.conclusion.as_deref())),
        line.pull_request.map(|number| number.to_string()).unwrap_or_default(),
        text(job.and_then(|job| job.actor.as_deref())),
        text(line.pool.as_ref().map(PoolName::as_str)),
        text(machine.map(|machine| machine.id.as_str())),
        text(make.and_then(|make| make.kind.as_deref())),
        text(make.and_then(|make| make.zone.as_deref())),
        make.and_then(|make| make.market).map(|market| market.to_string()).unwrap_or_default(),
        text(machine.and_then(|machine| machine.reason.as_deref())),
        line.since.to_string(),
        seconds(line.wait().map(|(whole, _)| whole)),
        seconds(lasted.and_then(|lasted| u64::try_from(lasted).ok())),
    ];
    let cost = line.cost();
    let part = |of: fn(muster_domain::usage::Parts) -> u64| {
        cost.map(|cost| exact(of(cost))).unwrap_or_default()
    };
    cells.extend([
        part(|cost| cost.start),
        part(|cost| cost.work),
        part(|cost| cost.end),
        part(|cost| cost.idle),
        part(|cost| cost.vain),
        part(muster_domain::usage::Parts::sum),
    ]);
    let price = line.price;
    cells.push(price.map(|price| exact(price.whole())).unwrap_or_default());
    cells.push(price.and_then(|price| price.on_demand).map(exact).unwrap_or_default());
    cells
}
