//! How long jobs waited.

use muster_control::admin::answers::{WaitsList, WaitsRow};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::WaitsFor;

use crate::money::thousands;
use crate::page::{Column, Look, Page, Screen, Text};
use crate::words::seconds;

const fn heading(what: WaitsFor) -> Column {
    match what {
        WaitsFor::Github => Column::whole("GITHUB"),
        WaitsFor::Limits => Column::whole("LIMITS"),
        WaitsFor::Ec2 => Column::whole("EC2"),
        WaitsFor::Boot => Column::whole("BOOT"),
        WaitsFor::Registration => Column::whole("REGISTER"),
        WaitsFor::PickUp => Column::whole("PICK-UP"),
    }
}

/// What a part of a wait is called, and what it is, with what to do where it is long.
#[must_use]
pub const fn words(what: WaitsFor) -> (&'static str, &'static str) {
    match what {
        WaitsFor::Github => ("github", "GitHub tells of the job. Long: muster doctor"),
        WaitsFor::Limits => {
            ("limits", "A machine is planned for it: max, switches, brakes. Long: muster jobs")
        }
        WaitsFor::Ec2 => ("ec2", "EC2 answers the launch. Long: muster logs scale-up"),
        WaitsFor::Boot => {
            ("boot", "The image boots, packages and the agent come. Long: muster phases")
        }
        WaitsFor::Registration => ("register", "The agent is registered and connects."),
        WaitsFor::PickUp => {
            ("pick-up", "GitHub gives the job to the runner. That time is GitHub's own.")
        }
    }
}

/// The answer to `waits`.
#[must_use]
pub fn page(told: &WaitsList, _: Time, screen: Screen) -> String {
    let mut page = Page::new(screen);
    if !page.is_piped() {
        page.line([Text::new(format!("{} to {}", told.from, told.to), Look::Strong)]);
        page.gap();
        if told.all.jobs == 0 {
            page.line(["No machine has run a job in this time.".into()]);
            return page.into_text();
        }
    }
    let mut columns = vec![Column::text("POOL").at_least(8)];
    columns.extend(["JOBS", "P50", "P95", "P99", "WORST"].map(Column::whole));
    columns.extend(WaitsFor::ALL.iter().map(|what| heading(*what).from(110)));
    columns.push(Column::text("LONGEST BECAUSE OF").at_least(20));
    let rest = (told.pools.len() > 1).then_some(&told.all);
    page.table(&columns, told.pools.iter().chain(rest).map(row).collect());
    if !page.is_piped() {
        page.gap();
        let said = "From GitHub's queue to the first step. P50: half of the jobs waited no longer; P95: \
                    nineteen of twenty. Below the names of its parts stands what half of the jobs \
                    took for each.";
        page.marked([(Text::new("·", Look::Dim), Text::new(said, Look::Dim))]);
        page.gap();
        page.marked(WaitsFor::ALL.iter().map(|what| {
            let (name, said) = words(*what);
            (Text::new(name, Look::Strong), Text::new(said, Look::Dim))
        }));
    }
    page.into_text()
}

fn row(row: &WaitsRow) -> Vec<Text> {
    let mut cells = vec![Text::from(&row.name), Text::from(thousands(row.jobs))];
    cells.extend([row.p50, row.p95, row.p99, Some(row.longest)].map(span));
    cells.extend(WaitsFor::ALL.iter().map(|what| span(row.parts.get(what).copied())));
    let because: Vec<String> =
        row.because_of.iter().map(|(what, jobs)| format!("{jobs} × {}", words(*what).0)).collect();
    cells.push(because.join(", ").into());
    cells
}

/// Of milliseconds.
pub(super) fn span(millis: Option<u64>) -> Text {
    let Some(millis) = millis else { return Text::none() };
    match millis {
        0..10_000 => Text::from(format!("{}.{} s", millis / 1000, millis % 1000 / 100)),
        _ => seconds(Seconds(u32::try_from(millis / 1000).unwrap_or(u32::MAX))).into(),
    }
}
