//! The phases of machines, and how long machines take for them.

use muster_api::answers::{PhaseList, PoolPhases};
use muster_domain::instance::{Instance, Pace, Phase};
use muster_domain::time::Time;

use crate::page::{Screen, TextPage};
use crate::table::{Column, DataTable, Medium, Text, TextStyle};
use crate::words::{clock, seconds};

const COLUMNS: [Column; 8] = [
    Column::name("Pool").only(Medium::Terminal),
    Column::short("Image"),
    Column::short("Phase"),
    Column::number("Machines"),
    Column::number("P50"),
    Column::number("P95"),
    Column::number("P50 since plan"),
    Column::number("P95 since plan"),
];

/// Returns the table of phases.
pub(crate) fn table(pools: &[PoolPhases]) -> DataTable {
    DataTable::new(COLUMNS, pools.iter().flat_map(rows))
}

fn rows(of: &PoolPhases) -> Vec<Vec<Text>> {
    let pool = || vec![Text::from(of.pool.as_str()), Text::known(of.image.as_ref())];
    if of.phases.is_empty() {
        return vec![[pool(), vec![Text::none(), Text::from("0")], unknown(4)].concat()];
    }
    let row = |phase: &Phase| {
        let pace = of.phases.iter().find(|pace| pace.phase == *phase);
        let name = Text::from(phase.as_str());
        [pool(), vec![name], pace.map_or_else(unreached, figures)].concat()
    };
    Phase::after_plan().iter().map(row).collect()
}

fn heading(phase: Phase) -> &'static str {
    match phase {
        Phase::Planned => "Planned",
        Phase::Launched => "Launched",
        Phase::Running => "Running",
        Phase::Booted => "Booted",
        Phase::Prepared => "Prepared",
        Phase::Registered => "Registered",
        Phase::Started => "Started",
        Phase::Job => "Job",
    }
}

/// Describes what happens before a phase, and where to look if it takes long.
fn about(phase: Phase) -> &'static str {
    match phase {
        Phase::Planned => "The slot is recorded.",
        Phase::Launched => "EC2 answers the launch request. If long: muster logs scale-up",
        Phase::Running => "EC2 starts the machine, up to its kernel. Only EC2 affects this time.",
        Phase::Booted => "The image boots. If long: muster logs NAME --machine",
        Phase::Prepared => {
            "Packages and the agent are installed. If long: muster logs NAME --machine"
        }
        Phase::Registered => {
            "The machine calls Muster, which calls GitHub. If long: muster logs runner-api"
        }
        Phase::Started => "The boot hook and the agent start. If long: muster logs NAME --machine",
        Phase::Job => "The runner waits for its job. Long if the pool keeps runners idle.",
    }
}

/// Renders the answer to `phases`.
#[must_use]
pub fn page(answer: &PhaseList, now: Time, screen: Screen) -> String {
    let mut page = TextPage::new(screen);
    page.table(&table(&answer.pools));
    if page.is_piped() {
        return page.into_text();
    }
    page.gap();
    let said = match answer.pools.iter().filter_map(|of| of.since).min() {
        None => {
            "No machines are recorded. Records of ended machines are kept for a week.".to_owned()
        }
        Some(since) => format!(
            "Image: one that Muster built; otherwise the launch template's or the pool's own. P50: median time since the \
            phase before; P95: 95th percentile. The oldest was planned {}.",
            clock(since, now)
        ),
    };
    page.marked([(Text::new("·", TextStyle::Dim), said.into())]);
    let is_measured = answer.pools.iter().any(|of| !of.phases.is_empty());
    if is_measured {
        page.gap();
        page.marked(Phase::after_plan().iter().map(|phase| {
            (Text::new(phase.as_str(), TextStyle::Strong), Text::new(about(*phase), TextStyle::Dim))
        }));
    }
    page.into_text()
}

fn figures(pace: &Pace) -> Vec<Text> {
    let spans = [
        pace.p50_seconds,
        pace.p95_seconds,
        pace.p50_since_planned_seconds,
        pace.p95_since_planned_seconds,
    ];
    let machines = Text::from(pace.machines.to_string());
    std::iter::once(machines).chain(spans.map(|span| Text::from(seconds(span)))).collect()
}

fn unreached() -> Vec<Text> {
    [vec![Text::from("0")], unknown(4)].concat()
}

fn unknown(count: usize) -> Vec<Text> {
    vec![Text::none(); count]
}

/// Adds the phases of one machine; adds no line before the machine exists.
pub fn of_one(page: &mut TextPage, one: &Instance) {
    let known = one.phases();
    if known.iter().all(|(phase, _)| *phase == Phase::Planned) {
        return;
    }
    let cell = |phase: &Phase| {
        let found = known.iter().find(|(reached, _)| reached == phase);
        found.map_or_else(Text::none, |(_, at)| {
            Text::from(format!("+{}", seconds(at.since(one.created_at))))
        })
    };
    page.gap();
    let columns: Vec<Column> =
        Phase::after_plan().iter().map(|phase| Column::number(heading(*phase))).collect();
    page.table(&DataTable::new(columns, [Phase::after_plan().iter().map(cell).collect()]));
    if !page.is_piped() {
        let has_called = known.iter().any(|(phase, _)| *phase > Phase::Launched);
        let untold = if has_called { "" } else { " Later phases appear when the machine calls." };
        let said = format!(
            "Times since its plan.{untold} Compare with others: muster phases --pool {}",
            one.pool
        );
        page.marked([(Text::new("·", TextStyle::Dim), Text::new(said, TextStyle::Dim))]);
    }
}
