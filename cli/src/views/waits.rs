//! The waits of jobs.

use muster_api::answers::{WaitsList, WaitsRow};
use muster_domain::time::{Seconds, Time};
use muster_domain::usage::WaitsFor;

use crate::money::thousands;
use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Text, TextStyle};
use crate::words::seconds;

const fn heading(what: WaitsFor) -> Column {
    Column::number(match what {
        WaitsFor::Github => "GitHub",
        WaitsFor::Limits => "Limits",
        WaitsFor::Ec2 => "EC2",
        WaitsFor::Boot => "Boot",
        WaitsFor::Registration => "Register",
        WaitsFor::PickUp => "Pick-up",
    })
}

/// Returns the table of waits, with all pools at its end.
pub(crate) fn table(told: &WaitsList) -> DataTable {
    let mut columns = vec![Column::text("Pool").at_least(8)];
    columns.extend(["Jobs", "P50", "P95", "P99", "Worst"].map(Column::number));
    columns.extend(WaitsFor::ALL.iter().map(|what| heading(*what).from(110)));
    columns.push(Column::text("Longest because of").at_least(20));
    let rest = (told.pools.len() > 1).then_some(&told.all);
    DataTable::new(columns, told.pools.iter().chain(rest).map(row))
}

/// What the columns are.
pub(crate) const ABOUT: &str = "From GitHub's queue to the first step. P50: median; P95: 95th percentile. \
     Under each part: its median.";

/// Returns the name of a part of a wait, and what it is, with advice if it is long.
#[must_use]
pub const fn words(what: WaitsFor) -> (&'static str, &'static str) {
    match what {
        WaitsFor::Github => ("github", "GitHub sends the event. If long: muster doctor"),
        WaitsFor::Limits => {
            ("limits", "A machine is planned: limits, pauses, back-offs. If long: muster jobs")
        }
        WaitsFor::Ec2 => ("ec2", "EC2 answers the launch request. If long: muster logs scale-up"),
        WaitsFor::Boot => (
            "boot",
            "The image boots; packages and the agent are installed. If long: muster phases",
        ),
        WaitsFor::Registration => ("register", "The agent is registered and connects."),
        WaitsFor::PickUp => {
            ("pick-up", "GitHub assigns the job to the runner. Only GitHub affects this time.")
        }
    }
}

/// Renders the answer to `waits`.
#[must_use]
pub fn page(told: &WaitsList, _: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    if !page.is_piped() {
        page.line([Text::new(format!("{} to {}", told.from, told.to), TextStyle::Strong)]);
        page.gap();
        if told.all.jobs == 0 {
            page.line(["No jobs ran in this period.".into()]);
            return page.into_text();
        }
    }
    page.table(&table(told));
    if !page.is_piped() {
        page.gap();
        page.marked([(Text::new("·", TextStyle::Dim), Text::new(ABOUT, TextStyle::Dim))]);
        page.gap();
        page.marked(WaitsFor::ALL.iter().map(|what| {
            let (name, said) = words(*what);
            (Text::new(name, TextStyle::Strong), Text::new(said, TextStyle::Dim))
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

/// Formats milliseconds.
pub(super) fn span(millis: Option<u64>) -> Text {
    let Some(millis) = millis else { return Text::none() };
    match millis {
        0..10_000 => Text::from(format!("{}.{} s", millis / 1000, millis % 1000 / 100)),
        _ => seconds(Seconds(u32::try_from(millis / 1000).unwrap_or(u32::MAX))).into(),
    }
}
